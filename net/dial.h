/*
 * connect() to one of several addresses, and the only file that calls it for a service: happy eyeballs (RFC 8305).
 * Nothing is judged here: every address was checked by the caller, and none but those is tried.
 */
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include "net/addr.h"
#include "net/loop.h"

#define DIAL_MAX 32 /* addresses of one dial */

struct dial;

struct dial_settings {
    int64_t timeout_ms; /* for the whole dial */
    int64_t stagger_ms; /* before the next address is tried beside the pending ones; RFC 8305 5: 250 */
};

/*
 * Called once, from the loop. fd is given: connected, non-blocking, close-on-exec, TCP_NODELAY; address is the one it is
 * connected to. Or fd is -1 and why (reason connect_refused, connect_failed, connect_timeout) tells of it. Both are borrowed.
 */
typedef void dial_done(void *arg, int fd, const struct addr *address, const struct fault *why);

/*
 * Dial list[0..n) (AF_INET, AF_INET6; copied; 1 <= n <= DIAL_MAX): IPv6 and IPv4 in turn, IPv6 first, otherwise in the
 * order given. A failed address makes room for the next at once; the first to connect wins and the others are closed.
 * done is never called before this returns; the handle is dead when it is called.
 */
struct dial *dial_start(struct loop *l, const struct addr *list, size_t n, const struct dial_settings *settings,
                        dial_done *done, void *arg);
/* Closes what is pending; done will not be called. NULL is fine. */
void dial_cancel(struct dial *d);

/* The order in which dial_start tries them: out gets n. Pure. */
void dial_order(const struct addr *list, size_t n, struct addr *out);

#endif
