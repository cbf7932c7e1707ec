/*
 * Owns the TCP connections of DNS clients: whole messages are taken from them one after another, and no more than some are under way at once.
 * Who sends nothing whole for header-time is let go; so is the one who was silent for longest when all places are taken.
 */
#include <stdlib.h>
#include <unistd.h>

#include "net/stream.h"
#include "proxy/usher.h"

enum { LENGTH = 2, AT_ONCE = 16, TALKS_MAX = 512 };

struct talk {
    struct usher *usher;
    struct outlet *outlet; /* held */
    struct patron *patron; /* held */
    struct stream *stream;
    struct sockaddr_storage peer;
    socklen_t peer_len;
    size_t open;     /* questions under way */
    int64_t last_ms; /* a whole question, or an answer, went by */
    bool ended;      /* the client says no more */
    TAILQ_ENTRY(talk) link;
};

static void talk_close(struct talk *t)
{
    struct usher *u = t->usher;

    inquiries_forget(u, t);
    TAILQ_REMOVE(&u->talks, t, link);
    u->n_talks--;
    t->patron->conns--;
    patron_unref(t->patron);
    usher_count(u, COUNTER_DNS_CONNECTIONS, -1);
    stream_close(t->stream, true);
    outlet_unref(t->outlet);
    free(t);
}

static void note(struct talk *t)
{
    t->last_ms = loop_now_ms(t->usher->role->loop);
    TAILQ_REMOVE(&t->usher->talks, t, link);
    TAILQ_INSERT_TAIL(&t->usher->talks, t, link);
}

static void take(struct talk *t, struct slice message)
{
    struct asked from = {.outlet = t->outlet, .talk = t, .fd = -1, .peer = t->peer, .peer_len = t->peer_len};

    t->open++;
    if (!inquiry_take(&from, message))
        t->open--;
}

/* False: what comes is no question, and the connection is over. */
static bool read_questions(struct talk *t)
{
    while (t->open < AT_ONCE && stream_pending(t->stream) < STREAM_LOW) {
        struct slice input = stream_input(t->stream);
        size_t len;

        if (input.len < LENGTH)
            return true;
        len = (size_t)(unsigned char)input.ptr[0] << 8 | (unsigned char)input.ptr[1];
        if (len < DNS_HEADER || len > DNS_ASKED_MAX)
            return false;
        if (input.len < LENGTH + len)
            return true;
        note(t);
        take(t, slice_cut(input, LENGTH, LENGTH + len));
        stream_consume(t->stream, LENGTH + len);
    }
    return true;
}

static void on_stream(void *arg, enum stream_event event)
{
    struct talk *t = arg;

    if (event == STREAM_END)
        t->ended = true;
    if (event == STREAM_CUT || event == STREAM_FAIL || !read_questions(t) || (t->ended && !t->open))
        talk_close(t);
    else
        stream_flush(t->stream);
}

void talk_answer(struct talk *t, struct slice message)
{
    const char len[LENGTH] = {(char)(message.len >> 8), (char)message.len};

    buf_append(stream_out(t->stream), slice_make(len, LENGTH));
    buf_append(stream_out(t->stream), message);
    stream_flush(t->stream);
    note(t);
}

/* What waited behind it is taken from here, and not by the client's next byte. */
void talk_done(struct talk *t)
{
    t->open--;
    if (!read_questions(t))
        t->ended = true;
}

static void make_room(struct usher *u)
{
    if (u->n_talks >= TALKS_MAX)
        talk_close(TAILQ_FIRST(&u->talks));
}

void talk_start(struct outlet *o, int fd)
{
    struct usher *u = o->usher;
    struct talk *t = calloc(1, sizeof *t);
    struct addr peer = {0};

    if (!t)
        abort();
    *t = (struct talk){.usher = u, .peer_len = sizeof t->peer};
    if (getpeername(fd, (struct sockaddr *)&t->peer, &t->peer_len) == 0)
        addr_from_sockaddr(&peer, (struct sockaddr *)&t->peer);
    t->patron = o->zone && peer.family ? patrons_find(u->patrons, o->zone->sandbox, &peer, loop_now_ms(u->role->loop)) : NULL;
    if (!t->patron || t->patron->conns >= u->limits.dns_connections) {
        patron_unref(t->patron);
        close(fd);
        free(t);
        return;
    }
    make_room(u);
    t->patron->conns++;
    t->outlet = outlet_ref(o);
    t->last_ms = loop_now_ms(u->role->loop);
    t->stream = stream_new(u->role->loop, fd, on_stream, t);
    TAILQ_INSERT_TAIL(&u->talks, t, link);
    u->n_talks++;
    usher_count(u, COUNTER_DNS_CONNECTIONS, 1);
}

void talks_tick(struct usher *u)
{
    int64_t now = loop_now_ms(u->role->loop);
    struct talk *next;

    for (struct talk *t = TAILQ_FIRST(&u->talks); t; t = next) {
        next = TAILQ_NEXT(t, link);
        if ((t->ended && !t->open) || now - t->last_ms >= u->limits.header_ms)
            talk_close(t);
    }
}

void talks_close(struct usher *u, const struct outlet *of)
{
    struct talk *next;

    for (struct talk *t = TAILQ_FIRST(&u->talks); t; t = next) {
        next = TAILQ_NEXT(t, link);
        if (!of || t->outlet == of)
            talk_close(t);
    }
}
