/* Addresses: strict texts; each range of the IANA special-purpose registries by first, last and neighbour. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/addr.h"

static const struct {
    const char *name, *ip;
    enum addr_class class;
} classes[] = {
    {"global", "8.8.8.8", ADDR_GLOBAL},
    {"global, the lowest", "1.0.0.0", ADDR_GLOBAL},
    {"global, the highest", "223.255.255.255", ADDR_GLOBAL},
    {"0.0.0.0/8", "0.0.0.0", ADDR_SPECIAL},
    {"0.0.0.0/8, last", "0.255.255.255", ADDR_SPECIAL},
    {"before 10/8", "9.255.255.255", ADDR_GLOBAL},
    {"10/8", "10.0.0.0", ADDR_PRIVATE},
    {"10/8, last", "10.255.255.255", ADDR_PRIVATE},
    {"after 10/8", "11.0.0.0", ADDR_GLOBAL},
    {"before 100.64/10", "100.63.255.255", ADDR_GLOBAL},
    {"100.64/10", "100.64.0.0", ADDR_PRIVATE},
    {"100.64/10, last", "100.127.255.255", ADDR_PRIVATE},
    {"after 100.64/10", "100.128.0.0", ADDR_GLOBAL},
    {"before 127/8", "126.255.255.255", ADDR_GLOBAL},
    {"127/8", "127.0.0.0", ADDR_LOOPBACK},
    {"127.0.0.1", "127.0.0.1", ADDR_LOOPBACK},
    {"127/8, last", "127.255.255.255", ADDR_LOOPBACK},
    {"after 127/8", "128.0.0.0", ADDR_GLOBAL},
    {"before 169.254/16", "169.253.255.255", ADDR_GLOBAL},
    {"169.254/16", "169.254.0.0", ADDR_LINKLOCAL},
    {"169.254/16, last", "169.254.255.255", ADDR_LINKLOCAL},
    {"after 169.254/16", "169.255.0.0", ADDR_GLOBAL},
    {"before 172.16/12", "172.15.255.255", ADDR_GLOBAL},
    {"172.16/12", "172.16.0.0", ADDR_PRIVATE},
    {"172.16/12, last", "172.31.255.255", ADDR_PRIVATE},
    {"after 172.16/12", "172.32.0.0", ADDR_GLOBAL},
    {"before 192.0.0/24", "191.255.255.255", ADDR_GLOBAL},
    {"192.0.0/24", "192.0.0.0", ADDR_SPECIAL},
    {"192.0.0.8/32 dummy", "192.0.0.8", ADDR_SPECIAL},
    {"192.0.0.9/32 PCP anycast", "192.0.0.9", ADDR_SPECIAL},
    {"192.0.0.10/32 TURN anycast", "192.0.0.10", ADDR_SPECIAL},
    {"192.0.0.170 NAT64 discovery", "192.0.0.170", ADDR_SPECIAL},
    {"192.0.0/24, last", "192.0.0.255", ADDR_SPECIAL},
    {"after 192.0.0/24", "192.0.1.0", ADDR_GLOBAL},
    {"192.0.2/24", "192.0.2.0", ADDR_SPECIAL},
    {"192.0.2/24, last", "192.0.2.255", ADDR_SPECIAL},
    {"after 192.0.2/24", "192.0.3.0", ADDR_GLOBAL},
    {"192.31.196/24", "192.31.196.1", ADDR_SPECIAL},
    {"after 192.31.196/24", "192.31.197.0", ADDR_GLOBAL},
    {"192.52.193/24", "192.52.193.1", ADDR_SPECIAL},
    {"after 192.52.193/24", "192.52.194.0", ADDR_GLOBAL},
    {"192.88.99/24", "192.88.99.1", ADDR_SPECIAL},
    {"192.88.99.2/32 6a44", "192.88.99.2", ADDR_SPECIAL},
    {"after 192.88.99/24", "192.88.100.0", ADDR_GLOBAL},
    {"before 192.168/16", "192.167.255.255", ADDR_GLOBAL},
    {"192.168/16", "192.168.0.0", ADDR_PRIVATE},
    {"192.168/16, last", "192.168.255.255", ADDR_PRIVATE},
    {"after 192.168/16", "192.169.0.0", ADDR_GLOBAL},
    {"192.175.48/24", "192.175.48.6", ADDR_SPECIAL},
    {"after 192.175.48/24", "192.175.49.0", ADDR_GLOBAL},
    {"before 198.18/15", "198.17.255.255", ADDR_GLOBAL},
    {"198.18/15", "198.18.0.0", ADDR_SPECIAL},
    {"198.18/15, last", "198.19.255.255", ADDR_SPECIAL},
    {"after 198.18/15", "198.20.0.0", ADDR_GLOBAL},
    {"198.51.100/24", "198.51.100.7", ADDR_SPECIAL},
    {"after 198.51.100/24", "198.51.101.0", ADDR_GLOBAL},
    {"203.0.113/24", "203.0.113.7", ADDR_SPECIAL},
    {"after 203.0.113/24", "203.0.114.0", ADDR_GLOBAL},
    {"multicast", "224.0.0.0", ADDR_SPECIAL},
    {"multicast, last", "239.255.255.255", ADDR_SPECIAL},
    {"reserved", "240.0.0.0", ADDR_SPECIAL},
    {"broadcast", "255.255.255.255", ADDR_SPECIAL},

    {"metadata of most clouds", "169.254.169.254", ADDR_METADATA},
    {"its neighbour, a name server", "169.254.169.253", ADDR_METADATA},
    {"credentials of containers", "169.254.170.2", ADDR_METADATA},
    {"credentials of pods", "169.254.170.23", ADDR_METADATA},
    {"metadata, 169.254.0.23", "169.254.0.23", ADDR_METADATA},
    {"metadata, 169.254.42.42", "169.254.42.42", ADDR_METADATA},
    {"metadata inside shared space", "100.100.100.200", ADDR_METADATA},
    {"beside metadata inside shared space", "100.100.100.201", ADDR_PRIVATE},
    {"metadata inside global space", "168.63.129.16", ADDR_METADATA},
    {"beside metadata inside global space", "168.63.129.17", ADDR_GLOBAL},
    {"metadata inside 192.0.0/24", "192.0.0.192", ADDR_METADATA},

    {"global unicast, lowest", "2000::", ADDR_GLOBAL},
    {"global unicast", "2606:4700::1111", ADDR_GLOBAL},
    {"global unicast, highest", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_GLOBAL},
    {"unspecified", "::", ADDR_SPECIAL},
    {"loopback", "::1", ADDR_LOOPBACK},
    {"after loopback", "::2", ADDR_SPECIAL},
    {"v4-compatible loopback", "::127.0.0.1", ADDR_SPECIAL},
    {"v4-compatible global", "::8.8.8.8", ADDR_SPECIAL},
    {"v4-mapped loopback", "::ffff:127.0.0.1", ADDR_LOOPBACK},
    {"v4-mapped loopback in hexadecimal", "::ffff:7f00:1", ADDR_LOOPBACK},
    {"v4-mapped private", "::ffff:10.0.0.1", ADDR_PRIVATE},
    {"v4-mapped metadata", "::ffff:169.254.169.254", ADDR_METADATA},
    {"v4-mapped unspecified", "::ffff:0.0.0.0", ADDR_SPECIAL},
    {"v4-mapped global", "::ffff:8.8.8.8", ADDR_GLOBAL},
    {"v4-translated", "::ffff:0:8.8.8.8", ADDR_SPECIAL},
    {"NAT64 loopback", "64:ff9b::7f00:1", ADDR_LOOPBACK},
    {"NAT64 metadata", "64:ff9b::169.254.169.254", ADDR_METADATA},
    {"NAT64 private", "64:ff9b::c0a8:1", ADDR_PRIVATE},
    {"NAT64 multicast", "64:ff9b::e000:1", ADDR_SPECIAL},
    {"NAT64 global", "64:ff9b::8.8.8.8", ADDR_GLOBAL},
    {"NAT64, past its /96", "64:ff9b::1:808:808", ADDR_SPECIAL},
    {"local NAT64, private inside", "64:ff9b:1::10.0.0.1", ADDR_SPECIAL},
    {"local NAT64, global inside", "64:ff9b:1::8.8.8.8", ADDR_SPECIAL},
    {"discard", "100::", ADDR_SPECIAL},
    {"dummy prefix", "100:0:0:1::", ADDR_SPECIAL},
    {"Teredo", "2001::1", ADDR_SPECIAL},
    {"Teredo to loopback", "2001:0:4136:e378:8000:63bf:80ff:fffe", ADDR_SPECIAL},
    {"PCP anycast", "2001:1::1", ADDR_SPECIAL},
    {"benchmarks", "2001:2::1", ADDR_SPECIAL},
    {"AMT", "2001:3::1", ADDR_SPECIAL},
    {"AS112", "2001:4:112::1", ADDR_SPECIAL},
    {"ORCHID", "2001:10::1", ADDR_SPECIAL},
    {"ORCHIDv2", "2001:20::1", ADDR_SPECIAL},
    {"drone ids", "2001:30::1", ADDR_SPECIAL},
    {"2001::/23, last", "2001:1ff:ffff::", ADDR_SPECIAL},
    {"after 2001::/23", "2001:200::", ADDR_GLOBAL},
    {"before documentation", "2001:db7:ffff::", ADDR_GLOBAL},
    {"documentation", "2001:db8::1", ADDR_SPECIAL},
    {"after documentation", "2001:db9::", ADDR_GLOBAL},
    {"6to4 of loopback", "2002:7f00:1::", ADDR_SPECIAL},
    {"6to4 of metadata", "2002:a9fe:a9fe::1", ADDR_SPECIAL},
    {"6to4 of global", "2002:808:808::1", ADDR_SPECIAL},
    {"after 6to4", "2003::1", ADDR_GLOBAL},
    {"AS112, direct", "2620:4f:8000::1", ADDR_SPECIAL},
    {"after AS112", "2620:4f:8001::1", ADDR_GLOBAL},
    {"documentation, 3fff::/20", "3fff::1", ADDR_SPECIAL},
    {"documentation, last", "3fff:fff:ffff::", ADDR_SPECIAL},
    {"after documentation, 3fff::/20", "3fff:1000::", ADDR_GLOBAL},
    {"unallocated", "4000::1", ADDR_SPECIAL},
    {"segment routing", "5f00::1", ADDR_SPECIAL},
    {"unallocated, below unique local", "fbff::1", ADDR_SPECIAL},
    {"unique local", "fc00::1", ADDR_PRIVATE},
    {"unique local, last", "fdff:ffff::1", ADDR_PRIVATE},
    {"metadata, unique local", "fd00:ec2::254", ADDR_METADATA},
    {"beside metadata, unique local", "fd00:ec3::254", ADDR_PRIVATE},
    {"metadata, fd20:ce::254", "fd20:ce::254", ADDR_METADATA},
    {"metadata, fd00:c1::a9fe:a9fe", "fd00:c1::a9fe:a9fe", ADDR_METADATA},
    {"metadata, fd00:42::42", "fd00:42::42", ADDR_METADATA},
    {"metadata, link-local", "fe80::a9fe:a9fe", ADDR_METADATA},
    {"before link-local", "fe7f::1", ADDR_SPECIAL},
    {"link-local", "fe80::1", ADDR_LINKLOCAL},
    {"link-local, last", "febf:ffff::1", ADDR_LINKLOCAL},
    {"site-local", "fec0::1", ADDR_SPECIAL},
    {"multicast", "ff02::1", ADDR_SPECIAL},
    {"all ones", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_SPECIAL},
};

static void every_registry_range_has_its_class(void **state)
{
    struct addr a;

    (void)state;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        assert_true(addr_parse_ip(slice_of(classes[i].ip), &a));
        if (addr_classify(&a) != classes[i].class)
            fail_msg("%s (%s): %s", classes[i].name, classes[i].ip, addr_class_name(addr_classify(&a)));
    }
    a = (struct addr){.family = AF_UNIX};
    assert_int_equal(addr_classify(&a), ADDR_SPECIAL);
}

static const struct {
    const char *name;
    struct slice text;
    const char *written; /* NULL: refused */
} ips[] = {
    {"IPv4", SLICE("10.1.2.3"), "10.1.2.3"},
    {"IPv6", SLICE("::1"), "::1"},
    {"IPv6 is written as RFC 5952 says", SLICE("2001:0DB8:0:0:0:0:0:1"), "2001:db8::1"},
    {"v4-mapped", SLICE("::ffff:1.2.3.4"), "::ffff:1.2.3.4"},
    {"empty", SLICE(""), NULL},
    {"a leading zero", SLICE("010.1.2.3"), NULL},
    {"octal", SLICE("0177.0.0.1"), NULL},
    {"hexadecimal", SLICE("0x7f.0.0.1"), NULL},
    {"short", SLICE("127.1"), NULL},
    {"one number", SLICE("2130706433"), NULL},
    {"five parts", SLICE("1.2.3.4.5"), NULL},
    {"256", SLICE("1.2.3.256"), NULL},
    {"an empty part", SLICE("1..2.3"), NULL},
    {"a trailing dot", SLICE("1.2.3.4."), NULL},
    {"a sign", SLICE("1.2.3.+4"), NULL},
    {"a blank in front", SLICE(" 1.2.3.4"), NULL},
    {"a blank behind", SLICE("1.2.3.4 "), NULL},
    {"a NUL behind", SLICE("1.2.3.4\0"), NULL},
    {"a NUL inside", SLICE("1.2.3.4\0.5"), NULL},
    {"a zone", SLICE("fe80::1%eth0"), NULL},
    {"brackets", SLICE("[::1]"), NULL},
    {"two gaps", SLICE("1::2::3"), NULL},
    {"nine groups", SLICE("1:2:3:4:5:6:7:8:9"), NULL},
    {"five digits", SLICE("12345::"), NULL},
    {"a colon alone", SLICE(":"), NULL},
    {"very long", SLICE("1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb"), NULL},
    {"a name", SLICE("registry.test"), NULL},
};

