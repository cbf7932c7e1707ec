/* Dialling on loopback: who accepts, who refuses, who says nothing, in which order, and what is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/dial.h"

enum { ROOM = 4, FILL = 4 };

/* What stands behind an address of a row. */
enum { NONE, ACCEPTS, REFUSES, SILENT, UNREACHABLE };

struct site {
    struct addr addr;
    int fd, fillers[FILL];
};

struct told {
    struct loop *loop;
    int calls, fd;
    struct addr address;
    struct fault why;
};

static int open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void site_open(struct site *s, int kind)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;

    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&in, &len), 0);
    addr_from_sockaddr(&s->addr, (struct sockaddr *)&in);
    if (kind == ACCEPTS)
        assert_int_equal(listen(s->fd, 8), 0);
    if (kind == SILENT) /* its queue is full: the kernel drops what comes */
        assert_int_equal(listen(s->fd, 0), 0);
    for (int i = 0; i < FILL; i++) {
        s->fillers[i] = kind == SILENT ? socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
        if (kind == SILENT)
            (void)!connect(s->fillers[i], (struct sockaddr *)&in, sizeof in);
    }
    if (kind == UNREACHABLE)
        assert_true(addr_parse(SLICE("255.255.255.255:9"), &s->addr));
}

static void site_close(struct site *s)
{
    close(s->fd);
    for (int i = 0; i < FILL; i++)
        if (s->fillers[i] >= 0)
            close(s->fillers[i]);
}

static void on_done(void *arg, int fd, const struct addr *address, const struct fault *why)
{
    struct told *t = arg;

    t->calls++;
    t->fd = fd;
    if (fd >= 0)
        t->address = *address;
    else
        t->why = *why;
    loop_stop(t->loop);
}

static const struct row {
    const char *name;
    int sites[ROOM];
    int64_t timeout_ms, stagger_ms;
    int winner; /* index, or -1 */
    enum reason reason;
    int64_t at_least_ms, under_ms;
} rows[] = {
    {"one that accepts", {ACCEPTS}, 2000, 250, 0, REASON_NONE, 0, 200},
    {"one that refuses", {REFUSES}, 2000, 250, -1, REASON_CONNECT_REFUSED, 0, 200},
    {"one that cannot be reached", {UNREACHABLE}, 2000, 250, -1, REASON_CONNECT_FAILED, 0, 200},
    {"one that says nothing, until the deadline", {SILENT}, 150, 50, -1, REASON_CONNECT_TIMEOUT, 145, 900},
    {"the first accepts: no other is waited for", {ACCEPTS, ACCEPTS}, 2000, 1000, 0, REASON_NONE, 0, 500},
    {"a refusal makes room at once", {REFUSES, ACCEPTS}, 4000, 3000, 1, REASON_NONE, 0, 1000},
    {"an address without a route makes room at once", {UNREACHABLE, ACCEPTS}, 4000, 3000, 1, REASON_NONE, 0, 1000},
    {"silence makes room after the stagger", {SILENT, ACCEPTS}, 4000, 100, 1, REASON_NONE, 95, 900},
    {"silence, refusal, then one that accepts", {SILENT, REFUSES, ACCEPTS}, 4000, 60, 2, REASON_NONE, 55, 900},
    {"refused everywhere", {REFUSES, REFUSES}, 2000, 250, -1, REASON_CONNECT_REFUSED, 0, 500},
    {"refused says more than unreachable", {UNREACHABLE, REFUSES}, 2000, 250, -1, REASON_CONNECT_REFUSED, 0, 500},
    {"one silent, the rest refuse: the deadline decides", {REFUSES, SILENT}, 150, 50, -1, REASON_CONNECT_TIMEOUT, 145, 900},
    {"silent everywhere", {SILENT, SILENT, SILENT}, 200, 50, -1, REASON_CONNECT_TIMEOUT, 195, 900},
};

