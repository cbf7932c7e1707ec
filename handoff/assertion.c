/* Owns the keys of assertions: their files, their names, and what they sign. */
#include "handoff/assertion.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "authz/signer.h"
#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"

enum { PEM_MAX = 8192, KID_BYTES = 30, CERTIFICATE_DAYS = 3650 };

struct assertion_key {
    struct signer *signer;
    char kid[64];
};

/* ---- one key ---- */

/* RFC 4648 6, of whole groups of five bytes; a colon behind every fourth character. */
static void spell_kid(const unsigned char *digest, char *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    size_t n = 0;

    for (size_t bit = 0; bit < 8 * KID_BYTES; bit += 5) {
        size_t at = bit / 8, shift = bit % 8;
        unsigned two = (unsigned)digest[at] << 8 | digest[at + 1];

        if (bit && bit % 20 == 0)
            out[n++] = ':';
        out[n++] = alphabet[two >> (11 - shift) & 31];
    }
    out[n] = '\0';
}

static void set_kid(struct assertion_key *k)
{
    unsigned char *der = NULL, digest[32];
    int len = i2d_PUBKEY(signer_key(k->signer), &der);

    if (len <= 0 || !EVP_Q_digest(NULL, "SHA256", NULL, der, (size_t)len, digest, NULL))
        abort();
    OPENSSL_free(der);
    spell_kid(digest, k->kid);
}

struct assertion_key *assertion_key_parse(struct slice pem, const char *name, struct fault *why)
{
    struct assertion_key *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    if (!(k->signer = signer_parse(pem, name, why))) {
        free(k);
        return NULL;
    }
    set_kid(k);
    return k;
}

void assertion_key_free(struct assertion_key *k)
{
    if (!k)
        return;
    signer_free(k->signer);
    free(k);
}

const char *assertion_key_id(const struct assertion_key *k)
{
    return k->kid;
}

/* ---- its certificate ---- */

static bool set_serial(X509 *cert)
{
    unsigned char serial[8];
    BIGNUM *number;
    bool ok;

    secret_random(serial, sizeof serial);
    serial[0] &= 0x7f;
    number = BN_bin2bn(serial, sizeof serial, NULL);
    ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return ok;
}

static bool add_name(X509 *cert, const char *gateway)
{
    X509_NAME *name = X509_get_subject_name(cert);

    return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)"exeat assertions", -1, -1, 0) &&
           X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)gateway, -1, -1, 0) &&
           X509_set_issuer_name(cert, name);
}

bool assertion_certificate(const struct assertion_key *k, const char *gateway, struct buf *out, struct fault *why)
{
    X509 *cert = X509_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem;
    long len = 0;
    bool ok = cert && bio && X509_set_version(cert, X509_VERSION_3) && set_serial(cert) &&
              X509_gmtime_adj(X509_getm_notBefore(cert), -3600) &&
              X509_time_adj_ex(X509_getm_notAfter(cert), CERTIFICATE_DAYS, 0, NULL) && add_name(cert, gateway) &&
              X509_set_pubkey(cert, signer_key(k->signer)) && X509_sign(cert, signer_key(k->signer), EVP_sha256()) &&
              PEM_write_bio_X509(bio, cert) && (len = BIO_get_mem_data(bio, &pem)) > 0;

    if (ok)
        buf_append(out, slice_make(pem, (size_t)len));
    BIO_free(bio);
    X509_free(cert);
    return ok || fault_set(why, FAULT_CRYPTO, "OpenSSL made no certificate");
}

/* ---- files ---- */

static char *path_of(const char *directory, const char *name)
{
    return file_join(directory, name + strlen(ASSERTION_DIRECTORY "/"));
}

/* Without a signing key but with the next one, assertion_rotate was broken off. */
bool assertion_ensure(const char *directory, struct fault *why)
{
    char *path = path_of(directory, ASSERTION_SIGNING), *next = path_of(directory, ASSERTION_NEXT);
    bool ok = file_make_directory(directory, 0700, why) &&
              (file_exists(path) || rename(next, path) == 0 || signer_make(path, why));

    free(path);
    free(next);
    return ok;
}

