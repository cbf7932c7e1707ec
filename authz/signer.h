/*
 * The private side of a local issuer: makes its key pair and signs leave tokens in the profile of RFC 9068, ES256
 * (RFC 7518 3.4) with a P-256 key. Used by `init` and `token issue`; no role of the gateway holds one.
 */
#ifndef AUTHZ_SIGNER_H
#define AUTHZ_SIGNER_H

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
void signer_free(struct signer *s);
/* The RFC 7638 thumbprint of its public key; borrowed. */
const char *signer_kid(const struct signer *s);

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
    int64_t issued_s;        /* iat */
    int64_t expires_s;       /* exp */
    int64_t not_before_s;    /* nbf; 0: none */
};

/* Append the token, in compact form, to out. Fails when a required claim is absent or details are off. */
bool signer_issue(const struct signer *s, const struct signer_claims *c, struct buf *out, struct fault *why);

#endif
