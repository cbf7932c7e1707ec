#include "tests/fuzz/lib/pki.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/pack.h"

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    if (!(e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value)))
        abort();
    X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
}

/* From 2020 on, for ever. */
static X509 *begin(EVP_PKEY *public_key)
{
    static long serial;
    X509 *cert = X509_new();

    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    ASN1_TIME_set_string(X509_getm_notBefore(cert), "20200101000000Z");
    ASN1_TIME_set_string(X509_getm_notAfter(cert), "99991231235959Z");
    X509_set_pubkey(cert, public_key);
    return cert;
}

void pki_init(struct pki *p)
{
    X509_NAME *name;

    p->key = EVP_EC_gen("P-256");
    p->cert = begin(p->key);
    name = X509_get_subject_name(p->cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test CA", -1, -1, 0);
    X509_set_issuer_name(p->cert, name);
    extend(p->cert, p->cert, NID_basic_constraints, "critical,CA:TRUE");
    extend(p->cert, p->cert, NID_key_usage, "critical,keyCertSign");
    extend(p->cert, p->cert, NID_subject_key_identifier, "hash");
    if (!X509_sign(p->cert, p->key, EVP_sha256()))
        abort();
}

void pki_clear(struct pki *p)
{
    X509_free(p->cert);
    EVP_PKEY_free(p->key);
}

void pki_pem(const struct pki *p, struct buf *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    long len;

    PEM_write_bio_X509(bio, p->cert);
    len = BIO_get_mem_data(bio, &text);
    buf_append(out, slice_make(text, (size_t)len));
    BIO_free(bio);
}

X509 *pki_issue(const struct pki *p, const char *host, EVP_PKEY *public_key)
{
    X509 *cert = begin(public_key);
    char san[300];

    snprintf(san, sizeof san, "critical,DNS:%s", host);
    X509_set_issuer_name(cert, X509_get_subject_name(p->cert));
    extend(cert, p->cert, NID_subject_alt_name, san);
    extend(cert, p->cert, NID_ext_key_usage, "serverAuth");
    if (!X509_sign(cert, p->key, EVP_sha256()))
        abort();
    return cert;
}

static void put_der(const X509 *cert, struct buf *out)
{
    unsigned char *der = NULL;
    int len = i2d_X509(cert, &der);

    pack_bytes(out, slice_make(der, (size_t)len));
    OPENSSL_free(der);
}

void pki_chain(const struct pki *p, const char *host, struct slice public_key, int64_t until_s, struct buf *out)
{
    const unsigned char *at = (const unsigned char *)public_key.ptr;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)public_key.len);
    X509 *leaf = pki_issue(p, host, key);

    ASN1_TIME_set(X509_getm_notBefore(leaf), until_s - 90000);
    ASN1_TIME_set(X509_getm_notAfter(leaf), until_s);
    if (!X509_sign(leaf, p->key, EVP_sha256()))
        abort();
    put_der(leaf, out);
    put_der(p->cert, out);
    X509_free(leaf);
    EVP_PKEY_free(key);
}

SSL_CTX *pki_server(const struct pki *p, const char *host)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = pki_issue(p, host, key);

    if (!SSL_CTX_use_cert_and_key(ctx, cert, key, NULL, 1))
        abort();
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    X509_free(cert);
    EVP_PKEY_free(key);
    return ctx;
}

SSL_CTX *pki_client(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    return ctx;
}
