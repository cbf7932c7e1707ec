/* Keys and certificates for the ends of TLS, made with OpenSSL alone. */
#ifndef TESTS_PKI_H
#define TESTS_PKI_H

#include <openssl/ssl.h>

#include "base/buf.h"

/* One that signs: the services' CA, and the gateway's own in the keeper's place. */
struct pki {
    EVP_PKEY *key;
    X509 *cert;
};

void pki_init(struct pki *p);
void pki_clear(struct pki *p);
/* Its certificate. */
void pki_pem(const struct pki *p, struct buf *out);
/* A certificate for host and this public key (borrowed), valid for ever (give). */
X509 *pki_issue(const struct pki *p, const char *host, EVP_PKEY *public_key);
/*
 * As the keeper hands it over: a leaf of 25 hours until until_s, and its issuer, as DER, each with its length in front.
 * public_key: SubjectPublicKeyInfo.
 */
void pki_chain(const struct pki *p, const char *host, struct slice public_key, int64_t until_s, struct buf *out);
/* The context of a server for host (give); of a client that trusts anybody (give). */
SSL_CTX *pki_server(const struct pki *p, const char *host);
SSL_CTX *pki_client(void);

#endif
