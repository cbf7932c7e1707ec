/* Which addresses are this machine's, asked of the kernel: as root in a network of its own, where addresses come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/routes.h"

extern char **environ;

static bool own_network;
static struct routes *routes;

static struct addr parse(const char *text)
{
    struct addr a;

    if (!addr_parse(slice_of(text), &a))
        fail_msg("%s is no address", text);
    return a;
}

/* "ip" with these words. False: there is none on this machine. */
static bool run_ip(const char *line)
{
    char program[] = "ip", copy[200], *words[16] = {program}, *at = copy;
    int status, n = 1;
    pid_t pid;

    snprintf(copy, sizeof copy, "%s", line);
    while (at && n < 15) {
        words[n++] = at;
        if ((at = strchr(at, ' ')))
            *at++ = '\0';
    }
    if (posix_spawnp(&pid, program, NULL, NULL, words, environ) != 0)
        return false;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("ip %s: %d", line, status);
    return true;
}

static const struct row {
    const char *name, *before, *address; /* before: what ip is told first */
    bool here, anywhere; /* anywhere: whatever network there is */
} rows[] = {
    {"loopback", NULL, "127.0.0.1:443", true, true},
    {"all of 127/8", NULL, "127.44.3.2:443", true, true},
    {"IPv6 loopback", NULL, "[::1]:443", true, true},
    {"another host on a link", NULL, "198.41.0.9:443", false, false},
    {"another host on a link, by IPv6", NULL, "[2606:4700::9]:443", false, false},
    {"an address of an interface", NULL, "198.41.0.4:443", true, false},
    {"one of IPv6", NULL, "[2606:4700::4]:443", true, false},
    {"link-local", "addr add fe80::77/64 dev d0 nodad", "[fe80::77]:443", true, false},
    {"where no route leads", NULL, "9.9.9.9:443", false, false},
    {"where no route leads, by IPv6", NULL, "[2a00::9]:443", false, false},
    {"one that is not there yet", NULL, "198.41.0.5:443", false, false},
    {"a second one of the same network, added now", "addr add 198.41.0.5/24 dev d0", "198.41.0.5:443", true, false},
    {"one of IPv6, added now", "addr add 2606:4700::5/64 dev d0 nodad", "[2606:4700::5]:443", true, false},
    {"a network that is all ours (AnyIP)", "route add local 198.51.0.0/16 dev lo", "198.51.7.7:443", true, false},
    {"the same with a source of its own", "route add local 198.52.0.0/16 dev lo src 127.0.0.1", "198.52.7.7:443", true, false},
    {"a network's broadcast address", NULL, "198.41.0.255:443", true, false},
    {"behind a gateway", "route add default via 198.41.0.1", "9.9.9.9:443", false, false},
    {"a network that is blackholed: nobody says", "route add blackhole 9.9.8.0/24", "9.9.8.1:443", true, false},
    {"a network that is prohibited", "route add prohibit 9.9.7.0/24", "9.9.7.1:443", false, false},
    {"another port, which a rule takes elsewhere", "rule add to 198.41.0.9 ipproto tcp dport 7 lookup local", "198.41.0.9:443", false, false},
    {"one that was taken away", "addr del 198.41.0.5/24 dev d0", "198.41.0.5:443", false, false},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct addr a;

        if (!own_network && !r->anywhere)
            continue;
        if (r->before)
            run_ip(r->before);
        a = parse(r->address);
        if (routes_end_here(routes, &a) != r->here)
            fail_msg("%s: %s is%s here", r->name, r->address, r->here ? " not" : "");
    }
}

/* Who cannot ask, or asks of something else, is told the worst. */
static void test_nobody_says(void **state)
{
    struct addr away = parse("198.41.0.9:443"), none = {0};

    (void)state;
    assert_true(routes_end_here(NULL, &away));
    assert_true(routes_end_here(routes, &none));
    assert_true(routes_end_here(routes, &(struct addr){.family = AF_UNIX}));
    routes_close(NULL);
}

static int set_up(void **state)
{
    struct fault why = {0};

    (void)state;
    own_network = geteuid() == 0 && unshare(CLONE_NEWNET) == 0 && run_ip("link set lo up");
    if (own_network) {
        run_ip("link add d0 type veth peer name d1");
        run_ip("link set d1 up");
        run_ip("link set d0 up");
        run_ip("addr add 198.41.0.4/24 broadcast 198.41.0.255 dev d0");
        run_ip("addr add 2606:4700::4/64 dev d0 nodad");
    }
    routes = routes_open(&why);
    return routes ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    routes_close(routes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nobody_says),
    };

    return cmocka_run_group_tests_name("routes", tests, set_up, tear_down);
}
