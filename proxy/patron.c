#include "proxy/patron.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/secret.h"
#include "base/table.h"
#include "base/text.h"
#include "proxy/seen.h"
#include "proxy/share.h"

enum { RATE_MS = 10 * 1000, HOUR_MS = SEEN_MS, SECONDS = RATE_MS / 1000, FAR = 2 };

struct patrons {
    patrons_tell *tell;
    void *arg;
    struct table *by_key;
    TAILQ_HEAD(, patron) list; /* who asked last is last */
    size_t count, active, pending;
    uint64_t seed[2];
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- names ---- */

static uint64_t hash_name(const struct patrons *ps, struct slice name)
{
    char folded[256];
    uint64_t hash;

    name = slice_cut(name, 0, sizeof folded);
    for (size_t i = 0; i < name.len; i++)
        folded[i] = name.ptr[i] >= 'A' && name.ptr[i] <= 'Z' ? (char)(name.ptr[i] | 0x20) : name.ptr[i];
    hash = hash_bytes(ps->seed, slice_make(folded, name.len));
    return hash ? hash : 1;
}

static bool within(struct pace *p, size_t most, const char *key, int64_t now_ms, char *detail)
{
    uint64_t sum = pace_sum(p, HOUR_MS, now_ms);

    if (sum < most)
        return true;
    snprintf(detail, 160, "%" PRIu64 " of %zu new names, limits.%s", sum, most, key);
    return false;
}

enum reason patrons_name(struct patrons *ps, struct patron *p, struct slice name, bool below_suffix, const struct limits *l,
                         int64_t now_ms, bool *is_new, char *detail)
{
    uint64_t hash = hash_name(ps, name);

    if (!p->seen)
        p->seen = seen_new();
    *is_new = !seen_has(p->seen, hash, now_ms);
    if (!*is_new)
        return REASON_NONE;
    if (!within(&p->names, l->dns_names, "dns-names", now_ms, detail))
        return REASON_LIMIT_QUESTIONS;
    if (below_suffix && !within(&p->below, l->sandbox_names, "sandbox-names", now_ms, detail))
        return REASON_LIMIT_NAMES;
    seen_add(p->seen, hash, now_ms);
    pace_add(&p->names, HOUR_MS, now_ms, 1);
    if (below_suffix)
        pace_add(&p->below, HOUR_MS, now_ms, 1);
    return REASON_NONE;
}

/* ---- questions ---- */

enum patron_pace patrons_count(struct patrons *ps, struct patron *p, const struct limits *l, int64_t now_ms, char *detail)
{
    const struct share s = {.own = l->dns_questions * SECONDS, .common = l->dns_questions_total * SECONDS};
    uint64_t most = share_most(&s, ps->active ? ps->active : 1), sum = pace_sum(&p->questions, RATE_MS, now_ms);

    p->last_ms = now_ms;
    if (sum < FAR * most)
        pace_add(&p->questions, RATE_MS, now_ms, 1);
    if (sum < most)
        return PATRON_WITHIN;
    snprintf(detail, 160, "%" PRIu64 " of %" PRIu64 " questions in 10 s, limits.%s", sum, most,
             most < s.own ? "dns-questions-total and how many ask" : "dns-questions");
    return sum < FAR * most ? PATRON_OVER : PATRON_FAR;
}

bool patrons_have_room(const struct patrons *ps, const struct patron *p)
{
    const struct share s = {.own = PATRON_PENDING, .common = PENDING_ALL};

    return ps->pending < PENDING_ALL && share_allows(&s, p->pending, 1, ps->active ? ps->active : 1);
}

void patrons_hold(struct patrons *ps, struct patron *p, int by)
{
    ps->pending += (size_t)by;
    p->pending += (size_t)by;
}

/* ---- who they are ---- */

struct patrons *patrons_new(patrons_tell *tell, void *arg)
{
    struct patrons *ps = must(calloc(1, sizeof *ps));

