/*
 * A private P-256 key that signs JWTs, ES256 (RFC 7518 3.4). Of a local issuer: makes its key pair and signs leave tokens in
 * the profile of RFC 9068, for `init` and `token issue`; no role of the gateway holds that one. The keeper's is the key of
 * assertions (handoff/assertion.h).
 */
#ifndef AUTHZ_SIGNER_H
#define AUTHZ_SIGNER_H

#include <openssl/types.h>

#include "base/buf.h"
#include "base/fault.h"

struct signer;

/*
 * Make a key: DIRECTORY/NAME.key (PEM, mode 0600) and DIRECTORY/NAME.jwks (mode
 * 0644; the public key, its kid is the RFC 7638 thumbprint). Refuses to replace either (FAULT_REFUSED).
 */
bool signer_create(const char *directory, const char *name, struct fault *why);

/* Read a PEM P-256 key that nobody but its owner can read. */
struct signer *signer_load(const char *path, struct fault *why);
/* The same from PEM; name is for the message. */
struct signer *signer_parse(struct slice pem, const char *name, struct fault *why);
/* A new key alone: path (PEM, mode 0600), which must not be there. */
bool signer_make(const char *path, struct fault *why);
void signer_free(struct signer *s);
/* The RFC 7638 thumbprint of its public key; borrowed. */
const char *signer_kid(const struct signer *s);
/* Its public point, base64url (RFC 7518 6.2.1); borrowed. */
const char *signer_x(const struct signer *s);
const char *signer_y(const struct signer *s);
EVP_PKEY *signer_key(const struct signer *s); /* borrowed */
/* Append header and claims (JSON) as a compact JWS. */
bool signer_sign(const struct signer *s, struct slice header, struct slice claims, struct buf *out, struct fault *why);

/* What the token will say; texts are borrowed, NULL leaves an optional claim out. */
struct signer_claims {
    const char *issuer;      /* iss; required */
    const char *sandbox;     /* sub; required */
    const char *audience;    /* aud; required */
    const char *client_id;   /* required */
    const char *jti;         /* NULL: a fresh UUIDv7 */
    const char *scope;       /* "npm:read git:read" */
    const char *details;     /* authorization_details: a JSON array; checked with details_parse() */
    const char *listener;    /* cnf exeat-listener */
    const char *certificate; /* cnf x5t#S256 */
    int64_t issued_s;        /* iat */
    int64_t expires_s;       /* exp */
    int64_t not_before_s;    /* nbf; 0: none */
};

/* Append the token, in compact form, to out. Fails when a required claim is absent or details are off. */
bool signer_issue(const struct signer *s, const struct signer_claims *c, struct buf *out, struct fault *why);

#endif
