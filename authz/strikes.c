/* Owns one counter per source that failed lately, oldest first in a ring. */
#include "authz/strikes.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"

struct counter {
    char *source; /* NULL: free */
    int64_t since_s;
    unsigned count;
};

struct strikes {
    struct table *by_source;
    struct counter *ring;
    size_t size, next;
    unsigned most;
    int64_t window_s;
};

struct strikes *strikes_new(unsigned most, int64_t window_s, size_t max_sources)
{
    struct strikes *s = calloc(1, sizeof *s);

    if (!s || !(s->ring = calloc(max_sources, sizeof *s->ring)))
        abort();
    s->by_source = table_new();
    s->size = max_sources;
    s->most = most;
    s->window_s = window_s;
    return s;
}

void strikes_free(struct strikes *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->size; i++)
        free(s->ring[i].source);
    free(s->ring);
    table_free(s->by_source);
    free(s);
}

/* A clock that was set back must not keep a source out for longer than the window. */
static bool is_over(const struct strikes *s, const struct counter *c, int64_t now_s)
{
    return now_s - c->since_s >= s->window_s || now_s < c->since_s;
}

bool strikes_is_out(const struct strikes *s, struct slice source, int64_t now_s)
{
    const struct counter *c = table_get(s->by_source, source);

    return c && c->count >= s->most && !is_over(s, c, now_s);
}

/* The oldest place in the ring, emptied. */
static struct counter *reuse(struct strikes *s)
{
    struct counter *c = &s->ring[s->next];

    s->next = (s->next + 1) % s->size;
    if (c->source)
        table_remove(s->by_source, slice_of(c->source));
    free(c->source);
    *c = (struct counter){0};
    return c;
}

void strikes_add(struct strikes *s, struct slice source, int64_t now_s)
{
    struct counter *c = table_get(s->by_source, source);

    if (!c) {
        c = reuse(s);
        c->source = text_copy(source);
        c->since_s = now_s;
        table_put(s->by_source, source, c);
    } else if (is_over(s, c, now_s)) {
        c->since_s = now_s;
        c->count = 0;
    }
    c->count++;
}
