/* Owns the forms a certificate or key has in files and messages: PEM and DER. */
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "certs/cert.h"

/* A key with a passphrase is refused: nobody is there to type it. */
static int no_passphrase(char *into, int size, int writing, void *arg)
{
    (void)into, (void)size, (void)writing, (void)arg;
    return -1;
}

static BIO *reader(struct slice text)
{
    return text.len && text.len <= CERT_PEM_MAX ? BIO_new_mem_buf(text.ptr, (int)text.len) : NULL;
}

/* What a person wrote or copied, not what OpenSSL failed to do. */
static void cannot_read(struct fault *why, const char *what)
{
    cert_fault(why, what);
    if (why)
        why->kind = FAULT_SYNTAX;
}

X509 *cert_parse(struct slice pem, const char *name, struct fault *why)
{
    BIO *in = reader(pem);
    X509 *x = in ? PEM_read_bio_X509(in, NULL, no_passphrase, NULL) : NULL;
    X509 *second = x ? PEM_read_bio_X509(in, NULL, no_passphrase, NULL) : NULL;

    if (!x) {
        cannot_read(why, "no certificate in PEM");
    } else if (second) {
        fault_set(why, FAULT_SYNTAX, "one certificate is expected, there are more");
        X509_free(x);
        x = NULL;
    }
    if (!x)
        fault_prefix(why, "%s", name);
    ERR_clear_error();
    X509_free(second);
    BIO_free(in);
    return x;
}

EVP_PKEY *cert_parse_key(struct slice pem, const char *name, struct fault *why)
{
    BIO *in = reader(pem);
    EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, no_passphrase, NULL) : NULL;

    if (!key) {
        cannot_read(why, "no private key without passphrase in PEM");
        fault_prefix(why, "%s", name);
    }
    BIO_free(in);
    return key;
}

X509 *cert_parse_der(struct slice der, struct fault *why)
{
    const unsigned char *at = (const unsigned char *)der.ptr;
    X509 *x = der.len <= LONG_MAX ? d2i_X509(NULL, &at, (long)der.len) : NULL;

    if (x && at == (const unsigned char *)der.ptr + der.len)
        return x;
    X509_free(x);
    cert_fault(why, "not one certificate in DER");
    return NULL;
}

static void append_memory(BIO *from, struct buf *out)
{
    char *bytes;
    long len = BIO_get_mem_data(from, &bytes);

    buf_append(out, slice_make(bytes, (size_t)len));
}

bool cert_pem(const X509 *x, struct buf *out, struct fault *why)
{
    BIO *memory = BIO_new(BIO_s_mem());
    bool ok = memory && PEM_write_bio_X509(memory, x) == 1;

    if (ok)
        append_memory(memory, out);
    BIO_free(memory);
    return ok || cert_fault(why, "writing PEM");
}

bool cert_der(const X509 *x, struct buf *out, struct fault *why)
{
    int len = i2d_X509(x, NULL);
    unsigned char *at;

    if (len <= 0)
        return cert_fault(why, "writing DER");
    at = (unsigned char *)buf_reserve(out, (size_t)len);
    i2d_X509(x, &at);
    buf_commit(out, (size_t)len);
    return true;
}

struct secret *cert_key_pem(EVP_PKEY *key, struct fault *why)
{
    BIO *memory = BIO_new(BIO_s_secmem());
    struct secret *out = NULL;
    char *bytes;
    long len;

    if (memory && PEM_write_bio_PKCS8PrivateKey(memory, key, NULL, NULL, 0, NULL, NULL) == 1) {
        len = BIO_get_mem_data(memory, &bytes);
        out = secret_new(slice_make(bytes, (size_t)len));
    } else {
        cert_fault(why, "writing a key as PEM");
    }
    BIO_free(memory);
    return out;
}
