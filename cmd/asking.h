/* One question to a proxy, as a client would put it: is there a gateway, what does it think of this token, what time is it there? */
#ifndef CMD_ASKING_H
#define CMD_ASKING_H

#include "base/fault.h"
#include "base/slice.h"

struct asking {
    int status;
    char reason[64];    /* its reason code; "" when it does not speak like a gateway of ours */
    char line[128];     /* the status line, printable */
    int64_t date_s;     /* its Date; 0: none */
    bool is_relay;      /* an exeat-relay answered by itself */
};

/* host and port, as texts, to an address without a look-up being needed. */
bool asking_is_numeric(const char *host);
/*
 * Resolve host (FAULT_MISSING when it has no address). Then CONNECT to a name that no configuration lists, so that nothing is dialled
 * whatever the answer; credentials ("user:password", NULL: none) are sent as Basic. Blocks ten seconds at most.
 */
bool asking_resolve(const char *host, struct fault *why);
/* A connected socket, which the caller closes; -1 and why (FAULT_MISSING: no address). Blocks ten seconds at most. */
int asking_connect(const char *host, const char *port, struct fault *why);
/* An answer's head, into out, which is empty. */
bool asking_read(struct slice head, struct asking *out, struct fault *why);
bool asking_put(const char *host, const char *port, const char *credentials, struct asking *out, struct fault *why);

#endif
