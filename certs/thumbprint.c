#include "certs/thumbprint.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/text.h"

bool thumbprint_of(struct slice pem, struct buf *out, struct fault *why)
{
    BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    unsigned char digest[32];
    bool ok = cert && X509_digest(cert, EVP_sha256(), digest, NULL) == 1;

    if (ok)
        text_base64url(out, slice_make(digest, sizeof digest));
    ERR_clear_error();
    X509_free(cert);
    BIO_free(bio);
    return ok || fault_set(why, FAULT_SYNTAX, "there is no certificate (PEM) in it");
}
