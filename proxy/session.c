/* Owns the client's connection and the tunnel in it. What happens to a request is the exchange's. */
#include "proxy/session.h"

#include <assert.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "base/say.h"
#include "proxy/arrival.h"
#include "proxy/exchange.h"
#include "proxy/greeting.h"

enum { LINGER_BYTES = 256 * 1024 };

/* The table: where each state may go. Deadlines are set in arm(). */
static const struct {
    const char *name;
    unsigned next;
} states[] = {
    [SESSION_HEAD] = {"HEAD", 1u << SESSION_EXCHANGE | 1u << SESSION_ACCEPT | 1u << SESSION_LINGER | 1u << SESSION_CLOSED},
    [SESSION_EXCHANGE] = {"EXCHANGE", 1u << SESSION_HEAD | 1u << SESSION_ACCEPT | 1u << SESSION_LINGER |
                                          1u << SESSION_CLOSED},
    [SESSION_ACCEPT] = {"ACCEPT", 1u << SESSION_HEAD | 1u << SESSION_CLOSED},
    [SESSION_LINGER] = {"LINGER", 1u << SESSION_CLOSED},
    [SESSION_CLOSED] = {"CLOSED", 0},
};

/* ---- deadlines ---- */

static int64_t head_wait(const struct session *s)
{
    const struct worker *w = s->worker;
    int64_t wait = w->limits.idle_ms, waited = loop_now_ms(w->loop) - s->idle_from_ms;

    if (message_is_open(s->message) || !s->asked)
        wait = w->limits.header_ms;
    wait = waited < wait ? wait - waited : 0;
    if (s->tunnel.open) {
        int64_t left = (identity_expires_s(s->identity) - loop_wall_s(w->loop)) * 1000;

        if (left < wait)
            wait = left;
    }
    return wait;
}

static void arm(struct session *s)
{
    switch (s->state) {
    case SESSION_HEAD:
        s->idle_from_ms = loop_now_ms(s->worker->loop);
        timer_set(s->timer, head_wait(s));
        break;
    case SESSION_ACCEPT:
        timer_set(s->timer, s->worker->limits.handshake_ms);
        break;
    case SESSION_LINGER:
        timer_set(s->timer, s->worker->limits.linger_ms);
        break;
    default: /* EXCHANGE sets its own */
        break;
    }
}

/* ---- limits ---- */

static struct party *holder(const struct session *s)
{
    return s->party ? s->party : s->source_party;
}

static void set_shaking(struct session *s, bool on)
{
    if (s->shaking != on)
        tally_hold(holder(s)->seat, HOLD_HANDSHAKES, on ? 1 : -1);
    s->shaking = on;
}

static void count_failed_handshake(struct session *s)
{
    int64_t now = loop_now_ms(s->worker->loop);

    tally_add_pace(s->source_party->seat, PACE_FAILED_HANDSHAKES, now, 1);
    if (s->party)
        tally_add_pace(s->party->seat, PACE_FAILED_HANDSHAKES, now, 1);
}

/* ---- the one writer of the state, and the one way to close ---- */

static void enter(struct session *s, enum session_state next)
{
    assert(states[s->state].next & (1u << next));
    if (say_is_debug())
        say_debug("conn %llu: %s -> %s", (unsigned long long)s->conn, states[s->state].name, states[next].name);
    set_shaking(s, next == SESSION_ACCEPT);
    s->state = next;
    arm(s);
}

/* What was counted for this connection is given back. */
static void give_back(struct session *s)
{
    struct worker *w = s->worker;

    set_shaking(s, false);
    tally_hold(holder(s)->seat, HOLD_CONNECTIONS, -1);
    if (!s->party)
        session_is_known(s);
    party_unref(w->parties, s->party);
    party_unref(w->parties, s->source_party);
    s->party = s->source_party = NULL;
}

static void bury(void *arg)
{
    struct session *s = arg;

    message_free(s->message);
    identity_unref(s->identity);
    identity_unref(s->proven);
    secret_free(s->token);
    bound_unref(s->bound);
    if (s->tunnel.bucket)
        bucket_release(s->tunnel.bucket);
    free(s->tunnel.host);
    arrival_free(s->arrival);
    free(s);
}

void session_close(struct session *s, bool clean)
{
    struct worker *w = s->worker;

    if (s->state == SESSION_CLOSED)
        return;
    s->state = SESSION_CLOSED;
    exchange_free(s->exchange);
    s->exchange = NULL;
    recorder_cancel(w->recorder, &s->opening);
    arrival_cancel(s->arrival);
    give_back(s);
    stream_close(s->client, clean);
    timer_free(s->timer);
    s->timer = NULL;
    TAILQ_REMOVE(&w->sessions, s, link);
    w->n_sessions--;
    worker_count(w, COUNTER_CONNECTIONS_CLOSED, 1);
    loop_defer(w->loop, bury, s);
    worker_session_ended(w);
}

