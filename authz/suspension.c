#include "authz/suspension.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"

enum { REASONS_MOST = 1000 };

struct kept {
    char *name, *by, *why, *at;
    int64_t uid;
};

struct suspensions {
    struct table *by_name;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void kept_free(struct kept *k)
{
    if (!k)
        return;
    free(k->name);
    free(k->by);
    free(k->why);
    free(k->at);
    free(k);
}

static void free_one(void *arg, struct slice name, void *value)
{
    (void)arg, (void)name;
    kept_free(value);
}

struct suspensions *suspensions_new(void)
{
    struct suspensions *q = must(calloc(1, sizeof *q));

    q->by_name = table_new();
    return q;
}

void suspensions_free(struct suspensions *q)
{
    if (!q)
        return;
    table_each(q->by_name, free_one, NULL);
    table_free(q->by_name);
    free(q);
}

/* Whoever gives it back wants all of them: the one that was said last may be gone before the first. */
static void add_reason(struct kept *k, struct slice why)
{
    struct buf both = {0};

    if (slice_search(slice_of(k->why), why) >= 0 || strlen(k->why) + why.len > REASONS_MOST)
        return;
    buf_printf(&both, "%s%s%.*s", k->why, *k->why ? "; " : "", SLICE_ARG(why));
    free(k->why);
    k->why = buf_take_text(&both);
}

void suspensions_put(struct suspensions *q, const struct suspension *one)
{
    struct kept *k = table_get(q->by_name, one->name);

    if (k) {
        add_reason(k, one->why);
        return;
    }
    k = must(calloc(1, sizeof *k));

    *k = (struct kept){text_copy(one->name), text_copy(one->by), text_copy(one->why), text_copy(one->at), one->uid};
    table_put(q->by_name, one->name, k);
}

bool suspensions_remove(struct suspensions *q, struct slice name)
{
    struct kept *k = table_remove(q->by_name, name);

    kept_free(k);
    return k != NULL;
}

bool suspensions_has(const struct suspensions *q, struct slice name)
{
    return table_get(q->by_name, name) != NULL;
}

struct gathering {
    const struct kept **list;
    size_t n;
};

static void gather(void *arg, struct slice name, void *value)
{
    struct gathering *g = arg;

    (void)name;
    g->list[g->n++] = value;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct kept *const *)a)->name, (*(const struct kept *const *)b)->name);
}

void suspensions_each(const struct suspensions *q, void (*visit)(void *arg, const struct suspension *one), void *arg)
{
    struct gathering g = {.list = must(calloc(table_count(q->by_name) + 1, sizeof *g.list))};

    table_each(q->by_name, gather, &g);
    qsort(g.list, g.n, sizeof *g.list, by_name);
    for (size_t i = 0; i < g.n; i++) {
        const struct kept *k = g.list[i];

        visit(arg, &(struct suspension){slice_of(k->name), slice_of(k->by), slice_of(k->why), k->uid, slice_of(k->at)});
    }
    free(g.list);
}
