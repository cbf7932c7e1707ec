/*
 * An errand: the porter's way from a host and port to a descriptor. The listed set is checked (for the keys of an issuer: that it
 * is configured), the name is resolved or the service's fixed addresses are taken, every address is checked, a checked one is dialled, the dial is recorded, and
 * only when the record is written the descriptor is given.
 */
#ifndef PROXY_ERRAND_H
#define PROXY_ERRAND_H

#include "base/id.h"
#include "net/dial.h"
#include "proxy/office.h"

struct errand;

/* What a worker asks for; borrowed. */
struct errand_order {
    bool late; /* asked by a policy that has just gone: what is not listed now is no violation */
    struct id exchange;
    struct slice asked_by; /* the role: "worker 1" */
    struct slice sandbox;
    const char *host; /* canonical; NULL: to where this issuer publishes its keys */
    uint16_t port;
    struct slice issuer;
};

/*
 * Called once, from the loop. fd is given, address borrowed; or fd is -1 and why->reason is one of host_not_listed,
 * limit_names, address_denied, name_not_resolved, name_timeout, connect_refused, connect_failed, connect_timeout, record_unavailable.
 */
typedef void errand_done(void *arg, int fd, const struct addr *address, const struct fault *why);

/* Holds the office. Never calls done before it returns; the handle is dead when done is called. */
struct errand *errand_start(struct office *office, const struct errand_order *order, errand_done *done, void *arg);
/*
 * The office's policy is about to go: an errand that has not begun goes by `now` instead. False when it has, and now's
 * policy no longer lists its destination, or lists it by another service or other words: the caller cancels it.
 */
bool errand_move(struct errand *e, struct office *now);
/* done will not be called; what was dialled is closed, and recorded as cut. NULL is fine. */
void errand_cancel(struct errand *e);

#endif
