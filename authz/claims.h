/*
 * One token as it is read: the strict reading of a compact JWT (RFC 7515 7.1) and every check that needs no memory of
 * other tokens (RFC 7519, RFC 8725, RFC 9068). The checks stand in a table in claims.c, cheapest
 * first, the signature last; what a check cannot be made without is named there too. Pure.
 */
#ifndef AUTHZ_CLAIMS_H
#define AUTHZ_CLAIMS_H

#include "authz/identity.h"
#include "authz/issuer.h"
#include "base/buf.h"

struct json_t;

#define TOKEN_MAX 8192 /* bytes of a token */

/* Zero it before claims_check(). Texts are borrowed from payload; NULL when absent. */
struct claims {
    struct buf header_text, payload_text; /* decoded, as the token has them; payload_text may be hostile bytes */
    struct buf signature;
    struct slice signed_part; /* borrowed from the token */
    struct json_t *header, *payload;
    const struct issuer *issuer;
    const struct key *key;
    enum algorithm algorithm;
    const char *subject; /* sub, when the sandbox is named by other claims (authz/naming.h) */
    const char *kid, *sandbox, *jti, *client_id, *scope, *listener, *certificate;
    char *details; /* authorization_details in one line */
    char *own_sandbox, *own_scope; /* what sandbox and scope point to when they are made here */
    int64_t issued_s, expires_s, not_before_s;
};

enum claims_outcome { CLAIMS_PASSED, CLAIMS_FAILED, CLAIMS_NOT_MADE };

/* What is told of each check: "signature", its outcome, and why: the reason when it failed, a text for people when it passed, or "". */
struct claims_trace {
    void (*step)(void *arg, const char *check, enum claims_outcome outcome, const struct fault *why);
    void *arg;
};

/*
 * Make the checks. Without trace the first failure ends it; with trace (token inspect) every check that
 * can be made is made and told. False and why (of the first failure) when any failed. c is filled as far as was
 * read, and cleared by claims_clear() in any case; token must outlive it. Nothing in c is to be believed unless this
 * returned true.
 */
bool claims_check(struct claims *c, struct slice token, const struct issuers *issuers, const char *audience,
                  int64_t now_s, const struct claims_trace *trace, struct fault *why);
void claims_clear(struct claims *c);

/* exp and leeway: does a token that ends at expires_s still hold at now_s? */
bool claims_is_expired(int64_t expires_s, int64_t leeway_s, int64_t now_s);

/* The identity (give) that checked claims prove. fingerprint is the SHA-256 of the token. */
struct identity *claims_identity(const struct claims *c, const unsigned char *fingerprint, struct fault *why);

#endif
