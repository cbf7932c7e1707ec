/*
 * The origin of every contender: HTTP/1.1 over TLS, keep-alive. GET /N answers with N bytes; any
 * other method takes its body (Content-Length or chunked) to the end and answers 204.
 * Usage: origin ADDRESS CERT KEY
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "bench/wire.h"

#define HEAD_MAX 16384
#define BLOCK 65536

struct conn {
    struct wire wire;
    char in[HEAD_MAX];
    size_t in_len;
    bool in_body;
    bool chunked;
    uint64_t body_left;
    char out[256]; /* the head of an answer */
    size_t out_len, out_at;
    uint64_t out_body; /* bytes still to follow it */
};

static char block[BLOCK];
static SSL_CTX *context;
static int epoll_fd;

/* What packages look like to a scanner: no runs, all byte values, some text. */
static void fill_block(void)
{
    static const char text[] = "\"version\":\"1.3.0\",\"dist\":{\"tarball\":\"https://registry.test/left-pad.tgz\"}";
    uint64_t x = 88172645463325252U;

    for (size_t i = 0; i < BLOCK; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        block[i] = i % 1024 < 256 ? text[i % (sizeof text - 1)] : (char)(x >> 56);
    }
}

static const char *field(const char *head, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':')
            return line + 3 + len;
    return NULL;
}

static void answer(struct conn *c, uint64_t body)
{
    int n = body ? snprintf(c->out, sizeof c->out,
                            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n",
                            (unsigned long long)body)
                 : snprintf(c->out, sizeof c->out, "HTTP/1.1 204 No Content\r\n\r\n");

    c->out_len = (size_t)n;
    c->out_at = 0;
    c->out_body = body;
}

/* A whole head is in c->in, NUL behind it; what follows is moved to the front. */
static void take_head(struct conn *c, size_t len)
{
    const char *length, *coding;

    c->in[len - 2] = '\0';
    if (strncmp(c->in, "GET /", 5) == 0) {
        answer(c, strtoull(c->in + 5, NULL, 10));
    } else {
        length = field(c->in, "content-length");
        coding = field(c->in, "transfer-encoding");
        c->in_body = true;
        c->chunked = coding != NULL;
        c->body_left = length ? strtoull(length, NULL, 10) : 0;
    }
    memmove(c->in, c->in + len, c->in_len - len);
    c->in_len -= len;
}

/* Chunked: the head of the next chunk is at the front of c->in. False: more is needed. */
static bool take_chunk_head(struct conn *c)
{
    char *end = memmem(c->in, c->in_len, "\r\n", 2);
    uint64_t size;

    if (!end)
        return false;
    size = strtoull(c->in, NULL, 16);
    if (size == 0) { /* the last: no trailers come here */
        if (c->in_len < (size_t)(end - c->in) + 4)
            return false;
        end += 2;
        c->chunked = false;
    }
    end += 2;
    c->in_len -= (size_t)(end - c->in);
    memmove(c->in, end, c->in_len);
    c->body_left = size ? size + 2 : 0; /* the line end after the data too */
    return true;
}

/* Use what is in c->in; true when it led on. */
static bool consume(struct conn *c)
{
    size_t n;
    char *end;

    if (!c->in_body) {
        if (c->out_len || !(end = memmem(c->in, c->in_len, "\r\n\r\n", 4)))
            return false;
        take_head(c, (size_t)(end - c->in) + 4);
        return true;
    }
    if (c->body_left == 0 && c->chunked)
        return take_chunk_head(c);
    if (c->body_left == 0) {
        c->in_body = false;
        answer(c, 0);
        return true;
    }
    n = c->in_len < c->body_left ? c->in_len : (size_t)c->body_left;
    c->body_left -= n;
    c->in_len -= n;
    memmove(c->in, c->in + n, c->in_len);
    return n > 0;
}

/* Send what is due. 1: all of it, 0: later, -1: the connection is gone. */
static int flush(struct conn *c)
{
    while (c->out_at < c->out_len || c->out_body) {
        char whole[16384];
        size_t head = c->out_len - c->out_at, body = sizeof whole - head;
        ssize_t put;

        if (body > c->out_body)
            body = (size_t)c->out_body;
        memcpy(whole, c->out + c->out_at, head);
        memcpy(whole + head, block, body);
        put = wire_write(&c->wire, whole, head + body);
        if (put <= 0)
            return put == WIRE_AGAIN ? 0 : -1;
        if ((size_t)put < head) {
            c->out_at += (size_t)put;
        } else {
            c->out_at = c->out_len;
            c->out_body -= (size_t)put - head;
        }
    }
    c->out_len = c->out_at = 0;
    return 1;
}

/* Go on as far as it goes; false when the connection is over. */
static bool advance(struct conn *c)
{
    for (;;) {
        int flushed;
        ssize_t got;

        do
            flushed = flush(c);
        while (flushed > 0 && consume(c));
        if (flushed <= 0)
            return flushed == 0;
        if (c->in_len == sizeof c->in)
            return false;
        got = wire_read(&c->wire, c->in + c->in_len, sizeof c->in - c->in_len);
        if (got <= 0)
            return got == WIRE_AGAIN;
        c->in_len += (size_t)got;
    }
}

static void accept_all(int listener)
{
    int fd;

    while ((fd = wire_accept(listener)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};

        if (!c)
            die("no memory");
        c->wire.fd = fd;
        wire_start_server(&c->wire, context);
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

int main(int argc, char **argv)
{
    struct epoll_event e = {.events = EPOLLIN}, ready[256];
    int listener;

    if (argc != 4)
        die("usage: origin ADDRESS CERT KEY");
    wire_need_files(12000);
    fill_block();
    context = wire_server_context(argv[2], argv[3]);
    listener = wire_listen(argv[1]);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        int n = epoll_wait(epoll_fd, ready, 256, -1);

        if (n < 0 && errno != EINTR)
            die("epoll_wait: %s", strerror(errno));
        for (int i = 0; i < n; i++) {
            struct conn *c = ready[i].data.ptr;

            if (!c) {
                accept_all(listener);
            } else if (!advance(c)) {
                wire_close(&c->wire);
                free(c);
            }
        }
    }
}
