/*
 * Leave tokens: JWT in the RFC 9068 profile, checked by RFC 8725. Cheap checks (shape, size,
 * header members, claims, times: authz/claims.h) come before any signature;
 * verified tokens are cached by SHA-256 of their text with the key-set generation.
 * Pure but for that memory: now is a parameter.
 *
 * Signatures are verified by OpenSSL with keys parsed once (authz/key.h), not by libjwt: its 1.10.2 refuses every typ
 * but JWT, and so the at+jwt of RFC 9068; takes a key as text and parses it each time; lets the token's header choose
 * how that text is used (HS256 verifies with the text of a public key); takes a NULL or empty key for "do not
 * verify"; and decodes leniently. All it would do after the strict reading is one call to EVP_DigestVerify.
 * tests/unit/libjwt.c keeps it as a second opinion, and shows that each of its traps is refused here.
 */
#ifndef AUTHZ_TOKEN_H
#define AUTHZ_TOKEN_H

#include "authz/identity.h"
#include "authz/issuer.h"
#include "authz/pins.h"
#include "authz/revocation.h"
#include "authz/spent.h"
#include "base/buf.h"

#define TOKEN_CREDENTIAL_MAX 16384 /* bytes of a Proxy-Authorization value that are looked at */

/* Where a token came from; what it is bound to is checked against this. */
struct token_context {
    const char *listener; /* name of the listener */
    const char *source;   /* source IP address as text; NULL or "": a listener of one sandbox (unix, vsock) */
    const char *certificate; /* SHA-256 (base64url) of the one the client showed; NULL or "": none */
    int64_t now_s;
    bool spends;          /* this is a use: a token of an issuer that says single-use is good for no other */
    bool is_out;          /* the source has shown too many bad ones, here or at another worker */
};

struct verifier;

/* issuers and revocations are kept; revocations may be NULL (tools). cache_size: most verified tokens remembered. */
struct verifier *verifier_new(const struct issuers *issuers, const char *audience,
                              const struct revocations *revocations, size_t cache_size);
void verifier_free(struct verifier *v);
/* Other issuers from now on (kept): what is remembered of other generations is verified anew. */
void verifier_use_issuers(struct verifier *v, const struct issuers *issuers);
/* Remember at most so many from now on. */
void verifier_limit_cache(struct verifier *v, size_t most);
/* How many tokens that do not verify a source may show in a minute; 20 until this is called. */
void verifier_limit_failures(struct verifier *v, unsigned a_minute);
/* Pins that all workers share (kept); without, the verifier has its own. */
void verifier_use_pins(struct verifier *v, struct pins *pins);
/* Where it is kept which tokens for one use were used (kept); without, such tokens are refused where they would be used. */
void verifier_use_spent(struct verifier *v, struct spent *spent);

/* Told when a token names a kid that is not among the keys its issuer publishes (issuer: its name; borrowed). */
void verifier_on_unknown_key(struct verifier *v, void (*tell)(void *arg, const char *issuer), void *arg);

/*
 * The identity a token text proves, or NULL and why->reason = one of token_*, issuer_unavailable or sandbox_quarantined.
 * The caller gives the reference back with identity_unref(). Every call checks
 * time, revocation and binding again, also on a cache hit. Tokens that do not verify are counted per source: over
 * the limit the answer is token_failures without looking at any token that is not remembered as verified.
 * A token without cnf that comes with a source address is pinned to it, unless its issuer says
 * pin-source: false.
 */
struct identity *verifier_check(struct verifier *v, struct slice token, const struct token_context *context,
                                struct fault *why);

/*
 * Whose token this is, when it was verified lately, whatever else is off with it: for the record of a refusal. A reference
 * (identity_unref), or NULL.
 */
struct identity *verifier_recall(struct verifier *v, struct slice token);

/*
 * What can change for a token already verified: expiry (with the issuer's leeway), revocation, its issuer
 * or key no longer configured or published, or its issuer's keys too old; its sandbox put in quarantine. False and
 * why->reason = token_expired, token_revoked, token_issuer, token_key_unknown, token_key_unpublished, issuer_unavailable or sandbox_quarantined.
 */
bool verifier_recheck(const struct verifier *v, const struct identity *i, int64_t now_s, struct fault *why);

/*
 * Is the token of i where its cnf binds it: at this listener, with this client certificate shown ("" or NULL: none)? False
 * and why->reason = token_binding. Of a source address cnf says nothing.
 */
bool token_is_in_place(const struct identity *i, const char *listener, const char *certificate, struct fault *why);

/*
 * The token inside a Proxy-Authorization (or Authorization) value: Bearer (RFC 6750 2.1), or Basic
 * (RFC 7617) with the token as password, split at the first colon, any user name. Strict
 * base64. Basic is decoded into scratch; *token borrows from value or scratch. why->reason: token_malformed,
 * token_oversize.
 */
bool token_from_credentials(struct slice value, struct buf *scratch, struct slice *token, struct fault *why);

/* Does s look like the compact form of a JWT (three base64url parts, the first of them starting "eyJ")? */
bool token_looks_like(struct slice s);

#endif