static void ip_texts_are_strict(void **state)
{
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof ips / sizeof *ips; i++) {
        struct addr a;
        bool ok = addr_parse_ip(ips[i].text, &a);

        buf_clear(&out);
        if (ok)
            addr_ip_text(&out, &a);
        if (ok != (ips[i].written != NULL) || (ok && !slice_is(buf_slice(&out), ips[i].written)))
            fail_msg("%s: %.*s", ips[i].name, SLICE_ARG(buf_slice(&out)));
    }
    buf_free(&out);
}

static const struct {
    const char *name, *text;
    bool ok;
} addresses[] = {
    {"IPv4 and port", "127.0.0.1:80", true},
    {"IPv6 and port", "[::1]:80", true},
    {"the largest port", "127.0.0.1:65535", true},
    {"port 0", "127.0.0.1:0", true},
    {"no port", "127.0.0.1", false},
    {"an empty port", "127.0.0.1:", false},
    {"port 65536", "127.0.0.1:65536", false},
    {"six digits", "127.0.0.1:000080", false},
    {"a leading zero", "127.0.0.1:080", false},
    {"a sign", "127.0.0.1:+80", false},
    {"a blank", "127.0.0.1: 80", false},
    {"IPv6 without brackets", "::1:80", false},
    {"IPv4 in brackets", "[127.0.0.1]:80", false},
    {"brackets without a port", "[::1]", false},
    {"an open bracket", "[::1:80", false},
    {"text behind a bracket", "[::1]x:80", false},
    {"no address", ":80", false},
    {"a name", "registry.test:80", false},
    {"empty", "", false},
};

