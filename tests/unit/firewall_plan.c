/* Words that become a firewall's plan: what is refused before it could stand in a ruleset, and which doors are left for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "firewall/ruleset.h"

/* ---- one word ---- */

typedef bool take(struct plan *p, const char *text, struct fault *why);

static const struct word {
    const char *name;
    take *take;
    const char *text;
    bool ok;
} words[] = {
    {"an interface", plan_set_interface, "vm1", true},
    {"an interface with a dot and a dash", plan_set_interface, "veth-1.2_3", true},
    {"the longest interface", plan_set_interface, "abcdefghijklmno", true},
    {"an interface one too long", plan_set_interface, "abcdefghijklmnop", false},
    {"no interface", plan_set_interface, "", false},
    {"an interface that is any", plan_set_interface, "vm*", false},
    {"an interface that ends its quote", plan_set_interface, "vm\" accept", false},
    {"an interface with a line's end", plan_set_interface, "vm\n", false},
    {"an interface with a semicolon", plan_set_interface, "vm;", false},
    {"an interface that is a variable", plan_set_interface, "$vm", false},
    {"an interface that is a comment", plan_set_interface, "vm#1", false},
    {"an interface in two words", plan_set_interface, "vm 1", false},
    {"an interface that is a path", plan_set_interface, "a/b", false},
    {"here", plan_set_interface, ".", false},
    {"above", plan_set_interface, "..", false},
    {"bytes that are no letters", plan_set_interface, "v\xc3\xa4", false},
    {"loopback", plan_set_interface, "lo", false},
    {"a bridge", plan_set_bridge, "br0", true},
    {"a bridge that is any", plan_set_bridge, "br*", false},
    {"a name", plan_set_name, "ci-runner.7", true},
    {"a name with a brace", plan_set_name, "a}", false},
    {"a name in two words", plan_set_name, "a b", false},
    {"a name too long", plan_set_name, "a12345678901234567890123456789012345678901234567", false},
    {"a hardware address", plan_set_mac, "02:00:00:00:00:0a", true},
    {"a hardware address in capitals", plan_set_mac, "02:AB:CD:EF:00:0A", true},
    {"a hardware address of a group", plan_set_mac, "01:00:5e:00:00:01", false},
    {"a hardware address of all", plan_set_mac, "ff:ff:ff:ff:ff:ff", false},
    {"a hardware address of five", plan_set_mac, "02:00:00:00:00", false},
    {"a hardware address of seven", plan_set_mac, "02:00:00:00:00:00:00", false},
    {"a hardware address with a sign", plan_set_mac, "02:00:00:00:00:-1", false},
    {"a hardware address with a short part", plan_set_mac, "2:00:00:00:00:00", false},
    {"a source", plan_add_source, "10.0.0.2", true},
    {"a source of IPv6", plan_add_source, "fd00::2", true},
    {"a source of the link", plan_add_source, "fe80::2", true},
    {"a source that is a network", plan_add_source, "10.0.0.0/24", false},
    {"a source that is a set", plan_add_source, "10.0.0.2, 10.0.0.3", false},
    {"a source with a port", plan_add_source, "10.0.0.2:80", false},
    {"a source that is all", plan_add_source, "0.0.0.0", false},
    {"a source that is a group", plan_add_source, "224.0.0.1", false},
    {"a source that is broadcast", plan_add_source, "255.255.255.255", false},
    {"a source that is a group of IPv6", plan_add_source, "ff02::1", false},
    {"a source that is loopback", plan_add_source, "127.0.0.1", false},
    {"a source that is loopback of IPv6", plan_add_source, "::1", false},
    {"a gateway", plan_add_gateway, "10.0.0.1", true},
    {"a gateway by name", plan_add_gateway, "gw.example", false},
    {"ports", plan_set_ports, "80,443", true},
    {"no ports", plan_set_ports, "none", true},
    {"a port of nothing", plan_set_ports, "80,", false},
    {"port 0", plan_set_ports, "0", false},
    {"a port above all", plan_set_ports, "65536", false},
    {"a range of ports", plan_set_ports, "1-1024", false},
    {"a port by name", plan_set_ports, "https", false},
};

