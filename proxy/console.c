/* Owns the visitors of the admin socket. Knows lines and users, not what is asked. */
#include "proxy/console.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/say.h"
#include "net/stream.h"
#include "proxy/door.h"

enum { VISITORS_MAX = 16, LINGER_MS = 2000 };

enum talk_state {
    TALK_READ,   /* a line */
    TALK_WAIT,   /* the answer */
    TALK_LINGER, /* the peer's end */
};

struct talk {
    struct talk *next, **link;
    struct console *console;
    uint64_t ticket;
    uid_t uid;
    enum talk_state state;
    struct stream *stream;
    struct timer *timer;
};

struct console {
    struct loop *loop;
    struct door *door;
    uid_t owner;
    console_ask *ask;
    void *arg;
    struct talk *talks;
    uint64_t last_ticket;
};

static const struct slice forbidden =
    SLICE("{\"ok\":false,\"error\":\"only root and the user that started the gateway may ask\"}");

bool console_may_ask(uid_t asker, uid_t owner)
{
    return asker == 0 || asker == owner;
}

static bool user_of(int fd, uid_t *uid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || len != sizeof peer)
        return false;
    *uid = peer.uid;
    return true;
}

static void talk_free(struct talk *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    stream_close(t->stream, false);
    timer_free(t->timer);
    if (t->console->door)
        door_left(t->console->door);
    free(t);
}

static void reply_to(struct talk *t, struct slice line)
{
    stream_write(t->stream, line);
    stream_write(t->stream, SLICE("\n"));
    stream_flush(t->stream);
    stream_end(t->stream);
    t->state = TALK_LINGER;
    timer_set(t->timer, LINGER_MS);
}

static void read_line(struct talk *t)
{
    struct slice input = stream_input(t->stream);
    ptrdiff_t end = slice_find(input, '\n');

    if (end < 0 && input.len <= CONSOLE_LINE_MAX)
        return;
    if (end < 0 || end > CONSOLE_LINE_MAX) {
        reply_to(t, SLICE("{\"ok\":false,\"error\":\"the line is too long\"}"));
        stream_consume(t->stream, input.len);
        return;
    }
    t->state = TALK_WAIT;
    timer_set(t->timer, CONSOLE_WAIT_MS);
    t->console->ask(t->console->arg, t->ticket, t->uid, slice_cut(input, 0, (size_t)end));
}

static void on_stream(void *arg, enum stream_event event)
{
    struct talk *t = arg;

    switch (event) {
    case STREAM_DATA:
        if (t->state == TALK_READ)
            read_line(t);
        if (t->state != TALK_READ)
            stream_consume(t->stream, stream_input(t->stream).len);
        break;
    case STREAM_END: /* a client may send its line, end, and wait for the answer */
        if (t->state != TALK_WAIT)
            talk_free(t);
        break;
    case STREAM_CUT:
    case STREAM_FAIL:
        talk_free(t);
        break;
    case STREAM_UP:
    case STREAM_ROOM:
        break;
    }
}

static void on_late(void *arg)
{
    struct talk *t = arg;

    if (t->state == TALK_WAIT)
        reply_to(t, SLICE("{\"ok\":false,\"error\":\"the supervisor does not answer\"}"));
    else
        talk_free(t);
}

static void on_visitor(void *arg, int fd)
{
    struct console *a = arg;
    struct talk *t = calloc(1, sizeof *t);
    uid_t uid = 0;
    bool known = user_of(fd, &uid);

    if (!t)
        abort();
    *t = (struct talk){.console = a, .ticket = ++a->last_ticket, .uid = uid, .next = a->talks, .link = &a->talks};
    if (t->next)
        t->next->link = &t->next;
    a->talks = t;
    t->stream = stream_new(a->loop, fd, on_stream, t);
    t->timer = timer_new(a->loop, on_late, t);
    timer_set(t->timer, CONSOLE_WAIT_MS);
    if (known && console_may_ask(uid, a->owner))
        return;
    say_warning("admin socket: refused user %d", known ? (int)uid : -1);
    reply_to(t, forbidden);
}

struct console *console_new(struct loop *l, int fd, console_ask *ask, void *arg)
{
    struct console *a = calloc(1, sizeof *a);

    if (!a)
        abort();
    *a = (struct console){.loop = l, .ask = ask, .arg = arg};
    /* Of a listening socket the kernel tells who called listen(): the supervisor. Unknown: root alone. */
    if (!user_of(fd, &a->owner))
        a->owner = 0;
    a->door = door_new(l, fd, VISITORS_MAX, on_visitor, a);
    return a;
}

void console_free(struct console *a)
{
    if (!a)
        return;
    door_free(a->door);
    a->door = NULL;
    while (a->talks)
        talk_free(a->talks);
    free(a);
}

/* NULL when the visitor is gone, or has his answer. */
static struct talk *find_waiting(const struct console *a, uint64_t ticket)
{
    struct talk *t = a->talks;

    while (t && t->ticket != ticket)
        t = t->next;
    return t && t->state == TALK_WAIT ? t : NULL;
}

void console_answer(struct console *a, uint64_t ticket, struct slice line)
{
    struct talk *t = find_waiting(a, ticket);

    if (t)
        reply_to(t, line);
}

void console_wait(struct console *a, uint64_t ticket, int64_t ms)
{
    struct talk *t = find_waiting(a, ticket);

    if (t)
        timer_set(t->timer, ms);
}
