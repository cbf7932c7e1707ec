/* Owns the names that were looked up within the hour, and what each role and each of its askers has spent on them. */
#include "proxy/allowance.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "base/secret.h"
#include "base/text.h"
#include "proxy/pace.h"
#include "proxy/seen.h"
#include "proxy/share.h"
#include "proxy/sums.h"

enum { HOUR_MS = SEEN_MS, TICK_MS = 1000, KEPT_FAR = 8 };

/* KEPT_FAR: names that are asked for again and again stay known, as long as they are no more than so many times what one hour may bring. */

/* What one asker of a role has spent; lives while it counts. */
struct purse {
    LIST_ENTRY(purse) link;
    char *asker;
    struct pace spent;
};

struct spender {
    LIST_ENTRY(spender) link;
    char *role;
    struct pace spent;
    struct sums sums;
    LIST_HEAD(purse_list, purse) purses;
};

struct allowance {
    struct loop *loop;
    struct recorder *recorder;
    struct timer *tick; /* set while a refusal is summed */
    size_t own, common;
    uint64_t seed[2];
    struct seen *names;
    LIST_HEAD(spender_list, spender) spenders;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- refusals ---- */

static void record_sum(struct allowance *a, const struct spender *s, const struct sum *sum)
{
    struct record_writer w = recorder_begin(a->recorder, RECORD_LIMIT);

    record_id(&w, FIELD_ID, &sum->id);
    record_text(&w, FIELD_ACTION, SLICE("deny"));
    record_reason(&w, FIELD_REASON, sum->reason);
    record_text(&w, FIELD_DETAIL, slice_of(sum->detail));
    record_text(&w, FIELD_ASKED_BY, slice_of(s->role));
    record_number(&w, FIELD_LIMIT_COUNT, (int64_t)sum->count);
    record_number(&w, FIELD_LIMIT_FIRST, sum->first_s);
    record_number(&w, FIELD_LIMIT_LAST, sum->last_s);
    recorder_end(a->recorder, &w, NULL);
}

static void tell(struct allowance *a, bool all)
{
    bool waits = false;
    const struct sum *sum;
    struct spender *s;

    LIST_FOREACH(s, &a->spenders, link) {
        while ((sum = sums_next(&s->sums, loop_now_ms(a->loop), all)))
            record_sum(a, s, sum);
        waits |= !sums_are_empty(&s->sums);
    }
    if (waits)
        timer_set(a->tick, TICK_MS);
}

static void on_tick(void *arg)
{
    tell(arg, false);
}

static bool refuse(struct allowance *a, struct spender *s, const struct allowance_charge *c, bool *is_first, struct fault *why)
{
    struct id id = c->id;

    *is_first = sums_add(&s->sums, REASON_LIMIT_NAMES, why->text, loop_now_ms(a->loop), loop_wall_s(a->loop), &id);
    timer_set(a->tick, TICK_MS);
    return false;
}

/* ---- who spends ---- */

static struct spender *spender_of(struct allowance *a, struct slice role)
{
    struct spender *s;

    LIST_FOREACH(s, &a->spenders, link)
        if (slice_is(role, s->role))
            return s;
    s = must(calloc(1, sizeof *s));
    s->role = text_copy(role);
    LIST_INIT(&s->purses);
    LIST_INSERT_HEAD(&a->spenders, s, link);
    return s;
}

/* What it has spent; those whose spending is over are forgotten on the way. */
static struct purse *purse_of(struct spender *s, struct slice asker, int64_t now_ms)
{
    struct purse *p = LIST_FIRST(&s->purses), *found = NULL, *next;

    for (; p; p = next) {
        next = LIST_NEXT(p, link);
        if (slice_is(asker, p->asker)) {
            found = p;
        } else if (pace_sum(&p->spent, HOUR_MS, now_ms) == 0) {
            LIST_REMOVE(p, link);
            free(p->asker);
            free(p);
        }
    }
    return found;
}

static struct purse *purse_new(struct spender *s, struct slice asker)
{
    struct purse *p = must(calloc(1, sizeof *p));

    p->asker = text_copy(asker);
    LIST_INSERT_HEAD(&s->purses, p, link);
    return p;
}

/* Roles that have spent something within the hour, this one among them. */
static uint64_t active(const struct allowance *a, const struct spender *one, int64_t now_ms)
{
    const struct spender *s;
    uint64_t n = 0;

    LIST_FOREACH(s, &a->spenders, link)
        n += s == one || pace_sum(&s->spent, HOUR_MS, now_ms) > 0;
    return n;
}

/* ---- names ---- */

/* One that is asked for again within the hour is none that leaves anew. */
static bool is_known(struct allowance *a, uint64_t hash, int64_t now_ms)
{
    if (!seen_has(a->names, hash, now_ms))
        return false;
    if (!seen_is_fresh(a->names, hash, now_ms) && seen_count(a->names, now_ms) < KEPT_FAR * a->common)
        seen_add(a->names, hash, now_ms);
    return true;
}

static bool has_left(struct allowance *a, const struct spender *s, const struct purse *p, int64_t now_ms, struct fault *why)
{
    const struct share all = {.own = a->common, .common = a->common};
    uint64_t most = share_most(&all, active(a, s, now_ms)), spent = pace_sum(&s->spent, HOUR_MS, now_ms);
    uint64_t own = p ? pace_sum(&p->spent, HOUR_MS, now_ms) : 0;

    if (spent >= most)
        return fault_reason(why, REASON_LIMIT_NAMES, "%" PRIu64 " of %" PRIu64 " new names of %s, its share of limits.names", spent, most,
                            s->role);
    if (own >= a->own)
        return fault_reason(why, REASON_LIMIT_NAMES, "%" PRIu64 " of %zu new names, limits.sandbox-names", own, a->own);
    return true;
}

bool allowance_take(struct allowance *a, const struct allowance_charge *c, bool *is_first, struct fault *why)
{
    uint64_t hash = hash_bytes(a->seed, slice_of(c->name));
    int64_t now_ms = loop_now_ms(a->loop);
    struct spender *s = spender_of(a, c->role);
    struct purse *p;

    *is_first = false;
    hash = hash ? hash : 1;
    if (is_known(a, hash, now_ms))
        return true;
    p = purse_of(s, c->asker, now_ms);
    if (!has_left(a, s, p, now_ms, why))
        return refuse(a, s, c, is_first, why);
    if (!p)
        p = purse_new(s, c->asker);
    seen_add(a->names, hash, now_ms);
    pace_add(&p->spent, HOUR_MS, now_ms, 1);
    pace_add(&s->spent, HOUR_MS, now_ms, 1);
    return true;
}

/* ---- begin and end ---- */

struct allowance *allowance_new(struct loop *loop, struct recorder *recorder)
{
    struct allowance *a = must(calloc(1, sizeof *a));

    *a = (struct allowance){.loop = loop, .recorder = recorder, .names = seen_new()};
    LIST_INIT(&a->spenders);
    a->tick = timer_new(loop, on_tick, a);
    secret_random((unsigned char *)a->seed, sizeof a->seed);
    return a;
}

void allowance_use(struct allowance *a, size_t own, size_t common)
{
    a->own = own;
    a->common = common;
}

void allowance_close(struct allowance *a)
{
    tell(a, true);
    timer_stop(a->tick);
}
