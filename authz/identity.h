/* Who asks: what a verified leave token says. Holds no token. */
#ifndef AUTHZ_IDENTITY_H
#define AUTHZ_IDENTITY_H

#include "authz/detail.h"
#include "base/fault.h"
#include "base/slice.h"

struct identity;

/* The words of a token. NULL texts count as "". */
struct identity_claims {
    const char *sandbox;     /* its name: sub, or what the issuer's naming makes of its claims */
    const char *subject;     /* sub, when that is another text */
    const char *issuer;      /* iss */
    const char *issuer_name; /* in the configuration */
    const char *jti;
    const char *kid;
    const char *client_id;
    const char *scope;    /* "npm:read git:read" */
    const char *listener; /* cnf exeat-listener */
    const char *certificate; /* cnf x5t#S256: SHA-256 of the client's certificate, base64url */
    const char *details;  /* authorization_details as JSON; NULL: the token has none */
    int64_t issued_s;
    int64_t expires_s;
    uint64_t key_mark;                  /* of the key that verified it (authz/key.h) */
    const unsigned char *fingerprint;   /* SHA-256 of the token text; NULL: zeros */
};

/*
 * An identity with these words, copied; give back with identity_unref(). NULL and token_claims
 * when details cannot be read (see details_parse()). The verifier makes identities only
 * from verified tokens; explain and tests make them from words alone.
 */
struct identity *identity_make(const struct identity_claims *c, struct fault *why);

/* One reference more or less; the cache and every session hold one. identity_unref(NULL) is fine. */
struct identity *identity_ref(struct identity *i);
void identity_unref(struct identity *i);

/* All borrowed, NUL-terminated; "" when absent. */
const char *identity_sandbox(const struct identity *i);
const char *identity_subject(const struct identity *i);   /* sub, when the sandbox is named by other claims */
const char *identity_issuer(const struct identity *i);    /* iss: the claim */
const char *identity_issuer_name(const struct identity *i); /* the configured issuer's name */
const char *identity_jti(const struct identity *i);
const char *identity_kid(const struct identity *i);
const char *identity_client_id(const struct identity *i);
const char *identity_scope(const struct identity *i);     /* as written: "npm:read git:read" */
bool identity_has_scope(const struct identity *i, const char *scope);
int64_t identity_expires_s(const struct identity *i);     /* exp */
int64_t identity_issued_s(const struct identity *i);      /* iat */
/* SHA-256 of the token text: for records and comparison, never the token. */
const unsigned char *identity_fingerprint(const struct identity *i);
/* cnf exeat-listener, or "" */
const char *identity_listener(const struct identity *i);
/* cnf x5t#S256, or "" */
const char *identity_certificate(const struct identity *i);
uint64_t identity_key_mark(const struct identity *i);

/*
 * authorization_details. has: the token carries the claim at all; without it nothing is narrowed. With it, a
 * request must be covered by one of the http_egress entries; when there are none, no request is.
 */
bool identity_has_details(const struct identity *i);
size_t identity_detail_count(const struct identity *i);
const struct detail *identity_detail(const struct identity *i, size_t n);

/* Names for revocation look-ups, 128 bits of SHA-256, computed once when the identity is made. */
struct identity_mark {
    uint64_t words[2];
};
/* The mark of a value ("jti", "sandbox"). */
struct identity_mark identity_mark_of(const char *kind, struct slice value);
struct identity_mark identity_jti_mark(const struct identity *i);
struct identity_mark identity_sandbox_mark(const struct identity *i);
struct identity_mark identity_quarantine_mark(const struct identity *i); /* of the sandbox, as "quarantine" */

#endif
