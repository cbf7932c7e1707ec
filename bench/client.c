#include "bench/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#define HEAD_MAX 8192
#define BLOCK 65536
#define OPEN_AT_ONCE 64

enum state { CLOSED, TUNNEL_SEND, TUNNEL_ANSWER, SEND, ANSWER, BODY, HELD };

struct client {
    struct wire wire;
    enum state state;
    size_t sent; /* of the text of this state */
    uint64_t upload_left, body_left, since_ns;
    size_t head_len;
    char head[HEAD_MAX];
};

static const struct plan *plan;
static struct tally *tally;
static int epoll_fd;
static unsigned live; /* clients with something to do */
static struct client *clients;
static uint64_t started, goal; /* requests of this run */
static char tunnel_text[HEAD_MAX], request_text[HEAD_MAX];
static char block[BLOCK];

static void make_texts(void)
{
    bool shows = plan->token && !plan->tunnel;
    const char *host = plan->authority ? plan->authority : plan->tunnel ? plan->tunnel : plan->name;
    int n = snprintf(request_text, sizeof request_text, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\n"
                     "Accept: */*\r\n%s%s%s", plan->method, plan->path, host, shows ? "Authorization: Bearer " : "",
                     shows ? plan->token : "", shows ? "\r\n" : "");

    if (plan->upload)
        snprintf(request_text + n, sizeof request_text - (size_t)n, "Content-Length: %llu\r\n\r\n",
                 (unsigned long long)plan->upload);
    else
        snprintf(request_text + n, sizeof request_text - (size_t)n, "\r\n");
    if (plan->tunnel)
        snprintf(tunnel_text, sizeof tunnel_text, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", plan->tunnel,
                 plan->tunnel, plan->token ? "Proxy-Authorization: Bearer " : "", plan->token ? plan->token : "",
                 plan->token ? "\r\n" : "");
    uint64_t x = 88172645463325252U;
    for (size_t i = 0; i < BLOCK; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        block[i] = (char)(x >> 56);
    }
}

static void begin_request(struct client *c)
{
    started++;
    c->state = SEND;
    c->sent = 0;
    c->head_len = 0;
    c->upload_left = plan->upload;
    if (!plan->is_new)
        c->since_ns = wire_now_ns();
}

static void begin_tls(struct client *c)
{
    wire_start_client(&c->wire, plan->tls, plan->name);
    begin_request(c);
}

static void client_open(struct client *c)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};

    c->since_ns = wire_now_ns();
    c->wire = (struct wire){.fd = wire_connect(plan->address)};
    c->sent = c->head_len = 0;
    if (plan->tunnel)
        c->state = TUNNEL_SEND;
    else
        begin_tls(c);
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->wire.fd, &e) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

static void failed(struct client *c, const char *what)
{
    static const char *const names[] = {"", "sending CONNECT", "the answer to CONNECT", "sending", "the answer",
                                        "a body", "waiting"};

    if (tally->failures++ == 0)
        fprintf(stderr, "bench: %s: %s%s%.*s\n", names[c->state], what, c->head_len ? ": " : "",
                (int)strcspn(c->head, "\r\n"), c->head_len ? c->head : "");
    if (tally->failures > 100 + goal / 10)
        die("too many failures");
}

static void client_close(struct client *c)
{
    wire_close(&c->wire);
    c->state = CLOSED;
}

/* Next request, next connection, or no more to do. */
static void finish_request(struct client *c)
{
    tally->requests++;
    histogram_add(&tally->latency, (wire_now_ns() - c->since_ns) / 1000);
    c->state = HELD;
    if (plan->is_new)
        client_close(c);
    if (started >= goal)
        live--;
    else if (plan->is_new)
        client_open(c);
    else
        begin_request(c);
}

static void give_up(struct client *c, const char *what)
{
    bool was_held = c->state == HELD;

    failed(c, what);
    client_close(c);
    if (was_held)
        return;
    if (started < goal)
        client_open(c);
    else
        live--;
}

static ssize_t send_text(struct client *c, const char *text)
{
    size_t len = strlen(text);

    while (c->sent < len) {
        ssize_t put = wire_write(&c->wire, text + c->sent, len - c->sent);

        if (put <= 0)
            return put;
        c->sent += (size_t)put;
    }
    return 1;
}

static ssize_t send_request(struct client *c)
{
    ssize_t put = send_text(c, request_text);

    while (put > 0 && c->upload_left) {
        size_t n = c->upload_left < BLOCK ? (size_t)c->upload_left : BLOCK;

        put = wire_write(&c->wire, block, n);
        if (put > 0)
            c->upload_left -= (uint64_t)put;
    }
    return put;
}

