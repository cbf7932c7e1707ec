/* Owns the keys of probes. Must not know checks. */
#include "audit/forge.h"

#include <jansson.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/text.h"

enum { PEM_MAX = 64 * 1024, LIFE_S = 300, POINT = 32, PART_MAX = 128 * 1024 };

struct forge {
    const struct target *target;
    EVP_PKEY *issuer, *own;
    X509 *certificate; /* of the issuer; NULL: none */
    X509 *own_certificate;
    json_t *claims;    /* of a good token, without times */
};

/* ---- keys ---- */

static bool read_pem(const char *path, struct buf *out, struct fault *why)
{
    return file_read_regular(path, PEM_MAX, out, why);
}

static bool read_issuer(struct forge *f, struct fault *why)
{
    const char *key = target_text(f->target, "issuer.key"), *certificate = target_text(f->target, "issuer.certificate");
    struct buf pem = {0};
    BIO *bio;
    bool ok = true;

    if (!key)
        return true;
    if ((ok = read_pem(key, &pem, why))) {
        bio = BIO_new_mem_buf(pem.ptr + pem.start, (int)buf_len(&pem));
        f->issuer = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
        BIO_free(bio);
        ok = f->issuer || fault_set(why, FAULT_SYNTAX, "%s: no private key in PEM", key);
    }
    buf_wipe(&pem);
    if (ok && certificate && (ok = read_pem(certificate, &pem, why))) {
        bio = BIO_new_mem_buf(pem.ptr + pem.start, (int)buf_len(&pem));
        f->certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        BIO_free(bio);
        ok = f->certificate || fault_set(why, FAULT_SYNTAX, "%s: no certificate in PEM", certificate);
    }
    buf_free(&pem);
    return ok;
}