static void begin_linger(struct session *s)
{
    s->closing = true;
    s->linger_from = stream_bytes_in(s->client);
    s->linger_pending = SIZE_MAX;
    stream_end(s->client);
    enter(s, SESSION_LINGER);
    stream_consume(s->client, stream_input(s->client).len);
    if (stream_is_ended(s->client) && stream_pending(s->client) == 0)
        session_close(s, true);
}

/* Nothing more is expected; what was answered still gets out. */
static void leave(struct session *s)
{
    if (stream_pending(s->client))
        begin_linger(s);
    else
        session_close(s, true);
}

/* ---- HEAD ---- */

/* The first byte at a transparent listener says what it is. True: it is plain HTTP, to be read on. */
static bool begin_arrival(struct session *s, struct slice input)
{
    switch (arrival_decide(s, input)) {
    case ARRIVAL_PLAIN:
        return true;
    case ARRIVAL_TLS:
        enter(s, SESSION_ACCEPT);
        if (arrival_accept(s))
            return false;
        break;
    case ARRIVAL_REFUSED:
        break;
    }
    session_close(s, true);
    return false;
}

/* TLS in a tunnel to a plain port starts with a handshake record (RFC 8446 5.1): 0x16. */
static bool is_tls_hello(const struct session *s, struct slice input)
{
    return s->tunnel.open && s->tunnel.scheme == SCHEME_HTTP && !message_is_open(s->message) && input.ptr[0] == 0x16;
}

static void begin_exchange(struct session *s, const struct fault *refused)
{
    enter(s, SESSION_EXCHANGE);
    s->asked = true;
    if (refused)
        exchange_start_refused(s, refused);
    else
        exchange_start(s);
}

/* Who does not read answers is asked nothing further: pipelined requests wait for ROOM. */
static void read_head(struct session *s)
{
    struct slice input = stream_input(s->client);
    bool was_open = message_is_open(s->message);
    struct fault why = {0};
    size_t used = 0;
    enum message_event event;

    if (input.len == 0 || stream_pending(s->client) >= STREAM_HIGH)
        return;
    if (s->arrival && !s->arrival->decided && !begin_arrival(s, input))
        return;
    if (is_tls_hello(s, input)) {
        evidence_connection(s, REASON_TUNNEL_NOT_PLAIN, "");
        session_close(s, true);
        return;
    }
    event = message_feed(s->message, input, &used, &why);
    stream_consume(s->client, used);
    if (event == MESSAGE_MORE)
        stream_look_again(s->client);
    if (event == MESSAGE_HEAD)
        begin_exchange(s, NULL);
    else if (event == MESSAGE_BAD)
        begin_exchange(s, &why);
    else if (!was_open)
        arm(s); /* from its first byte on: a drop now and then buys no time */
}

static void head_ended(struct session *s)
{
    struct fault why = {0};

    if (!message_is_open(s->message)) {
        leave(s);
        return;
    }
    s->client_ended = true;
    fault_reason(&why, REASON_REQUEST_MALFORMED, "the connection ended inside a head");
    begin_exchange(s, &why);
}

/* There is input, room for an answer, or the client's end. */
static void look_for_request(struct session *s)
{
    read_head(s);
    if (s->state == SESSION_HEAD && stream_is_ended(s->client) && stream_input(s->client).len == 0)
        head_ended(s);
}

static void head_late(struct session *s)
{
    struct fault why = {0};

    if (!message_is_open(s->message)) {
        leave(s);
        return;
    }
    fault_reason(&why, REASON_REQUEST_TIMEOUT, "the head did not arrive in time");
    begin_exchange(s, &why);
}

/* ---- ACCEPT ---- */

static bool begin_accept(struct session *s)
{
    struct worker *w = s->worker;
    struct leaf *leaf = leaves_find(w->leaves, s->tunnel.host, loop_wall_s(w->loop));
    struct slice binding = slice_of(identity_sandbox(s->identity));
    struct fault why = {0};
    SSL *ssl;

    if (!leaf || !(ssl = tls_server_accept(w->tls_server, s->tunnel.host, binding, &why)))
        return false;
    if (!leaf_use(w->leaves, leaf, ssl, &why)) {
        say_warning("%s", why.text);
        SSL_free(ssl);
        return false;
    }
    if (!party_wants_ticket(holder(s)))
        tls_spare_ticket(ssl);
    stream_start_tls(s->client, ssl);
    return true;
}

