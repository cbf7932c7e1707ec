/* Owns what came of an audit: whether it passes, what was left unasked. */
#include "audit/state.h"

struct slice audit_shut_out(const struct audit *a)
{
    return buf_slice(&a->shut_out);
}

size_t audit_count(const struct audit *a)
{
    return a->n_results;
}

const struct audit_result *audit_result(const struct audit *a, size_t i)
{
    return &a->results[i];
}

const struct target *audit_target(const struct audit *a)
{
    return a->target;
}

/* Would it keep the service from passing, if nobody accepted it? */
static bool stands_against(const struct audit_result *r)
{
    enum verdict v = r->finding.verdict;

    if (r->check->severity < SEVERITY_HIGH)
        return false;
    if (v == VERDICT_NOT_RUN)
        return r->check->severity == SEVERITY_CRITICAL;
    return v == VERDICT_FAIL || v == VERDICT_WEAK || v == VERDICT_OPEN || v == VERDICT_INCONCLUSIVE;
}

bool audit_keeps_from_passing(const struct audit_result *r)
{
    return !r->is_accepted && !r->is_covered && stands_against(r);
}

bool audit_is_passing(const struct audit *a)
{
    for (size_t i = 0; i < a->n_results; i++)
        if (audit_keeps_from_passing(&a->results[i]))
            return false;
    return true;
}

int64_t audit_accepted_until_s(const struct audit *a)
{
    int64_t first = 0;

    for (size_t i = 0; i < a->n_results; i++) {
        const struct audit_result *r = &a->results[i];

        if (r->is_accepted && stands_against(r) && r->accepted_until_s && (!first || r->accepted_until_s < first))
            first = r->accepted_until_s;
    }
    return first;
}

size_t audit_requests(const struct audit *a)
{
    return a->sent;
}

bool audit_left_unasked(const struct audit *a, const struct audit_result *r)
{
    return !a->is_dead && evidence_outcomes(&r->evidence, OUTCOME_BUDGET) > 0;
}

/* What was left, and a quarter of all for what would have followed from the answers. */
size_t audit_would_do(const struct audit *a)
{
    enum { STEP = 50 };
    size_t left = 0;

    for (size_t i = 0; !a->is_dead && i < a->n_results; i++)
        left += evidence_outcomes(&a->results[i].evidence, OUTCOME_BUDGET);
    return left ? ((a->sent + left) * 5 / 4 + STEP - 1) / STEP * STEP : 0;
}

size_t audit_budget(const struct audit *a)
{
    return a->budget;
}

int64_t audit_began_s(const struct audit *a)
{
    return a->began_s;
}

int64_t audit_took_ms(const struct audit *a)
{
    return a->took_ms;
}

const char *audit_version(const struct audit *a)
{
    return a->version;
}

void audit_each_turn(const struct audit *a, void (*visit)(void *arg, const char *check, const struct turn *x), void *arg)
{
    for (size_t i = 0; i < a->own.n; i++)
        visit(arg, "", a->own.list[i]);
    for (size_t i = 0; i < a->n_results; i++)
        for (size_t j = 0; j < a->results[i].evidence.n; j++)
            visit(arg, a->results[i].check->id, a->results[i].evidence.list[j]);
}
