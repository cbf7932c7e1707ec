/* Who asks: what a verified leave token says. Holds no token. */
#ifndef AUTHZ_IDENTITY_H
#define AUTHZ_IDENTITY_H

#include "base/fault.h"
#include "base/slice.h"

struct identity;

/* One reference more or less; the cache and every session hold one. identity_unref(NULL) is fine. */
struct identity *identity_ref(struct identity *i);
void identity_unref(struct identity *i);

/* All borrowed, NUL-terminated; "" when absent. */
const char *identity_sandbox(const struct identity *i);   /* sub */
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

#endif
