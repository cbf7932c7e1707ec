/* Owns the two connections of a client; one function thinks (link_turn), what it calls does one thing each. */
#include "sandbox/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/pipe.h"
#include "sandbox/reply.h"
#include "sandbox/scanner.h"

enum {
    CONNECT_MS = 10000, /* to reach the gateway */
    RETRY_MS = 50,      /* when its queue was full */
    HEAD_MS = 30000,    /* for a client's first head to be whole */
    LINGER_MS = 2000,   /* for our own answer to be read */
    PARTING_MS = 30000, /* for the client to go when the gateway has ended */
};

enum phase {
    DIALLING, /* no socket to the gateway yet, its queue is full */
    REACHING, /* the socket is being connected */
    PASSING,
    REFUSING, /* our own answer goes out, input is thrown away */
    OVER,
};

struct end {
    int in, out;
};

struct link {
    const struct link_terms *terms;
    enum phase phase;
    struct end client, gateway;
    struct pipe up, down;
    struct scanner scanner;
    struct reply reply;
    bool token_due; /* the scanner stands where it goes */
    bool switching; /* nothing more goes up before the gateway's answer is seen */
    bool deaf;      /* the gateway takes no more */
    bool answered;  /* the gateway has said something */
    bool was_head;  /* a first head was whole */
    int64_t deadline_ms; /* -1: none */
    int64_t retry_ms;
};

static void end_close(struct end *e)
{
    if (e->in >= 0)
        close(e->in);
    if (e->out >= 0 && e->out != e->in)
        close(e->out);
    e->in = e->out = -1;
}

/* So that the peer sees a cut, not an end. */
static void end_cut(struct end *e)
{
    struct linger at_once = {.l_onoff = 1};

    if (e->out >= 0)
        setsockopt(e->out, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    end_close(e);
}

static void end_shut(struct end *e)
{
    if (e->out >= 0 && e->in == e->out)
        shutdown(e->out, SHUT_WR);
    else if (e->out >= 0) {
        close(e->out);
        e->out = -1;
    }
}

static void cut(struct link *l)
{
    end_cut(&l->client);
    end_cut(&l->gateway);
    l->phase = OVER;
}

/* ---- our own answers ---- */

/*
 * Answer for the gateway, when it has not said anything; else the client would take it for part of what it is being
 * told, so that there is nothing but to cut.
 */
static void refuse(struct link *l, const char *status, const char *what, int64_t now_ms)
{
    int n;

    if (l->answered) {
        cut(l);
        return;
    }
    end_cut(&l->gateway);
    pipe_empty(&l->up);
    pipe_empty(&l->down);
    n = snprintf((char *)l->down.bytes, PIPE_READ,
                 "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n"
                 "exeat-relay: %s\n",
                 status, strlen(what) + strlen("exeat-relay: \n"), what);
    l->down.end = (size_t)n;
    pipe_clear_all(&l->down);
    l->down.over = true;
    l->phase = REFUSING;
    l->deadline_ms = now_ms + LINGER_MS;
}

/* ---- the way to the gateway ---- */

static void fail_to_reach(struct link *l, int error, int64_t now_ms)
{
    char place[160], text[240];

    endpoint_text(l->terms->gateway, place, sizeof place);
    snprintf(text, sizeof text, "no gateway at %s: %s", place, strerror(error));
    l->terms->say(text, "");
    refuse(l, "502 exeat-relay gateway_unreachable", text, now_ms);
}

static void dial(struct link *l, int64_t now_ms)
{
    int fd = endpoint_connect(l->terms->gateway);

    if (fd < 0 && errno == EAGAIN) {
        l->phase = DIALLING;
        l->retry_ms = now_ms + RETRY_MS;
        return;
    }
    if (fd < 0) {
        fail_to_reach(l, errno, now_ms);
        return;
    }
    l->gateway = (struct end){fd, fd};
    l->phase = REACHING;
}

static void on_reached(struct link *l, int64_t now_ms)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(l->gateway.out, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error) {
        fail_to_reach(l, error, now_ms);
        return;
    }
    l->phase = PASSING;
    l->deadline_ms = l->terms->pass ? now_ms + HEAD_MS : -1;
}

