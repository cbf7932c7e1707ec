/* Limits on the way of an exchange: asks quota, counts in the tally, sums refusals. What the limits are, quota.c knows. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "proxy/steps.h"

static int64_t now_ms(const struct exchange *x)
{
    return loop_now_ms(x->worker->loop);
}

static enum exchange_state refuse(struct exchange *x, const struct verdict *v)
{
    x->retry_ms = v->retry_ms;
    return exchange_refuse(x, v->reason, v->detail);
}

static bool has_room(struct exchange *x, enum tally_hold h, struct verdict *v)
{
    return quota_room(&x->worker->quota, x->party, h, now_ms(x), v);
}

static bool keeps_pace(struct exchange *x, struct party *p, enum tally_pace pace, uint64_t n, struct verdict *v)
{
    return quota_pace(&x->worker->quota, p, pace, n, now_ms(x), v);
}

/* ---- whose it is ---- */

/* The session is its sandbox's from now on, not its source's. */
static void prove(struct session *s, struct party *p)
{
    struct party *before = s->party ? s->party : s->source_party;

    tally_hold(before->seat, HOLD_CONNECTIONS, -1);
    if (s->party)
        party_unref(s->worker->parties, s->party);
    else
        session_is_known(s);
    tally_hold(p->seat, HOLD_CONNECTIONS, 1);
    s->party = party_ref(p);
    stream_set_lane(s->client, &p->lane);
    lane_enter(&p->lane);
}

static void remember_proof(struct session *s, struct identity *i)
{
    identity_unref(s->proven);
    s->proven = identity_ref(i);
}

/* x->party, by the session's last proof when the token is still the same. */
static void find_party(struct exchange *x)
{
    struct session *s = x->session;

    if (s->party && s->proven == x->identity)
        x->party = party_ref(s->party);
    else
        x->party = parties_sandbox(x->worker->parties, x->identity);
}

static enum exchange_state admit_connection(struct exchange *x)
{
    struct session *s = x->session;
    struct verdict v;

    if (s->party != x->party) {
        if (!has_room(x, HOLD_CONNECTIONS, &v)) {
            x->keep_alive = false;
            return refuse(x, &v);
        }
        prove(s, x->party);
    }
    if (s->proven != x->identity)
        remember_proof(s, x->identity);
    return EXCHANGE_STAY;
}

/* A tunnel ends in a handshake: no CONNECT is granted that there is no room for. */
static enum exchange_state admit_handshake(struct exchange *x)
{
    struct verdict v;

    if (!has_room(x, HOLD_HANDSHAKES, &v) || !keeps_pace(x, x->party, PACE_FAILED_HANDSHAKES, 1, &v) ||
        !keeps_pace(x, x->session->source_party, PACE_FAILED_HANDSHAKES, 1, &v))
        return refuse(x, &v);
    if (!keeps_pace(x, x->party, PACE_HANDSHAKES, 1, &v))
        return refuse(x, &v);
    tally_add_pace(x->party->seat, PACE_HANDSHAKES, now_ms(x), 1);
    return EXCHANGE_STAY;
}

enum { RECORDS_EACH = 2 /* decision and result */ };

enum exchange_state admit_sandbox(struct exchange *x)
{
    enum exchange_state next;
    struct verdict v;

    if (!x->identity)
        return EXCHANGE_STAY; /* authorize() says what is missing */
    find_party(x);
    if ((next = admit_connection(x)) != EXCHANGE_STAY)
        return next;
    if (!has_room(x, HOLD_EXCHANGES, &v) || !keeps_pace(x, x->party, PACE_RECORDS, RECORDS_EACH, &v))
        return refuse(x, &v);
    tally_hold(x->party->seat, HOLD_EXCHANGES, 1);
    x->counted = true;
    return exchange_is_connect(x) ? admit_handshake(x) : EXCHANGE_STAY;
}

void admit_records(struct exchange *x)
{
    if (x->party)
        tally_add_pace(x->party->seat, PACE_RECORDS, now_ms(x), RECORDS_EACH);
}

/* ---- what it asks for ---- */

/* Something distinct that is counted once. */
static bool admit_distinct(struct exchange *x, enum tally_pace pace, struct slice target, struct verdict *v)
{
    struct slice host = slice_of(x->request.host);
    struct tally_seat *seat = x->party->seat;

    if (tally_has_seen(seat, pace, host, target, now_ms(x)))
        return true;
    if (!keeps_pace(x, x->party, pace, 1, v))
        return false;
    tally_note_seen(seat, pace, host, target, now_ms(x));
    tally_add_pace(seat, pace, now_ms(x), 1);
    return true;
}

static bool admit_name(struct exchange *x, struct verdict *v)
{
    return x->session->tunnel.open || !service_is_below_suffix(x->decision.service, x->request.host) ||
           admit_distinct(x, PACE_NAMES, slice_make("", 0), v);
}

static bool admit_way(struct exchange *x, struct verdict *v)
{
    if (bucket_has_idle(x->bucket))
        return true;
    return has_room(x, HOLD_DIALS, v) &&
           (service_address_count(x->decision.service) > 0 || has_room(x, HOLD_LOOKUPS, v));
}

enum exchange_state admit_request(struct exchange *x)
{
    struct verdict v;