static void check_descriptor(const struct told *t)
{
    int one = 0;
    socklen_t len = sizeof one;

    assert_true(fcntl(t->fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(t->fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(getsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &one, &len), 0);
    assert_true(one);
    assert_int_equal(close(t->fd), 0);
}

static void run_row(const struct row *r)
{
    struct told t = {.loop = loop_new(), .fd = -1};
    struct site sites[ROOM] = {0};
    struct addr list[ROOM];
    size_t n = 0;
    int before;
    int64_t begun, took;

    for (; n < ROOM && r->sites[n] != NONE; n++) {
        site_open(&sites[n], r->sites[n]);
        list[n] = sites[n].addr;
    }
    before = open_fds();
    begun = clock_mono_ms();
    dial_start(t.loop, list, n, &(struct dial_settings){r->timeout_ms, r->stagger_ms}, on_done, &t);
    assert_int_equal(t.calls, 0);
    loop_run(t.loop);
    took = clock_mono_ms() - begun;
    assert_int_equal(t.calls, 1);
    assert_int_equal(t.fd >= 0, r->winner >= 0);
    if (r->winner >= 0) {
        assert_true(addr_equals(&t.address, &list[r->winner]));
        check_descriptor(&t);
    } else {
        assert_int_equal(t.why.reason, r->reason);
        assert_true(*t.why.text);
    }
    assert_in_range(took, r->at_least_ms, r->under_ms);
    assert_int_equal(open_fds(), before); /* whoever lost is closed */
    for (size_t i = 0; i < n; i++)
        site_close(&sites[i]);
    loop_free(t.loop);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        run_row(&rows[i]);
    }
}

static void stop(void *arg)
{
    loop_stop(arg);
}

/* after_ms 0: before the loop has turned. */
static void cancel_after(int64_t after_ms)
{
    struct told t = {.loop = loop_new(), .fd = -1};
    struct timer *timer = timer_new(t.loop, stop, t.loop);
    struct site s;
    struct dial *d;
    int before;

    site_open(&s, SILENT);
    before = open_fds();
    d = dial_start(t.loop, &s.addr, 1, &(struct dial_settings){120, 20}, on_done, &t);
    if (after_ms) {
        timer_set(timer, after_ms);
        loop_run(t.loop);
        assert_int_equal(open_fds(), before + 1);
    }
    dial_cancel(d);
    assert_int_equal(open_fds(), before);
    timer_set(timer, 200); /* past its deadline */
    loop_run(t.loop);
    assert_int_equal(t.calls, 0);
    timer_free(timer);
    site_close(&s);
    loop_free(t.loop);
}

static void test_cancel(void **state)
{
    (void)state;
    cancel_after(0);
    cancel_after(50);
    dial_cancel(NULL);
}

static void test_order(void **state)
{
    static const struct {
        const char *name, *given, *tried; /* 4 and 6 are families; letters tell them apart: abc.. is 4, ABC.. is 6 */
    } orders[] = {
        {"one", "a", "a"},
        {"IPv6 first, then in turn", "abAB", "AaBb"},
        {"the order within a family stays", "cabZX", "ZcXab"},
        {"only IPv4", "bca", "bca"},
        {"only IPv6", "BCA", "BCA"},
        {"more IPv6", "ABCa", "AaBC"},
        {"more IPv4", "abcA", "Aabc"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        size_t n = strlen(orders[i].given);
        struct addr list[8], out[8];
        char tried[9] = "";

        print_message("  %s\n", orders[i].name);
        for (size_t k = 0; k < n; k++)
            list[k] = (struct addr){.family = orders[i].given[k] >= 'a' ? AF_INET : AF_INET6,
                                    .ip = {(unsigned char)orders[i].given[k]}};
        dial_order(list, n, out);
        for (size_t k = 0; k < n; k++)
            tried[k] = (char)out[k].ip[0];
        assert_string_equal(tried, orders[i].tried);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_cancel),
    };

    return cmocka_run_group_tests_name("dial", tests, NULL, NULL);
}