/* ---- up: what the client says ---- */

static void add_token(struct link *l, int64_t now_ms)
{
    struct pass *pass = l->terms->pass;

    if (!pass_refresh(pass)) {
        l->terms->say("no token to add", pass->trouble);
        refuse(l, "503 exeat-relay no_token", "there is no token to add to this request", now_ms);
        return;
    }
    if (pass->trouble[0])
        l->terms->say("the token that was read before stays in use", pass->trouble);
    l->token_due = !pipe_insert(&l->up, pass->field, pass->len);
}

static void on_scanned(struct link *l, enum scan_event event, int64_t now_ms)
{
    switch (event) {
    case SCAN_TOKEN:
        add_token(l, now_ms);
        return;
    case SCAN_SWITCH:
        l->switching = true;
        l->reply = (struct reply){.connect = l->scanner.connect};
        return;
    case SCAN_LARGE:
        refuse(l, "431 exeat-relay head_too_large", "this request's head is too large", now_ms);
        return;
    case SCAN_BAD:
        refuse(l, "400 exeat-relay bad_request", "this is no request to a proxy that can be understood beyond doubt", now_ms);
        return;
    default:
        return;
    }
}

/* Let pass what may, add tokens where they go. */
static void look(struct link *l, int64_t now_ms)
{
    struct pipe *up = &l->up;
    bool more = true;

    if (!l->terms->pass) {
        pipe_clear_all(up);
        return;
    }
    if (l->token_due)
        add_token(l, now_ms);
    while (more && l->phase == PASSING && !l->token_due && !l->switching && up->clear < up->end) {
        enum scan_event event;

        up->clear += scanner_feed(&l->scanner, up->bytes + up->clear, up->end - up->clear, &event);
        more = event != SCAN_MORE;
        on_scanned(l, event, now_ms);
    }
    if (!l->was_head && !l->scanner.first) {
        l->was_head = true;
        l->deadline_ms = -1;
    }
}

static void read_up(struct link *l)
{
    if (l->deaf)
        pipe_empty(&l->up);
    if (pipe_fill(&l->up, l->client.in) == PIPE_BROKEN)
        cut(l);
}

/* The gateway takes no more. What it still says is passed on, and what the client says is thrown away meanwhile. */
static void go_deaf(struct link *l)
{
    l->deaf = l->up.shut = true;
    pipe_empty(&l->up);
}

static void push_up(struct link *l, int64_t now_ms)
{
    enum pipe_says says;

    if (l->up.shut)
        return;
    do {
        look(l, now_ms);
        if (l->phase != PASSING)
            return;
        says = pipe_drain(&l->up, l->gateway.out);
    } while (says == PIPE_MOVED && l->token_due);
    if (says == PIPE_BROKEN && (l->down.over || errno == EPIPE)) { /* late words to one that has gone cut nothing off */
        go_deaf(l);
    } else if (says == PIPE_BROKEN) {
        cut(l);
    } else if (l->up.over && l->up.start == l->up.end) {
        end_shut(&l->gateway);
        l->up.shut = true;
    }
}

/* ---- down: what the gateway says ---- */

static void hear(struct link *l, size_t from)
{
    enum reply_says says;

    l->answered = true;
    if (!l->switching)
        return;
    says = reply_feed(&l->reply, l->down.bytes + from, l->down.end - from);
    if (says == REPLY_NOT_YET)
        return;
    l->switching = false;
    scanner_switch(&l->scanner, says == REPLY_YES);
}

static void read_down(struct link *l)
{
    size_t had = l->down.end - l->down.start;
    enum pipe_says says = pipe_fill(&l->down, l->gateway.in);

    if (says == PIPE_MOVED)
        hear(l, l->down.start + had);
    if (says == PIPE_BROKEN)
        cut(l);
    else
        pipe_clear_all(&l->down);
}

static void push_down(struct link *l, int64_t now_ms)
{
    if (pipe_drain(&l->down, l->client.out) == PIPE_BROKEN) {
        cut(l);
    } else if (l->down.over && !l->down.shut && l->down.start == l->down.end) {
        end_shut(&l->client);
        l->down.shut = true;
        l->deadline_ms = now_ms + PARTING_MS;
    }
}

