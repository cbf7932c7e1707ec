/*
 * One question to a place whose name leads to a transparent listener, as a client would put it that knows of no proxy: who answers for that
 * name, and what does it think of this token?
 */
#ifndef CMD_FRONTING_H
#define CMD_FRONTING_H

#include "cmd/asking.h"

struct fronting {
    const char *host, *port;
    bool is_tls;
    const char *root;        /* file; NULL: not at hand, and no certificate is judged */
    const char *credentials; /* "user:token"; NULL: none */
};

/* What the certificate said. */
enum fronting_leaf { FRONTING_UNJUDGED, FRONTING_OURS, FRONTING_FOREIGN };

/*
 * Resolve, connect, TLS with the name, and a TRACE, which no policy allows: nothing is dialled, and the token is judged. False and why:
 * FAULT_MISSING no address, FAULT_REFUSED no handshake, else no answer. Blocks ten seconds for each step at most.
 */
bool fronting_ask(const struct fronting *f, struct asking *out, enum fronting_leaf *leaf, struct fault *why);

#endif
