/* Datagram sockets that share one address: each source has one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <unistd.h>

#include "net/spread.h"

enum { SOURCES = 64, EACH = 8 };

static struct addr at(const char *text)
{
    struct addr a;

    assert_true(addr_parse(slice_of(text), &a));
    return a;
}

static void close_all(const int *fds)
{
    for (int i = 0; i < SPREAD_SOCKETS; i++)
        close(fds[i]);
}

static int open_from(const char *text)
{
    struct addr from = at(text);
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(&from, &sa);
    int fd = socket(from.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0);
    return fd;
}

static void send_to(int fd, const struct addr *to, const char *text)
{
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(to, &sa);

    assert_int_equal(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&sa, len), strlen(text));
}

/* From EACH ports of each of SOURCES addresses; which socket has it is noted in where. */
static void each_source_has_one_socket(void **state)
{
    struct addr to = at("127.0.0.1:0");
    int fds[SPREAD_SOCKETS], where[SOURCES], used[SPREAD_SOCKETS] = {0}, n_used = 0;

    (void)state;
    assert_true(spread_open(&to, false, fds));
    assert_true(to.port);
    for (int source = 0; source < SOURCES; source++) {
        char text[40];

        snprintf(text, sizeof text, "127.0.1.%d:0", source + 1);
        for (int i = 0; i < EACH; i++) {
            int fd = open_from(text);

            send_to(fd, &to, "x");
            close(fd);
        }
        where[source] = -1;
        for (int i = 0; i < SPREAD_SOCKETS; i++) {
            char byte[2];
            int n = 0;

            while (recv(fds[i], byte, sizeof byte, MSG_DONTWAIT) == 1)
                n++;
            if (n && (n != EACH || where[source] >= 0))
                fail_msg("source %d is at several sockets", source);
            if (n)
                where[source] = i;
        }
        assert_true(where[source] >= 0);
        n_used += !used[where[source]]++;
    }
    assert_true(n_used > SPREAD_SOCKETS / 2); /* fewer, by chance: once in 10^17 */
    close_all(fds);
}

static void ipv6_is_spread_too(void **state)
{
    struct addr to = at("[::1]:0");
    int fds[SPREAD_SOCKETS], n = 0;
    char byte[2];
    int fd;

    (void)state;
    if (!spread_open(&to, false, fds)) {
        assert_int_equal(errno, EADDRNOTAVAIL); /* a machine without IPv6 */
        return;
    }
    fd = open_from("[::1]:0");
    send_to(fd, &to, "x");
    for (int i = 0; i < SPREAD_SOCKETS; i++)
        n += recv(fds[i], byte, sizeof byte, MSG_DONTWAIT) == 1;
    assert_int_equal(n, 1);
    close(fd);
    close_all(fds);
}

static void what_is_taken_is_taken(void **state)
{
    struct addr to = at("127.0.0.1:0"), again;
    int fds[SPREAD_SOCKETS], others[SPREAD_SOCKETS];

    (void)state;
    assert_true(spread_open(&to, false, fds));
    again = to;
    assert_false(spread_open(&again, false, others)); /* it would share, and take a part of what comes */
    assert_int_equal(errno, EADDRINUSE);
    assert_true(spread_open(&again, true, others));
    close_all(others);
    close_all(fds);
    assert_true(spread_open(&to, false, fds));
    close_all(fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_source_has_one_socket),
        cmocka_unit_test(ipv6_is_spread_too),
        cmocka_unit_test(what_is_taken_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