/* Each way: read once, write what may go. What is heard from the gateway can let more go up. */
static void pass(struct link *l, const struct pollfd p[LINK_POLLS], int64_t now_ms)
{
    if (p[2].revents)
        read_down(l);
    if (l->phase == PASSING && p[0].revents)
        read_up(l);
    if (l->phase == PASSING)
        push_up(l, now_ms);
    if (l->phase == PASSING)
        push_down(l, now_ms);
}

/* ---- refusing ---- */

static void throw_input_away(struct link *l)
{
    while (!l->up.over) {
        pipe_empty(&l->up);
        if (pipe_fill(&l->up, l->client.in) != PIPE_MOVED)
            break;
    }
}

static void finish_refusal(struct link *l)
{
    throw_input_away(l);
    if (pipe_drain(&l->down, l->client.out) == PIPE_BROKEN)
        l->up.over = true;
    if (l->down.start == l->down.end && !l->down.shut) {
        end_shut(&l->client);
        l->down.shut = true;
    }
    if (l->up.over)
        l->phase = OVER;
}

/* ---- the interface ---- */

struct link *link_new(int in, int out, const struct link_terms *terms, int64_t now_ms)
{
    struct link *l = calloc(1, sizeof *l);

    if (!l) {
        end_close(&(struct end){in, out});
        return NULL;
    }
    l->terms = terms;
    l->client = (struct end){in, out};
    l->gateway = (struct end){-1, -1};
    l->deadline_ms = now_ms + CONNECT_MS;
    scanner_init(&l->scanner);
    dial(l, now_ms);
    return l;
}

void link_free(struct link *l)
{
    if (!l)
        return;
    end_close(&l->client);
    end_close(&l->gateway);
    free(l);
}

static struct pollfd wait_for(int fd, bool wanted, short events)
{
    return (struct pollfd){.fd = wanted ? fd : -1, .events = events};
}

int64_t link_wants(const struct link *l, struct pollfd p[LINK_POLLS])
{
    bool passing = l->phase == PASSING, refusing = l->phase == REFUSING;
    bool from_client = !l->up.over && ((passing && (l->deaf || pipe_has_room(&l->up))) || refusing);
    bool to_client = (passing || refusing) && l->down.start < l->down.clear;
    bool from_gateway = passing && !l->down.over && pipe_has_room(&l->down);
    bool to_gateway = l->phase == REACHING || (passing && !l->up.shut && l->up.start < l->up.clear);

    p[0] = wait_for(l->client.in, from_client, POLLIN);
    p[1] = wait_for(l->client.out, to_client, POLLOUT);
    p[2] = wait_for(l->gateway.in, from_gateway, POLLIN);
    p[3] = wait_for(l->gateway.out, to_gateway, POLLOUT);
    if (l->phase == DIALLING && l->retry_ms < l->deadline_ms)
        return l->retry_ms;
    return l->deadline_ms;
}

static void on_deadline(struct link *l, int64_t now_ms)
{
    if (l->phase == DIALLING || l->phase == REACHING)
        fail_to_reach(l, ETIMEDOUT, now_ms);
    else if (l->phase == PASSING && !l->down.shut)
        refuse(l, "408 exeat-relay head_too_slow", "the request's head did not arrive in time", now_ms);
    else
        cut(l);
}

static bool is_over(const struct link *l)
{
    bool both = l->up.shut && l->down.shut && (!l->deaf || l->up.over);

    return l->phase == OVER || (l->phase == PASSING && both);
}

bool link_turn(struct link *l, const struct pollfd p[LINK_POLLS], int64_t now_ms)
{
    bool ready = p[0].revents || p[1].revents || p[2].revents || p[3].revents;

    if (l->deadline_ms >= 0 && now_ms >= l->deadline_ms) {
        on_deadline(l, now_ms);
    } else if (l->phase == DIALLING && now_ms >= l->retry_ms) {
        dial(l, now_ms);
    } else if (l->phase == REACHING && p[3].revents) {
        on_reached(l, now_ms);
    } else if (l->phase == PASSING && ready) {
        pass(l, p, now_ms);
    } else if (l->phase == REFUSING && ready) {
        finish_refusal(l);
    }
    return !is_over(l);
}
