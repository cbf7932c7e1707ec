/*
 * Where the kernel would take a connection: does it end on this machine? Asked for each address anew (rtnetlink, RTM_GETROUTE), so that what
 * an interface got a moment ago counts, and secondary addresses and local routes as well. Takes no power, and of a role that is closed in no
 * more than to send and receive on a socket that was made before.
 */
#ifndef NET_ROUTES_H
#define NET_ROUTES_H

#include "net/addr.h"

struct routes;

/* NULL and why: the kernel has no rtnetlink. */
struct routes *routes_open(struct fault *why);
/* NULL is fine. */
void routes_close(struct routes *r);
/* By TCP, to the port of a; IPv4 and IPv6. True also when the kernel does not say; false where no route leads to. r may be NULL: nobody says. */
bool routes_end_here(struct routes *r, const struct addr *a);

#endif
