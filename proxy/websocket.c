/*
 * SOCKET: a WebSocket, from the 101 on. Both directions through the scanner (frames.h) until both sides have closed it, one of them
 * is gone, or it may not go on; then each side that still hears is told so in a close frame (RFC 6455 7).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/frames.h"
#include "proxy/steps.h"

/* What a frame costs on the wire beside its payload: counted against limits.sandbox-bytes, also of one that is empty. */
enum { OVERHEAD = 6 };

enum { CLOSE_GOING_AWAY = 1001, CLOSE_PROTOCOL = 1002, CLOSE_POLICY = 1008, CLOSE_TOO_LARGE = 1009, CLOSE_ERROR = 1011 };

struct websocket {
    struct frames up, down;
    int code; /* of the first close frame, whoever sent it; 0: none yet */
};

/* ---- begin and end ---- */

static void begin(struct exchange *x)
{
    struct websocket *w = calloc(1, sizeof *w);
    const struct limits *l = &x->worker->limits;

    if (!w)
        abort();
    frames_start(&w->up, x->worker->scanner, exchange_token(x), true, l->websocket_message, stream_out(x->upstream->stream));
    frames_start(&w->down, x->worker->scanner, slice_make("", 0), false, l->websocket_message, stream_out(x->session->client));
    if (x->grant)
        frames_guard(&w->down, grant_guard(x->grant), grant_guard(x->grant));
    stream_set_busy(x->upstream->stream, false); /* it may stand still for hours */
    stream_set_busy(x->session->client, false);
    x->websocket = w;
    worker_count(x->worker, COUNTER_WEBSOCKETS_OPEN, 1);
}

void websocket_end(struct exchange *x)
{
    struct websocket *w = x->websocket;

    if (!w)
        return;
    worker_count(x->worker, COUNTER_WEBSOCKETS_OPEN, -1);
    x->websocket = NULL;
    frames_clear(&w->up);
    frames_clear(&w->down);
    free(w);
}

bool websocket_is_closing(const struct exchange *x)
{
    const struct websocket *w = x->websocket;

    return w && (w->up.reader.closed || w->down.reader.closed);
}

struct websocket_tally websocket_tally(const struct exchange *x)
{
    const struct websocket *w = x->websocket;

    if (!w)
        return (struct websocket_tally){0};
    return (struct websocket_tally){w->up.bytes, w->down.bytes, w->up.reader.frames, w->down.reader.frames, w->code};
}

/* ---- to break it off ---- */

static int code_for_client(enum reason reason)
{
    switch (reason) {
    case REASON_WEBSOCKET_FRAME:
        return CLOSE_PROTOCOL;
    case REASON_WEBSOCKET_MESSAGE:
        return CLOSE_TOO_LARGE;
    case REASON_STREAM_IDLE:
    case REASON_GATEWAY_STOPPING:
        return CLOSE_GOING_AWAY;
    case REASON_UPSTREAM_CLOSED:
    case REASON_UPSTREAM_TIMEOUT:
    case REASON_UPSTREAM_WEBSOCKET:
        return CLOSE_ERROR;
    default:
        return CLOSE_POLICY;
    }
}

static int code_for_service(enum reason reason)
{
    if (reason == REASON_UPSTREAM_WEBSOCKET)
        return CLOSE_PROTOCOL;
    return reason == REASON_WEBSOCKET_MESSAGE ? CLOSE_TOO_LARGE : CLOSE_GOING_AWAY;
}

/* As the status line of a refusal: what went wrong, and the digits by which everything about it is found. */
static void tell_client(struct exchange *x)
{
    struct websocket *w = x->websocket;
    struct buf text = {0};
    int code = code_for_client(x->reason);
    char *reason;

    buf_printf(&text, "exeat %s ", reason_code(x->reason));
    id_short(&text, &x->id);
    reason = buf_take_text(&text);
    frames_say_close(&w->down, code, reason);
    stream_flush(x->session->client);
    w->code = w->code ? w->code : code;
    free(reason);
}