    if (!admit_name(x, &v) || !admit_way(x, &v) ||
        (!exchange_is_connect(x) && !admit_distinct(x, PACE_URLS, x->head->target, &v)))
        return refuse(x, &v);
    return admit_bytes(x, buf_len(&x->out_head));
}

enum exchange_state admit_bytes(struct exchange *x, size_t n)
{
    struct verdict v;

    if (!n)
        return EXCHANGE_STAY;
    if (!keeps_pace(x, x->party, PACE_BYTES, n, &v)) {
        x->keep_alive = x->keep_alive && x->body_done;
        if (x->recorded)
            exchange_drop_upstream(x, false);
        return refuse(x, &v);
    }
    tally_add_pace(x->party->seat, PACE_BYTES, now_ms(x), n);
    return EXCHANGE_STAY;
}

void admit_dial(struct exchange *x, bool begins)
{
    bool looks_up = begins && service_address_count(x->decision.service) == 0;

    if (begins != x->dialling)
        tally_hold(x->party->seat, HOLD_DIALS, begins ? 1 : -1);
    if (looks_up != x->looking_up)
        tally_hold(x->party->seat, HOLD_LOOKUPS, looks_up ? 1 : -1);
    x->dialling = begins;
    x->looking_up = looks_up;
}

void admit_release(struct exchange *x)
{
    if (x->dialling)
        admit_dial(x, false);
    if (x->counted)
        tally_hold(x->party->seat, HOLD_EXCHANGES, -1);
    x->counted = false;
    party_unref(x->worker->parties, x->party);
    x->party = NULL;
}

/* ---- slow clients ---- */

/* Is it the client that the exchange waits for? A service that does not take or give is not its fault. */
static bool waits_for_client(const struct exchange *x)
{
    bool full = x->upstream && stream_pending(x->upstream->stream) >= STREAM_HIGH;

    if (x->state != EXCHANGE_COLLECT && x->state != EXCHANGE_FORWARD && x->state != EXCHANGE_SOCKET)
        return false;
    return (!x->body_done && !full) || stream_pending(x->session->client) > 0;
}

static uint64_t moved(const struct exchange *x)
{
    return x->up.total + stream_bytes_out(x->session->client);
}

void exchange_tick(struct exchange *x)
{
    const struct limits *l = &x->worker->limits;
    int64_t now = now_ms(x), window = l->body_ms;
    bool waits = waits_for_client(x);

    lookout_tick(x, now);
    if (waits && x->slow_since_ms && now - x->slow_since_ms < window)
        return;
    if (waits && x->slow_since_ms && moved(x) - x->slow_from < l->body_rate * (uint64_t)window / 1000) {
        exchange_feed(x, (struct event){.type = EV_DEADLINE});
        return;
    }
    x->slow_since_ms = now;
    x->slow_from = moved(x);
}

/* ---- tokens ---- */

bool admit_tokens(struct exchange *x)
{
    struct verdict v;

    return keeps_pace(x, x->session->source_party, PACE_JUNK_TOKENS, 1, &v);
}

/* What once was good (expired, revoked, of another place), or may be in a moment (keys that are not here yet), is no guess. */
static bool is_junk(enum reason why)
{
    switch (why) {
    case REASON_TOKEN_EXPIRED:
    case REASON_TOKEN_SPENT:
    case REASON_TOKEN_REVOKED:
    case REASON_TOKEN_BINDING:
    case REASON_TOKEN_KEY_UNPUBLISHED:
    case REASON_ISSUER_UNAVAILABLE:
        return false;
    default:
        return reason_is_token(why);
    }
}

void admit_junk(struct exchange *x, enum reason why)
{
    if (is_junk(why))
        tally_add_pace(x->session->source_party->seat, PACE_JUNK_TOKENS, now_ms(x), 1);
}

/* ---- refusals ---- */

static struct party *accused(struct exchange *x)
{
    if (!x->party && x->identity)
        find_party(x);
    if (x->party)
        return x->party;
    return x->session->party ? x->session->party : x->session->source_party;
}

/* A denial over the rate is one of many: what it would have been stands in the detail. Leaks are never only counted. */
static void count_denial(struct exchange *x, struct party *p)
{
    struct verdict v;

    if (sums_takes(x->reason) || x->reason == REASON_CANARY_LEAK || x->reason == REASON_TOKEN_LEAK)
        return;
    if (keeps_pace(x, p, PACE_DENIALS, 1, &v)) {
        tally_add_pace(p->seat, PACE_DENIALS, now_ms(x), 1);
        return;
    }
    snprintf(x->detail, sizeof x->detail, "%s; this one is %s", v.detail, reason_code(x->reason));
    x->reason = REASON_LIMIT_DENIALS;
    x->retry_ms = v.retry_ms;
}

enum exchange_state admit_refusal(struct exchange *x)
{
    struct party *p = accused(x);
    int64_t wall_s = loop_wall_s(x->worker->loop);

    count_denial(x, p);
    if (!sums_takes(x->reason) || sums_add(&p->sums, x->reason, x->detail, now_ms(x), wall_s, &x->id))
        return EXCHANGE_RECORD;
    x->summed = true;
    x->worker->counters->decisions[x->reason]++;
    return EXCHANGE_REPLY;
}
