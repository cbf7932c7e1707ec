/*
 * What the certificates of this room are made of and read by (RFC 5280). Private to certs/. Every function that
 * returns bool or a pointer fills why with OpenSSL's own word when it fails, and leaves its error queue empty.
 */
#ifndef CERTS_CERT_H
#define CERTS_CERT_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/secret.h"

enum { CERT_SERIAL_LEN = 16, CERT_KEY_ID_LEN = 20, CERT_PEM_MAX = 256 * 1024 };

/* Fill why (FAULT_CRYPTO) with what and the last OpenSSL error; returns false. */
bool cert_fault(struct fault *why, const char *what);
/* After checks whose failure says enough: empty OpenSSL's error queue. */
void cert_forget_errors(void);

/* A new P-256 key (give). */
EVP_PKEY *cert_new_key(struct fault *why);
/* SHA-256 of the subjectPublicKey bits, cut to 160 (RFC 7093 2, method 1). */
bool cert_key_id(EVP_PKEY *key, unsigned char out[CERT_KEY_ID_LEN], struct fault *why);

/*
 * A v3 certificate (give) for a public key: random 128-bit serial, validity from_s to to_s, subject key id. subject NULL:
 * empty. issuer NULL: self-issued, so its subject is the issuer; authority key id of the issuer otherwise.
 */
X509 *cert_new(EVP_PKEY *public_key, const X509_NAME *subject, const X509 *issuer, int64_t from_s, int64_t to_s,
               struct fault *why);
/* "O=organisation, CN=label 1a2b3c4d": the digits are of the key's id, so that two roots of a name can be told apart. */
X509_NAME *cert_name(const char *organisation, const char *label, EVP_PKEY *key, struct fault *why);

/* Extensions. usage is a mask of X509v3_KU_*; path_len is written for authorities. */
bool cert_add_authority(X509 *x, int path_len, struct fault *why);
bool cert_add_end_entity(X509 *x, unsigned usage, struct fault *why);
bool cert_add_server_auth(X509 *x, struct fault *why);
/* The one host it speaks for, in place of the one before. */
bool cert_set_host(X509 *x, const char *host, struct fault *why);
/* A new serial and new dates. */
bool cert_renew(X509 *x, int64_t from_s, int64_t to_s, struct fault *why);
bool cert_sign(X509 *x, EVP_PKEY *key, struct fault *why);

/* Exactly one certificate, or one unencrypted private key, in PEM; name is for the message. Given. */
X509 *cert_parse(struct slice pem, const char *name, struct fault *why);
EVP_PKEY *cert_parse_key(struct slice pem, const char *name, struct fault *why);
/* One DER certificate to the exact end of der. */
X509 *cert_parse_der(struct slice der, struct fault *why);
bool cert_pem(const X509 *x, struct buf *out, struct fault *why);
bool cert_der(const X509 *x, struct buf *out, struct fault *why);
/* PKCS #8 (RFC 5958), unencrypted. */
struct secret *cert_key_pem(EVP_PKEY *key, struct fault *why);

bool cert_is_p256(EVP_PKEY *key);
int64_t cert_not_before(const X509 *x);
int64_t cert_not_after(const X509 *x);
void cert_serial(const X509 *x, unsigned char out[CERT_SERIAL_LEN]);

#endif
