/*
 * A look-up: the porter's way from a name to the addresses that a DNS client may be told. The listed set is checked, the name is resolved or
 * the service's fixed addresses are taken, every address is checked, and the look-up is recorded before anybody hears of it.
 */
#ifndef PROXY_LOOKUP_H
#define PROXY_LOOKUP_H

#include "base/id.h"
#include "net/dns_answer.h"
#include "proxy/office.h"

struct lookup;

/* What the usher asks for; borrowed. */
struct lookup_order {
    bool late; /* asked by a policy that has just gone: what is not listed now is no violation */
    struct id question;
    struct slice asked_by; /* the role: "usher" */
    struct slice asker;    /* the client, in its words */
    struct addr from;      /* where its question came from */
    const char *host; /* canonical */
    bool v6;
};

struct lookup_found {
    struct addr list[DNS_ADDRESSES_MAX]; /* of the family that was asked for; none: it has no such */
    size_t n;
    uint32_t ttl_s;
};

/* Called once, from the loop. found NULL: why->reason is address_denied, name_not_resolved, name_timeout, record_unavailable. */
typedef void lookup_done(void *arg, const struct lookup_found *found, const struct fault *why);

/*
 * Holds the office. Never calls done before it returns; the handle is dead when done is called. NULL and why, which is recorded
 * where it can be: host_not_listed, service_closed, dial_unlisted, loop_detected, limit_names, record_unavailable, name_not_resolved.
 */
struct lookup *lookup_start(struct office *office, const struct lookup_order *order, lookup_done *done, void *arg, struct fault *why);
/* Is its name still listed by the same service? If not, the caller cancels it. */
bool lookup_stands(const struct lookup *l, const struct office *now);
/* done will not be called. NULL is fine. */
void lookup_cancel(struct lookup *l);

#endif
