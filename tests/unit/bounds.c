/* What the porter may dial: each class of address against each source, and the gateway itself never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

#include "base/pack.h"
#include "proxy/bounds.h"

/* Refusals by source, NULL: may be dialled. */
static const struct row {
    const char *name, *address;
    const char *resolved, *allow_private, *fixed;
} rows[] = {
    {"a global IPv4 address", "8.8.8.8:443", NULL, NULL, NULL},
    {"a global IPv6 address", "[2606:4700::1111]:443", NULL, NULL, NULL},
    {"RFC 1918 only with allow-private", "10.1.2.3:443", "private", NULL, NULL},
    {"RFC 1918, the middle block", "172.31.255.255:443", "private", NULL, NULL},
    {"just above the middle block", "172.32.0.0:443", NULL, NULL, NULL},
    {"shared address space is private too", "100.64.0.1:443", "private", NULL, NULL},
    {"unique local IPv6 is private", "[fd12::1]:443", "private", NULL, NULL},
    {"loopback only by addresses", "127.0.0.1:443", "loopback", "loopback", NULL},
    {"all of 127/8 is loopback", "127.200.1.1:443", "loopback", "loopback", NULL},
    {"IPv6 loopback only by addresses", "[::1]:443", "loopback", "loopback", NULL},
    {"link-local only by addresses", "169.254.7.7:443", "link-local", "link-local", NULL},
    {"IPv6 link-local only by addresses", "[fe80::1]:443", "link-local", "link-local", NULL},
    {"cloud metadata never", "169.254.169.254:80", "metadata", "metadata", "metadata"},
    {"cloud metadata over IPv6 never", "[fd00:ec2::254]:80", "metadata", "metadata", "metadata"},
    {"metadata in a v4-mapped address never", "[::ffff:169.254.169.254]:80", "metadata", "metadata", "metadata"},
    {"metadata behind NAT64 never", "[64:ff9b::a9fe:a9fe]:80", "metadata", "metadata", "metadata"},
    {"the unspecified address never", "0.0.0.0:443", "special", "special", "special"},
    {"the unspecified IPv6 address never", "[::]:443", "special", "special", "special"},
    {"multicast never", "224.0.0.1:443", "special", "special", "special"},
    {"broadcast never", "255.255.255.255:443", "special", "special", "special"},
    {"documentation addresses never", "203.0.113.9:443", "special", "special", "special"},
    {"6to4 never", "[2002:7f00:1::1]:443", "special", "special", "special"},
    {"loopback in a v4-mapped address is loopback", "[::ffff:127.0.0.1]:443", "loopback", "loopback", NULL},
    {"a private address in a v4-mapped one is private", "[::ffff:10.1.2.3]:443", "private", NULL, NULL},
    /* own listeners: 10.0.0.1:3128, 127.0.0.1:9464, [fd12::5]:3128, *:3129; of this machine are 10.0.0.1, 198.41.0.4, fe80::9 */
    {"an own listener never", "10.0.0.1:3128", "own listener", "own listener", "own listener"},
    {"another port of an own address", "10.0.0.1:8443", "private", NULL, NULL},
    {"an own port of another address", "10.0.0.2:3128", "private", NULL, NULL},
    {"an own listener in a v4-mapped address", "[::ffff:10.0.0.1]:3128", "own listener", "own listener", "own listener"},
    {"an own listener behind NAT64", "[64:ff9b::a00:1]:3128", "own listener", "own listener", "own listener"},
    {"the publish listener on loopback", "127.0.0.1:9464", "own listener", "own listener", "own listener"},
    {"an own IPv6 listener", "[fd12::5]:3128", "own listener", "own listener", "own listener"},
    {"a wildcard listener by an interface's address", "198.41.0.4:3129", "own listener", "own listener", "own listener"},
    {"a wildcard listener by IPv6", "[fe80::9]:3129", "own listener", "own listener", "own listener"},
    {"a wildcard listener by any loopback address", "127.3.2.1:3129", "own listener", "own listener", "own listener"},
    {"a wildcard listener by IPv6 loopback", "[::1]:3129", "own listener", "own listener", "own listener"},
    {"a wildcard listener by an interface's address, mapped", "[::ffff:198.41.0.4]:3129", "own listener", "own listener", "own listener"},
    {"a wildcard listener by an interface's address, behind NAT64", "[64:ff9b::c629:4]:3129", "own listener", "own listener", "own listener"},
    {"another port of an interface's address", "198.41.0.4:3130", NULL, NULL, NULL},
    {"another host's port of that number", "8.8.8.8:3129", NULL, NULL, NULL},
};