bool assertion_prepare(const char *directory, struct fault *why)
{
    char *path = path_of(directory, ASSERTION_NEXT);
    bool ok = assertion_ensure(directory, why) && signer_make(path, why);

    free(path);
    return ok;
}

bool assertion_rotate(const char *directory, struct fault *why)
{
    char *signing = path_of(directory, ASSERTION_SIGNING), *next = path_of(directory, ASSERTION_NEXT);
    char *previous = path_of(directory, ASSERTION_PREVIOUS);
    bool ok;

    if (!file_exists(next))
        ok = fault_set(why, FAULT_MISSING, "%s is not there: make it first, and let verifiers see it", next);
    else
        ok = rename(signing, previous) == 0 && rename(next, signing) == 0;
    if (!ok && file_exists(next))
        fault_set(why, FAULT_IO, "%s: the keys could not be moved", signing);
    free(signing);
    free(next);
    free(previous);
    return ok;
}

static void put_jwk(const struct assertion_key *k, struct buf *out)
{
    buf_printf(out, "%s{\"kty\":\"EC\",\"crv\":\"P-256\",\"use\":\"sig\",\"alg\":\"ES256\",\"kid\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"}",
               buf_len(out) ? "," : "", k->kid, signer_x(k->signer), signer_y(k->signer));
}

/* One that is not there is none, but for the first. */
static bool add_key(const char *directory, const char *name, struct bundle *files, struct buf *jwks, struct fault *why)
{
    char *path = path_of(directory, name);
    struct assertion_key *k = NULL;
    struct secret *pem = NULL;
    bool ok = strcmp(name, ASSERTION_SIGNING) != 0 && !file_exists(path);

    if (!ok && (pem = secret_read_file(path, PEM_MAX, why)) &&
        (k = assertion_key_parse(secret_slice(pem), path, why))) {
        bundle_add(files, name, secret_slice(pem));
        put_jwk(k, jwks);
        ok = true;
    }
    assertion_key_free(k);
    secret_free(pem);
    free(path);
    return ok;
}

bool assertion_add_files(const char *directory, struct bundle *files, struct fault *why)
{
    struct buf keys = {0}, jwks = {0};
    bool ok = add_key(directory, ASSERTION_SIGNING, files, &keys, why) &&
              add_key(directory, ASSERTION_NEXT, files, &keys, why) &&
              add_key(directory, ASSERTION_PREVIOUS, files, &keys, why);

    if (ok) {
        buf_printf(&jwks, "{\"keys\":[%.*s]}\n", SLICE_ARG(buf_slice(&keys)));
        bundle_add(files, ASSERTION_JWKS, buf_slice(&jwks));
    }
    buf_free(&keys);
    buf_free(&jwks);
    return ok;
}

/* ---- signing ---- */

static void put_text(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    text_json(out, slice_of(value));
}

static void write_claims(const struct assertion_claims *c, struct buf *out)
{
    buf_text(out, "{\"iss\":");
    text_json(out, slice_of(c->gateway));
    put_text(out, "sub", c->sandbox);
    put_text(out, "aud", c->audience);
    buf_text(out, ",\"act\":{\"sub\":");
    text_json(out, slice_of(c->gateway));
    buf_char(out, '}');
    if (c->scope && *c->scope)
        put_text(out, "scope", c->scope);
    if (c->access && *c->access)
        buf_printf(out, ",\"access\":%s", c->access);
    put_text(out, "jti", c->jti);
    buf_printf(out, ",\"iat\":%lld,\"nbf\":%lld,\"exp\":%lld}", (long long)c->issued_s, (long long)c->issued_s,
               (long long)c->expires_s);
}

bool assertion_sign(const struct assertion_key *k, const struct assertion_claims *c, struct buf *out, struct fault *why)
{
    struct buf header = {0}, claims = {0};
    bool ok;

    buf_printf(&header, "{\"typ\":\"JWT\",\"alg\":\"ES256\",\"kid\":\"%s\"}", k->kid);
    write_claims(c, &claims);
    ok = signer_sign(k->signer, buf_slice(&header), buf_slice(&claims), out, why);
    buf_free(&header);
    buf_free(&claims);
    return ok;
}