static void words_are_names_addresses_and_ports(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct plan p = {0};
        struct fault why = {0};

        if (words[i].take(&p, words[i].text, &why) != words[i].ok)
            fail_msg("%s: %s", words[i].name, why.text);
        assert_true(words[i].ok || why.kind == FAULT_USAGE);
    }
}

static void there_is_an_end_to_addresses_and_ports(void **state)
{
    struct plan p = {0};
    struct fault why = {0};
    char text[32];
    bool ok = true;

    (void)state;
    for (int i = 1; ok && i < 100; i++) {
        snprintf(text, sizeof text, "10.0.0.%d", i);
        ok = plan_add_source(&p, text, &why);
    }
    assert_false(ok);
    assert_int_equal(p.sources.n, PLAN_ADDRESSES_MOST);
    for (ok = true; ok && p.n_ports < 1000;)
        ok = plan_add_port(&p, (uint16_t)(1000 + p.n_ports), &why);
    assert_false(ok);
    assert_int_equal(p.n_ports, PLAN_PORTS_MOST);
}

/* ---- the whole ---- */

enum { MANY = 6 };

static const struct whole {
    const char *name;
    const char *sources[MANY], *gateways[MANY];
    const char *doors[MANY]; /* "10.0.0.1:3128"; with '*' in front a transparent one, with '.' a datagram's */
    const char *bridge, *mac;
    const char *left; /* the doors in order; NULL: refused */
    const char *says;
} wholes[] = {
    {"a listener at an address", {"10.0.0.2"}, {NULL}, {"10.0.0.1:3128"}, NULL, NULL, "10.0.0.1:3128 ", NULL},
    {"the same twice is one", {"10.0.0.2"}, {NULL}, {"10.0.0.1:3128", "10.0.0.1:3128"}, NULL, NULL, "10.0.0.1:3128 ", NULL},
    {"ordered, however they are written", {"10.0.0.2", "fd00::2"}, {NULL}, {".10.0.0.1:53", "[fd00::1]:3128", "10.0.0.1:3128"}, NULL,
     NULL, "10.0.0.1:3128 .10.0.0.1:53 [fd00::1]:3128 ", NULL},
    {"on all addresses, the gateway's are said", {"10.0.0.2"}, {"10.0.0.1", "10.0.9.1"}, {"0.0.0.0:3128"}, NULL, NULL,
     "10.0.0.1:3128 10.0.9.1:3128 ", NULL},
    {"on all addresses, and none is said", {"10.0.0.2"}, {NULL}, {"0.0.0.0:3128"}, NULL, NULL, NULL, "--gateway"},
    {"all of IPv6 are not all of IPv4", {"10.0.0.2"}, {"10.0.0.1"}, {"[::]:3128"}, NULL, NULL, NULL, "no listener is left"},
    {"not at the gateway's address that is said", {"10.0.0.2"}, {"10.0.0.1"}, {"10.0.0.1:3128", "10.0.9.1:3128"}, NULL, NULL,
     "10.0.0.1:3128 ", NULL},
    {"loopback is no door", {"10.0.0.2"}, {NULL}, {"127.0.0.1:3128", "10.0.0.1:3128"}, NULL, NULL, "10.0.0.1:3128 ", NULL},
    {"loopback alone", {"10.0.0.2"}, {NULL}, {"127.0.0.1:3128"}, NULL, NULL, NULL, "no listener is left"},
    {"a family the sandbox has not", {"10.0.0.2"}, {NULL}, {"10.0.0.1:3128", "[fd00::1]:3128"}, NULL, NULL, "10.0.0.1:3128 ", NULL},
    {"nobody behind it", {NULL}, {NULL}, {"10.0.0.1:3128"}, NULL, NULL, NULL, "--source"},
    {"both the sandbox's and the gateway's", {"10.0.0.1"}, {NULL}, {"10.0.0.1:3128"}, NULL, NULL, NULL, "not both"},
    {"a bridge without a hardware address", {"10.0.0.2"}, {NULL}, {"10.0.0.1:3128"}, "br0", NULL, NULL, "--mac"},
    {"a bridge", {"10.0.0.2"}, {NULL}, {"10.0.0.1:3128"}, "br0", "02:00:00:00:00:02", "10.0.0.1:3128 ", NULL},
    {"the bridge itself", {"10.0.0.2"}, {NULL}, {"10.0.0.1:3128"}, "vm1", "02:00:00:00:00:02", NULL, "not the bridge itself"},
    {"two that take all", {"10.0.0.2"}, {NULL}, {"*10.0.0.1:3129", "*10.0.0.1:3130"}, NULL, NULL, NULL, "--listener"},
    {"one that takes all of each family", {"10.0.0.2", "fd00::2"}, {NULL}, {"*10.0.0.1:3129", "*[fd00::1]:3129"}, NULL, NULL,
     "*10.0.0.1:3129 *[fd00::1]:3129 ", NULL},
};

