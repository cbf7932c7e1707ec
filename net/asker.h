/*
 * Askers: the sockets by which c-ares asks name servers, in place of those it would make itself, so that what goes over each is
 * counted. An asker lives from connect to close; c-ares closes all when no look-up is under way. Private to net/resolve.c.
 */
#ifndef NET_ASKER_H
#define NET_ASKER_H

#include <ares.h>

#include "net/resolve.h"

struct askers;

/* Every socket of the channel from now on. closed may be NULL. */
struct askers *askers_new(ares_channel channel, resolver_closed *closed, void *arg);
/* Is there one that asks from this address and port? */
bool askers_speak_from(const struct askers *all, const struct addr *a);
/* When the channel is gone. NULL is fine. */
void askers_free(struct askers *a);

#endif
