#include "proxy/guests.h"

#include <assert.h>
#include <stdlib.h>

#include "base/text.h"

struct guest {
    struct guests *all;
    struct guest *next;
    size_t n_dials, n_lookups;
    char *name;
};

struct guests {
    struct share dials, lookups;
    struct guest *first;
    size_t count;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct guests *guests_new(const struct share *dials, const struct share *lookups)
{
    struct guests *all = must(calloc(1, sizeof *all));

    *all = (struct guests){.dials = *dials, .lookups = *lookups};
    return all;
}

void guests_free(struct guests *all)
{
    assert(!all || !all->count);
    free(all);
}

void guests_use(struct guests *all, const struct share *dials, const struct share *lookups)
{
    all->dials = *dials;
    all->lookups = *lookups;
}

static struct guest *find(struct guests *all, struct slice name)
{
    struct guest *g = all->first;

    while (g && !slice_is(name, g->name))
        g = g->next;
    if (g)
        return g;
    g = must(calloc(1, sizeof *g));
    *g = (struct guest){.all = all, .next = all->first, .name = text_copy(name)};
    all->first = g;
    all->count++;
    return g;
}

static void leave(struct guest *g)
{
    struct guest **at = &g->all->first;

    if (g->n_dials)
        return;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    g->all->count--;
    free(g->name);
    free(g);
}

struct guest *guests_begin(struct guests *all, struct slice name, bool looks_up, enum reason *why)
{
    struct guest *g = find(all, name);

    if (!share_allows(&all->dials, g->n_dials, 1, all->count))
        *why = REASON_LIMIT_DIALS;
    else if (looks_up && !share_allows(&all->lookups, g->n_lookups, 1, all->count))
        *why = REASON_LIMIT_LOOKUPS;
    else {
        g->n_dials++;
        g->n_lookups += looks_up;
        return g;
    }
    leave(g);
    return NULL;
}

void guest_end(struct guest *g, bool looks_up)
{
    g->n_dials--;
    g->n_lookups -= looks_up;
    leave(g);
}
