/* Owns the visitors of the publish listener. Knows HTTP, not what is published. */
#include "proxy/publish.h"

#include <stdlib.h>

#include "base/clock.h"
#include "net/head.h"
#include "net/stream.h"
#include "proxy/door.h"

enum { VISITORS_MAX = 64, HEAD_MAX = 8192, TARGET_MAX = 1024, FIELDS_MAX = 64, LINGER_MS = 5000 };

#define TEXT "text/plain; charset=utf-8"

enum visit_state {
    VISIT_READ,   /* a request head */
    VISIT_WAIT,   /* the answer */
    VISIT_LINGER, /* the peer's end; its input is dropped */
};

struct visit {
    struct visit *next, **link;
    struct publish *publish;
    uint64_t ticket;
    enum visit_state state;
    struct stream *stream;
    struct message *message;
    struct timer *timer;
    bool head_only;
};

struct publish {
    struct loop *loop;
    struct door *door;
    publish_ask *ask;
    void *arg;
    struct visit *visits;
    uint64_t last_ticket;
};

static void visit_free(struct visit *v)
{
    *v->link = v->next;
    if (v->next)
        v->next->link = v->link;
    stream_close(v->stream, false);
    message_free(v->message);
    timer_free(v->timer);
    if (v->publish->door)
        door_left(v->publish->door);
    free(v);
}

static const char *phrase(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 503:
        return "Service Unavailable";
    default:
        return "Refused";
    }
}

static void reply_to(struct visit *v, const struct publish_reply *reply)
{
    struct buf *out = stream_out(v->stream);

    buf_printf(out, "HTTP/1.1 %d %s\r\nDate: ", reply->status, phrase(reply->status));
    clock_http_date(out, loop_wall_s(v->publish->loop));
    buf_printf(out, "\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
               "X-Content-Type-Options: nosniff\r\nConnection: close\r\n%s\r\n",
               reply->type, reply->body.len, reply->status == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (!v->head_only)
        stream_write(v->stream, reply->body);
    stream_flush(v->stream);
    stream_end(v->stream);
    v->state = VISIT_LINGER;
    timer_set(v->timer, LINGER_MS);
}

static void refuse(struct visit *v, int status, struct slice text)
{
    reply_to(v, &(struct publish_reply){status, TEXT, text});
}

static void on_head(struct visit *v)
{
    const struct head *h = message_head(v->message);
    struct slice rest = h->target, path = rest;

    v->head_only = slice_is(h->method, "HEAD");
    if (!v->head_only && !slice_is(h->method, "GET")) {
        refuse(v, 405, SLICE("only GET and HEAD are answered here\n"));
        return;
    }
    if (h->framing != FRAMING_NONE && !(h->framing == FRAMING_LENGTH && h->length == 0)) {
        refuse(v, 400, SLICE("a request with a body is not understood here\n"));
        return;
    }
    slice_next(&rest, '?', &path);
    v->state = VISIT_WAIT;
    timer_set(v->timer, PUBLISH_WAIT_MS);
    v->publish->ask(v->publish->arg, v->ticket, path);
}

static void on_bad(struct visit *v, const struct fault *why)
{
    int status = reason_get(why->reason)->status;
    struct buf text = {0};

    buf_printf(&text, "%s\n", why->text);
    refuse(v, status ? status : 400, buf_slice(&text));
    buf_free(&text);
}

static void read_head(struct visit *v)
{
    struct fault why = {0};
    size_t used = 0;
    enum message_event e = message_feed(v->message, stream_input(v->stream), &used, &why);

    stream_consume(v->stream, used);
    if (e == MESSAGE_HEAD)
        on_head(v);
    else if (e != MESSAGE_MORE)
        on_bad(v, &why);
}

static void on_stream(void *arg, enum stream_event event)
{
    struct visit *v = arg;

    switch (event) {
    case STREAM_DATA:
        if (v->state == VISIT_READ)
            read_head(v);
        else
            stream_consume(v->stream, stream_input(v->stream).len);
        break;
    case STREAM_END:
        if (v->state != VISIT_WAIT)
            visit_free(v);
        break;
    case STREAM_CUT:
    case STREAM_FAIL:
        visit_free(v);
        break;
    case STREAM_UP:
    case STREAM_ROOM:
        break;
    }
}

static void on_late(void *arg)
{
    struct visit *v = arg;

    if (v->state == VISIT_WAIT)
        refuse(v, 503, SLICE("no answer from the supervisor\n"));
    else
        visit_free(v);
}

static const struct message_limits limits = {.head = HEAD_MAX, .target = TARGET_MAX, .n_fields = FIELDS_MAX};

static void on_visitor(void *arg, int fd)
{
    struct publish *p = arg;
    struct visit *v = calloc(1, sizeof *v);

    if (!v)
        abort();
    *v = (struct visit){.publish = p, .ticket = ++p->last_ticket, .next = p->visits, .link = &p->visits};
    if (v->next)
        v->next->link = &v->next;
    p->visits = v;
    v->stream = stream_new(p->loop, fd, on_stream, v);
    v->message = message_new(MESSAGE_REQUEST, &limits);
    v->timer = timer_new(p->loop, on_late, v);
    timer_set(v->timer, PUBLISH_WAIT_MS);
}

struct publish *publish_new(struct loop *l, int fd, publish_ask *ask, void *arg)
{
    struct publish *p = calloc(1, sizeof *p);

    if (!p)
        abort();
    *p = (struct publish){.loop = l, .ask = ask, .arg = arg};
    p->door = door_new(l, fd, VISITORS_MAX, on_visitor, p);
    return p;
}

void publish_free(struct publish *p)
{
    if (!p)
        return;
    door_free(p->door);
    p->door = NULL;
    while (p->visits)
        visit_free(p->visits);
    free(p);
}

void publish_answer(struct publish *p, uint64_t ticket, const struct publish_reply *reply)
{
    struct visit *v = p->visits;

    while (v && v->ticket != ticket)
        v = v->next;
    if (v && v->state == VISIT_WAIT)
        reply_to(v, reply);
}
