/* Owns one call: a dial, a TLS handshake, one request and its answer. Knows neither token endpoints nor keys. */
#include "proxy/call.h"

#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "net/stream.h"
#include "proxy/outgoing.h"
#include "proxy/role.h"

struct call {
    struct loop *loop;
    call_done *done;
    void *arg;
    char *host, *service, *issuer, *address;
    struct recorder *recorder;
    struct tls_client *trust;
    struct buf request; /* with secrets */
    struct ask *dial;
    struct stream *stream;
    struct message *answer;
    struct buf body;
    size_t answer_max;
    struct timer *timer;
    bool no_porter, asked;
};

enum { ADDRESS_MAX = 64 };

static const struct message_limits limits = {.head = 16384, .target = 1024, .n_fields = 64};

/* ---- the end ---- */

static void close_stream(struct call *c)
{
    const struct outgoing o = {.service = c->service, .issuer = c->issuer, .address = c->address, .exchanges = c->asked};
    struct meter count;

    if (!stream_close_counted(c->stream, false, &count))
        return;
    count.unsent = 0;
    outgoing_record(c->recorder, &o, &count);
}

static void call_free(struct call *c)
{
    ask_cancel(c->dial, MSG_DIAL_CANCEL);
    close_stream(c);
    message_free(c->answer);
    tls_client_free(c->trust);
    timer_free(c->timer);
    buf_wipe(&c->request);
    buf_wipe(&c->body);
    free(c->host);
    free(c->service);
    free(c->issuer);
    free(c->address);
    free(c);
}

void call_cancel(struct call *c)
{
    if (c)
        call_free(c);
}

static void fail(struct call *c, const char *why)
{
    call_done *done = c->done;
    void *arg = c->arg;
    char text[FAULT_TEXT_SIZE];

    snprintf(text, sizeof text, "%s", why);
    call_free(c);
    done(arg, NULL, slice_make("", 0), text);
}

/* The callback may do anything but with this call. */
static void finish(struct call *c)
{
    call_done *done = c->done;
    void *arg = c->arg;

    close_stream(c);
    c->stream = NULL;
    done(arg, message_head(c->answer), buf_slice(&c->body), NULL);
    call_free(c);
}

/* ---- the answer ---- */

/* One event of it; false: the call is over, or there is no more for now. */
static bool take(struct call *c)
{
    struct fault why = {0};
    size_t used = 0;
    enum message_event e = message_feed(c->answer, stream_input(c->stream), &used, &why);

    if (e == MESSAGE_BODY)
        buf_append(&c->body, message_body(c->answer));
    stream_consume(c->stream, used);
    if (e == MESSAGE_BAD || buf_len(&c->body) > c->answer_max) {
        fail(c, e == MESSAGE_BAD ? "its answer is no HTTP message" : "its answer is too long");
        return false;
    }
    if (e == MESSAGE_END && message_head(c->answer)->status < 200) { /* an interim answer; the real one follows */
        message_reset(c->answer);
        message_expect(c->answer, false);
        return true;
    }
    if (e == MESSAGE_MORE)
        stream_look_again(c->stream);
    if (e == MESSAGE_END)
        finish(c);
    return e != MESSAGE_END && e != MESSAGE_MORE;
}

static void on_end(struct call *c)
{
    if (message_is_open(c->answer) && message_finish(c->answer, NULL) == MESSAGE_END)
        finish(c);
    else
        fail(c, "it closed before its answer was complete");
}

static void on_stream(void *arg, enum stream_event event)
{
    struct call *c = arg;

    switch (event) {
    case STREAM_UP:
        stream_write(c->stream, buf_slice(&c->request));
        stream_flush(c->stream);
        c->asked = true;
        buf_wipe(&c->request);
        break;
    case STREAM_DATA:
        while (take(c))
            continue;
        break;
    case STREAM_END:
        on_end(c);
        break;
    case STREAM_CUT:
        fail(c, "the connection broke");
        break;
    case STREAM_FAIL:
        fail(c, stream_fault(c->stream)->text);
        break;
    case STREAM_ROOM:
        break;
    }
}

/* ---- the way there ---- */

static void begin_tls(struct call *c, int fd)
{
    struct fault why = {0};
    SSL *ssl = tls_client_connect(c->trust, c->host, NULL, NULL, NULL, &why);

    c->stream = stream_new(c->loop, fd, on_stream, c);
    if (ssl)
        stream_start_tls(c->stream, ssl);
    else
        fail(c, why.text);
}

static void on_dialled(void *arg, uint16_t type, struct unpack *payload, int fd)
{
    struct call *c = arg;
    char text[FAULT_TEXT_SIZE] = "the porter is not there";

    c->dial = NULL;
    if (type == MSG_DIALLED && fd >= 0) {
        c->address = text_copy(slice_cut(unpack_bytes(payload), 0, ADDRESS_MAX));
        begin_tls(c, fd);
        return;
    }
    if (fd >= 0)
        close(fd);
    if (type == MSG_NOT_DIALLED) {
        enum reason reason = (enum reason)unpack_u16(payload);
        struct slice detail = slice_cut(unpack_bytes(payload), 0, 160);

        snprintf(text, sizeof text, "%s: %.*s", reason_code(reason < N_REASONS ? reason : REASON_CONNECT_FAILED),
                 SLICE_ARG(detail));
    }
    fail(c, text);
}

static void on_late(void *arg)
{
    struct call *c = arg;

    fail(c, c->no_porter ? "the porter is not there" : "it did not answer in time");
}

struct call *call_start(struct loop *loop, const struct call_order *order, call_done *done, void *arg)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    *c = (struct call){.loop = loop, .done = done, .arg = arg, .recorder = order->recorder, .trust = order->trust, .answer_max = order->answer_max};
    c->host = text_copy(slice_of(order->host));
    c->service = order->service ? text_copy(slice_of(order->service)) : NULL;
    c->issuer = order->issuer ? text_copy(slice_of(order->issuer)) : NULL;
    buf_append(&c->request, order->request);
    c->answer = message_new(MESSAGE_RESPONSE, &limits);
    message_expect(c->answer, false);
    c->timer = timer_new(loop, on_late, c);
    timer_set(c->timer, order->wait_ms);
    if (!(c->dial = ask_start(order->porter, order->dial, order->dial_body, on_dialled, c))) {
        c->no_porter = true;
        timer_set(c->timer, 0);
    }
    return c;
}
