/* What goes before a firewall: rows of listings as nft writes them, and what is said of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "firewall/others.h"

#define CHAIN(type) "table inet other {\n\tchain c {\n\t\t" type "\n\t}\n}\n"
#define FLOWS(table, hook, devices) "table " table " {\n\tflowtable f {\n\t\t" hook "\n\t\tdevices = " devices "\n\t}\n}\n"

static const struct row {
    const char *name, *ruleset, *says; /* "earlier inet other, chain c;" */
} rows[] = {
    {"nothing", "", ""},
    {"a chain is first at the interface", CHAIN("type filter hook ingress device \"sb1\" priority -1000; policy accept;"),
     "earlier inet other, chain c;"},
    {"a chain whose place cannot be read", CHAIN("type filter hook ingress device \"sb1\" priority filter - 10; policy accept;"),
     "earlier inet other, chain c;"},
    {"one that sends elsewhere", CHAIN("type nat hook prerouting priority dstnat; policy accept;"), "earlier inet other, chain c;"},
    {"a chain that says none", CHAIN("type filter hook ingress device \"sb1\""), "earlier inet other, chain c;"},
    {"a flow table whose place cannot be read", FLOWS("inet other", "hook ingress priority filter", "{ \"sb1\" }"), "earlier inet other, flowtable f;"},
    {"a chain is later", CHAIN("type filter hook ingress device \"sb1\" priority -999; policy accept;"), ""},
    {"at another interface", CHAIN("type filter hook ingress device \"sb10\" priority -2000; policy accept;"), ""},
    {"among several", CHAIN("type filter hook ingress devices = { \"sb0\", \"sb1\" } priority -2000; policy accept;"), "earlier inet other, chain c;"},
    {"a chain sends elsewhere first", CHAIN("type nat hook prerouting priority -101; policy accept;"), "earlier inet other, chain c;"},
    {"a helper", CHAIN("tcp dport 21 ct helper set \"ftp\""), "helper inet other, chain c;"},
    {"a flow table is first at the interface", FLOWS("inet other", "hook ingress priority -1000", "{ \"sb1\" }"), "earlier inet other, flowtable f;"},
    {"without quotes, among several", FLOWS("ip other", "hook ingress priority -2000", "{ uplink, sb1 }"), "earlier ip other, flowtable f;"},
    {"a flow table is later", FLOWS("inet other", "hook ingress priority 0", "{ \"sb1\" }"), ""},
    {"a flow table of other interfaces", FLOWS("inet other", "hook ingress priority -2000", "{ \"sb10\", \"uplink\" }"), ""},
    {"a flow table behind one that is first",
     FLOWS("inet one", "hook ingress priority -2000", "{ \"uplink\" }") FLOWS("inet two", "hook ingress priority 0", "{ \"sb1\" }"), ""},
    {"a table of the firewall's own name and family", "table inet exeat_sb1 {\n\tflowtable f {\n\t\thook ingress priority -2000\n\t\tdevices = { sb1 }\n\t}\n}\n",
     ""},
    {"another firewall beside it", "table netdev exeat_sb2 {\n\tchain in {\n\t\ttype filter hook ingress device \"sb1\" priority -1000; policy drop;\n\t}\n}\n",
     ""},
};

static void note(void *arg, const struct other *o)
{
    buf_printf(arg, "%s %.*s, %.*s;", o->what, SLICE_ARG(o->table), SLICE_ARG(o->block));
    assert_true(strlen(o->says) > 20);
}

static void what_goes_before_is_named(void **state)
{
    static const struct plan plan = {.name = "sb1", .interface = "sb1", .steer = PLAN_STEER_REDIRECT};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf said = {0};

        others_look(&plan, slice_of(rows[i].ruleset), note, &said);
        if (!slice_is(buf_slice(&said), rows[i].says))
            fail_msg("%s: said \"%.*s\", want \"%s\"", rows[i].name, SLICE_ARG(buf_slice(&said)), rows[i].says);
        buf_free(&said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_goes_before_is_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