/* A key of ours and a certificate that says it is somebody. */
static bool make_own(struct forge *f, struct fault *why)
{
    X509_NAME *name;

    f->own = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    f->own_certificate = X509_new();
    if (!f->own || !f->own_certificate)
        return fault_set(why, FAULT_CRYPTO, "cannot make a key");
    ASN1_INTEGER_set(X509_get_serialNumber(f->own_certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(f->own_certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(f->own_certificate), 86400);
    X509_set_pubkey(f->own_certificate, f->own);
    name = X509_get_subject_name(f->own_certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"exeat-audit", -1, -1, 0);
    X509_set_issuer_name(f->own_certificate, name);
    return X509_sign(f->own_certificate, f->own, EVP_sha256()) > 0 || fault_set(why, FAULT_CRYPTO, "cannot sign a certificate");
}

static void point_of(EVP_PKEY *key, const char *which, struct buf *out)
{
    BIGNUM *n = NULL;
    unsigned char bytes[POINT];

    if (EVP_PKEY_get_bn_param(key, which, &n) && BN_bn2binpad(n, bytes, sizeof bytes) > 0)
        text_base64url(out, slice_make(bytes, sizeof bytes));
    BN_free(n);
}

static void number_of(EVP_PKEY *key, const char *which, struct buf *out)
{
    BIGNUM *n = NULL;
    unsigned char bytes[1024];
    int len;

    if (EVP_PKEY_get_bn_param(key, which, &n) && BN_num_bytes(n) <= (int)sizeof bytes && (len = BN_bn2bin(n, bytes)) > 0)
        text_base64url(out, slice_make(bytes, (size_t)len));
    BN_free(n);
}

static void jwk_of(EVP_PKEY *key, struct buf *out)
{
    if (EVP_PKEY_is_a(key, "EC")) {
        buf_text(out, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"");
        point_of(key, OSSL_PKEY_PARAM_EC_PUB_X, out);
        buf_text(out, "\",\"y\":\"");
        point_of(key, OSSL_PKEY_PARAM_EC_PUB_Y, out);
    } else {
        buf_text(out, "{\"kty\":\"RSA\",\"e\":\"");
        number_of(key, OSSL_PKEY_PARAM_RSA_E, out);
        buf_text(out, "\",\"n\":\"");
        number_of(key, OSSL_PKEY_PARAM_RSA_N, out);
    }
    buf_text(out, "\"}");
}

static void x5c_of(X509 *certificate, struct buf *out)
{
    unsigned char *der = NULL;
    int len = i2d_X509(certificate, &der);

    buf_text(out, "[\"");
    if (len > 0)
        text_base64(out, slice_make(der, (size_t)len));
    buf_text(out, "\"]");
    OPENSSL_free(der);
}

void forge_own_jwk(const struct forge *f, struct buf *out)
{
    jwk_of(f->own, out);
}

void forge_own_x5c(const struct forge *f, struct buf *out)
{
    x5c_of(f->own_certificate, out);
}

static void append_bio(BIO *bio, struct buf *out)
{
    char *bytes = NULL;
    long n = BIO_get_mem_data(bio, &bytes);

    if (n > 0)
        buf_append(out, slice_make(bytes, (size_t)n));
    BIO_free(bio);
}

void forge_public(const struct forge *f, const char *form, struct buf *out)
{
    BIO *bio;

    if (!f->issuer)
        return;
    if (slice_is(slice_of(form), "jwk")) {
        jwk_of(f->issuer, out);
        return;
    }
    bio = BIO_new(BIO_s_mem());
    if (slice_is(slice_of(form), "pem"))
        PEM_write_bio_PUBKEY(bio, f->issuer);
    else if (slice_is(slice_of(form), "der"))
        i2d_PUBKEY_bio(bio, f->issuer);
    else if (f->certificate)
        PEM_write_bio_X509(bio, f->certificate);
    append_bio(bio, out);
}

/* ---- claims ---- */

/* What the target's own credential says, when it is a JWT. */
static json_t *claims_of_credential(const struct target *t)
{
    struct slice token = t->first.secret ? secret_slice(t->first.secret) : slice_make("", 0), part;
    struct buf text = {0};
    json_t *claims = NULL;

    if (slice_next(&token, '.', &part) && slice_next(&token, '.', &part) && text_unbase64url(part, &text))
        claims = json_loadb(buf_slice(&text).ptr, buf_len(&text), 0, NULL);
    buf_wipe(&text);
    if (json_is_object(claims))
        return claims;
    json_decref(claims);
    return json_pack("{s:s, s:s}", "iss", "exeat-audit", "aud", t->base[0].host);
}

static bool read_claims(struct forge *f, struct fault *why)
{
    static const char *const names[][2] = {{"iss", "issuer.issuer"}, {"aud", "issuer.audience"}, {"sub", "issuer.subject"}};

    if (!f->issuer) {
        f->claims = claims_of_credential(f->target);
        return true;
    }
    f->claims = json_loads(target_text(f->target, "issuer.claims"), JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(f->claims))
        return conf_refuse(f->target->item, "issuer.claims", -1, why, "expected a JSON object");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (target_text(f->target, names[i][1]))
            json_object_set_new(f->claims, names[i][0], json_string(target_text(f->target, names[i][1])));
    return true;
}

struct forge *forge_new(const struct target *t, struct fault *why)
{
    struct forge *f = calloc(1, sizeof *f);

    if (!f)
        abort();
    f->target = t;
    if (read_issuer(f, why) && make_own(f, why) && read_claims(f, why))
        return f;
    forge_free(f);
    return NULL;
}

void forge_free(struct forge *f)
{
    if (!f)
        return;
    EVP_PKEY_free(f->issuer);
    EVP_PKEY_free(f->own);
    X509_free(f->certificate);
    X509_free(f->own_certificate);
    json_decref(f->claims);
    free(f);
}

bool forge_has_issuer(const struct forge *f)
{
    return f->issuer != NULL;
}

/* ---- tokens ---- */

/* Lay one object over another; a null takes a member out. */
static void lay_over(json_t *under, const char *text)
{
    json_t *over = text ? json_loads(text, 0, NULL) : NULL, *value;
    const char *name;

    json_object_foreach (over, name, value) {
        if (json_is_null(value))
            json_object_del(under, name);
        else
            json_object_set(under, name, value);
    }
    json_decref(over);
}

static void name_key(const struct forge *f, json_t *header)
{
    const char *form = target_text(f->target, "issuer.form"), *kid = target_text(f->target, "issuer.kid");
    struct buf text = {0};

    if (slice_is(slice_of(form), "x5c") && f->certificate) {
        x5c_of(f->certificate, &text);
        json_object_set_new(header, "x5c", json_loadb(buf_slice(&text).ptr, buf_len(&text), 0, NULL));
    } else if (slice_is(slice_of(form), "jwk") && f->issuer) {
        jwk_of(f->issuer, &text);
        json_object_set_new(header, "jwk", json_loadb(buf_slice(&text).ptr, buf_len(&text), 0, NULL));
    } else if (kid) {
        json_object_set_new(header, "kid", json_string(kid));
    }
    buf_free(&text);
}

static const char *algorithm_of(const struct forge *f, const struct mold *m)
{
    if (m->algorithm)
        return m->algorithm;
    if (m->key == FORGE_HMAC)
        return "HS256";
    return m->key == FORGE_ISSUER && f->issuer && !EVP_PKEY_is_a(f->issuer, "EC") ? "RS256" : "ES256";
}

static void put_part(struct buf *out, const char *text)
{
    text_base64url(out, slice_of(text));
}

static void put_header(const struct forge *f, const struct mold *m, struct buf *out)
{
    json_t *header = json_pack("{s:s, s:s}", "alg", algorithm_of(f, m), "typ", target_text(f->target, "issuer.type"));
    char *text;

    name_key(f, header);
    lay_over(header, m->header);
    text = json_dumps(header, JSON_COMPACT);
    put_part(out, text ? text : "{}");
    free(text);
    json_decref(header);
}

static void put_claims(const struct forge *f, const struct mold *m, struct buf *out)
{
    json_t *claims = json_deep_copy(f->claims);
    int64_t now_s = clock_wall_s();
    struct id id = id_new(now_s * 1000);
    struct buf jti = {0};
    char *text;

    id_text(&jti, &id);
    json_object_set_new(claims, "iat", json_integer(now_s - 5));
    json_object_set_new(claims, "nbf", json_integer(now_s - 5));
    json_object_set_new(claims, "exp", json_integer(now_s + LIFE_S));
    json_object_set_new(claims, "jti", json_stringn(buf_slice(&jti).ptr, buf_len(&jti)));
    lay_over(claims, m->claims);
    if (!(text = json_dumps(claims, JSON_COMPACT)))
        abort();
    buf_clear(&jti);
    buf_append(&jti, slice_cut(slice_of(text), 0, strlen(text) - 1));
    buf_printf(&jti, "%s}", m->append ? m->append : "");
    text_base64url(out, buf_slice(&jti));
    free(text);
    buf_free(&jti);
    json_decref(claims);
}

/* ECDSA as two numbers side by side (RFC 7518 3.4). */
static void put_points(struct buf *out, const unsigned char *der, size_t len)
{
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
    unsigned char bytes[2 * POINT];

    if (sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), bytes, POINT) > 0 && BN_bn2binpad(ECDSA_SIG_get0_s(sig), bytes + POINT, POINT) > 0)
        text_base64url(out, slice_make(bytes, sizeof bytes));
    ECDSA_SIG_free(sig);
}

