/* FORWARD: the request out, the response back through the scanner. */
#include <stdio.h>
#include <string.h>

#include "net/upgrade.h"
#include "proxy/lasting.h"
#include "proxy/rewrite.h"
#include "proxy/steps.h"

enum { INTERIM_MAX = 16, SMALL_MAX = 4 * 1024 };

/* ---- towards the service ---- */

/* May more of m be read? Its end always: it costs nothing, and who is done may close. */
static bool may_pump(const struct message *m, const struct stream *to)
{
    return stream_pending(to) < STREAM_HIGH || message_is_whole(m);
}

static enum exchange_state pump_request(struct exchange *x)
{
    bool more = true;

    while (more && !x->body_done && may_pump(x->session->message, x->upstream->stream)) {
        enum exchange_state next = content_take(x, &more);

        if (next != EXCHANGE_STAY)
            return next;
    }
    stream_flush(x->upstream->stream);
    if (!x->body_done && x->session->client_ended && stream_input(x->session->client).len == 0) {
        x->reason = REASON_CLIENT_CLOSED;
        return exchange_end(x, EXCHANGE_CUT, "cut");
    }
    return EXCHANGE_STAY;
}

static enum exchange_state pump_response(struct exchange *x);

static enum exchange_state service_failed(struct exchange *x, enum reason reason, const char *text);

/* What it says before it is asked is no answer. Of a pooled connection bucket_take has made sure. */
static bool spoke_first(const struct exchange *x)
{
    return !x->reused && stream_has_spoken(x->upstream->stream);
}

/* The grant is over, or of the policy before: the connection waits in the pool for the next one. */
static enum exchange_state wait_for_grant(struct exchange *x)
{
    upstream_park(x->upstream);
    x->upstream = NULL;
    return EXCHANGE_GRANT;
}

static enum exchange_state begin_forward(struct exchange *x)
{
    struct stream *to = x->upstream->stream;
    enum exchange_state next;

    if (spoke_first(x))
        return service_failed(x, REASON_UPSTREAM_MALFORMED, "it spoke before it was asked");
    if (vouch_is_due(x))
        return wait_for_grant(x);
    stream_set_handler(to, exchange_on_upstream, x);
    stream_set_lane(to, &x->party->lane);
    message_expect(x->upstream->response, slice_is(x->head->method, "HEAD"));
    vouch_write(x, stream_out(to));
    if (!x->body_done && !x->up.scan)
        content_begin(x);
    if (!x->retried)
        x->repeatable = x->body_done;
    flow_attach(&x->up, to, x->repeatable);
    x->sent = true;
    x->upstream->exchanges++;
    next = pump_request(x);
    if (next == EXCHANGE_STAY && stream_input(to).len)
        next = pump_response(x); /* it spoke before it was asked: the parser judges */
    return next;
}

/* ---- failures of the service ---- */

bool relay_is_idempotent(const struct exchange *x)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (slice_is(x->head->method, methods[i]))
            return true;
    return false;
}

/*
 * A pooled connection that ends before any byte of a response was most likely closed as the request went out
 * (RFC 9112 9.3.1): an idempotent request is sent once more, on a fresh one.
 */
static enum exchange_state service_failed(struct exchange *x, enum reason reason, const char *text)
{
    bool silent = !message_is_open(x->upstream->response) && !x->response_begun && x->interims == 0;

    exchange_drop_upstream(x, false);
    if (silent && x->reused && !x->retried && x->repeatable && relay_is_idempotent(x)) {
        x->retried = true;
        x->reused = x->service_cut = false;
        x->up.to = NULL;
        return EXCHANGE_DIAL;
    }
    return exchange_refuse(x, reason, text);
}

/* ---- towards the client ---- */

