/* The machine: table of states, the one writer of the state, and the ways an exchange ends. */
#include "proxy/exchange.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/pack.h"
#include "base/say.h"
#include "base/spare.h"
#include "proxy/answer.h"
#include "proxy/steps.h"
#include "proxy/terms.h"

static exchange_handler on_reply, on_done;

enum { PENALTY_MS = 500 /* what keeps a flood of refusals cheap: each connection hears two a second */ };

#define TO(state) (1u << EXCHANGE_##state)

/* The design: what each state waits for, how long, and where it may go. */
static const struct state {
    const char *name;
    exchange_handler *on;
    size_t deadline; /* offset in struct limits; 0: none */
    unsigned next;
} states[N_EXCHANGE_STATES] = {
    [EXCHANGE_AUTHORIZE] = {"AUTHORIZE", decide_on_authorize, 0, TO(COLLECT) | TO(RECORD) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_COLLECT] = {"COLLECT", content_on_collect, offsetof(struct limits, body_ms),
                          TO(RECORD) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_RECORD] = {"RECORD", decide_on_record, offsetof(struct limits, record_ms),
                         TO(GRANT) | TO(DIAL) | TO(FORWARD) | TO(CERTIFY) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_GRANT] = {"GRANT", vouch_on_grant, offsetof(struct limits, dial_ms),
                        TO(GRANT) | TO(DIAL) | TO(FORWARD) | TO(CERTIFY) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_DIAL] = {"DIAL", reach_on_dial, offsetof(struct limits, dial_ms),
                       TO(DIAL) | TO(TRUST) | TO(FORWARD) | TO(CERTIFY) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_TRUST] = {"TRUST", reach_on_trust, offsetof(struct limits, handshake_ms),
                        TO(DIAL) | TO(CERTIFY) | TO(FORWARD) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_CERTIFY] = {"CERTIFY", reach_on_certify, offsetof(struct limits, handshake_ms),
                          TO(DIAL) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_FORWARD] = {"FORWARD", relay_on_forward, offsetof(struct limits, response_ms),
                          TO(GRANT) | TO(DIAL) | TO(SOCKET) | TO(REPLY) | TO(DONE)},
    [EXCHANGE_SOCKET] = {"SOCKET", websocket_on_socket, offsetof(struct limits, websocket_idle_ms), TO(DONE)},
    [EXCHANGE_REPLY] = {"REPLY", on_reply, 0, TO(DONE)},
    [EXCHANGE_DONE] = {"DONE", on_done, 0, 0},
};

const char *exchange_state_name(enum exchange_state s)
{
    return states[s].name;
}

/* ---- the machine ---- */

static void cancel_operation(struct exchange *x)
{
    if (x->waiting)
        recorder_cancel(x->worker->recorder, &x->wait);
    x->waiting = false;
    ask_cancel(x->ask, x->state == EXCHANGE_DIAL ? MSG_DIAL_CANCEL : 0);
    x->ask = NULL;
    wallet_cancel(&x->vouch);
}

/*
 * Milliseconds until the token, and what it may be overrun by, are over; INT64_MAX without a token. A refusal is recorded and
 * told however old the token is.
 */
static int64_t time_left(const struct exchange *x)
{
    const struct worker *w = x->worker;

    if (!x->identity || x->reason)
        return INT64_MAX;
    return (identity_expires_s(x->identity) - loop_wall_s(w->loop)) * 1000 + w->limits.overrun_ms;
}

bool exchange_is_over(const struct exchange *x)
{
    return time_left(x) <= 0;
}

enum { LAST_S = 30, LAST_COMING_S = 60 };

/* Seconds until the token that opened the tunnel (or a newer one inside it) ends; INT64_MAX outside of tunnels. */
static int64_t tunnel_left_s(const struct exchange *x)
{
    if (!x->session->tunnel.open || !x->identity)
        return INT64_MAX;
    return identity_expires_s(x->identity) - loop_wall_s(x->worker->loop);
}

bool exchange_is_last_of_tunnel(const struct exchange *x, bool coming)
{
    int64_t left_s = tunnel_left_s(x), margin_s;

    if (left_s == INT64_MAX)
        return false;
    if (coming)
        return left_s <= LAST_COMING_S;
    margin_s = (identity_expires_s(x->identity) - identity_issued_s(x->identity)) / 10;
    return left_s <= (margin_s < LAST_S ? margin_s : LAST_S);
}

bool exchange_is_tunnel_over(const struct exchange *x)
{
    return tunnel_left_s(x) <= 0 && stream_input(x->session->client).len == 0;
}

void exchange_progress(struct exchange *x)
{
    const struct worker *w = x->worker;
    size_t offset = states[x->state].deadline;
    int64_t wait;

    if (!offset) {
        timer_stop(x->session->timer);
        return;
    }
    wait = *(const int64_t *)((const char *)&w->limits + offset);
    if (x->state == EXCHANGE_FORWARD && (!x->body_done || x->response_begun))
        wait = x->lasts ? w->limits.event_stream_idle_ms : w->limits.body_ms;
    else if (x->state == EXCHANGE_SOCKET && websocket_is_closing(x))
        wait = w->limits.body_ms;
    timer_set(x->session->timer, time_left(x) < wait ? time_left(x) : wait);
}

