/*
 * Refusals of one principal, summed: the first for a reason is recorded in full, those that follow are counted, and every
 * 10 s there is one record that says how many they were. All of them are answered with the id of the
 * first, so that `exeat why` finds the records from any of their answers. Pure.
 */
#ifndef PROXY_SUMS_H
#define PROXY_SUMS_H

#include <stdbool.h>

#include "base/id.h"
#include "base/reason.h"

enum { SUMS_MAX = 16, SUMS_MS = 10 * 1000 };

struct sum {
    enum reason reason; /* REASON_NONE: free */
    struct id id;
    uint64_t count;
    int64_t first_s, last_s; /* wall clock */
    int64_t due_ms;          /* monotonic: when it is told */
    char detail[120];
};

struct sums {
    struct sum list[SUMS_MAX];
};

/* Is a refusal for this reason one that is summed? Those over a limit (429). */
bool sums_takes(enum reason r);
/*
 * One refusal. True: it is the first in a while, to be recorded for itself, under its own id. False: it is counted, and
 * *id is now that of the first. detail is copied (cut) from the first.
 */
bool sums_add(struct sums *s, enum reason r, const char *detail, int64_t now_ms, int64_t wall_s, struct id *id);
/*
 * The next sum that is due at now_ms, or with all set any that has something to tell; NULL: none. What it points to holds until
 * the next call; one that goes on is counted from 0 again.
 */
const struct sum *sums_next(struct sums *s, int64_t now_ms, bool all);
bool sums_are_empty(const struct sums *s);

#endif