/* Is more of the answer to come than what is here, behind its head? Of chunks only the look of their end is known. */
static bool is_coming(const struct response_frame *f, const struct head *h, struct slice here)
{
    if (f->framing == FRAMING_NONE)
        return false;
    if (h->framing == FRAMING_LENGTH)
        return here.len < h->length;
    return h->framing != FRAMING_CHUNKED || !slice_ends(here, SLICE("\r\n0\r\n\r\n"));
}

/* here: what has come behind the head. */
static struct response_frame frame_for(struct exchange *x, const struct head *h, struct slice here)
{
    const struct session *s = x->session;
    struct response_frame f = {.minor = x->head->minor, .framing = h->framing, .length = h->length};

    f.head_only = slice_is(x->head->method, "HEAD") || h->status == 304;
    if (f.head_only)
        f.framing = FRAMING_NONE;
    else if (f.framing == FRAMING_CHUNKED || f.framing == FRAMING_CLOSE)
        f.framing = x->head->minor >= 1 ? FRAMING_CHUNKED : FRAMING_CLOSE;
    f.keep_alive = x->keep_alive && x->body_done && !x->asks_to_switch && session_expects_more(s) && f.framing != FRAMING_CLOSE &&
                   !exchange_is_last_of_tunnel(x, is_coming(&f, h, here));
    return f;
}

void relay_note_hit(struct exchange *x, const struct hit *hit, const char *place)
{
    if (!hit->found)
        return;
    worker_count(x->worker, COUNTER_CANARY_HITS, 1);
    if (x->response_hits++ == 0)
        evidence_finding(x, hit, place, REASON_CANARY_RESPONSE);
}

/* Look through what was put into the client's stream from offset from on: a head, or trailers. */
static void scan_response_lines(struct exchange *x, const struct buf *out, size_t from, const char *place)
{
    struct hit hit = scanner_text(x->worker->scanner, slice_from(buf_slice(out), from));

    relay_note_hit(x, &hit, place);
}

/*
 * A small response of which all is here, for a client that nothing else waits for: head and content come to lie in its stream
 * one behind the other before anything goes out, and one look at both costs half of two.
 */
static bool is_small(const struct exchange *x, const struct response_frame *f, struct slice here, size_t before)
{
    return f->framing == FRAMING_LENGTH && f->length && f->length <= SMALL_MAX && here.len >= f->length && !before && !x->held_ms;
}

static void scan_small(struct exchange *x)
{
    struct hit hit = scanner_text(x->worker->scanner, buf_slice(stream_out(x->session->client)));
    bool in_head = hit.from < x->small_head;

    if (!in_head) {
        hit.from -= x->small_head;
        hit.to -= x->small_head;
    }
    relay_note_hit(x, &hit, in_head ? "response head" : "response body");
}

enum exchange_state relay_reflected(struct exchange *x, struct hit hit, const char *place)
{
    hit.canary = "credential";
    worker_count(x->worker, COUNTER_CANARY_HITS, 1);
    evidence_finding(x, &hit, place, REASON_CREDENTIAL_REFLECTED);
    exchange_drop_upstream(x, false);
    x->keep_alive = x->keep_alive && x->body_done;
    return exchange_refuse(x, REASON_CREDENTIAL_REFLECTED, place);
}

/* Lines for the client, put at the end of out from offset from on: taken back when they hold the credential. */
static bool lines_reflect(struct exchange *x, struct buf *out, size_t from, struct hit *hit)
{
    if (!x->grant || from == buf_len(out))
        return false;
    *hit = grant_look(x->grant, slice_from(buf_slice(out), from));
    if (hit->found)
        buf_truncate(out, from);
    return hit->found;
}

static enum exchange_state pass_interim(struct exchange *x, const struct head *h)
{
    struct buf *out = stream_out(x->session->client);
    size_t before = buf_len(out);
    enum exchange_state next;
    struct hit hit;