/* What passes is whole frames, so that a close frame may always follow. */
bool exchange_part(struct exchange *x)
{
    struct websocket *w = x->websocket;

    if (!w)
        return false;
    if (!w->down.reader.closed)
        tell_client(x);
    if (x->upstream && !w->up.reader.closed) {
        frames_say_close(&w->up, code_for_service(x->reason), "");
        stream_flush(x->upstream->stream);
    }
    exchange_drop_upstream(x, true);
    return true;
}

enum exchange_state websocket_refuse(struct exchange *x)
{
    exchange_part(x);
    return exchange_end(x, EXCHANGE_CLOSE, "cut");
}

static enum exchange_state finish(struct exchange *x)
{
    stream_flush(x->session->client);
    exchange_drop_upstream(x, true);
    return exchange_end(x, EXCHANGE_CLOSE, "complete");
}

/* The client went without a close frame: there is nobody to tell. */
static enum exchange_state client_left(struct exchange *x)
{
    x->reason = REASON_CLIENT_CLOSED;
    exchange_part(x);
    return exchange_end(x, EXCHANGE_CUT, "cut");
}

/* ---- towards the service ---- */

static void note_close(struct websocket *w, enum frame_event event, const struct frame *f)
{
    if (event == FRAME_CONTROL && f->opcode == FRAME_CLOSE && !w->code)
        w->code = f->code;
}

static enum exchange_state pass_up(struct exchange *x, enum frame_event event, const struct frame *f)
{
    enum exchange_state refused = admit_bytes(x, f->payload.len);
    struct hit hit;

    if (refused != EXCHANGE_STAY)
        return refused;
    frames_renew(&x->websocket->up, x->worker->scanner, exchange_token(x));
    hit = frames_pass(&x->websocket->up, event, f);
    if (hit.found)
        return exchange_leak(x, &hit, "frame");
    note_close(x->websocket, event, f);
    return EXCHANGE_STAY;
}

/* One event of a direction's frames; *more is false when the input gives nothing further for now. */
static enum exchange_state take(struct exchange *x, struct frames *frames, struct stream *from,
                                enum exchange_state (*pass)(struct exchange *, enum frame_event, const struct frame *), bool *more)
{
    enum exchange_state next = EXCHANGE_STAY;
    uint64_t before = frames->reader.frames;
    struct fault why = {0};
    struct frame f;
    size_t used;
    enum frame_event event = frame_read(&frames->reader, stream_input(from), &used, &f, &why);

    if (event == FRAME_BAD)
        return exchange_refuse(x, why.reason, why.text);
    if (frames == &x->websocket->up && (next = admit_bytes(x, OVERHEAD * (frames->reader.frames - before))) != EXCHANGE_STAY)
        return next;
    if (event == FRAME_MORE) {
        *more = false;
        stream_look_again(from);
    } else if ((next = pass(x, event, &f)) != EXCHANGE_STAY) {
        return next;
    }
    stream_consume(from, used);
    return EXCHANGE_STAY;
}

/* Both have closed it, or the client is gone and has left nothing to read. */
static enum exchange_state after_up(struct exchange *x)
{
    const struct websocket *w = x->websocket;

    if (w->up.reader.closed && w->down.reader.closed)
        return finish(x);
    if (x->session->client_ended && !w->up.reader.closed && stream_input(x->session->client).len == 0)
        return client_left(x);
    return EXCHANGE_STAY;
}

static enum exchange_state pump_up(struct exchange *x)
{
    struct stream *to = x->upstream->stream;
    bool more = true;

    while (more && stream_pending(to) < STREAM_HIGH) {
        enum exchange_state next = take(x, &x->websocket->up, x->session->client, pass_up, &more);

        if (next != EXCHANGE_STAY)
            return next;
    }
    stream_flush(to);
    return after_up(x);
}

/* ---- towards the client ---- */

