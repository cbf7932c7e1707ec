/* Owns the table that ties what is counted to its keys in limits and to its reason. */
#include "proxy/quota.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "proxy/pace.h"
#include "proxy/share.h"

/*
 * Offsets into struct limits; 0 (limits.head): none, not held against that kind of party. Sources have no share of what
 * is common: strangers hold a connection for header-time at most, and a full worker lets the oldest go (gate.c).
 */
struct row {
    enum reason reason;
    size_t own[N_TALLY_KINDS], common;
    const char *keys[N_TALLY_KINDS], *common_key;
    unsigned per_s; /* pace: the limit is for one second, and the window has so many */
};

#define OF(field) offsetof(struct limits, field)

static const struct row holds[N_HOLDS] = {
    [HOLD_CONNECTIONS] = {REASON_LIMIT_CONNECTIONS,
                          {OF(sandbox_connections), OF(source_connections)},
                          OF(connections),
                          {"sandbox-connections", "source-connections"},
                          "connections",
                          0},
    [HOLD_EXCHANGES] = {REASON_LIMIT_EXCHANGES, {OF(sandbox_exchanges), 0}, OF(exchanges),
                        {"sandbox-exchanges", NULL}, "exchanges", 0},
    [HOLD_DIALS] = {REASON_LIMIT_DIALS, {OF(sandbox_dials), 0}, OF(dials), {"sandbox-dials", NULL}, "dials", 0},
    [HOLD_LOOKUPS] = {REASON_LIMIT_LOOKUPS, {OF(sandbox_lookups), 0}, OF(lookups), {"sandbox-lookups", NULL},
                      "lookups", 0},
    [HOLD_HANDSHAKES] = {REASON_LIMIT_HANDSHAKES, {OF(sandbox_handshakes), OF(sandbox_handshakes)}, OF(handshakes),
                         {"sandbox-handshakes", "sandbox-handshakes"}, "handshakes", 0},
};

static const struct row paces[N_PACES] = {
    [PACE_RECORDS] = {REASON_LIMIT_RECORDS, {OF(sandbox_records), 0}, OF(records), {"sandbox-records", NULL}, "records",
                      10},
    [PACE_DENIALS] = {REASON_LIMIT_DENIALS, {OF(sandbox_denials), OF(source_denials)}, 0,
                      {"sandbox-denials", "source-denials"}, NULL, 0},
    [PACE_HANDSHAKES] = {REASON_LIMIT_HANDSHAKES, {OF(handshake_rate), OF(handshake_rate)}, 0, {"handshake-rate", "handshake-rate"}, NULL, 1},
    [PACE_FAILED_HANDSHAKES] = {REASON_LIMIT_HANDSHAKES, {OF(failed_handshakes), OF(failed_handshakes)}, 0,
                                {"failed-handshakes", "failed-handshakes"}, NULL, 0},
    [PACE_JUNK_TOKENS] = {REASON_TOKEN_FAILURES, {0, OF(token_failures)}, 0, {NULL, "token-failures"}, NULL, 0},
    [PACE_BYTES] = {REASON_LIMIT_BYTES, {OF(sandbox_bytes), 0}, 0, {"sandbox-bytes", NULL}, NULL, 0},
    [PACE_URLS] = {REASON_LIMIT_URLS, {OF(sandbox_urls), 0}, 0, {"sandbox-urls", NULL}, NULL, 0},
    [PACE_NAMES] = {REASON_LIMIT_NAMES, {OF(sandbox_names), OF(sandbox_names)}, 0, {"sandbox-names", "sandbox-names"}, NULL, 0},
};

_Static_assert(offsetof(struct limits, head) == 0, "offset 0 stands for no limit");

static uint64_t value(const struct quota *q, size_t offset)
{
    return offset ? *(const size_t *)((const char *)q->limits + offset) : 0;
}

static struct share share_for(const struct quota *q, const struct row *r, enum tally_kind kind)
{
    struct share s = {.own = value(q, r->own[kind]), .common = kind == TALLY_SANDBOX ? value(q, r->common) : 0};

    if (r->common == OF(connections))
        s.common *= q->n_workers;
    if (r->per_s) {
        s.own *= r->per_s;
        s.common *= r->per_s;
    }
    return s;
}

/* Which of the two holds it back: its own limit, or its share of the common one. */
static void explain(struct verdict *v, const struct row *r, const struct share *s, enum tally_kind kind, uint64_t held,
                    size_t active)
{
    uint64_t most = share_most(s, active);

    v->reason = r->reason;
    if (most < s->own)
        snprintf(v->detail, sizeof v->detail, "%" PRIu64 " of a share of %" PRIu64 ": limits.%s among %zu active and one more",
                 held, most, r->common_key, active);
    else
        snprintf(v->detail, sizeof v->detail, "%" PRIu64 " of %" PRIu64 "%s, limits.%s", held, most,
                 r->per_s == 10 ? " in 10 s" : "", r->keys[kind]);
}

enum { HOLD_RETRY_MS = 1000 };

bool quota_room(const struct quota *q, struct party *p, enum tally_hold h, int64_t now_ms, struct verdict *v)
{
    const struct row *r = &holds[h];
    struct share s;
    uint64_t held;
    size_t active;

    if (!r->own[p->kind])
        return true;
    s = share_for(q, r, p->kind);
    held = tally_held(p->seat, h, now_ms);
    active = tally_active(q->tally, p->kind);
    if (share_allows(&s, held, 1, active))
        return true;
    v->retry_ms = HOLD_RETRY_MS;
    explain(v, r, &s, p->kind, held, active);
    return false;
}

bool quota_pace(const struct quota *q, struct party *p, enum tally_pace pace, uint64_t n, int64_t now_ms,
                struct verdict *v)
{
    const struct row *r = &paces[pace];
    struct share s;
    uint64_t sum;
    size_t active;

    if (!r->own[p->kind])
        return true;
    s = share_for(q, r, p->kind);
    sum = tally_paced(p->seat, pace, now_ms);
    active = tally_active(q->tally, p->kind);
    if (share_allows(&s, sum, n, active))
        return true;
    v->retry_ms = pace_wait_ms(tally_window_ms(pace), now_ms);
    explain(v, r, &s, p->kind, sum, active);
    return false;
}