    if ((next = lookout_head(x, h, FRAMING_NONE)) != EXCHANGE_STAY)
        return next;
    if (++x->interims > INTERIM_MAX)
        return service_failed(x, REASON_UPSTREAM_MALFORMED, "too many interim responses");
    if (x->head->minor >= 1)
        rewrite_interim(h, x->worker->gateway, x->worker->via, out);
    if (lines_reflect(x, out, before, &hit))
        return relay_reflected(x, hit, "response head");
    scan_response_lines(x, out, before, "response head");
    return EXCHANGE_STAY;
}

/* Of a service that is shown a credential of the gateway's. */
static enum exchange_state suspect(struct exchange *x, const struct head *h, enum framing framing)
{
    if (h->status == 401)
        vouch_distrust(x);
    if (h->status == 206 && service_strips_ranges(x->decision.service))
        return service_failed(x, REASON_UPSTREAM_MALFORMED, "a part (206) that nobody asked for");
    if (framing != FRAMING_NONE && coding_of(h) != CODING_NONE && !service_allows_unscannable(x->decision.service))
        return service_failed(x, REASON_ANSWER_UNSCANNABLE, NULL);
    return EXCHANGE_STAY;
}

/* 101: to what was asked for, and as it was asked for; else it is no answer. */
static enum exchange_state begin_socket(struct exchange *x, const struct head *h)
{
    struct buf *out = stream_out(x->session->client);
    size_t before = buf_len(out);
    struct fault why = {0};
    enum exchange_state next;
    struct hit hit;

    if (!x->asks_to_switch)
        return service_failed(x, REASON_UPSTREAM_MALFORMED, "101 Switching Protocols, which nobody asked for");
    if (!upgrade_check_answer(x->head, h, &why))
        return service_failed(x, why.reason, why.text);
    if ((next = lookout_head(x, h, FRAMING_NONE)) != EXCHANGE_STAY)
        return next;
    rewrite_switch(h, x->worker->gateway, x->worker->via, out);
    if (lines_reflect(x, out, before, &hit))
        return relay_reflected(x, hit, "response head");
    scan_response_lines(x, out, before, "response head");
    x->status = h->status;
    x->response_begun = true;
    x->keep_alive = false;
    return EXCHANGE_SOCKET;
}

/* The head has been put into the client's stream, from `before` on; here: what has come behind it. */
static void begin_content(struct exchange *x, const struct response_frame *f, struct slice here, size_t before)
{
    struct stream *client = x->session->client;
    struct buf *out = stream_out(client);

    flow_start(&x->down, x->worker->scanner, slice_make("", 0), f->framing, false);
    if (x->grant && f->framing != FRAMING_NONE)
        flow_guard(&x->down, grant_guard(x->grant));
    x->down.length = f->framing == FRAMING_LENGTH ? f->length : 0;
    lookout_content(x);
    if ((x->down.seen = is_small(x, f, here, before)))
        x->small_head = buf_len(out);
    else
        scan_response_lines(x, out, before, "response head");
    if (x->held_ms)
        lookout_hold(x, out, before);
    else
        flow_attach(&x->down, client, false);
}

static enum exchange_state begin_final(struct exchange *x, const struct head *h, struct slice here)
{
    struct buf *out = stream_out(x->session->client);
    struct response_frame frame = frame_for(x, h, here);
    size_t before = buf_len(out);
    enum exchange_state next;
    struct hit hit;

    if (x->grant && (next = suspect(x, h, frame.framing)) != EXCHANGE_STAY)
        return next;
    if ((next = lookout_head(x, h, frame.framing)) != EXCHANGE_STAY)
        return next;
    rewrite_response(h, &frame, x->worker->gateway, x->worker->via, out);
    if (lines_reflect(x, out, before, &hit))
        return relay_reflected(x, hit, "response head");
    x->keep_alive = frame.keep_alive;
    x->status = h->status;
    x->response_begun = true;
    x->lasts = frame.framing != FRAMING_NONE && lasting_is(h);
    begin_content(x, &frame, here, before);
    return EXCHANGE_STAY;
}