static void addresses_with_a_port_are_strict(void **state)
{
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct addr a;
        bool ok = addr_parse(slice_of(addresses[i].text), &a);

        buf_clear(&out);
        if (ok)
            addr_text(&out, &a);
        if (ok != addresses[i].ok || (ok && !slice_is(buf_slice(&out), addresses[i].text)))
            fail_msg("%s: %.*s", addresses[i].name, SLICE_ARG(buf_slice(&out)));
    }
    buf_free(&out);
}

static void an_address_survives_the_kernel_form(void **state)
{
    static const char *const texts[] = {"192.0.2.1:8443", "[2001:db8::1]:443"};
    struct sockaddr_storage kernel;
    struct addr a, b;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_true(addr_parse(slice_of(texts[i]), &a));
        assert_int_equal(addr_to_sockaddr(&a, &kernel), i ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
        addr_from_sockaddr(&b, (const struct sockaddr *)&kernel);
        assert_true(addr_equals(&a, &b));
        b.port++;
        assert_false(addr_equals(&a, &b));
        assert_true(addr_ip_equals(&a, &b));
        b.ip[3]++;
        assert_false(addr_ip_equals(&a, &b));
    }
    a = (struct addr){.family = AF_UNIX};
    assert_int_equal(addr_to_sockaddr(&a, &kernel), 0);
}