static bool make(struct plan *p, const struct whole *w, struct fault *why)
{
    bool ok = plan_set_interface(p, "vm1", why) && plan_set_ports(p, "443", why);

    p->steer = PLAN_STEER_REDIRECT;
    if (w->bridge)
        ok = ok && plan_set_bridge(p, w->bridge, why);
    if (w->mac)
        ok = ok && plan_set_mac(p, w->mac, why);
    for (size_t i = 0; ok && i < MANY && w->sources[i]; i++)
        ok = plan_add_source(p, w->sources[i], why);
    for (size_t i = 0; ok && i < MANY && w->gateways[i]; i++)
        ok = plan_add_gateway(p, w->gateways[i], why);
    for (size_t i = 0; ok && i < MANY && w->doors[i]; i++) {
        const char *text = w->doors[i];
        struct plan_door d = {.udp = *text == '.', .takes_all = *text == '*'};

        assert_true(addr_parse(slice_of(text + (d.udp || d.takes_all)), &d.at));
        ok = plan_add_door(p, &d, why);
    }
    return ok && plan_finish(p, why);
}

static void doors_are_those_of_this_sandbox(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        const struct whole *w = &wholes[i];
        struct plan p = {0};
        struct fault why = {0};
        struct buf left = {0};
        bool ok = make(&p, w, &why);

        for (size_t d = 0; d < p.n_doors; d++) {
            buf_text(&left, p.doors[d].udp ? "." : p.doors[d].takes_all ? "*" : "");
            addr_text(&left, &p.doors[d].at);
            buf_char(&left, ' ');
        }
        if (ok != (w->left != NULL) || (ok && !slice_is(buf_slice(&left), w->left)) || (!ok && !strstr(why.text, w->says)))
            fail_msg("%s: %.*s %s", w->name, SLICE_ARG(buf_slice(&left)), why.text);
        buf_free(&left);
    }
}

/* ---- the ruleset ---- */

