/*
 * The token endpoint that the manifest names (token-endpoint): asking it for tokens, and reading what it gave. It speaks OAuth
 * (RFC 6749, with RFC 8693 and RFC 8707) or the form of container registries. Tokens stand in no report.
 */
#ifndef AUDIT_GRANT_H
#define AUDIT_GRANT_H

#include <jansson.h>

#include "audit/evidence.h"

#define GRANT_CLIENT "client_credentials"
#define GRANT_REFRESH "refresh_token"
#define GRANT_EXCHANGE "urn:ietf:params:oauth:grant-type:token-exchange"

/* One request. All is borrowed; what is NULL is not sent. */
struct grant {
    const char *type; /* GRANT_* */
    const char *scope, *resource, *audience;
    const char *refresh, *access, *subject, *actor; /* tokens */
    bool is_nobodys;  /* without the client's credential */
    const char *variant;
    int tag;
};

/* Is there an endpoint that may be asked? Else missing, or n/a when neither the manifest nor the service names one. */
bool grant_has_place(struct evidence *e);
/* Is it of OAuth's form? Else n/a. */
bool grant_is_oauth(struct evidence *e);
struct turn *grant_ask(struct evidence *e, struct grant g);
/* A path or URL of the manifest's (token-endpoint.revoke), asked with a form and the client's credential; NULL and missing: it is not below url or also. */
struct turn *grant_post(struct evidence *e, const char *where, const char *form, const char *variant, int tag);

/* What came, of a 2xx: the access token, a member of the answer's. Texts belong to the evidence; NULL: it is not there. */
const char *grant_token(struct evidence *e, const struct turn *x);
const char *grant_member(struct evidence *e, const struct turn *x, const char *name);
/* A token came with it. */
bool grant_gave(const struct turn *x);
/* Claims of the token that came (give); NULL: none came, or it is no JWT. */
json_t *grant_claims(const struct turn *x);
/* Seconds that it says the token is good for (expires_in, or exp - now); -1: it does not say. */
int64_t grant_life_s(const struct turn *x);
/* Does what came grant a word of scope, or an action, that `most` does not have? What says nothing grants what was asked (RFC 6749 5.1). */
bool grant_is_wider(const struct turn *x, const char *asked, const char *most);

#endif
