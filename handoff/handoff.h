/*
 * Handoff (design 13): which authority of the gateway's own goes to a service in place of the sandbox's words. Compiled
 * from the service's credential, assert and exchange keys; pure.
 */
#ifndef HANDOFF_HANDOFF_H
#define HANDOFF_HANDOFF_H

#include "authz/policy.h"
#include "handoff/source.h"

enum { GRANT_MAX_S = 60 /* no grant is longer, whatever is configured */ };

enum handoff_kind {
    HANDOFF_NONE,
    HANDOFF_INJECT,   /* a credential that the operator keeps somewhere */
    HANDOFF_ASSERT,   /* a token that the keeper signs for this service alone */
    HANDOFF_EXCHANGE, /* a token that a token endpoint gives for one that the keeper signed (RFC 8693) */
};

enum handoff_form { FORM_BEARER, FORM_BASIC, FORM_BARE /* of a header:NAME */ };

/* Texts are borrowed from the conf; "" when they are not there. */
struct handoff {
    enum handoff_kind kind;
    enum handoff_form form;
    const char *service;      /* its name */
    const char *field;        /* the field's name */
    const char *scope;        /* what the leave token must carry, and the most that is asked for it */
    bool shared;              /* shared-identity: accepted */
    /* inject */
    struct source source;
    int64_t lifetime_s;       /* of assert too; at least 1 */
    /* assert, and exchange (its aud is the endpoint) */
    const char *audience;
    const struct conf_item *item; /* for assert.access */
    bool once;
    /* exchange */
    const char *at;           /* the URL */
    char host[NAME_MAX_LEN + 1];
    uint16_t port;
    const char *target;       /* borrowed from at: "/token" */
    const struct service *endpoint; /* the service that lists it: its trust, its addresses */
    const char *client;
    struct source secret;     /* SOURCE_NONE: the client has none */
    const char *wants_audience, *wants_resource, *wants_scope;
};

struct handoffs;

/* c and p are kept. NULL and why, with its place, when anything is refused. Opens no file. */
struct handoffs *handoffs_compile(const struct conf *c, const struct policy *p, struct fault *why);
void handoffs_free(struct handoffs *h);
/* NULL: the service has none. */
const struct handoff *handoffs_of(const struct handoffs *h, const struct service *s);
const struct handoff *handoffs_named(const struct handoffs *h, struct slice service);
bool handoffs_any(const struct handoffs *h);
/* Does one of them take a token that the keeper signs? */
bool handoffs_sign(const struct handoffs *h);
bool handoffs_exchange(const struct handoffs *h);

/* What goes into the field for this secret: "Bearer abc" (may hold NUL only if the secret does: see credential_check). */
void handoff_value(const struct handoff *h, struct slice secret, struct buf *out);
/*
 * Can this be sent, and be found again in an answer? Visible ASCII, 8 to 4096 characters, of basic USER:PASSWORD with a
 * password as long. The text of the fault never has the secret.
 */
bool handoff_check(const struct handoff *h, struct slice secret, struct fault *why);
/* The part of it that must not come back: for basic the password, else all of it. */
struct slice handoff_secret_part(const struct handoff *h, struct slice secret);

#endif
