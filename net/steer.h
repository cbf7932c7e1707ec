/*
 * A connection that was steered here: the client meant another address, and knows nothing of a proxy. Three ways, told apart
 * for each connection:
 *
 *   TPROXY    the socket itself has the address that the client meant (Documentation/networking/tproxy.rst)
 *   REDIRECT  netfilter rewrote the address, and knows the one before (SO_ORIGINAL_DST, IP6T_SO_ORIGINAL_DST)
 *   DIRECT    neither: a name was answered with this address, which is all that the client meant
 *
 * The address is what the client chose: data, to be recorded, never one to connect to.
 */
#ifndef NET_STEER_H
#define NET_STEER_H

#include <stdbool.h>

#include "net/addr.h"

enum steer_way { STEER_DIRECT, STEER_REDIRECT, STEER_TPROXY };

/* How fd, accepted from a listener of this address, came, and what it meant. False: it has no address any more. */
bool steer_find(int fd, const struct addr *listener, enum steer_way *way, struct addr *meant);
/* "direct", "redirect", "tproxy". */
const char *steer_way_name(enum steer_way w);

/*
 * Have a listening socket take what TPROXY gives it, and so those accepted from it. Needs CAP_NET_RAW or CAP_NET_ADMIN, unless it
 * does so already. False and errno.
 */
bool steer_take_tproxy(int fd);
/* Does the kernel track connections just now, so that it could say where a redirected one was going? */
bool steer_knows_redirect(int fd);

#endif
