/*
 * Tokens for probes: good ones, when the manifest has the staging issuer's key, and ones that are wrong in one place. Made with
 * the issuer's key, with a key of our own that nobody knows, with a shared secret, or with no signature.
 */
#ifndef AUDIT_FORGE_H
#define AUDIT_FORGE_H

#include "audit/target.h"

enum forge_key { FORGE_ISSUER, FORGE_OWN, FORGE_HMAC, FORGE_NONE };

/* What differs from a good token; zeroed: nothing. Texts are borrowed. */
struct mold {
    enum forge_key key;
    const char *algorithm; /* what the header says; NULL: what the key does */
    struct slice secret;   /* of FORGE_HMAC */
    const char *header;    /* a JSON object, laid over the header; a null takes a member out */
    const char *claims;    /* the same over the claims */
    const char *append;    /* text put in front of the claims' last brace: a second member of a name, say */
};

struct forge;

/* The key is read here; a forge without an issuer makes its claims after the target's own credential when that is a JWT. */
struct forge *forge_new(const struct target *t, struct fault *why);
void forge_free(struct forge *f);
bool forge_has_issuer(const struct forge *f);
/* The compact token (give). */
char *forge_make(struct forge *f, const struct mold *m);
/* The issuer's public key as verifiers may hold it: "pem", "certificate", "der", "jwk"; empty when there is none. */
void forge_public(const struct forge *f, const char *form, struct buf *out);
/* x5c or jwk of our own key, as JSON values for a header. */
void forge_own_jwk(const struct forge *f, struct buf *out);
void forge_own_x5c(const struct forge *f, struct buf *out);

#endif
