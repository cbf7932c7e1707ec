#include "certs/jks.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#define MAGIC 0xfeedfeedu
#define VERSION 2
#define TRUSTED 2

static void put(struct buf *out, uint64_t n, int bytes)
{
    while (bytes-- > 0)
        buf_char(out, (char)(n >> 8 * bytes));
}

static void put_text(struct buf *out, const char *text)
{
    put(out, strlen(text), 2);
    buf_text(out, text);
}

/* The date of an entry is not looked at; a fixed one makes the same certificates the same file. */
static bool put_certificate(struct buf *out, unsigned n, X509 *x, struct fault *why)
{
    unsigned char *der = NULL;
    int len = i2d_X509(x, &der);
    char alias[32];

    if (len <= 0)
        return fault_set(why, FAULT_CRYPTO, "certificate %u cannot be written", n);
    snprintf(alias, sizeof alias, "exeat-%u", n);
    put(out, TRUSTED, 4);
    put_text(out, alias);
    put(out, 0, 8);
    put_text(out, "X.509");
    put(out, (uint64_t)len, 4);
    buf_append(out, slice_make(der, (size_t)len));
    OPENSSL_free(der);
    return true;
}

/* SHA-1 over the password in UTF-16, a certain phrase and all before it: against damage, not against anybody. */
static bool put_digest(struct buf *out, struct slice whole, struct fault *why)
{
    static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0t", phrase[] = "Mighty Aphrodite";
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    unsigned len = 0;
    bool ok = c && EVP_DigestInit_ex(c, EVP_sha1(), NULL) == 1 && EVP_DigestUpdate(c, password, sizeof password - 1) == 1 &&
              EVP_DigestUpdate(c, phrase, sizeof phrase - 1) == 1 && EVP_DigestUpdate(c, whole.ptr, whole.len) == 1 &&
              EVP_DigestFinal_ex(c, digest, &len) == 1;

    EVP_MD_CTX_free(c);
    if (!ok)
        return fault_set(why, FAULT_CRYPTO, "no SHA-1 for the trust store");
    buf_append(out, slice_make(digest, len));
    return true;
}

bool jks_write(struct slice pem, struct buf *out, struct fault *why)
{
    BIO *in = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    struct buf entries = {0}, store = {0};
    bool ok = in != NULL;
    unsigned n = 0;
    X509 *x;

    while (ok && (x = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
        ok = put_certificate(&entries, ++n, x, why);
        X509_free(x);
    }
    ok = ok && (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE ||
                fault_set(why, FAULT_SYNTAX, "certificate %u cannot be read", n + 1));
    ERR_clear_error();
    if (ok && n == 0)
        ok = fault_set(why, FAULT_SYNTAX, "there is no certificate to trust");
    put(&store, MAGIC, 4);
    put(&store, VERSION, 4);
    put(&store, n, 4);
    buf_append(&store, buf_slice(&entries));
    ok = ok && put_digest(&store, buf_slice(&store), why);
    if (ok)
        buf_append(out, buf_slice(&store));
    buf_free(&entries);
    buf_free(&store);
    BIO_free(in);
    return ok;
}