static void put_signature(const struct forge *f, const struct mold *m, struct buf *out)
{
    unsigned char bytes[1024];
    size_t len = sizeof bytes;
    unsigned int hmac_len = sizeof bytes;
    struct slice signed_part = buf_slice(out);
    EVP_PKEY *key = m->key == FORGE_ISSUER && f->issuer ? f->issuer : f->own;
    EVP_MD_CTX *ctx;

    if (m->key == FORGE_NONE)
        return;
    if (m->key == FORGE_HMAC) {
        HMAC(EVP_sha256(), m->secret.ptr, (int)m->secret.len, (const unsigned char *)signed_part.ptr, signed_part.len, bytes, &hmac_len);
        buf_char(out, '.');
        text_base64url(out, slice_make(bytes, hmac_len));
        return;
    }
    ctx = EVP_MD_CTX_new();
    if (ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
        EVP_DigestSign(ctx, bytes, &len, (const unsigned char *)signed_part.ptr, signed_part.len) == 1) {
        buf_char(out, '.');
        if (EVP_PKEY_is_a(key, "EC"))
            put_points(out, bytes, len);
        else
            text_base64url(out, slice_make(bytes, len));
    }
    EVP_MD_CTX_free(ctx);
}

char *forge_make(struct forge *f, const struct mold *m)
{
    struct buf out = {0};

    put_header(f, m, &out);
    buf_char(&out, '.');
    put_claims(f, m, &out);
    put_signature(f, m, &out);
    if (m->key == FORGE_NONE)
        buf_char(&out, '.');
    return buf_take_text(&out);
}
