/*
 * For tests: keys, key sets and tokens that say whatever a test wants, made with OpenSSL alone, none of it with the
 * code under test.
 */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

#define FORGE_UNUSED __attribute__((unused))

/* The public key as PEM (give). */
FORGE_UNUSED static char *forge_pem(EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_mem());
    struct buf out = {0};
    char *text;
    long len;

    PEM_write_bio_PUBKEY(bio, key);
    len = BIO_get_mem_data(bio, &text);
    buf_append(&out, slice_make(text, (size_t)len));
    BIO_free(bio);
    return buf_take_text(&out);
}

static void forge_number(struct buf *out, EVP_PKEY *key, const char *param)
{
    unsigned char bytes[1024];
    BIGNUM *n = NULL;

    EVP_PKEY_get_bn_param(key, param, &n);
    text_base64url(out, slice_make(bytes, (size_t)BN_bn2bin(n, bytes)));
    BN_free(n);
}

/* The members of a public JWK after kid: {"kid":"e1",...}. */
FORGE_UNUSED static void forge_jwk(struct buf *out, EVP_PKEY *key, const char *kid)
{
    unsigned char point[256];
    size_t len = 0;

    if (EVP_PKEY_is_a(key, "RSA")) {
        buf_printf(out, "{\"kid\":\"%s\",\"kty\":\"RSA\",\"n\":\"", kid);
        forge_number(out, key, OSSL_PKEY_PARAM_RSA_N);
        buf_text(out, "\",\"e\":\"");
        forge_number(out, key, OSSL_PKEY_PARAM_RSA_E);
        buf_text(out, "\"}");
        return;
    }
    EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point, &len);
    buf_printf(out, "{\"kid\":\"%s\",\"kty\":\"EC\",\"crv\":\"%s\",\"x\":\"", kid, len == 65 ? "P-256" : "P-384");
    text_base64url(out, slice_make(point + 1, len / 2));
    buf_text(out, "\",\"y\":\"");
    text_base64url(out, slice_make(point + 1 + len / 2, len / 2));
    buf_text(out, "\"}");
}

/* Bytes of a signature by key over input: raw r and s for EC. */
static void forge_signature(struct buf *out, EVP_PKEY *key, struct slice input)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char sig[1024], raw[64];
    const unsigned char *at = sig;
    size_t len = sizeof sig;

    EVP_DigestSignInit_ex(ctx, NULL, "SHA256", NULL, NULL, key, NULL);
    EVP_DigestSign(ctx, sig, &len, (const unsigned char *)input.ptr, input.len);
    if (EVP_PKEY_is_a(key, "EC")) {
        ECDSA_SIG *parts = d2i_ECDSA_SIG(NULL, &at, (long)len);

        BN_bn2binpad(ECDSA_SIG_get0_r(parts), raw, 32);
        BN_bn2binpad(ECDSA_SIG_get0_s(parts), raw + 32, 32);
        ECDSA_SIG_free(parts);
        buf_append(out, slice_make(raw, sizeof raw));
    } else {
        buf_append(out, slice_make(sig, len));
    }
    EVP_MD_CTX_free(ctx);
}

static void forge_start(struct buf *token, const char *header, const char *payload)
{
    text_base64url(token, slice_of(header));
    buf_char(token, '.');
    text_base64url(token, slice_of(payload));
}

/* A token with these words, signed by key (NULL: with an empty third part). */
FORGE_UNUSED static void forge_token(struct buf *token, const char *header, const char *payload, EVP_PKEY *key)
{
    struct buf signature = {0};

    forge_start(token, header, payload);
    if (key)
        forge_signature(&signature, key, buf_slice(token));
    buf_char(token, '.');
    text_base64url(token, buf_slice(&signature));
    buf_free(&signature);
}

/* The same with an HMAC-SHA256 by a shared key. */
FORGE_UNUSED static void forge_mac_token(struct buf *token, const char *header, const char *payload, const char *shared)
{
    unsigned char mac[32];
    unsigned len = 0;

    forge_start(token, header, payload);
    HMAC(EVP_sha256(), shared, (int)strlen(shared), (const unsigned char *)buf_slice(token).ptr, buf_len(token), mac,
         &len);
    buf_char(token, '.');
    text_base64url(token, slice_make(mac, len));
}

#endif
