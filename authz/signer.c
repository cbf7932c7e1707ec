/* Owns a private P-256 key. Must not know configuration, nor check what it issues beyond its form. */
#include "authz/signer.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "authz/detail.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/secret.h"
#include "base/text.h"

enum { PEM_MAX = 8192, POINT_LEN = 65 /* 04, x, y */ };

struct signer {
    EVP_PKEY *key;
    char *x, *y; /* base64url */
    char *kid;
};

/* RFC 7638 3: the required members in order, no white space. */
static void set_thumbprint(struct signer *s)
{
    unsigned char digest[32];
    struct buf text = {0}, kid = {0};

    buf_printf(&text, "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}", s->x, s->y);
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    text_base64url(&kid, slice_make(digest, sizeof digest));
    s->kid = buf_take_text(&kid);
    buf_free(&text);
}

/* Takes key. */
static struct signer *from_key(EVP_PKEY *key, const char *name, struct fault *why)
{
    unsigned char point[POINT_LEN];
    struct buf x = {0}, y = {0};
    struct signer *s = NULL;
    char group[32] = "";
    size_t len = 0;

    if (!EVP_PKEY_is_a(key, "EC") || !EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group,
                                                                     sizeof group, NULL) ||
        strcmp(group, "prime256v1") != 0 ||
        !EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point, &len) ||
        len != POINT_LEN) {
        fault_set(why, FAULT_SYNTAX, "%s: not a P-256 private key", name);
        EVP_PKEY_free(key);
        return NULL;
    }
    if (!(s = calloc(1, sizeof *s)))
        abort();
    s->key = key;
    text_base64url(&x, slice_make(point + 1, 32));
    text_base64url(&y, slice_make(point + 33, 32));
    s->x = buf_take_text(&x);
    s->y = buf_take_text(&y);
    set_thumbprint(s);
    return s;
}

void signer_free(struct signer *s)
{
    if (!s)
        return;
    EVP_PKEY_free(s->key);
    free(s->x);
    free(s->y);
    free(s->kid);
    free(s);
}

const char *signer_kid(const struct signer *s)
{
    return s->kid;
}

/* Instead of OpenSSL's question on the terminal. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)arg;
    return -1;
}

const char *signer_x(const struct signer *s)
{
    return s->x;
}

const char *signer_y(const struct signer *s)
{
    return s->y;
}

EVP_PKEY *signer_key(const struct signer *s)
{
    return s->key;
}

struct signer *signer_parse(struct slice pem, const char *name, struct fault *why)
{
    BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;

    BIO_free(bio);
    if (!key) {
        fault_set(why, FAULT_SYNTAX, "%s: not an unencrypted private key in PEM", name);
        return NULL;
    }
    return from_key(key, name, why);
}

struct signer *signer_load(const char *path, struct fault *why)
{
    struct secret *pem = secret_read_file(path, PEM_MAX, why);
    struct signer *s = pem ? signer_parse(secret_slice(pem), path, why) : NULL;

    secret_free(pem);
    return s;
}

static bool write_key(const struct signer *s, const char *path, struct fault *why)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    bool ok = false;
    char *pem;
    long len;

    if (!bio || !PEM_write_bio_PrivateKey(bio, s->key, NULL, NULL, 0, NULL, NULL) ||
        (len = BIO_get_mem_data(bio, &pem)) <= 0)
        fault_set(why, FAULT_CRYPTO, "%s: the key cannot be written as PEM", path);
    else
        ok = file_replace(path, 0600, slice_make(pem, (size_t)len), why);
    BIO_free(bio);
    return ok;
}

static bool write_jwks(const struct signer *s, const char *path, struct fault *why)
{
    struct buf out = {0};
    bool ok;

    buf_printf(&out, "{\"keys\": [{\"kty\": \"EC\", \"crv\": \"P-256\", \"use\": \"sig\", \"alg\": \"ES256\",\n");
    buf_printf(&out, "  \"kid\": \"%s\",\n  \"x\": \"%s\",\n  \"y\": \"%s\"}]}\n", s->kid, s->x, s->y);
    ok = file_replace(path, 0644, buf_slice(&out), why);
    buf_free(&out);
    return ok;
}

static char *path_of(const char *directory, const char *name, const char *suffix)
{
    struct buf path = {0};

    buf_printf(&path, "%s/%s%s", directory, name, suffix);
    return buf_take_text(&path);
}

static struct signer *generate(const char *name, struct fault *why)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    if (key)
        return from_key(key, name, why);
    fault_set(why, FAULT_CRYPTO, "OpenSSL made no P-256 key");
    return NULL;
}

bool signer_make(const char *path, struct fault *why)
{
    struct signer *s;
    bool ok;

    if (file_exists(path))
        return fault_set(why, FAULT_REFUSED, "%s is there already", path);
    s = generate(path, why);
    ok = s && write_key(s, path, why);
    signer_free(s);
    return ok;
}

bool signer_create(const char *directory, const char *name, struct fault *why)
{
    char *key_path = path_of(directory, name, ".key"), *jwks_path = path_of(directory, name, ".jwks");
    struct signer *s = NULL;
    bool ok = false;

    if (file_exists(key_path) || file_exists(jwks_path)) {
        fault_set(why, FAULT_REFUSED, "%s is there already; remove it first if you mean to replace the key",
                  file_exists(key_path) ? key_path : jwks_path);
        goto out;
    }
    if (!(s = generate(name, why)))
        goto out;
    ok = write_key(s, key_path, why) && write_jwks(s, jwks_path, why);
out:
    signer_free(s);
    free(key_path);
    free(jwks_path);
    return ok;
}

static void text_member(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    text_json(out, slice_of(value));
}

/* The array as the verifier will read it, in one line. */
static bool details_member(struct buf *out, const char *text, struct fault *why)
{
    struct details *d = details_parse(slice_of(text), why);
    json_t *array;
    char *line;

    if (!d)
        return false;
    details_free(d);
    array = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    line = json_dumps(array, JSON_COMPACT);
    if (!line)
        abort();
    buf_printf(out, ",\"authorization_details\":%s", line);
    free(line);
    json_decref(array);
    return true;
}