static struct addr parse(const char *text)
{
    struct addr a;

    if (!addr_parse(slice_of(text), &a))
        fail_msg("%s is no address", text);
    return a;
}

/* Loopback is known without. */
static bool is_here(void *arg, const struct addr *a)
{
    static const char *const here[] = {"10.0.0.1", "198.41.0.4", "fe80::9"};
    struct addr own;

    (void)arg;
    assert_int_equal(a->port, 3129);
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (addr_parse_ip(slice_of(here[i]), &own) && addr_ip_equals(&own, a))
            return true;
    return false;
}

static struct bounds *make_bounds(void)
{
    const char *listeners[] = {"10.0.0.1:3128", "127.0.0.1:9464", "[fd12::5]:3128", "0.0.0.0:3129"};
    struct bounds *b = bounds_new();

    for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++) {
        struct addr a = parse(listeners[i]);

        bounds_add_listener(b, &a);
    }
    bounds_add_listener(b, &(struct addr){.family = AF_UNIX});
    bounds_ask(b, is_here, NULL);
    return b;
}

static void expect(const char *name, const char *source, const char *want, const char *got)
{
    if ((want == NULL) != (got == NULL) || (want && strcmp(want, got) != 0))
        fail_msg("%s (%s): expected %s, got %s", name, source, want ? want : "allowed", got ? got : "allowed");
}

static void test_rows(void **state)
{
    struct bounds *b = make_bounds();

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct addr a = parse(r->address);

        expect(r->name, "resolved", r->resolved, bounds_refuse(b, &a, BOUNDS_RESOLVED));
        expect(r->name, "allow-private", r->allow_private, bounds_refuse(b, &a, BOUNDS_RESOLVED_PRIVATE));
        expect(r->name, "addresses", r->fixed, bounds_refuse(b, &a, BOUNDS_FIXED));
    }
    bounds_free(b);
}

static void test_no_family(void **state)
{
    struct bounds *b = bounds_new();

    (void)state;
    expect("no address at all", "addresses", "special", bounds_refuse(b, &(struct addr){0}, BOUNDS_FIXED));
    expect("a unix socket", "addresses", "special", bounds_refuse(b, &(struct addr){.family = AF_UNIX}, BOUNDS_FIXED));
    bounds_free(b);
}

/* Then whatever has the port may be ours, until somebody can be asked, and over another list. */
static void test_nobody_to_ask(void **state)
{
    const struct addr wild = parse("[::]:3129"), away = parse("8.8.8.8:3129"), other = parse("8.8.8.8:3130");
    struct bounds *b = bounds_new(), *next = bounds_new();

    (void)state;
    bounds_add_listener(b, &wild);
    bounds_add_listener(next, &wild);
    expect("nobody to ask", "resolved", "own listener", bounds_refuse(b, &away, BOUNDS_RESOLVED));
    expect("nobody to ask, another port", "resolved", NULL, bounds_refuse(b, &other, BOUNDS_RESOLVED));
    bounds_ask(b, is_here, NULL);
    bounds_replace(b, next);
    expect("another list", "resolved", NULL, bounds_refuse(b, &away, BOUNDS_RESOLVED));
    bounds_free(b);
}

static void test_read(void **state)
{
    const struct addr one = parse("10.0.0.1:53"), other = parse("10.0.0.1:3128");
    struct buf own = {0};
    struct bounds *b;

    (void)state;
    pack_u16(&own, 2);
    pack_bytes(&own, SLICE("10.0.0.1:53"));
    pack_bytes(&own, SLICE("10.0.0.1:3128"));
    assert_non_null(b = bounds_read(buf_slice(&own)));
    expect("the first", "addresses", "own listener", bounds_refuse(b, &one, BOUNDS_FIXED));
    expect("the last", "addresses", "own listener", bounds_refuse(b, &other, BOUNDS_FIXED));
    bounds_free(b);
    for (size_t i = 0; i < buf_len(&own); i++)
        assert_null(bounds_read(slice_cut(buf_slice(&own), 0, i)));
    buf_char(&own, 'x');
    assert_null(bounds_read(buf_slice(&own)));
    buf_clear(&own);
    pack_u16(&own, 1);
    pack_bytes(&own, SLICE("10.0.0.1"));
    assert_null(bounds_read(buf_slice(&own)));
    buf_free(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_no_family),
        cmocka_unit_test(test_nobody_to_ask),
        cmocka_unit_test(test_read),
    };

    return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
