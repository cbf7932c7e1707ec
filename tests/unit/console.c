/* The admin socket as its visitors see it: a line in, a line out, and who may ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "proxy/console.h"

struct bench {
    struct loop *loop;
    struct console *console;
    struct sockaddr_un where;
    char asked[128];
    int asks;
};

static void stop(void *arg)
{
    loop_stop(arg);
}

static void on_ask(void *arg, uint64_t ticket, uid_t uid, struct slice line)
{
    struct bench *b = arg;

    assert_int_equal(uid, getuid());
    b->asks++;
    snprintf(b->asked, sizeof b->asked, "%.*s", SLICE_ARG(line));
    console_answer(b->console, ticket, SLICE("{\"ok\":true}"));
}

static void bench_open(struct bench *b)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *b = (struct bench){.loop = loop_new(), .where = {.sun_family = AF_UNIX}};
    snprintf(b->where.sun_path, sizeof b->where.sun_path, "/tmp/exeat-console-%d", (int)getpid());
    unlink(b->where.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&b->where, sizeof b->where), 0);
    assert_int_equal(listen(fd, 8), 0);
    b->console = console_new(b->loop, fd, on_ask, b);
}

static void bench_close(struct bench *b)
{
    console_free(b->console);
    loop_defer(b->loop, stop, b->loop);
    loop_run(b->loop);
    loop_free(b->loop);
    unlink(b->where.sun_path);
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

static int visit(const struct bench *b)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&b->where, sizeof b->where), 0);
    return fd;
}

static char *ask(struct bench *b, struct slice bytes, bool half_close)
{
    struct reader r = {.bench = b, .fd = visit(b)};
    struct watch *w = watch_new(b->loop, r.fd, WATCH_READ, on_readable, &r);

    assert_int_equal(send(r.fd, bytes.ptr, bytes.len, MSG_NOSIGNAL), (ssize_t)bytes.len);
    if (half_close)
        shutdown(r.fd, SHUT_WR);
    loop_run(b->loop);
    watch_free(w);
    close(r.fd);
    return buf_take_text(&r.got);
}

static void test_lines(void **state)
{
    static const struct {
        const char *name, *sent;
        bool half_close;
        const char *answer, *asked;
    } rows[] = {
        {"a line is answered by a line", "{\"command\":\"status\"}\n", false, "{\"ok\":true}\n", "{\"command\":\"status\"}"},
        {"a client may end after its line", "{}\n", true, "{\"ok\":true}\n", "{}"},
        {"what follows the line is dropped", "{}\n{}\n", false, "{\"ok\":true}\n", "{}"},
        {"an end before the line is whole asks nothing", "{\"comm", true, "", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b;
        char *text;

        print_message("  %s\n", rows[i].name);
        bench_open(&b);
        text = ask(&b, slice_of(rows[i].sent), rows[i].half_close);
        assert_string_equal(text, rows[i].answer);
        assert_string_equal(b.asked, rows[i].asked);
        free(text);
        bench_close(&b);
    }
}

static void test_too_long(void **state)
{
    struct bench b;
    struct buf line = {0};
    char *text;

    (void)state;
    bench_open(&b);
    for (int i = 0; i < CONSOLE_LINE_MAX + 10; i++)
        buf_char(&line, 'x');
    text = ask(&b, buf_slice(&line), false);
    assert_string_equal(text, "{\"ok\":false,\"error\":\"the line is too long\"}\n");
    assert_int_equal(b.asks, 0);
    free(text);
    buf_free(&line);
    bench_close(&b);
}

static void test_who_may_ask(void **state)
{
    (void)state;
    assert_true(console_may_ask(0, 1000));
    assert_true(console_may_ask(1000, 1000));
    assert_false(console_may_ask(1001, 1000));
    assert_false(console_may_ask(1000, 0));
}

/* In a child: ask as nobody, and pass on what was said. */
static void ask_as_nobody(const struct bench *b, int out)
{
    char got[200];
    int fd = setuid(65534) == 0 ? socket(AF_UNIX, SOCK_STREAM, 0) : -1;
    ssize_t n = -1;

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&b->where, sizeof b->where) == 0 && send(fd, "{}\n", 3, 0) == 3)
        n = recv(fd, got, sizeof got, MSG_WAITALL);
    if (n > 0)
        (void)!send(out, got, (size_t)n, 0);
    _exit(0);
}

static void test_stranger(void **state)
{
    struct bench b;
    struct reader r = {.bench = &b};
    struct watch *w;
    int pair[2];
    char *text;

    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become another user */
    bench_open(&b);
    assert_int_equal(chmod(b.where.sun_path, 0666), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    if (fork() == 0)
        ask_as_nobody(&b, pair[1]);
    close(pair[1]);
    r.fd = pair[0];
    w = watch_new(b.loop, r.fd, WATCH_READ, on_readable, &r);
    loop_run(b.loop);
    watch_free(w);
    wait(NULL);
    close(pair[0]);
    text = buf_take_text(&r.got);
    assert_non_null(strstr(text, "only root and the user that started the gateway may ask"));
    assert_int_equal(b.asks, 0);
    free(text);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_who_may_ask),
        cmocka_unit_test(test_stranger),
    };

    return cmocka_run_group_tests_name("console", tests, NULL, NULL);
}
