/*
 * What may be dialled: the class of an address against what its service allows, and never the gateway itself. Pure, but
 * for what it is told to ask.
 */
#ifndef PROXY_BOUNDS_H
#define PROXY_BOUNDS_H

#include "net/addr.h"

struct bounds;

struct bounds *bounds_new(void);
/* Of what MSG_OWN (proxy/role.h) says; NULL: that is malformed. */
struct bounds *bounds_read(struct slice own);
void bounds_free(struct bounds *b);
/* b stays where it is and gets what is in the other, which is taken. */
void bounds_replace(struct bounds *b, struct bounds *by);

/*
 * A socket the gateway listens on: never to be dialled. The unspecified address stands for every address that is this machine's
 * when one of its port is asked about, of both families. Anything but IPv4 and IPv6 is left aside.
 */
void bounds_add_listener(struct bounds *b, const struct addr *listener);
/* Is a (with its port) this machine's? Loopback is not asked about. */
typedef bool bounds_is_here(void *arg, const struct addr *a);
/* arg is kept, also over bounds_replace(). Without it every address is, on a port that a listener on the unspecified address has. */
void bounds_ask(struct bounds *b, bounds_is_here *ask, void *arg);

enum bounds_source {
    BOUNDS_RESOLVED,         /* a name server said it: global addresses only ... */
    BOUNDS_RESOLVED_PRIVATE, /* ... and private ones, for a service with allow-private */
    BOUNDS_FIXED,            /* the service's `addresses`: loopback and link-local too */
};

/*
 * NULL when a (with its port) may be dialled. Otherwise one or two words that say what it is: "private",
 * "loopback", "link-local", "metadata", "special", "own listener". The last three are refused from every source.
 */
const char *bounds_refuse(const struct bounds *b, const struct addr *a, enum bounds_source source);

#endif
