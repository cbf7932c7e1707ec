/* The spellings that a planted secret is sent in, and the way to a unix socket that only this process may take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "audit/ferry.h"
#include "audit/spelling.h"
#include "canary/gzip.h"

static void each_spelling(void **state)
{
    static const char *const rows[][2] = {
        {"as it is", "a_Z9"},         {"base64", "YV9aOQ=="},    {"base64url", "YV9aOQ"},
        {"base64 twice", "WVY5YU9RPT0="}, {"hexadecimal", "615f5a39"}, {"percent", "%61%5F%5A%39"},
        {"percent twice", "%2561%255F%255A%2539"},
    };

    (void)state;
    assert_int_equal(n_spellings, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < n_spellings; i++) {
        struct buf out = {0};

        spellings[i].spell(SLICE("a_Z9"), &out);
        assert_string_equal(spellings[i].name, rows[i][0]);
        if (!slice_is(buf_slice(&out), rows[i][1]))
            fail_msg("%s: %.*s", rows[i][0], SLICE_ARG(buf_slice(&out)));
        buf_free(&out);
    }
}

static void what_a_url_may_not_hold_is_escaped(void **state)
{
    struct buf out = {0};

    (void)state;
    spelling_escape(SLICE("a+/=-._~ %"), &out);
    assert_true(slice_is(buf_slice(&out), "a%2B%2F%3D-._~%20%25"));
    buf_free(&out);
}

/* As tar reads it: the name, the length in octal, the sum over the head with the sum's own place blank. */
static void an_archive_holds_the_text(void **state)
{
    struct buf tar = {0}, packed = {0}, again = {0};
    unsigned sum = 0;
    const char *t;

    (void)state;
    spelling_tar(SLICE("secret"), &tar);
    assert_int_equal(buf_len(&tar) % 512, 0);
    t = buf_slice(&tar).ptr;
    assert_string_equal(t, "package/notes.txt");
    assert_int_equal(strtol(t + 124, NULL, 8), 6);
    assert_memory_equal(t + 257, "ustar", 6);
    assert_memory_equal(t + 512, "secret\0", 7);
    for (size_t i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : (unsigned char)t[i];
    assert_int_equal(strtol(t + 148, NULL, 8), sum);
    spelling_gzip(buf_slice(&tar), &packed);
    assert_true(gzip_open(buf_slice(&packed), 1 << 20, &again));
    assert_true(slice_equals(buf_slice(&again), buf_slice(&tar)));
    buf_free(&tar);
    buf_free(&packed);
    buf_free(&again);
}

static _Atomic int far_end = -1;

/* One end of a pair; the test has the other. */
static int reach(void *arg)
{
    int pair[2];

    (void)arg;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    far_end = pair[1];
    return pair[0];
}

static struct sockaddr_in place_of(const struct ferry *f)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(ferry_at(f)->port)};
}

static void only_a_socket_of_its_own_is_ferried(void **state)
{
    struct ferry *f = ferry_new(reach, NULL, NULL);
    struct sockaddr_in to = place_of(f);
    int own = ferry_socket(f), stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char in[8] = "";

    (void)state;
    assert_int_equal(connect(stranger, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(recv(stranger, in, sizeof in, 0), 0); /* closed without a word */
    assert_int_equal(connect(own, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(own, "ask", 3, MSG_NOSIGNAL), 3);
    while (far_end < 0)
        usleep(1000);
    assert_int_equal(recv(far_end, in, 3, MSG_WAITALL), 3);
    assert_memory_equal(in, "ask", 3);
    shutdown(own, SHUT_WR);
    assert_int_equal(recv(far_end, in, sizeof in, 0), 0); /* the end is passed on, and the answer still comes */
    assert_int_equal(send(far_end, "answer", 6, MSG_NOSIGNAL), 6);
    assert_int_equal(recv(own, in, 6, MSG_WAITALL), 6);
    assert_memory_equal(in, "answer", 6);
    close(far_end);
    assert_int_equal(recv(own, in, sizeof in, 0), 0);
    close(own);
    close(stranger);
    ferry_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_spelling),
        cmocka_unit_test(what_a_url_may_not_hold_is_escaped),
        cmocka_unit_test(an_archive_holds_the_text),
        cmocka_unit_test(only_a_socket_of_its_own_is_ferried),
    };

    return cmocka_run_group_tests_name("spelling", tests, NULL, NULL);
}
