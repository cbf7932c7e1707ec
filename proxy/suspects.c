/* Owns the counts by sandbox. Does not know what becomes of the convicted. */
#include "proxy/suspects.h"

#include <stdlib.h>

#include "authz/revocation.h"
#include "base/table.h"
#include "base/text.h"
#include "proxy/tally.h"

struct suspect {
    struct suspect *next;
    char *name;
    int64_t at_s[SUSPECTS_CRASHES]; /* the last crashes; newest first; 0: none */
    bool here, at_work;             /* at the crash that is looked into */
};

struct suspects {
    struct table *by_name;
    struct suspect *all;
    int64_t now_s;
};

struct suspects *suspects_new(void)
{
    struct suspects *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    s->by_name = table_new();
    return s;
}

static void drop(struct suspects *s, struct suspect **at)
{
    struct suspect *one = *at;

    *at = one->next;
    table_remove(s->by_name, slice_of(one->name));
    free(one->name);
    free(one);
}

void suspects_free(struct suspects *s)
{
    if (!s)
        return;
    while (s->all)
        drop(s, &s->all);
    table_free(s->by_name);
    free(s);
}

static struct suspect *find(struct suspects *s, struct slice name)
{
    struct suspect *one = table_get(s->by_name, name);

    if (one || table_count(s->by_name) >= SUSPECTS_MAX)
        return one;
    if (!(one = calloc(1, sizeof *one)))
        abort();
    *one = (struct suspect){.next = s->all, .name = text_copy(name)};
    s->all = one;
    table_put(s->by_name, name, one);
    return one;
}

/* The same name may come twice: sandboxes of two issuers. One crash counts once. */
static void on_visit(void *arg, struct slice name, bool at_work)
{
    struct suspects *s = arg;
    struct suspect *one = revocation_check(REVOKE_QUARANTINE, name, NULL) ? find(s, name) : NULL;

    if (!one)
        return;
    for (int i = SUSPECTS_CRASHES - 1; i > 0 && !one->here; i--)
        one->at_s[i] = one->at_s[i - 1];
    one->at_s[0] = s->now_s;
    one->here = true;
    one->at_work |= at_work;
}

static bool is_due(const struct suspects *s, const struct suspect *one)
{
    int64_t first_s = one->at_s[SUSPECTS_CRASHES - 1];

    return one->here && first_s && s->now_s - first_s <= SUSPECTS_WINDOW_S;
}

static bool is_over(const struct suspects *s, const struct suspect *one)
{
    return s->now_s - one->at_s[0] > SUSPECTS_WINDOW_S;
}

static bool one_was_caught(const struct suspects *s)
{
    for (const struct suspect *one = s->all; one; one = one->next)
        if (is_due(s, one) && one->at_work)
            return true;
    return false;
}

bool suspects_crash(struct suspects *s, int tally, int64_t now_s, void (*convict)(void *arg, struct slice sandbox),
                    void *arg, struct fault *why)
{
    bool caught, ok;

    s->now_s = now_s;
    ok = tally_visit(tally, on_visit, s, why);
    caught = one_was_caught(s);
    for (struct suspect **at = &s->all; *at;) {
        struct suspect *one = *at;
        bool convicted = is_due(s, one) && (one->at_work || !caught);

        if (convicted)
            convict(arg, slice_of(one->name));
        if (convicted || is_over(s, one)) {
            drop(s, at);
            continue;
        }
        one->here = one->at_work = false;
        at = &one->next;
    }
    return ok;
}
