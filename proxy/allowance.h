/*
 * What may leave by look-ups: a new name below a listed suffix is bytes of somebody's choice on their way to a name server. Workers and the
 * usher hold limits.sandbox-names themselves; this is the porter's own account, for when one of them does not. A name that nobody
 * has had looked up within the hour is charged to who asks for it first: to its sandbox or client, as the role calls it, and to the role's
 * share of limits.names (share.h), so that whatever askers a role makes up, it spends its own. Refusals are summed: the first has a record of
 * its own, which is the caller's, and the rest have one each 10 s, of kind limit.
 */
#ifndef PROXY_ALLOWANCE_H
#define PROXY_ALLOWANCE_H

#include "base/fault.h"
#include "base/id.h"
#include "proxy/recorder.h"

struct allowance;

/* loop and recorder are kept. */
struct allowance *allowance_new(struct loop *loop, struct recorder *recorder);
/* What one asker may have in an hour, and what there is for all: at any time, and before the first is charged. */
void allowance_use(struct allowance *a, size_t own, size_t common);

/* Who asks for a look-up, and of what; borrowed. */
struct allowance_charge {
    struct slice role;  /* "usher", "worker-1" */
    struct slice asker; /* the sandbox or client, in the role's words */
    const char *name;   /* canonical; below a listed suffix */
    struct id id;       /* of the exchange or question */
};

/* False and why (limit_names) when that is one name too many; *is_first: that refusal is to be recorded for itself. */
bool allowance_take(struct allowance *a, const struct allowance_charge *c, bool *is_first, struct fault *why);
/* What is summed so far is recorded: before the recorder settles. */
void allowance_close(struct allowance *a);

#endif