/* The only writer of the state. */
static void enter(struct exchange *x, enum exchange_state next)
{
    assert(states[x->state].next & (1u << next));
    cancel_operation(x);
    if (say_is_debug())
        say_debug("conn %llu: %s -> %s", (unsigned long long)x->session->conn, states[x->state].name,
                  states[next].name);
    if ((next == EXCHANGE_DIAL) != x->dialling)
        admit_dial(x, next == EXCHANGE_DIAL);
    x->state = next;
    exchange_progress(x);
}

/* True when what the client did ends the exchange, whatever the state. */
static bool client_is_gone(struct exchange *x, struct event ev)
{
    if (ev.type == EV_CLIENT_CUT)
        return true;
    if (ev.type != EV_CLIENT_END)
        return false;
    x->session->client_ended = true;
    return x->lasts || (!x->body_done && stream_input(x->session->client).len == 0); /* of what lasts nobody would notice */
}

static bool is_traffic(struct event ev)
{
    return ev.type == EV_CLIENT_DATA || ev.type == EV_CLIENT_ROOM || ev.type == EV_UPSTREAM_DATA ||
           ev.type == EV_UPSTREAM_ROOM;
}

static enum exchange_state think(struct exchange *x, struct event ev)
{
    if (is_traffic(ev) && exchange_is_over(x))
        ev.type = EV_DEADLINE; /* a stream that never pauses would put its end off for ever */
    if (client_is_gone(x, ev)) {
        x->reason = REASON_CLIENT_CLOSED;
        exchange_part(x);
        return exchange_end(x, EXCHANGE_CUT, "cut");
    }
    if (ev.type == EV_CLIENT_END && !x->websocket)
        return EXCHANGE_STAY;
    if (ev.type == EV_POLICY)
        return decide_again(x);
    return states[x->state].on(x, ev);
}

void exchange_feed(struct exchange *x, struct event ev)
{
    enum exchange_state next;

    assert(!x->feeding);
    lane_enter(x->party ? &x->party->lane : &x->session->source_party->lane);
    x->feeding = true;
    for (next = think(x, ev); next != EXCHANGE_STAY; next = states[next].on(x, (struct event){.type = EV_ENTER})) {
        enter(x, next);
        if (next == EXCHANGE_DONE) {
            x->feeding = false;
            on_done(x, (struct event){.type = EV_ENTER});
            return;
        }
    }
    x->feeding = false;
}

/* ---- begin and end ---- */

_Static_assert(sizeof(struct exchange) <= 2048, "above, base/spare.h gives each request a block twice the size");

static struct exchange *exchange_new(struct session *s)
{
    struct worker *w = s->worker;
    struct exchange *x = spare_get_zeroed(sizeof *x);

    x->session = s;
    x->worker = w;
    x->state = EXCHANGE_AUTHORIZE;
    x->started_ns = clock_mono_lately_ns(); /* it came with the event at work */
    x->id = id_new(loop_wall_ns(w->loop) / 1000000);
    x->keep_alive = true;
    s->exchange = x;
    worker_count(w, COUNTER_EXCHANGES, 1);
    worker_count(w, COUNTER_EXCHANGES_OPEN, 1);
    return x;
}

void exchange_start(struct session *s)
{
    struct exchange *x = exchange_new(s);

    x->head = message_head(s->message);
    x->keep_alive = x->head->keep_alive;
    exchange_feed(x, (struct event){.type = EV_ENTER});
}

void exchange_start_refused(struct session *s, const struct fault *why)
{
    struct exchange *x = exchange_new(s);

    x->keep_alive = false;
    x->reason = why->reason ? why->reason : REASON_REQUEST_MALFORMED;
    snprintf(x->detail, sizeof x->detail, "%s", why->text);
    exchange_feed(x, (struct event){.type = EV_ENTER});
}

void exchange_drop_upstream(struct exchange *x, bool clean)
{
    upstream_close(x->upstream, clean);
    x->upstream = NULL;
}

void exchange_free(struct exchange *x)
{
    if (!x)
        return;
    worker_count(x->worker, COUNTER_EXCHANGES_OPEN, -1);
    cancel_operation(x);
    admit_release(x);
    exchange_drop_upstream(x, false);
    if (x->bucket)
        bucket_release(x->bucket);
    grant_release(x->grant);
    request_clear(&x->request);
    identity_unref(x->identity);
    secret_free(x->token);
    buf_free(&x->out_head);
    buf_free(&x->dropped);
    buf_free(&x->packed);
    flow_clear(&x->up);
    flow_clear(&x->down);
    websocket_end(x);
    lookout_free(x->lookout);
    spare_put(x, sizeof *x);
}

struct slice exchange_token(const struct exchange *x)
{
    if (x->token)
        return secret_slice(x->token);
    return x->session->token ? secret_slice(x->session->token) : slice_make("", 0);
}

bool exchange_is_connect(const struct exchange *x)
{
    return x->request.connect;
}

/* ---- refusing ---- */

