/*
 * Counters in shared memory: one page per worker (and other role), written by it alone, read by the clerk
 * for /metrics and status. The table is counters.def: COUNTER(upper, metric name, help).
 */
#ifndef PROXY_COUNTERS_H
#define PROXY_COUNTERS_H

#include <stdint.h>

#include "base/fault.h"
#include "base/reason.h"

enum counter {
#define COUNTER(upper, name, help) COUNTER_##upper,
#include "proxy/counters.def"
#undef COUNTER
    N_COUNTERS
};

struct counters {
    uint64_t values[N_COUNTERS];
    uint64_t decisions[N_REASONS];
};

/* A memfd for one role, its size sealed; -1 and why. */
int counters_create(struct fault *why);
/* fd stays the caller's. NULL and why when it is not such a page. */
struct counters *counters_map(int fd, bool writable, struct fault *why);
void counters_unmap(const struct counters *c);
const char *counter_name(enum counter c); /* "exeat_exchanges_total" */
const char *counter_help(enum counter c);

#endif
