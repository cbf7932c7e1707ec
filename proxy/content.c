/* The request's content: through the scanner and within its limits; and COLLECT, which takes it in before the head goes out. */
#include "canary/gzip.h"
#include "proxy/rewrite.h"
#include "proxy/steps.h"

enum { OPENED_MAX = 8 << 20 };

static enum exchange_state body_leak(struct exchange *x, struct hit hit)
{
    return exchange_leak(x, &hit, "body");
}

static enum exchange_state too_large(struct exchange *x)
{
    x->keep_alive = false;
    exchange_drop_upstream(x, false);
    return exchange_refuse(x, REASON_BODY_TOO_LARGE, NULL);
}

static enum exchange_state bad_body(struct exchange *x, const struct fault *why)
{
    x->keep_alive = false;
    exchange_drop_upstream(x, false);
    return exchange_refuse(x, why->reason ? why->reason : REASON_REQUEST_MALFORMED, why->text);
}

/* The trailers as they go out, and a look through exactly those bytes. */
static bool trailers_leak(struct exchange *x, struct buf *out, struct hit *hit)
{
    size_t n = 0;
    const struct field *trailers = message_trailers(x->session->message, &n);

    if (n == 0)
        return false;
    rewrite_request_trailers(x->head, x->decision.service, trailers, n, out, &x->dropped);
    *hit = scanner_text_with(x->worker->scanner, buf_slice(out), exchange_token(x));
    return hit->found;
}

static enum exchange_state unscannable(struct exchange *x, const char *text)
{
    x->coding = CODING_OTHER;
    buf_free(&x->packed);
    if (service_allows_unscannable(x->decision.service))
        return EXCHANGE_STAY;
    x->keep_alive = x->keep_alive && x->body_done;
    return exchange_refuse(x, REASON_UNSCANNABLE, text);
}

/* A gzip body is whole, and nothing of it went out. */
static enum exchange_state look_inside(struct exchange *x)
{
    struct buf opened = {0};
    struct hit hit = {0};
    bool ok = !buf_len(&x->packed) || gzip_open(buf_slice(&x->packed), OPENED_MAX, &opened);

    if (ok)
        hit = scanner_text_with(x->worker->scanner, buf_slice(&opened), exchange_token(x));
    buf_wipe(&opened);
    buf_free(&x->packed);
    if (hit.found)
        return exchange_leak(x, &hit, "gzip body");
    return ok ? EXCHANGE_STAY : unscannable(x, "the body is not whole gzip, or holds too much");
}

static enum exchange_state body_complete(struct exchange *x)
{
    enum exchange_state next = EXCHANGE_STAY;
    struct buf trailers = {0};
    struct hit hit = {0};

    if (trailers_leak(x, &trailers, &hit)) {
        next = exchange_leak(x, &hit, "trailer");
    } else {
        hit = flow_end(&x->up, buf_slice(&trailers));
        x->body_done = !hit.found;
        if (hit.found)
            next = body_leak(x, hit);
        else if (x->coding == CODING_GZIP)
            next = look_inside(x);
    }
    buf_free(&trailers);
    return next;
}

/* A piece of content: none goes on that the service does not take, nor of a chunk that says it will be more. */
static enum exchange_state take_piece(struct exchange *x, struct slice piece)
{
    uint64_t room = service_body_limit(x->decision.service) - x->up.total;
    enum exchange_state refused;
    struct hit hit;

    if (piece.len > room || message_announced(x->session->message) > room - piece.len)
        return too_large(x);
    if ((refused = admit_bytes(x, piece.len)) != EXCHANGE_STAY)
        return refused;
    if (x->coding == CODING_GZIP)
        buf_append(&x->packed, piece);
    hit = flow_data(&x->up, piece);
    return hit.found ? body_leak(x, hit) : EXCHANGE_STAY;
}

enum exchange_state content_renew(struct exchange *x)
{
    struct hit hit = {0};

    flow_renew(&x->down, x->worker->scanner, slice_make("", 0));
    if (!x->body_done)
        hit = flow_renew(&x->up, x->worker->scanner, exchange_token(x));
    return hit.found ? body_leak(x, hit) : EXCHANGE_STAY;
}

enum exchange_state content_take(struct exchange *x, bool *more)
{
    struct session *s = x->session;
    struct slice input = stream_input(s->client);
    enum exchange_state next = EXCHANGE_STAY;
    struct fault why = {0};
    size_t used = 0;

    switch (message_feed(s->message, input, &used, &why)) {
    case MESSAGE_BODY:
        next = take_piece(x, message_body(s->message));
        break;
    case MESSAGE_END:
        *more = false;
        next = body_complete(x);
        break;
    case MESSAGE_TRAILERS:
        break;
    case MESSAGE_BAD:
        return bad_body(x, &why);
    default:
        *more = false;
        stream_look_again(s->client);
        break;
    }
    stream_consume(s->client, used);
    return next;
}

/* ---- COLLECT ---- */

void content_begin(struct exchange *x)
{
    flow_start(&x->up, x->worker->scanner, exchange_token(x), x->head->framing, true);
    x->up.length = x->head->framing == FRAMING_LENGTH ? x->head->length : 0;
}

static bool is_enough(const struct exchange *x)
{
    return x->up.total >= x->worker->limits.body_collect && !message_is_whole(x->session->message);
}

static enum exchange_state collect(struct exchange *x)
{
    bool more = true;

    while (more) {
        enum exchange_state next = content_take(x, &more);

        if (next != EXCHANGE_STAY)
            return next;
        if (x->body_done)
            return EXCHANGE_RECORD;
        if (is_enough(x)) {
            next = x->coding == CODING_GZIP ? unscannable(x, "a gzip body over limits.body-collect") : EXCHANGE_STAY;
            return next == EXCHANGE_STAY ? EXCHANGE_RECORD : next;
        }
    }
    if (x->session->client_ended) {
        x->reason = REASON_CLIENT_CLOSED;
        return exchange_end(x, EXCHANGE_CUT, "cut");
    }
    return EXCHANGE_STAY;
}

enum exchange_state content_on_collect(struct exchange *x, struct event ev)
{
    switch (ev.type) {
    case EV_ENTER:
        content_begin(x);
        return collect(x);
    case EV_CLIENT_DATA:
        exchange_progress(x);
        return collect(x);
    case EV_DEADLINE:
        x->keep_alive = false;
        return exchange_refuse(x, REASON_REQUEST_TIMEOUT, "the body did not arrive in time");
    default:
        return EXCHANGE_STAY;
    }
}