/* used: bytes of the input that the head has. */
static enum exchange_state begin_response(struct exchange *x, size_t used)
{
    const struct head *h = message_head(x->upstream->response);

    if (h->status == 407)
        return service_failed(x, REASON_UPSTREAM_PROXY_AUTH, NULL);
    if (h->status == 101)
        return begin_socket(x, h);
    if (h->status < 200)
        return pass_interim(x, h);
    return begin_final(x, h, slice_from(stream_input(x->upstream->stream), used));
}

static bool is_reusable(const struct exchange *x, const struct head *h)
{
    const struct stream *s = x->upstream->stream;

    return h->keep_alive && h->framing != FRAMING_CLOSE && x->body_done && !stream_is_ended(s) &&
           stream_input(s).len == 0 && stream_pending(s) == 0;
}

static enum exchange_state end_response(struct exchange *x)
{
    const struct message *m = x->upstream->response;
    size_t n = 0;
    const struct field *trailers = message_trailers(m, &n);
    enum exchange_state next = EXCHANGE_STAY;
    struct buf lines = {0};
    struct hit hit;

    rewrite_response_trailers(message_head(m), trailers, n, x->worker->gateway, &lines);
    if (lines_reflect(x, &lines, 0, &hit)) {
        next = relay_reflected(x, hit, "response trailer");
    } else if (!lookout_trailers(x, message_head(m), trailers, n)) {
        next = lookout_refusal(x);
    } else {
        scan_response_lines(x, &lines, 0, "response trailer");
        hit = flow_end(&x->down, buf_slice(&lines));
        relay_note_hit(x, &hit, "response body");
        if (x->down.caught.found)
            next = relay_reflected(x, x->down.caught, "response body");
        else if (x->down.barred)
            next = lookout_refusal(x);
    }
    buf_free(&lines);
    return next;
}

static enum exchange_state response_complete(struct exchange *x)
{
    struct message *m = x->upstream->response;
    bool reusable = is_reusable(x, message_head(m));
    enum exchange_state next = end_response(x);

    if (next != EXCHANGE_STAY)
        return next;
    if (x->held_ms)
        lookout_show(x);
    x->response_done = true;
    stream_flush(x->session->client);
    message_reset(m);
    if (reusable)
        upstream_park(x->upstream);
    else
        upstream_close(x->upstream, true);
    x->upstream = NULL;
    x->keep_alive = x->keep_alive && x->body_done && !exchange_is_tunnel_over(x);
    return exchange_end(x, x->keep_alive ? EXCHANGE_KEEP : EXCHANGE_CLOSE, "complete");
}

static enum exchange_state message_complete(struct exchange *x)
{
    struct message *m = x->upstream->response;

    if (x->response_begun)
        return response_complete(x);
    message_reset(m); /* an interim response; the real one follows */
    message_expect(m, slice_is(x->head->method, "HEAD"));
    stream_flush(x->session->client);
    return EXCHANGE_STAY;
}

static enum exchange_state pass_piece(struct exchange *x, struct slice piece)
{
    struct hit hit = flow_data(&x->down, piece);

    if (x->down.seen)
        scan_small(x);
    else
        relay_note_hit(x, &hit, "response body");
    if (x->lasts && lasting_may_rest(piece))
        flow_rest(&x->down);
    if (x->down.caught.found)
        return relay_reflected(x, x->down.caught, "response body");
    if (x->down.barred)
        return lookout_refusal(x);
    if (x->held_ms)
        lookout_pass(x);
    return EXCHANGE_STAY;
}

static enum exchange_state take_response(struct exchange *x, bool *more)
{
    struct stream *from = x->upstream->stream;
    struct message *m = x->upstream->response;
    enum exchange_state next = EXCHANGE_STAY;
    struct fault why = {0};
    size_t used = 0;
    enum message_event event = message_feed(m, stream_input(from), &used, &why);

