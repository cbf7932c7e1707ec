/*
 * Sandboxes that have dials in the works, as the porter knows them: by what workers say. No one of them takes up all
 * dials or look-ups, however many workers it asks through (share.h); workers hold the same limits earlier, this
 * holds when one of them does not.
 */
#ifndef PROXY_GUESTS_H
#define PROXY_GUESTS_H

#include "base/reason.h"
#include "proxy/share.h"

struct guests;
struct guest; /* lives while it has something in the works */

struct guests *guests_new(const struct share *dials, const struct share *lookups);
/* Other shares from now on; who has more than that may finish. */
void guests_use(struct guests *all, const struct share *dials, const struct share *lookups);
/* One more dial of the sandbox, with a look-up or without; NULL and *why (limit_dials, limit_lookups) when it is too much. */
struct guest *guests_begin(struct guests *all, struct slice sandbox, bool looks_up, enum reason *why);
void guest_end(struct guest *g, bool looks_up);

#endif