/* With the listener itself (listen.NAME.tls), before any request. */
static void greet(struct session *s)
{
    if (!greeting_begin(s))
        return;
    s->state = SESSION_ACCEPT; /* it begins there */
    set_shaking(s, true);
}

static void accept_failed(struct session *s, enum stream_event event)
{
    const struct fault *why = stream_fault(s->client);
    bool told = event == STREAM_FAIL && why->reason && (s->tunnel.open || why->reason != REASON_TUNNEL_NOT_TLS);
    enum reason reason = told ? why->reason : REASON_CLIENT_TLS;

    worker_count(s->worker, COUNTER_HANDSHAKES_FAILED, 1);
    count_failed_handshake(s);
    if (reason == REASON_CLIENT_UNKNOWN_CA)
        worker_count(s->worker, COUNTER_UNKNOWN_CA, 1);
    if (s->arrival && s->arrival->reason)
        arrival_refuse(s);
    else
        evidence_connection(s, reason, why->text);
    session_close(s, true);
}

static void on_accept_event(struct session *s, enum stream_event event)
{
    if (event == STREAM_UP) {
        worker_count(s->worker, COUNTER_HANDSHAKES, 1);
        if (stream_was_shown_ticket(s->client))
            party_uses_tickets(holder(s));
        if (!s->tunnel.open && !s->arrival)
            greeting_note(s);
        enter(s, SESSION_HEAD);
    } else if (event == STREAM_END || event == STREAM_CUT || event == STREAM_FAIL) {
        accept_failed(s, event);
    }
}

/* ---- LINGER ---- */

static void on_linger_event(struct session *s, enum stream_event event)
{
    if (event == STREAM_DATA) {
        stream_consume(s->client, stream_input(s->client).len);
        if (stream_bytes_in(s->client) > s->linger_from + LINGER_BYTES)
            session_close(s, true);
    } else if (event == STREAM_END || event == STREAM_CUT || event == STREAM_FAIL) {
        session_close(s, true);
    }
}

/* ---- events ---- */

static void on_head_event(struct session *s, enum stream_event event)
{
    if (event == STREAM_CUT || event == STREAM_FAIL)
        session_close(s, true);
    else
        look_for_request(s);
}

static void on_exchange_event(struct session *s, enum stream_event event)
{
    static const enum event_type types[] = {
        [STREAM_UP] = EV_CLIENT_DATA, [STREAM_DATA] = EV_CLIENT_DATA, [STREAM_ROOM] = EV_CLIENT_ROOM,
        [STREAM_END] = EV_CLIENT_END, [STREAM_CUT] = EV_CLIENT_CUT,   [STREAM_FAIL] = EV_CLIENT_CUT,
    };

    exchange_feed(s->exchange, (struct event){.type = types[event]});
}

static void on_client(void *arg, enum stream_event event)
{
    struct session *s = arg;

    switch (s->state) {
    case SESSION_HEAD:
        on_head_event(s, event);
        break;
    case SESSION_EXCHANGE:
        on_exchange_event(s, event);
        break;
    case SESSION_ACCEPT:
        on_accept_event(s, event);
        break;
    case SESSION_LINGER:
        on_linger_event(s, event);
        break;
    case SESSION_CLOSED:
        break;
    }
}

/* A slow reader may take its time as long as it takes as much as body-rate says. */
static void linger_late(struct session *s)
{
    const struct limits *l = &s->worker->limits;
    size_t pending = stream_pending(s->client), least = l->body_rate * (size_t)l->body_ms / 1000;
    bool slow = s->linger_pending != SIZE_MAX && pending + least > s->linger_pending;

    if (pending == 0 || pending >= s->linger_pending || slow) {
        session_close(s, pending == 0);
        return;
    }
    s->linger_pending = pending;
    timer_set(s->timer, s->worker->limits.body_ms);
}

static void on_time(void *arg)
{
    struct session *s = arg;

    switch (s->state) {
    case SESSION_HEAD:
        head_late(s);
        break;
    case SESSION_EXCHANGE:
        exchange_feed(s->exchange, (struct event){.type = EV_DEADLINE});
        break;
    case SESSION_ACCEPT:
        accept_failed(s, STREAM_CUT);
        break;
    case SESSION_LINGER:
        linger_late(s);
        break;
    case SESSION_CLOSED:
        break;
    }
}

/* ---- after an exchange ---- */