static const struct {
    const char *name, *text, *reaches;
    bool is_unspecified;
} plain[] = {
    {"IPv4", "192.0.2.1", "192.0.2.1", false},
    {"IPv6", "2001:db8::c000:201", "2001:db8::c000:201", false},
    {"IPv4 in IPv6", "::ffff:192.0.2.1", "192.0.2.1", false},
    {"by NAT64", "64:ff9b::c000:201", "192.0.2.1", false},
    {"by NAT64 of an operator's own, which only he can tell", "64:ff9b:1::c000:201", "64:ff9b:1::c000:201", false},
    {"nothing in particular", "0.0.0.0", "0.0.0.0", true},
    {"nothing in particular of IPv6", "::", "::", true},
    {"the last bit", "::1", "::1", false},
    {"a network's first", "0.0.0.1", "0.0.0.1", false},
};

static void what_an_address_reaches(void **state)
{
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        struct addr a, inside;

        assert_true(addr_parse_ip(slice_of(plain[i].text), &a));
        a.port = 443;
        inside = addr_plain(&a);
        buf_clear(&out);
        addr_ip_text(&out, &inside);
        if (!slice_is(buf_slice(&out), plain[i].reaches) || inside.port != 443)
            fail_msg("%s: %.*s, port %u", plain[i].name, SLICE_ARG(buf_slice(&out)), inside.port);
        if (addr_is_unspecified(&a) != plain[i].is_unspecified)
            fail_msg("%s: is it unspecified?", plain[i].name);
    }
    buf_free(&out);
    assert_false(addr_is_unspecified(&(struct addr){.family = AF_UNIX}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_registry_range_has_its_class),
        cmocka_unit_test(ip_texts_are_strict),
        cmocka_unit_test(addresses_with_a_port_are_strict),
        cmocka_unit_test(an_address_survives_the_kernel_form),
        cmocka_unit_test(what_an_address_reaches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
