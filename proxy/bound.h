/*
 * A bound listener as a worker has it: the one sandbox behind it, and the token that the operator keeps fresh for it, so that
 * its clients carry nothing. Counted by reference: the gate holds one, each of its sessions another.
 */
#ifndef PROXY_BOUND_H
#define PROXY_BOUND_H

#include "authz/identity.h"
#include "base/secret.h"

struct bound {
    unsigned refs;
    char *name;           /* of the listener */
    char *sandbox;        /* "": whoever shows a token */
    bool carries;         /* the operator keeps a token for it */
    bool is_added;        /* while the gateway runs: no configuration has it */
    bool is_transparent;  /* of an added one; the configuration says it of its own */
    bool warned;          /* of a guest that is not its own */
    uint32_t cid;         /* vsock: of the one guest that may come; 0: no vsock */
    struct secret *token; /* NULL: none now */
    struct fault bad;     /* why that one was refused, ... */
    int64_t bad_until_s;  /* ... and not looked at again before: looking costs a signature */
};

/* One reference. */
struct bound *bound_new(struct slice name, struct slice sandbox);
struct bound *bound_ref(struct bound *b);
void bound_unref(struct bound *b); /* NULL is fine */
/* Another token; empty: none. False when it is the same. */
bool bound_set_token(struct bound *b, struct slice token);

#endif
