#include "proxy/sums.h"

#include <stdio.h>
#include <string.h>

bool sums_takes(enum reason r)
{
    return reason_get(r)->status == 429;
}

static struct sum *find(struct sums *s, enum reason r)
{
    for (size_t i = 0; i < SUMS_MAX; i++)
        if (s->list[i].reason == r)
            return &s->list[i];
    return NULL;
}

bool sums_add(struct sums *s, enum reason r, const char *detail, int64_t now_ms, int64_t wall_s, struct id *id)
{
    struct sum *at = find(s, r);

    if (at) {
        if (at->count++ == 0)
            at->first_s = wall_s;
        at->last_s = wall_s;
        *id = at->id;
        return false;
    }
    if ((at = find(s, REASON_NONE))) {
        *at = (struct sum){.reason = r, .id = *id, .due_ms = now_ms + SUMS_MS};
        snprintf(at->detail, sizeof at->detail, "%s", detail ? detail : "");
    }
    return true;
}

const struct sum *sums_next(struct sums *s, int64_t now_ms, bool all)
{
    static struct sum told;

    for (size_t i = 0; i < SUMS_MAX; i++) {
        struct sum *at = &s->list[i];

        if (!at->reason || (!all && at->due_ms > now_ms))
            continue;
        told = *at;
        if (at->count == 0 || all)
            *at = (struct sum){0}; /* quiet again: the next one is a first */
        at->count = 0;
        at->due_ms = now_ms + SUMS_MS;
        if (told.count)
            return &told;
    }
    return NULL;
}

bool sums_are_empty(const struct sums *s)
{
    for (size_t i = 0; i < SUMS_MAX; i++)
        if (s->list[i].reason)
            return false;
    return true;
}