static enum exchange_state pass_down(struct exchange *x, enum frame_event event, const struct frame *f)
{
    struct frames *down = &x->websocket->down;
    struct hit hit;

    frames_renew(down, x->worker->scanner, slice_make("", 0));
    hit = frames_pass(down, event, f);
    relay_note_hit(x, &hit, "response frame");
    if (down->caught.found)
        return relay_reflected(x, down->caught, "response frame");
    note_close(x->websocket, event, f);
    return EXCHANGE_STAY;
}

static enum exchange_state pump_down(struct exchange *x)
{
    struct stream *to = x->session->client;
    bool more = true;

    while (more && stream_pending(to) < STREAM_HIGH) {
        enum exchange_state next = take(x, &x->websocket->down, x->upstream->stream, pass_down, &more);

        if (next != EXCHANGE_STAY)
            return next;
    }
    stream_flush(to);
    if (x->websocket->up.reader.closed && x->websocket->down.reader.closed)
        return finish(x);
    return EXCHANGE_STAY;
}

/* After its close frame a service may go as it likes. */
static enum exchange_state service_ended(struct exchange *x)
{
    enum exchange_state next = pump_down(x);

    if (next != EXCHANGE_STAY)
        return next;
    if (stream_input(x->upstream->stream).len)
        return EXCHANGE_STAY; /* the client is slow; the end is looked at again when it has room */
    if (x->websocket->down.reader.closed)
        return finish(x);
    return exchange_refuse(x, REASON_UPSTREAM_CLOSED, "the service went without a close frame");
}

static enum exchange_state more_down(struct exchange *x)
{
    return stream_is_ended(x->upstream->stream) ? service_ended(x) : pump_down(x);
}

/* ---- the state ---- */

static enum exchange_state late(struct exchange *x)
{
    const struct websocket *w = x->websocket;

    if (exchange_is_over(x))
        return exchange_refuse(x, REASON_TOKEN_EXPIRED, "the token ended while the WebSocket was open");
    if (stream_pending(x->session->client))
        return exchange_refuse(x, REASON_CLIENT_TIMEOUT, NULL);
    if (w->down.reader.closed)
        return finish(x); /* the client never answered the close frame, and need not */
    if (w->up.reader.closed)
        return exchange_refuse(x, REASON_UPSTREAM_TIMEOUT, "the service did not answer the close frame");
    return exchange_refuse(x, REASON_STREAM_IDLE, NULL);
}

static enum exchange_state both(struct exchange *x)
{
    enum exchange_state next;

    begin(x);
    if ((next = pump_up(x)) != EXCHANGE_STAY)
        return next;
    return more_down(x);
}

static enum exchange_state step(struct exchange *x, struct event ev)
{
    switch (ev.type) {
    case EV_ENTER:
        return both(x);
    case EV_CLIENT_DATA:
    case EV_CLIENT_END:
    case EV_UPSTREAM_ROOM:
        return pump_up(x);
    case EV_UPSTREAM_DATA:
        return pump_down(x);
    case EV_CLIENT_ROOM:
        return more_down(x);
    case EV_UPSTREAM_END:
    case EV_UPSTREAM_CUT:
    case EV_UPSTREAM_FAIL:
        return service_ended(x);
    case EV_DEADLINE:
        return late(x);
    default:
        return EXCHANGE_STAY;
    }
}

static uint64_t moved(const struct frames *f)
{
    return f->reader.frames + f->messages.total;
}

/* Frames that came, either way, are what keeps it open. What comes behind a close frame does not. */
enum exchange_state websocket_on_socket(struct exchange *x, struct event ev)
{
    uint64_t before = x->websocket ? moved(&x->websocket->up) + moved(&x->websocket->down) : 0;
    enum exchange_state next = step(x, ev);

    if (next == EXCHANGE_STAY && moved(&x->websocket->up) + moved(&x->websocket->down) != before)
        exchange_progress(x);
    return next;
}
