/*
 * An errand: the porter's way from a host and port to a descriptor. The listed set is checked, the name is resolved or
 * the service's fixed addresses are taken, every address is checked, a checked one is dialled, the dial is recorded, and
 * only when the record is written the descriptor is given.
 */
#ifndef PROXY_ERRAND_H
#define PROXY_ERRAND_H

#include "authz/policy.h"
#include "base/id.h"
#include "net/dial.h"
#include "net/resolve.h"
#include "proxy/bounds.h"
#include "proxy/recorder.h"

struct errand;

/* What all errands share; kept. */
struct errand_office {
    struct loop *loop;
    struct resolver *resolver;
    struct recorder *recorder;
    const struct policy *policy;
    const struct bounds *bounds;
    int64_t timeout_ms; /* for look-up and dial together */
    int64_t stagger_ms; /* net/dial.h */
};

/* What a worker asks for; borrowed. */
struct errand_order {
    struct id exchange;
    struct slice sandbox;
    const char *host; /* canonical */
    uint16_t port;
};

/*
 * Called once, from the loop. fd is given, address borrowed; or fd is -1 and why->reason is one of host_not_listed,
 * address_denied, name_not_resolved, name_timeout, connect_refused, connect_failed, connect_timeout, record_unavailable.
 */
typedef void errand_done(void *arg, int fd, const struct addr *address, const struct fault *why);

/* Never calls done before it returns; the handle is dead when done is called. */
struct errand *errand_start(const struct errand_office *office, const struct errand_order *order, errand_done *done,
                            void *arg);
/* done will not be called; what was dialled is closed, and recorded as cut. NULL is fine. */
void errand_cancel(struct errand *e);

#endif
