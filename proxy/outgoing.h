/*
 * The record of a connection of the gateway's own that is closed, of kind upstream: a worker's or the clerk's to a service, the clerk's to
 * where an issuer publishes its keys, the porter's to a name server. What went out, by the kernel's count.
 */
#ifndef PROXY_OUTGOING_H
#define PROXY_OUTGOING_H

#include "net/resolve.h"
#include "proxy/recorder.h"

/* All borrowed; NULL or 0: it has none. */
struct outgoing {
    const char *service, *issuer;
    const char *address; /* the other end, as text */
    unsigned exchanges;
};

void outgoing_record(struct recorder *r, const struct outgoing *o, const struct meter *count);
void outgoing_record_line(struct recorder *r, const struct resolver_line *line);

#endif
