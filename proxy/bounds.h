/*
 * What may be dialled: the class of an address against what its service allows, and never the gateway itself. Pure, but
 * for bounds_interfaces().
 */
#ifndef PROXY_BOUNDS_H
#define PROXY_BOUNDS_H

#include "net/addr.h"

struct bounds;

struct bounds *bounds_new(void);
void bounds_free(struct bounds *b);
/* b stays where it is and gets what is in the other, which is taken. */
void bounds_replace(struct bounds *b, struct bounds *by);

/*
 * A socket the gateway listens on: never to be dialled. The unspecified address stands for every loopback address of both
 * families; what interfaces have is added one by one. Anything but IPv4 and IPv6 is left aside.
 */
void bounds_add_listener(struct bounds *b, const struct addr *listener);
/* This host's addresses now (getifaddrs), without ports; give (free). *n 0 and NULL when the kernel does not tell. */
struct addr *bounds_interfaces(size_t *n);

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
