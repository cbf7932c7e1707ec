/* What a host has beside a firewall's own tables that goes before it, or opens doors: read in nft's listing of all rules. Pure. */
#ifndef FIREWALL_OTHERS_H
#define FIREWALL_OTHERS_H

#include "firewall/plan.h"

struct other {
    const char *what;          /* "earlier", "helper" */
    struct slice table, block; /* "inet other", "chain c"; borrowed */
    const char *says;          /* what it does, and what to do */
};
typedef void others_found(void *arg, const struct other *o);

/* ruleset: of `nft -y list ruleset`. The plan's own tables are passed over: those are compared line by line (firewall/drift.h). */
void others_look(const struct plan *p, struct slice ruleset, others_found *found, void *arg);

#endif
