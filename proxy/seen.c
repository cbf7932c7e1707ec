#include "proxy/seen.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 64 };

struct seen {
    struct slots {
        uint64_t *at; /* 0 is a free one */
        size_t room, used;
    } now, before;
    int64_t window;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static bool slots_has(const struct slots *s, uint64_t hash)
{
    for (size_t i = hash; s->room; i++) {
        uint64_t at = s->at[i & (s->room - 1)];

        if (!at || at == hash)
            return at;
    }
    return false;
}

static void slots_put(struct slots *s, uint64_t hash)
{
    size_t i = hash;

    while (s->at[i & (s->room - 1)])
        i++;
    s->at[i & (s->room - 1)] = hash;
    s->used++;
}

static void slots_add(struct slots *s, uint64_t hash)
{
    if (2 * (s->used + 1) > s->room) {
        struct slots wider = {.room = s->room ? 2 * s->room : SLOTS_FIRST};

        wider.at = must(calloc(wider.room, sizeof *wider.at));
        for (size_t i = 0; i < s->room; i++)
            if (s->at[i])
                slots_put(&wider, s->at[i]);
        free(s->at);
        *s = wider;
    }
    slots_put(s, hash);
}

static void turn(struct seen *s, int64_t now_ms)
{
    int64_t window = now_ms / SEEN_MS;

    if (window == s->window)
        return;
    free(s->before.at);
    s->before = window == s->window + 1 ? s->now : (struct slots){0};
    if (window != s->window + 1)
        free(s->now.at);
    s->now = (struct slots){0};
    s->window = window;
}

struct seen *seen_new(void)
{
    return must(calloc(1, sizeof(struct seen)));
}

void seen_free(struct seen *s)
{
    if (!s)
        return;
    free(s->now.at);
    free(s->before.at);
    free(s);
}

bool seen_has(struct seen *s, uint64_t hash, int64_t now_ms)
{
    turn(s, now_ms);
    return slots_has(&s->now, hash) || slots_has(&s->before, hash);
}

void seen_add(struct seen *s, uint64_t hash, int64_t now_ms)
{
    turn(s, now_ms);
    slots_add(&s->now, hash);
}

bool seen_is_fresh(struct seen *s, uint64_t hash, int64_t now_ms)
{
    turn(s, now_ms);
    return slots_has(&s->now, hash);
}

size_t seen_count(struct seen *s, int64_t now_ms)
{
    turn(s, now_ms);
    return s->now.used;
}