/* RFC 7800, RFC 8705 3.1. */
static void put_confirmation(struct buf *out, const struct signer_claims *c)
{
    if (!c->listener && !c->certificate)
        return;
    buf_text(out, ",\"cnf\":{");
    if (c->listener) {
        buf_text(out, "\"exeat-listener\":");
        text_json(out, slice_of(c->listener));
    }
    if (c->certificate) {
        buf_text(out, c->listener ? ",\"x5t#S256\":" : "\"x5t#S256\":");
        text_json(out, slice_of(c->certificate));
    }
    buf_char(out, '}');
}

static bool write_claims(const struct signer_claims *c, struct buf *out, struct fault *why)
{
    buf_text(out, "{\"iss\":");
    text_json(out, slice_of(c->issuer));
    text_member(out, "sub", c->sandbox);
    text_member(out, "aud", c->audience);
    text_member(out, "client_id", c->client_id);
    buf_printf(out, ",\"iat\":%lld,\"exp\":%lld", (long long)c->issued_s, (long long)c->expires_s);
    if (c->not_before_s)
        buf_printf(out, ",\"nbf\":%lld", (long long)c->not_before_s);
    if (c->jti) {
        text_member(out, "jti", c->jti);
    } else {
        struct id id = id_new(clock_wall_ns() / 1000000);

        buf_text(out, ",\"jti\":\"");
        id_text(out, &id);
        buf_char(out, '"');
    }
    if (c->scope)
        text_member(out, "scope", c->scope);
    if (c->details && !details_member(out, c->details, why))
        return false;
    put_confirmation(out, c);
    buf_char(out, '}');
    return true;
}

/* RFC 7518 3.4: r and s, 32 bytes each, instead of OpenSSL's DER. */
static bool sign(EVP_PKEY *key, struct slice input, unsigned char out[64])
{
    unsigned char der[80];
    const unsigned char *at = der;
    size_t len = sizeof der;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    ECDSA_SIG *sig = NULL;
    bool ok = ctx && EVP_DigestSignInit_ex(ctx, NULL, "SHA256", NULL, NULL, key, NULL) &&
              EVP_DigestSign(ctx, der, &len, (const unsigned char *)input.ptr, input.len) &&
              (sig = d2i_ECDSA_SIG(NULL, &at, (long)len)) &&
              BN_bn2binpad(ECDSA_SIG_get0_r(sig), out, 32) == 32 &&
              BN_bn2binpad(ECDSA_SIG_get0_s(sig), out + 32, 32) == 32;

    ECDSA_SIG_free(sig);
    EVP_MD_CTX_free(ctx);
    return ok;
}

bool signer_sign(const struct signer *s, struct slice header, struct slice claims, struct buf *out, struct fault *why)
{
    struct buf token = {0};
    unsigned char signature[64];
    bool ok;

    text_base64url(&token, header);
    buf_char(&token, '.');
    text_base64url(&token, claims);
    ok = sign(s->key, buf_slice(&token), signature);
    if (ok) {
        buf_char(&token, '.');
        text_base64url(&token, slice_make(signature, sizeof signature));
        buf_append(out, buf_slice(&token));
    }
    buf_wipe(&token);
    return ok || fault_set(why, FAULT_CRYPTO, "OpenSSL did not sign the token");
}

bool signer_issue(const struct signer *s, const struct signer_claims *c, struct buf *out, struct fault *why)
{
    struct buf header = {0}, claims = {0};
    bool ok;

    if (!c->issuer || !c->sandbox || !c->audience || !c->client_id)
        return fault_set(why, FAULT_USAGE, "a token needs an issuer, a sandbox, an audience and a client id");
    buf_printf(&header, "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"%s\"}", s->kid);
    ok = write_claims(c, &claims, why) && signer_sign(s, buf_slice(&header), buf_slice(&claims), out, why);
    buf_free(&header);
    buf_free(&claims);
    return ok;
}
