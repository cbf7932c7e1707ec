/*
 * The listener that a sandbox comes in by, as somebody inside it would use it: its own, which is bound to it and has its token, else
 * an explicit one for all, with a leave token.
 */
#ifndef CMD_ENTRANCE_H
#define CMD_ENTRANCE_H

#include "base/secret.h"
#include "net/addr.h"
#include "proxy/config.h"

struct json_t;

struct entrance {
    char *name, *address;   /* of the listener */
    struct addr at;         /* TCP; of a unix socket any: sockets come from entrance_connect() */
    bool is_unix;
    struct secret *token;   /* NULL: the listener has one */
};

/*
 * status: what the gateway says of its listeners. token_file may be NULL. False and why, which says what to do: there is no listener
 * for the sandbox and no token, or it cannot be used from here.
 */
bool entrance_find(struct entrance *e, const struct gateway_config *c, const struct json_t *status, const char *sandbox, const char *token_file, struct fault *why);
void entrance_clear(struct entrance *e);
/* A connected socket to a unix listener; -1. e is a struct entrance. */
int entrance_connect(void *e);

#endif