/* What a ruleset has to have, and what must not be in it, by the plan. */
static const struct written {
    const char *name;
    enum plan_steer steer;
    const char *bridge;
    bool dhcp, six;
    const char *has[MANY], *lacks[MANY];
} texts[] = {
    {"IPv4 alone has no word of IPv6", PLAN_STEER_NONE, NULL, false, false, {"policy drop"}, {"ip6 ", "icmpv6"}},
    {"nothing is steered", PLAN_STEER_NONE, NULL, false, true, {"ip6 saddr { fd00::2 }"}, {"dnat", "tproxy", "table bridge exeat_vm1 {"}},
    {"REDIRECT", PLAN_STEER_REDIRECT, NULL, false, true, {"dnat ip to 10.0.0.1:3129 ", "dnat ip6 to [fd00::1]:3129 ", "169.254.0.0/16"},
     {"tproxy", "ip rule"}},
    {"TPROXY says what it needs beside", PLAN_STEER_TPROXY, NULL, false, false, {"tproxy ip to 10.0.0.1:3129", "# TPROXY needs"}, {"dnat"}},
    {"a bridge has its table", PLAN_STEER_NONE, "br0", false, true,
     {"table bridge exeat_vm1 {", "iifname \"br0\" ip saddr { 10.0.0.2 }", "ether saddr != 02:00:00:00:00:02"}, {"iifname \"vm1\" ip"}},
    {"DHCP is off unless it is asked for", PLAN_STEER_NONE, NULL, false, true, {"forward"}, {"udp dport 67", "255.255.255.255"}},
    {"DHCP", PLAN_STEER_NONE, NULL, true, true, {"ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67"}, {NULL}},
};

static void write_text(const struct written *w, struct buf *out)
{
    struct whole whole = {.sources = {"10.0.0.2", w->six ? "fd00::2" : NULL}, .bridge = w->bridge,
                          .mac = w->bridge ? "02:00:00:00:00:02" : NULL};
    struct plan p = {.dhcp = w->dhcp};
    struct fault why = {0};

    whole.doors[0] = "10.0.0.1:3128";
    whole.doors[1] = "[fd00::1]:3128";
    if (w->steer != PLAN_STEER_NONE) {
        whole.doors[2] = "*10.0.0.1:3129";
        whole.doors[3] = "*[fd00::1]:3129";
    }
    if (!make(&p, &whole, &why))
        fail_msg("%s: %s", w->name, why.text);
    if (w->steer != PLAN_STEER_NONE)
        p.steer = w->steer;
    ruleset_write(&p, out);
    buf_char(out, '\0');
}

static void a_ruleset_says_what_its_plan_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct buf out = {0}, again = {0};

        write_text(&texts[i], &out);
        write_text(&texts[i], &again);
        assert_true(slice_equals(buf_slice(&out), buf_slice(&again)));
        for (size_t j = 0; j < MANY && texts[i].has[j]; j++)
            if (!strstr(buf_slice(&out).ptr, texts[i].has[j]))
                fail_msg("%s: lacks %s", texts[i].name, texts[i].has[j]);
        for (size_t j = 0; j < MANY && texts[i].lacks[j]; j++)
            if (strstr(buf_slice(&out).ptr, texts[i].lacks[j]))
                fail_msg("%s: has %s", texts[i].name, texts[i].lacks[j]);
        buf_free(&out);
        buf_free(&again);
    }
}

/* Every line within a chain is a base chain's head, or a rule that counts and says what it is for. */
static void each_rule_counts_and_says_why(void **state)
{
    struct buf out = {0};
    struct slice left, line;
    size_t n = 0;

    (void)state;
    write_text(&(struct written){"all of it", PLAN_STEER_REDIRECT, "br0", true, true, {NULL}, {NULL}}, &out);
    left = buf_slice(&out);
    while (slice_next(&left, '\n', &line)) {
        if (!slice_starts(line, SLICE("        ")) || slice_starts(line, SLICE("        type ")))
            continue;
        n++;
        assert_true(slice_search(line, SLICE("counter ")) > 0 && slice_search(line, SLICE(" comment \"")) > 0);
    }
    assert_true(n > 30);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_names_addresses_and_ports), cmocka_unit_test(there_is_an_end_to_addresses_and_ports),
        cmocka_unit_test(doors_are_those_of_this_sandbox),     cmocka_unit_test(a_ruleset_says_what_its_plan_does),
        cmocka_unit_test(each_rule_counts_and_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