/* Read up to the end of a head; 1 when it is there. What is behind it counts as body. */
static ssize_t read_head(struct client *c, size_t *behind)
{
    for (;;) {
        char *end = memmem(c->head, c->head_len, "\r\n\r\n", 4);
        ssize_t got;

        if (end) {
            *behind = c->head_len - (size_t)(end + 4 - c->head);
            end[2] = '\0';
            return 1;
        }
        if (c->head_len == sizeof c->head)
            return WIRE_FAIL;
        got = wire_read(&c->wire, c->head + c->head_len, sizeof c->head - c->head_len);
        if (got <= 0)
            return got;
        c->head_len += (size_t)got;
    }
}

/* The answer's status is 2xx; its length, none counting as 0. */
static bool judge_head(const struct client *c, uint64_t *length)
{
    *length = 0;
    for (const char *line = strstr(c->head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, "content-length:", 15) == 0)
            *length = strtoull(line + 17, NULL, 10);
        else if (strncasecmp(line + 2, "transfer-encoding:", 18) == 0)
            return false;
    return c->head_len > 12 && c->head[9] == '2';
}

static ssize_t read_body(struct client *c)
{
    static char bytes[BLOCK];

    while (c->body_left) {
        ssize_t got = wire_read(&c->wire, bytes, c->body_left < BLOCK ? (size_t)c->body_left : BLOCK);

        if (got <= 0)
            return got;
        c->body_left -= (uint64_t)got;
        tally->bytes_in += (uint64_t)got;
    }
    return 1;
}

static ssize_t take_answer(struct client *c)
{
    size_t behind = 0;
    ssize_t got = read_head(c, &behind);
    uint64_t length;

    if (got <= 0)
        return got;
    if (!judge_head(c, &length) || behind > length)
        return WIRE_FAIL;
    c->body_left = length - behind;
    tally->bytes_in += behind;
    c->state = BODY;
    return 1;
}

static ssize_t take_tunnel(struct client *c)
{
    size_t behind = 0;
    ssize_t got = read_head(c, &behind);
    uint64_t length;

    if (got <= 0)
        return got;
    if (!judge_head(c, &length) || behind)
        return WIRE_FAIL;
    begin_tls(c);
    return 1;
}

/* While held, only the peer's end can come. */
static ssize_t watch(struct client *c)
{
    char byte;

    return wire_read(&c->wire, &byte, 1);
}

/* One step; 1 when it led on, else what a wire says. */
static ssize_t step(struct client *c)
{
    ssize_t done;

    switch (c->state) {
    case TUNNEL_SEND:
        if ((done = send_text(c, tunnel_text)) > 0)
            c->state = TUNNEL_ANSWER;
        return done;
    case TUNNEL_ANSWER:
        return take_tunnel(c);
    case SEND:
        if ((done = send_request(c)) > 0)
            c->state = ANSWER;
        return done;
    case ANSWER:
        return take_answer(c);
    case BODY:
        if ((done = read_body(c)) > 0)
            finish_request(c);
        return done;
    default:
        return watch(c);
    }
}

static void advance(struct client *c)
{
    ssize_t done = 1;

    while (done > 0 && c->state != CLOSED)
        done = step(c);
    if (done < 0)
        give_up(c, done == WIRE_END ? "the connection ended" : "failed");
}

static void turn(void)
{
    struct epoll_event ready[256];
    int n = epoll_wait(epoll_fd, ready, 256, 60000);

    if (n == 0)
        die("nothing moved for 60 s; %u clients wait", live);
    if (n < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        advance(ready[i].data.ptr);
}

static void prepare(const struct plan *p, uint64_t requests, struct tally *t)
{
    *t = (struct tally){0};
    plan = p;
    tally = t;
    started = 0;
    goal = requests;
    if (clients)
        return;
    clients = calloc(p->connections, sizeof *clients);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!clients || epoll_fd < 0)
        die("cannot start");
    make_texts();
}

void clients_open(const struct plan *p, struct tally *t)
{
    uint64_t begin = wire_now_ns();
    unsigned opened = 0;

    /* Each client that opens begins one request, so none begins a second one. */
    prepare(p, 0, t);
    while (opened < p->connections || live) {
        while (opened < p->connections && live < OPEN_AT_ONCE) {
            live++;
            client_open(&clients[opened++]);
        }
        turn();
    }
    t->seconds = (double)(wire_now_ns() - begin) / 1e9;
}

void clients_run(const struct plan *p, uint64_t requests, struct tally *t)
{
    uint64_t begin = wire_now_ns();

    prepare(p, requests, t);
    for (unsigned i = 0; i < p->connections && i < requests; i++) {
        struct client *c = &clients[i];

        live++;
        if (c->state == HELD) {
            begin_request(c);
            advance(c);
        } else {
            client_open(c);
        }
    }
    while (live)
        turn();
    t->seconds = (double)(wire_now_ns() - begin) / 1e9;
}
