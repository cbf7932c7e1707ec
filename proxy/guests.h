/*
 * Who has dials in the works, by name: none of them takes up all dials or look-ups (share.h). The porter has a list of its
 * workers, and for each worker one of the sandboxes it names. Workers hold the same limits earlier; this holds when one of
 * them does not, and whatever names that one makes up, or takes from others, it spends its own share.
 */
#ifndef PROXY_GUESTS_H
#define PROXY_GUESTS_H

#include "base/reason.h"
#include "proxy/share.h"

struct guests;
struct guest; /* lives while it has something in the works */

struct guests *guests_new(const struct share *dials, const struct share *lookups);
/* Nobody may be in it any more. NULL is fine. */
void guests_free(struct guests *all);
/* Other shares from now on; who has more than that may finish. */
void guests_use(struct guests *all, const struct share *dials, const struct share *lookups);
/* One more dial of who has that name, with a look-up or without; NULL and *why (limit_dials, limit_lookups) when it is too much. */
struct guest *guests_begin(struct guests *all, struct slice name, bool looks_up, enum reason *why);
void guest_end(struct guest *g, bool looks_up);

#endif
