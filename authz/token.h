/*
 * Leave tokens (design 7): JWT in the RFC 9068 profile, checked by RFC 8725. The only file that knows libjwt is
 * token.c. Cheap checks (shape, size, header members, claims, times) come before any signature;
 * verified tokens are cached by SHA-256 of their text with the key-set generation.
 * Pure but for the cache: now is a parameter.
 */
#ifndef AUTHZ_TOKEN_H
#define AUTHZ_TOKEN_H

#include "authz/identity.h"
#include "authz/issuer.h"
#include "authz/revocation.h"

/* Where a token came from; what it is bound to is checked against this. */
struct token_context {
    const char *listener; /* name of the listener */
    const char *source;   /* source IP address as text */
    int64_t now_s;
};

struct verifier;

/* issuers and revocations are kept. cache_size: most verified tokens remembered. */
struct verifier *verifier_new(const struct issuers *issuers, const char *audience,
                              const struct revocations *revocations, size_t cache_size);
void verifier_free(struct verifier *v);

/*
 * The identity a token text proves, or NULL and why->reason = one of token_*.
 * The caller gives the reference back with identity_unref(). Every call checks
 * time and revocation again, also on a cache hit. Failures per source are counted: over
 * limits (20 a minute) the answer is token_failures without looking at the token.
 */
struct identity *verifier_check(struct verifier *v, struct slice token, const struct token_context *context,
                                struct fault *why);

/*
 * What can change for a token already verified: expiry (with the issuer's leeway), revocation.
 * False and why->reason = token_expired or token_revoked.
 */
bool verifier_recheck(const struct verifier *v, const struct identity *i, int64_t now_s, struct fault *why);

/*
 * The token inside a Proxy-Authorization (or Authorization) value: Bearer (RFC 6750 2.1), or Basic
 * (RFC 7617) with the token as password, split at the first colon, any user name. Strict
 * base64. Basic is decoded into scratch; *token borrows from value or scratch. why->reason: token_malformed.
 */
bool token_from_credentials(struct slice value, struct buf *scratch, struct slice *token, struct fault *why);

/* Does s look like the compact form of a JWT (three base64url parts, the first of them starting "eyJ")? */
bool token_looks_like(struct slice s);

#endif