    if (event == MESSAGE_BAD)
        return service_failed(x, REASON_UPSTREAM_MALFORMED, why.text);
    if (event == MESSAGE_BODY) {
        next = pass_piece(x, message_body(m));
    } else if (event == MESSAGE_HEAD) {
        next = begin_response(x, used);
    } else if (event == MESSAGE_MORE) {
        *more = false;
        stream_look_again(from);
    }
    if (next != EXCHANGE_STAY && next != EXCHANGE_SOCKET)
        return next;
    stream_consume(from, used); /* of a 101, what comes behind it is the WebSocket's */
    return event == MESSAGE_END ? message_complete(x) : next;
}

static enum exchange_state pump_response(struct exchange *x)
{
    bool more = true;

    while (more && may_pump(x->upstream->response, x->session->client)) {
        enum exchange_state next = take_response(x, &more);

        if (next != EXCHANGE_STAY)
            return next;
    }
    stream_flush(x->session->client);
    return EXCHANGE_STAY;
}

/* The service's end: it may complete a response that lasts until the close, else (or when it is a cut) it breaks it off. */
static enum exchange_state service_ended(struct exchange *x)
{
    enum exchange_state next = pump_response(x);
    struct fault why = {0};

    if (next != EXCHANGE_STAY)
        return next;
    if (stream_input(x->upstream->stream).len)
        return EXCHANGE_STAY; /* the client is slow; the end is looked at again when it has room */
    if (!x->service_cut && x->response_begun && message_finish(x->upstream->response, &why) == MESSAGE_END)
        return response_complete(x);
    return service_failed(x, REASON_UPSTREAM_CLOSED, "the service closed before its answer was complete");
}

/* ---- FORWARD ---- */

static enum exchange_state late(struct exchange *x)
{
    if (exchange_is_over(x)) {
        exchange_drop_upstream(x, false);
        return exchange_refuse(x, REASON_TOKEN_EXPIRED, "the token ended while the exchange was at work");
    }
    if (!x->body_done || stream_pending(x->session->client)) {
        x->reason = REASON_CLIENT_TIMEOUT;
        exchange_drop_upstream(x, false);
        return x->response_begun ? exchange_end(x, EXCHANGE_CUT, "cut") : EXCHANGE_REPLY;
    }
    exchange_drop_upstream(x, false);
    return exchange_refuse(x, x->lasts ? REASON_STREAM_IDLE : REASON_UPSTREAM_TIMEOUT, NULL);
}

static enum exchange_state more_response(struct exchange *x)
{
    if (stream_is_ended(x->upstream->stream))
        return service_ended(x);
    return pump_response(x);
}

static enum exchange_state forward(struct exchange *x, struct event ev)
{
    switch (ev.type) {
    case EV_ENTER:
        return begin_forward(x);
    case EV_CLIENT_DATA:
    case EV_UPSTREAM_ROOM:
        return x->body_done ? EXCHANGE_STAY : pump_request(x);
    case EV_UPSTREAM_DATA:
        return pump_response(x);
    case EV_CLIENT_ROOM:
        return more_response(x);
    case EV_UPSTREAM_END:
        return service_ended(x);
    case EV_UPSTREAM_CUT:
    case EV_UPSTREAM_FAIL:
        x->service_cut = true;
        return service_ended(x);
    case EV_DEADLINE:
        return late(x);
    default:
        return EXCHANGE_STAY;
    }
}

/*
 * Did it bring the exchange forward? What a client says after its request's end does not; nor does a piece of a response's
 * head, which is due as a whole.
 */
enum exchange_state relay_on_forward(struct exchange *x, struct event ev)
{
    bool asked = x->body_done, head_due = asked && !x->response_begun;
    int interims = x->interims;
    enum exchange_state next = forward(x, ev);

    if (next != EXCHANGE_STAY || (ev.type == EV_CLIENT_DATA && asked))
        return next;
    if (!head_due || x->response_begun || x->interims != interims)
        exchange_progress(x);
    return EXCHANGE_STAY;
}
