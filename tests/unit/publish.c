/* The publish listener as its visitors see it: bytes in, bytes out, on loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "proxy/publish.h"

struct bench {
    struct loop *loop;
    struct publish *publish;
    struct sockaddr_in where;
    uint64_t held; /* a ticket that is answered later */
    char asked[64];
    int asks;
};

static void answer(struct bench *b, uint64_t ticket, int status, struct slice body)
{
    publish_answer(b->publish, ticket, &(struct publish_reply){status, "text/plain", body});
}

static void on_ask(void *arg, uint64_t ticket, struct slice path)
{
    struct bench *b = arg;

    b->asks++;
    snprintf(b->asked, sizeof b->asked, "%.*s", SLICE_ARG(path));
    if (slice_is(path, "/later"))
        b->held = ticket;
    else
        answer(b, ticket, slice_is(path, "/gone") ? 404 : 200, SLICE("body"));
}

static void bench_open(struct bench *b)
{
    socklen_t len = sizeof b->where;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *b = (struct bench){.loop = loop_new()};
    b->where = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)&b->where, sizeof b->where), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&b->where, &len), 0);
    b->publish = publish_new(b->loop, fd, on_ask, b);
}


static void stop(void *arg)
{
    loop_stop(arg);
}

static void bench_close(struct bench *b)
{
    publish_free(b->publish);
    loop_defer(b->loop, stop, b->loop);
    loop_run(b->loop);
    loop_free(b->loop);
}

static int visit(const struct bench *b, struct slice bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&b->where, sizeof b->where), 0);
    assert_int_equal(send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL), (ssize_t)bytes.len);
    return fd;
}

struct reader {
    struct bench *bench;
    int fd;
    struct buf got;
};

static void on_readable(void *arg, unsigned ready)
{
    struct reader *r = arg;
    ssize_t n = recv(r->fd, buf_reserve(&r->got, 4096), 4096, 0);

    (void)ready;
    if (n > 0)
        buf_commit(&r->got, (size_t)n);
    else
        loop_stop(r->bench->loop);
}

/* All the server says until it ends; given. */
static char *read_all(struct bench *b, int fd)
{
    struct reader r = {.bench = b, .fd = fd};
    struct watch *w = watch_new(b->loop, fd, WATCH_READ, on_readable, &r);

    loop_run(b->loop);
    watch_free(w);
    close(fd);
    return buf_take_text(&r.got);
}

static const struct row {
    const char *name, *request;
    const char *status, *asked; /* asked "": nobody was asked */
    bool body;
} rows[] = {
    {"a GET is answered", "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", "/metrics", true},
    {"a HEAD gets no body", "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", "/metrics", false},
    {"HTTP/1.0 is answered", "GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "/metrics", true},
    {"the query is not part of the path", "GET /x?y=1 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", "/x", true},
    {"what is not there", "GET /gone HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "/gone", true},
    {"POST is refused", "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
     "HTTP/1.1 405 Method Not Allowed\r\n", "", true},
    {"DELETE is refused", "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n", "", true},
    {"a GET with a body is refused", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 400 ", "",
     true},
    {"a GET with a chunked body is refused", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "HTTP/1.1 400 ", "", true},
    {"no Host in HTTP/1.1 is refused", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ", "", true},
    {"what is not HTTP is refused", "hello\r\n\r\n", "HTTP/1.1 400 ", "", true},
    {"only the first request of a connection counts",
     "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\nGET /gone HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", "/metrics",
     true},
};

static void check_answer(const struct row *r, const char *answer_text)
{
    const char *body = strstr(answer_text, "\r\n\r\n");

    if (strncmp(answer_text, r->status, strlen(r->status)) != 0)
        fail_msg("%s: expected %s, got %s", r->name, r->status, answer_text);
    assert_non_null(body);
    assert_non_null(strstr(answer_text, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(answer_text, "\r\nContent-Length: "));
    assert_non_null(strstr(answer_text, "\r\nDate: "));
    assert_int_equal(body[4] != '\0', r->body);
    assert_int_equal(strstr(answer_text, "Allow: GET, HEAD") != NULL, strstr(r->status, "405") != NULL);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b;
        char *text;

        bench_open(&b);
        text = read_all(&b, visit(&b, slice_of(rows[i].request)));
        check_answer(&rows[i], text);
        assert_string_equal(b.asked, rows[i].asked);
        free(text);
        bench_close(&b);
    }
}

static void test_head_too_large(void **state)
{
    struct bench b;
    struct buf request = {0};
    char *text;

    (void)state;
    bench_open(&b);
    buf_text(&request, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    for (int i = 0; i < 9000; i++)
        buf_char(&request, 'x');
    buf_text(&request, "\r\n\r\n");
    text = read_all(&b, visit(&b, buf_slice(&request)));
    assert_memory_equal(text, "HTTP/1.1 431 ", 13);
    assert_int_equal(b.asks, 0);
    free(text);
    buf_free(&request);
    bench_close(&b);
}

static void on_time(void *arg)
{
    struct bench *b = arg;

    answer(b, b->held, 200, SLICE("late"));
}

static void test_later(void **state)
{
    struct bench b;
    struct timer *t;
    char *text;

    (void)state;
    bench_open(&b);
    t = timer_new(b.loop, on_time, &b);
    timer_set(t, 60);
    text = read_all(&b, visit(&b, SLICE("GET /later HTTP/1.1\r\nHost: a\r\n\r\n")));
    assert_non_null(strstr(text, "\r\n\r\nlate"));
    answer(&b, b.held, 200, SLICE("again"));     /* answered already */
    answer(&b, b.held + 77, 200, SLICE("what")); /* never was */
    free(text);
    timer_free(t);
    bench_close(&b);
}

static void test_gone_before_the_answer(void **state)
{
    struct bench b;
    struct timer *t;
    struct linger now = {1, 0};
    int fd;

    (void)state;
    bench_open(&b);
    t = timer_new(b.loop, stop, b.loop);
    fd = visit(&b, SLICE("GET /later HTTP/1.1\r\nHost: a\r\n\r\n"));
    timer_set(t, 40);
    loop_run(b.loop);
    assert_int_equal(b.asks, 1);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd); /* a reset */
    timer_set(t, 40);
    loop_run(b.loop);
    answer(&b, b.held, 200, SLICE("nobody"));
    timer_free(t);
    bench_close(&b);
}

/* More visitors than are let in: they wait, and are served when others have gone. */
static void test_cap(void **state)
{
    enum { N = 70 };
    struct bench b;
    int fds[N];

    (void)state;
    bench_open(&b);
    for (int i = 0; i < N - 1; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)!connect(fds[i], (struct sockaddr *)&b.where, sizeof b.where);
        loop_defer(b.loop, stop, b.loop);
        loop_run(b.loop);
    }
    for (int i = 0; i < N - 1; i++)
        close(fds[i]);
    char *text = read_all(&b, visit(&b, SLICE("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")));

    assert_memory_equal(text, "HTTP/1.1 200 ", 13);
    free(text);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_head_too_large),
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_gone_before_the_answer),
        cmocka_unit_test(test_cap),
    };

    return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}
