/* What the kernel has counted on a connection, against what was written: over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/meter.h"

struct pair {
    int near, far;
};

/* Two ends of one TCP connection. */
static void setup(struct pair *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &len), 0);
    p->near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(p->near, (struct sockaddr *)&at, sizeof at), 0);
    assert_true((p->far = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    close(listening);
}

static void teardown(struct pair *p)
{
    close(p->near);
    close(p->far);
}

static void move(int from, int to, size_t n)
{
    char bytes[4096] = "";
    size_t left = n;

    assert_int_equal(write(from, bytes, n), n);
    while (left) {
        ssize_t got = read(to, bytes, left);

        assert_true(got > 0);
        left -= (size_t)got;
    }
}

static const struct row {
    const char *name;
    size_t out, in;
    bool other_ends; /* its FIN is no byte of content */
} rows[] = {
    {"nothing yet", 0, 0, false},
    {"out", 1000, 0, false},
    {"in", 0, 1000, false},
    {"both ways", 3000, 4000, false},
    {"in, and its end", 0, 1000, true},
    {"its end alone", 0, 0, true},
};

static void content_is_counted_to_the_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct meter m;
        struct pair p;
        char end;

        setup(&p);
        if (rows[i].out)
            move(p.near, p.far, rows[i].out);
        if (rows[i].in)
            move(p.far, p.near, rows[i].in);
        if (rows[i].other_ends) {
            shutdown(p.far, SHUT_WR);
            assert_int_equal(read(p.near, &end, 1), 0);
        }
        assert_true(meter_read(p.near, &m));
        if (m.sent != rows[i].out || m.received != rows[i].in || m.unsent || m.local.family != AF_INET || !m.local.port)
            fail_msg("%s: %d sent, %d received", rows[i].name, (int)m.sent, (int)m.received);
        teardown(&p);
    }
}

static void what_is_no_tcp_is_not_counted(void **state)
{
    struct meter m = {.sent = 1};
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_false(meter_read(pair[0], &m));
    assert_int_equal(m.sent, 0);
    assert_false(meter_read(-1, &m));
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(content_is_counted_to_the_byte), cmocka_unit_test(what_is_no_tcp_is_not_counted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