static void next_request(struct session *s)
{
    message_reset(s->message);
    if (s->busy && !s->warm) {
        s->warm = true;
        stream_set_busy(s->client, true);
    }
    s->busy = true;
    enter(s, SESSION_HEAD);
    look_for_request(s);
}

static void begin_tunnel(struct session *s)
{
    message_reset(s->message);
    stream_flush(s->client);
    if (s->tunnel.scheme == SCHEME_HTTP) {
        enter(s, SESSION_HEAD);
        look_for_request(s);
        return;
    }
    enter(s, SESSION_ACCEPT);
    /* Plain bytes that still wait (a client that does not read) must not get into the TLS that begins. */
    if (stream_is_ended(s->client) || stream_pending(s->client) || !begin_accept(s))
        session_close(s, false);
}

void session_exchange_done(struct session *s, enum exchange_end how)
{
    struct exchange *x = s->exchange;

    s->exchange = NULL;
    exchange_free(x);
    switch (how) {
    case EXCHANGE_KEEP:
        if (s->closing)
            begin_linger(s);
        else
            next_request(s);
        break;
    case EXCHANGE_TUNNEL:
        begin_tunnel(s);
        break;
    case EXCHANGE_CLOSE:
        begin_linger(s);
        break;
    case EXCHANGE_CUT:
        session_close(s, false);
        break;
    }
}

void session_set_identity(struct session *s, struct identity *i, struct slice token)
{
    struct secret *held = s->party ? party_token(s->party, token) : secret_new(token);

    identity_unref(s->identity);
    secret_free(s->token);
    s->identity = i;
    s->token = held;
    s->token_told = false;
    if (s->state == SESSION_HEAD)
        timer_set(s->timer, head_wait(s)); /* it may wait as long as this one is good */
}

void session_tick(struct session *s)
{
    if (s->warm && !s->busy && session_is_idle(s)) {
        s->warm = false;
        stream_set_busy(s->client, false);
    }
    s->busy = false;
    if (s->exchange)
        exchange_tick(s->exchange);
}

bool session_expects_more(const struct session *s)
{
    return !s->closing && (!s->client_ended || stream_input(s->client).len > 0);
}

bool session_is_idle(const struct session *s)
{
    return s->state == SESSION_HEAD && !message_is_open(s->message);
}

bool session_may_go(const struct session *s)
{
    return session_is_idle(s) || (s->exchange && exchange_is_endless(s->exchange));
}

/* True: it was a WebSocket, whose client has been told why, and is given the time to hear it. */
static bool cut_exchange(struct session *s, enum reason why)
{
    struct exchange *x = s->exchange;
    bool told;

    x->reason = why;
    told = exchange_part(x);
    if (exchange_is_granted(x))
        evidence_result(x, "cut");
    if (told) {
        s->exchange = NULL;
        exchange_free(x);
        begin_linger(s);
    }
    return told;
}

void session_cut(struct session *s, enum reason why)
{
    if (s->state == SESSION_CLOSED)
        return;
    evidence_connection(s, why, "");
    if (s->exchange && cut_exchange(s, why))
        return;
    if ((why == REASON_GATEWAY_STOPPING || why == REASON_POLICY_CHANGED) && session_is_idle(s))
        leave(s);
    else
        session_close(s, session_is_idle(s));
}

void session_start(struct worker *w, int fd, const char *listener, struct bound *bound, const struct addr *source,
                   const struct addr *transparent)
{
    struct session *s = calloc(1, sizeof *s);
    struct buf text = {0};

    if (!s)
        abort();
    s->worker = w;
    s->state = SESSION_HEAD;
    s->listener = listener;
    s->bound = bound ? bound_ref(bound) : NULL;
    s->source = *source;
    s->began_ms = loop_now_ms(w->loop);
    s->conn = w->next_conn++;
    addr_ip_text(&text, source);
    snprintf(s->source_ip, sizeof s->source_ip, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_clear(&text);
    addr_text(&text, source);
    snprintf(s->source_text, sizeof s->source_text, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_free(&text);
    s->client = stream_new(w->loop, fd, on_client, s);
    s->message = message_new(MESSAGE_REQUEST, &w->messages);
    s->timer = timer_new(w->loop, on_time, s);
    TAILQ_INSERT_TAIL(&w->sessions, s, link);
    w->n_sessions++;
    worker_count(w, COUNTER_CONNECTIONS_ACCEPTED, 1);
    session_count_stranger(s);
    if (transparent)
        arrival_begin(s, fd, transparent);
    else
        greet(s);
    arm(s);
}
