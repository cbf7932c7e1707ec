/*
 * The roof of the benchmark: a TLS-to-TLS relay that reads, decrypts, encrypts and writes, and looks at nothing.
 * One process, one epoll. A TLS connection that comes in gets one of its own to the upstream, with a full handshake.
 * Usage: relay ADDRESS CERT KEY UPSTREAM UPSTREAM-CA UPSTREAM-NAME
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "bench/wire.h"

struct side {
    struct pair *pair;
    struct wire wire;
    uint32_t interest; /* what epoll was told */
    bool ended;        /* nothing more comes from here */
    char *left;        /* bytes for here that the socket did not take */
    size_t left_at, left_len;
};

struct pair {
    struct side sides[2]; /* client, upstream */
    struct pair *next;    /* dead ones, freed after the turn */
    bool dead;
};

static SSL_CTX *server, *client;
static const char *upstream, *upstream_name;
static int epoll_fd;
static struct pair *dead;

static struct side *other(struct side *s)
{
    return &s->pair->sides[s == s->pair->sides];
}

static uint32_t interest_of(struct side *s)
{
    if (!SSL_is_init_finished(s->wire.ssl))
        return EPOLLIN | (SSL_want_write(s->wire.ssl) ? EPOLLOUT : 0);
    return (s->ended || other(s)->left_len ? 0 : EPOLLIN) | (s->left_len ? EPOLLOUT : 0);
}

static void set_interest(struct side *s)
{
    struct epoll_event e = {.events = interest_of(s), .data.ptr = s};

    if (e.events != s->interest)
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->wire.fd, &e);
    s->interest = e.events;
}

static void kill_pair(struct pair *p)
{
    if (p->dead)
        return;
    p->dead = true;
    p->next = dead;
    dead = p;
    for (int i = 0; i < 2; i++)
        wire_close(&p->sides[i].wire);
}

static void keep(struct side *s, const char *bytes, size_t n)
{
    if (!(s->left = malloc(n)))
        die("no memory");
    memcpy(s->left, bytes, n);
    s->left_at = 0;
    s->left_len = n;
}

/* False when the connection broke. */
static bool flush(struct side *s)
{
    while (s->left_len) {
        ssize_t put = wire_write(&s->wire, s->left + s->left_at, s->left_len);

        if (put <= 0)
            return put == WIRE_AGAIN;
        s->left_at += (size_t)put;
        s->left_len -= (size_t)put;
        if (s->left_len == 0) {
            free(s->left);
            s->left = NULL;
        }
    }
    return true;
}

static bool forward(struct side *to, const char *bytes, size_t n)
{
    while (n) {
        ssize_t put = wire_write(&to->wire, bytes, n);

        if (put == WIRE_AGAIN) {
            keep(to, bytes, n);
            return true;
        }
        if (put < 0)
            return false;
        bytes += put;
        n -= (size_t)put;
    }
    return true;
}

/* Read once, and again only while decrypted or buffered bytes are at hand: no read that finds nothing. */
static bool pump(struct side *from)
{
    static char bytes[16384];

    while (!from->ended && !other(from)->left_len) {
        ssize_t got = wire_read(&from->wire, bytes, sizeof bytes);

        if (got == WIRE_AGAIN)
            return true;
        if (got == WIRE_FAIL)
            return false;
        if (got == WIRE_END) {
            from->ended = true;
            SSL_shutdown(other(from)->wire.ssl);
            return !other(from)->ended;
        }
        if (!forward(other(from), bytes, (size_t)got))
            return false;
        if (!SSL_has_pending(from->wire.ssl))
            return true;
    }
    return true;
}

static void on_event(struct side *s)
{
    bool was_blocked = s->left_len > 0;

    if (s->pair->dead)
        return;
    if (!flush(s) || !pump(s) || (was_blocked && !pump(other(s)))) {
        kill_pair(s->pair);
        return;
    }
    set_interest(s);
    set_interest(other(s));
}

static void add(struct pair *p, int i, int fd)
{
    struct side *s = &p->sides[i];
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

    s->pair = p;
    s->wire.fd = fd;
    s->interest = EPOLLIN;
    if (i == 0)
        wire_start_server(&s->wire, server);
    else
        wire_start_client(&s->wire, client, upstream_name);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static void accept_all(int listener)
{
    int fd;

    while ((fd = wire_accept(listener)) >= 0) {
        struct pair *p = calloc(1, sizeof *p);

        if (!p)
            die("no memory");
        add(p, 0, fd);
        add(p, 1, wire_connect(upstream));
        on_event(&p->sides[1]);
    }
}

static void free_dead(void)
{
    while (dead) {
        struct pair *p = dead;

        dead = p->next;
        free(p->sides[0].left);
        free(p->sides[1].left);
        free(p);
    }
}

int main(int argc, char **argv)
{
    struct epoll_event e = {.events = EPOLLIN}, ready[256];
    int listener;

    if (argc != 7)
        die("usage: relay ADDRESS CERT KEY UPSTREAM UPSTREAM-CA UPSTREAM-NAME");
    wire_need_files(12000);
    server = wire_server_context(argv[2], argv[3]);
    client = wire_client_context(argv[5]);
    upstream = argv[4];
    upstream_name = argv[6];
    listener = wire_listen(argv[1]);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        int n = epoll_wait(epoll_fd, ready, 256, -1);

        if (n < 0 && errno != EINTR)
            die("epoll_wait: %s", strerror(errno));
        for (int i = 0; i < n; i++)
            if (ready[i].data.ptr)
                on_event(ready[i].data.ptr);
            else
                accept_all(listener);
        free_dead();
    }
}