enum exchange_state exchange_refuse(struct exchange *x, enum reason reason, const char *text)
{
    if (!x->reason) {
        x->reason = reason;
        snprintf(x->detail, sizeof x->detail, "%s", text ? text : "");
    }
    if (x->websocket)
        return websocket_refuse(x);
    if (x->held_ms)
        lookout_take_back(x);
    if (x->response_begun)
        return exchange_end(x, EXCHANGE_CUT, "cut");
    return x->recorded || x->unrecordable ? EXCHANGE_REPLY : admit_refusal(x);
}

/* Only a verified sender, and of planted secrets alone: its own token in a wrong place is a mistake more often than not. */
static void accuse_sender(const struct exchange *x, const struct hit *hit)
{
    struct buf message = {0};

    if (!x->worker->terms->quarantines_leaks || !x->identity)
        return;
    pack_bytes(&message, slice_of(identity_sandbox(x->identity)));
    pack_bytes(&message, slice_of(hit->canary));
    channel_send(x->worker->role->control, MSG_LEAKED, buf_slice(&message), -1);
    buf_free(&message);
}

enum exchange_state exchange_leak(struct exchange *x, const struct hit *hit, const char *place)
{
    bool token = slice_is(slice_of(hit->canary), "leave-token");

    x->hit = *hit;
    snprintf(x->hit_place, sizeof x->hit_place, "%s", place);
    worker_count(x->worker, COUNTER_CANARY_HITS, 1);
    evidence_finding(x, hit, place, token ? REASON_TOKEN_LEAK : REASON_CANARY_LEAK);
    if (!token)
        accuse_sender(x, hit);
    exchange_drop_upstream(x, false);
    return exchange_refuse(x, token ? REASON_TOKEN_LEAK : REASON_CANARY_LEAK, place);
}

bool exchange_is_endless(const struct exchange *x)
{
    return x->lasts || x->websocket;
}

bool exchange_is_granted(const struct exchange *x)
{
    return x->decision.allowed && (x->recorded || x->waiting);
}

enum exchange_state exchange_end(struct exchange *x, enum exchange_end how, const char *outcome)
{
    if (exchange_is_granted(x))
        evidence_result(x, outcome);
    x->end = how;
    return EXCHANGE_DONE;
}

/* ---- REPLY and DONE ---- */

static int reply_status(const struct exchange *x)
{
    int status = reason_get(x->reason)->status;

    /* Who is asked for a credential must be able to give one. */
    if (status != 407)
        return status;
    if (x->session->tunnel.open || x->carried)
        return 403;
    return x->session->arrival ? 401 : status;
}

static bool reply_keeps_alive(const struct exchange *x)
{
    const struct session *s = x->session;

    if (!x->head || !x->keep_alive || !x->body_done || x->asks_to_switch || !session_expects_more(s))
        return false;
    if (s->tunnel.open && (reason_is_token(x->reason) || x->reason == REASON_TOKEN_FOREIGN))
        return false;
    return x->reason != REASON_REQUEST_MALFORMED && x->reason != REASON_CANARY_LEAK && x->reason != REASON_TOKEN_LEAK;
}

static enum exchange_state on_reply(struct exchange *x, struct event ev)
{
    struct session *s = x->session;
    struct answer a = {.reason = x->reason, .detail = x->detail, .gateway = x->worker->gateway, .id = &x->id};

    if (ev.type == EV_ENTER && x->summed) { /* refused again and again: it is in no hurry to hear so */
        timer_set(s->timer, PENALTY_MS);
        return EXCHANGE_STAY;
    }
    if (ev.type != EV_ENTER && ev.type != EV_DEADLINE)
        return EXCHANGE_STAY;
    a.status = reply_status(x);
    a.basic_alone = x->head && slice_starts(x->head->target, SLICE("/v2/"));
    a.minor = x->head ? x->head->minor : 1;
    a.head_only = x->head && slice_is(x->head->method, "HEAD");
    a.keep_alive = reply_keeps_alive(x);
    a.retry_ms = x->retry_ms;
    x->status = answer_status(&a);
    answer_write(&a, loop_wall_s(x->worker->loop), stream_out(s->client));
    stream_flush(s->client);
    return exchange_end(x, a.keep_alive ? EXCHANGE_KEEP : EXCHANGE_CLOSE, "failed");
}

static enum exchange_state on_done(struct exchange *x, struct event ev)
{
    (void)ev;
    session_exchange_done(x->session, x->end);
    return EXCHANGE_STAY;
}

/* ---- translating ---- */

void exchange_on_upstream(void *arg, enum stream_event event)
{
    static const enum event_type types[] = {
        [STREAM_UP] = EV_UPSTREAM_UP,   [STREAM_DATA] = EV_UPSTREAM_DATA, [STREAM_ROOM] = EV_UPSTREAM_ROOM,
        [STREAM_END] = EV_UPSTREAM_END, [STREAM_CUT] = EV_UPSTREAM_CUT,   [STREAM_FAIL] = EV_UPSTREAM_FAIL,
    };

    exchange_feed(arg, (struct event){.type = types[event]});
}
