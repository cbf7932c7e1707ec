#include "authz/quarantine.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"

struct kept {
    char *sandbox, *by, *why, *at;
    int64_t uid;
};

struct quarantines {
    struct table *by_sandbox;
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
    free(k->sandbox);
    free(k->by);
    free(k->why);
    free(k->at);
    free(k);
}

static void free_one(void *arg, struct slice sandbox, void *value)
{
    (void)arg, (void)sandbox;
    kept_free(value);
}

struct quarantines *quarantines_new(void)
{
    struct quarantines *q = must(calloc(1, sizeof *q));

    q->by_sandbox = table_new();
    return q;
}

void quarantines_free(struct quarantines *q)
{
    if (!q)
        return;
    table_each(q->by_sandbox, free_one, NULL);
    table_free(q->by_sandbox);
    free(q);
}

void quarantines_put(struct quarantines *q, const struct quarantine *one)
{
    struct kept *k = must(calloc(1, sizeof *k));

    *k = (struct kept){text_copy(one->sandbox), text_copy(one->by), text_copy(one->why), text_copy(one->at), one->uid};
    kept_free(table_put(q->by_sandbox, one->sandbox, k));
}

bool quarantines_remove(struct quarantines *q, struct slice sandbox)
{
    struct kept *k = table_remove(q->by_sandbox, sandbox);

    kept_free(k);
    return k != NULL;
}

bool quarantines_has(const struct quarantines *q, struct slice sandbox)
{
    return table_get(q->by_sandbox, sandbox) != NULL;
}

struct gathering {
    const struct kept **list;
    size_t n;
};

static void gather(void *arg, struct slice sandbox, void *value)
{
    struct gathering *g = arg;

    (void)sandbox;
    g->list[g->n++] = value;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct kept *const *)a)->sandbox, (*(const struct kept *const *)b)->sandbox);
}

void quarantines_each(const struct quarantines *q, void (*visit)(void *arg, const struct quarantine *one), void *arg)
{
    struct gathering g = {.list = must(calloc(table_count(q->by_sandbox) + 1, sizeof *g.list))};

    table_each(q->by_sandbox, gather, &g);
    qsort(g.list, g.n, sizeof *g.list, by_name);
    for (size_t i = 0; i < g.n; i++) {
        const struct kept *k = g.list[i];

        visit(arg, &(struct quarantine){slice_of(k->sandbox), slice_of(k->by), slice_of(k->why), k->uid, slice_of(k->at)});
    }
    free(g.list);
}
