/* Owns the order of the catalogue and the words for verdicts. */
#include "audit/check.h"

#include <stdio.h>

#include "audit/plain.h"

static const struct check_group *const groups[] = {
    &check_anonymous, &check_token,  &check_scope,   &check_delegation, &check_binding, &check_headers, &check_relay, &check_fetch,
    &check_redirect,  &check_tenant, &check_publish, &check_reflection, &check_cache,   &check_upload,  &check_canary};

const struct check_group *check_group_at(size_t i)
{
    return i < sizeof groups / sizeof *groups ? groups[i] : NULL;
}

size_t check_count(void)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        n += groups[i]->n;
    return n;
}

const char *verdict_name(enum verdict v)
{
    static const char *const names[] = {
        [VERDICT_NOT_RUN] = "not-run", [VERDICT_PASS] = "pass", [VERDICT_WEAK] = "weak",
        [VERDICT_FAIL] = "fail",       [VERDICT_OPEN] = "open", [VERDICT_NA] = "n/a",
        [VERDICT_INCONCLUSIVE] = "inconclusive"};

    return names[v];
}

bool verdict_is_worse(enum verdict a, enum verdict b)
{
    static const int rank[] = {[VERDICT_NOT_RUN] = 0,      [VERDICT_NA] = 1,   [VERDICT_PASS] = 2, [VERDICT_INCONCLUSIVE] = 3,
                               [VERDICT_OPEN] = 4,         [VERDICT_WEAK] = 5, [VERDICT_FAIL] = 6};

    return rank[a] > rank[b];
}

static void put(struct finding *f, enum verdict v, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
static void put(struct finding *f, enum verdict v, const char *format, va_list args)
{
    f->verdict = v;
    vsnprintf(f->note, sizeof f->note, format, args);
    plain_make(f->note);
}

void finding_set(struct finding *f, enum verdict v, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put(f, v, format, args);
    va_end(args);
}

void finding_worsen(struct finding *f, enum verdict v, const char *format, ...)
{
    va_list args;

    if (!verdict_is_worse(v, f->verdict))
        return;
    va_start(args, format);
    put(f, v, format, args);
    va_end(args);
}
