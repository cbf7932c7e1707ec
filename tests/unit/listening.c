/* What is said of transparent listeners that cannot have all they could, for want of the kernel or a capability. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/steer.h"
#include "proxy/listening.h"

#define NAMES_ALL "listen.a: no TPROXY: Operation not permitted: it takes CAP_NET_RAW or CAP_NET_ADMIN, which is gone once the gateway runs; start it with that. " \
                  "REDIRECT and names that lead here work without\n"

/* Of datagrams no kernel tracks where they were going, so it answers as one without the module. */
static void lines_are_said(void **state)
{
    static const struct {
        const char *name;
        int type, no_tproxy;
        bool transparent;
        const char *said; /* beside what a kernel that lacks it says of every socket */
    } rows[] = {
        {"all is there", SOCK_STREAM, 0, true, ""},
        {"no capability for TPROXY", SOCK_STREAM, EPERM, true, NAMES_ALL},
        {"a kernel without TPROXY", SOCK_STREAM, ENOPROTOOPT, true, "listen.a: no TPROXY: Protocol not available\n"},
        {"a kernel without conntrack", SOCK_DGRAM, 0, true, "listen.a: no REDIRECT until the kernel has nf_conntrack (modprobe nf_conntrack)\n"},
        {"neither", SOCK_DGRAM, EPERM, true, NAMES_ALL "listen.a: no REDIRECT until the kernel has nf_conntrack (modprobe nf_conntrack)\n"},
        {"an explicit listener needs none of it", SOCK_DGRAM, EPERM, false, ""},
    };

    (void)state;
    for (int family = AF_INET; family; family = family == AF_INET ? AF_INET6 : 0)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            int fd = socket(family, rows[i].type | SOCK_CLOEXEC, 0);
            char name[] = "a";
            struct listening l = {.name = name, .fds = &fd, .n_fds = 1, .is_transparent = rows[i].transparent, .no_tproxy = rows[i].no_tproxy};
            const struct listeners list = {&l, 1};
            struct buf said = {0};
            bool lacks = rows[i].type == SOCK_STREAM && rows[i].transparent && !steer_knows_redirect(fd);

            assert_true(fd >= 0);
            listening_note(&list, &said);
            if (!lacks && !slice_is(buf_slice(&said), rows[i].said))
                fail_msg("%s: %.*s", rows[i].name, SLICE_ARG(buf_slice(&said)));
            buf_free(&said);
            close(fd);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_said),
    };

    return cmocka_run_group_tests_name("listening", tests, NULL, NULL);
}