    ps->tell = tell;
    ps->arg = arg;
    ps->by_key = table_new();
    TAILQ_INIT(&ps->list);
    secret_random((unsigned char *)ps->seed, sizeof ps->seed);
    return ps;
}

static void tell_sums(struct patrons *ps, struct patron *p, int64_t now_ms, bool all)
{
    const struct sum *s;

    while ((s = sums_next(&p->sums, now_ms, all)))
        ps->tell(ps->arg, p, s);
}

static void forget(struct patrons *ps, struct patron *p)
{
    tell_sums(ps, p, 0, true);
    TAILQ_REMOVE(&ps->list, p, link);
    table_remove(ps->by_key, p->key);
    ps->count--;
    seen_free(p->seen);
    for (size_t i = 0; i < PATRON_TAILS; i++)
        buf_free(&p->tails[i]);
    free((char *)p->key.ptr);
    free(p);
}

void patrons_free(struct patrons *ps)
{
    struct patron *p;

    if (!ps)
        return;
    while ((p = TAILQ_FIRST(&ps->list)))
        forget(ps, p);
    table_free(ps->by_key);
    free(ps);
}

/* The one nobody holds for longest makes room. */
static void make_room(struct patrons *ps)
{
    struct patron *p;

    if (ps->count < PATRONS_MAX)
        return;
    TAILQ_FOREACH(p, &ps->list, link)
        if (!p->refs) {
            forget(ps, p);
            return;
        }
}

static struct patron *add(struct patrons *ps, struct slice key, const char *sandbox, const struct addr *source)
{
    struct patron *p = must(calloc(1, sizeof *p));
    struct buf text = {0};

    make_room(ps);
    p->key = slice_make(text_copy(key), key.len);
    p->is_sandbox = sandbox;
    if (sandbox)
        buf_text(&text, sandbox);
    else
        addr_ip_text(&text, source);
    snprintf(p->name, sizeof p->name, "%.*s", SLICE_ARG(slice_cut(buf_slice(&text), 0, sizeof p->name - 1)));
    buf_free(&text);
    table_put(ps->by_key, p->key, p);
    TAILQ_INSERT_TAIL(&ps->list, p, link);
    ps->count++;
    return p;
}

struct patron *patrons_find(struct patrons *ps, const char *sandbox, const struct addr *source, int64_t now_ms)
{
    char key[80];
    size_t len;
    struct patron *p;

    if (sandbox) {
        len = (size_t)snprintf(key, sizeof key, "s%.*s", (int)sizeof key - 2, sandbox);
    } else {
        len = source->family == AF_INET ? 4 : 8;
        key[0] = source->family == AF_INET ? '4' : '6';
        memcpy(key + 1, source->ip, len++);
    }
    if (!(p = table_get(ps->by_key, slice_make(key, len))))
        p = add(ps, slice_make(key, len), sandbox, source);
    p->last_ms = now_ms;
    TAILQ_REMOVE(&ps->list, p, link);
    TAILQ_INSERT_TAIL(&ps->list, p, link);
    return patron_ref(p);
}

struct patron *patron_ref(struct patron *p)
{
    p->refs++;
    return p;
}

void patron_unref(struct patron *p)
{
    if (p)
        p->refs--;
}

/* Names count for an hour, questions for seconds. */
static bool is_idle(const struct patron *p, int64_t now_ms)
{
    return !p->refs && now_ms - p->last_ms > (p->seen ? HOUR_MS : 2 * RATE_MS);
}

void patrons_tick(struct patrons *ps, int64_t now_ms, bool all)
{
    struct patron *next;
    size_t active = 0;

    for (struct patron *p = TAILQ_FIRST(&ps->list); p; p = next) {
        next = TAILQ_NEXT(p, link);
        tell_sums(ps, p, now_ms, all);
        active += pace_sum(&p->questions, RATE_MS, now_ms) > 0;
        if (is_idle(p, now_ms))
            forget(ps, p);
    }
    ps->active = active;
}

size_t patrons_number(const struct patrons *ps)
{
    return ps->count;
}
