/* Owns what a check's evidence would be behind a gateway. Must not know policies. */
#include "audit/rehearsal.h"

#include <stdlib.h>

struct rehearsal {
    struct evidence evidence;
    struct turn answers[TURNS_MAX];
    struct hit *hits, *upstream_hits;
};

/* The turn as it would be if the gateway had answered: with this status, and nothing of the service's. */
static struct turn refused_turn(const struct turn *x, int status)
{
    struct turn y = *x;

    y.outcome = OUTCOME_ANSWERED;
    y.status = status;
    y.head = y.body = (struct buf){0};
    y.is_cut = false;
    return y;
}

/* Without those who came because of x. */
static size_t without_calls(const struct evidence *e, const struct turn *x, struct hit *hits, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (!evidence_called(e, x, &hits[i], 1))
            hits[kept++] = hits[i];
    return kept;
}

static struct hit *copy_hits(const struct hit *hits, size_t n)
{
    struct hit *copy = calloc(n + 1, sizeof *copy);

    if (!copy)
        abort();
    for (size_t i = 0; i < n; i++)
        copy[i] = hits[i];
    return copy;
}

struct rehearsal *rehearsal_new(const struct evidence *e)
{
    struct rehearsal *h = malloc(sizeof *h);

    if (!h)
        abort();
    h->evidence = *e;
    h->evidence.hits = h->hits = copy_hits(e->hits, e->n_hits);
    h->evidence.upstream_hits = h->upstream_hits = copy_hits(e->upstream_hits, e->n_upstream_hits);
    return h;
}

void rehearsal_free(struct rehearsal *h)
{
    free(h->hits);
    free(h->upstream_hits);
    free(h);
}

void rehearsal_refuse(struct rehearsal *h, size_t i, int status)
{
    struct evidence *e = &h->evidence;

    h->answers[i] = refused_turn(e->list[i], status ? status : 403);
    e->n_hits = without_calls(e, e->list[i], e->hits, e->n_hits);
    e->n_upstream_hits = without_calls(e, e->list[i], e->upstream_hits, e->n_upstream_hits);
    e->list[i] = &h->answers[i];
}

bool rehearsal_is_good(const struct rehearsal *h, const struct check *c)
{
    struct finding f = {0};

    for (size_t i = 0; i < h->evidence.n; i++) {
        enum outcome o = h->evidence.list[i]->outcome;

        if (o == OUTCOME_TIMEOUT || o == OUTCOME_NOISE || o == OUTCOME_BUDGET || o == OUTCOME_METHOD)
            return false;
    }
    c->judge(&h->evidence, &f);
    return f.verdict == VERDICT_PASS || f.verdict == VERDICT_NA;
}
