/* cmd/setup: services as they are named on the command line, and the file that init writes from them. */
#include "cmd/setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "proxy/config.h"

static void test_services(void **state)
{
    static const struct {
        const char *name, *text, *service, *host, *preset;
        unsigned port;
    } rows[] = {
        {"name and host", "npm=npm.example", "npm", "npm.example", "", 443},
        {"a port", "a=artifacts.corp:8443", "a", "artifacts.corp", "", 8443},
        {"a preset", "npm=npm.example,npm-read", "npm", "npm.example", "npm-read", 443},
        {"both", "npm=npm.example:4873,npm-read", "npm", "npm.example", "npm-read", 4873},
        {"every name below", "all=*.corp.example", "all", "*.corp.example", "", 443},
        {"capitals and a dot at the end", "n=NPM.Example.", "n", "npm.example", "", 443},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct setup_service s;
        struct fault why = {0};

        if (!setup_service_parse(rows[i].text, &s, &why))
            fail_msg("%s: %s", rows[i].name, why.text);
        if (strcmp(s.name, rows[i].service) != 0 || strcmp(s.host, rows[i].host) != 0 ||
            strcmp(s.preset, rows[i].preset) != 0 || s.port != rows[i].port)
            fail_msg("%s: %s %s %s %u", rows[i].name, s.name, s.host, s.preset, (unsigned)s.port);
    }
}

static void test_services_refused(void **state)
{
    static const struct {
        const char *name, *text, *fault;
    } rows[] = {
        {"no host", "npm", "--service wants NAME=HOST[:PORT][,PRESET], not \"npm\""},
        {"no name", "=npm.example", "--service wants NAME=HOST"},
        {"a name with a space", "a b=npm.example", "--service wants NAME=HOST"},
        {"an empty host", "npm=", "--service npm=: "},
        {"an address", "npm=10.0.0.1", "--service npm=10.0.0.1: "},
        {"a port of letters", "npm=npm.example:https", "\"https\" is no port"},
        {"port zero", "npm=npm.example:0", "\"0\" is no port"},
        {"a port too high", "npm=npm.example:65536", "\"65536\" is no port"},
        {"an URL", "npm=https://npm.example/", "not a URL"},
        {"YAML in the host", "npm=a\"]}#.example", "--service npm=a"},
        {"YAML in the preset", "npm=npm.example,x: y", "there is no preset \"x: y\""},
        {"a preset that is none", "npm=npm.example,npm-raed", "there are npm-read, pypi-read, debian-read,"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct setup_service s;
        struct fault why = {0};

        if (setup_service_parse(rows[i].text, &s, &why))
            fail_msg("%s: accepted", rows[i].name);
        if (why.kind != FAULT_USAGE || !strstr(why.text, rows[i].fault))
            fail_msg("%s:\n  want %s\n  have %s", rows[i].name, rows[i].fault, why.text);
    }
}

/* What init writes is read with every name in its place. */
static void test_file(void **state)
{
    struct setup_service services[] = {{"npm", "npm.example", 443, "npm-read"}, {"files", "*.corp.example", 8443, ""}};
    struct setup s = {.name = "gw.example", .listen = "[::1]:3128", .services = services, .n_services = 2};
    struct buf out = {0};
    struct fault why = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *c;
    struct policy *p = NULL;

    (void)state;
    setup_write(&s, &out);
    c = conf_parse(buf_slice(&out), "proxy.conf", "/d", sections, n, &why);
    if (!c || !(p = policy_compile(c, &why)))
        fail_msg("%s", why.text);
    assert_string_equal(conf_text(conf_section(c, "gateway"), "name"), "gw.example");
    assert_string_equal(conf_text(conf_section(c, "gateway"), "state"), "/d");
    assert_string_equal(conf_text(conf_item(c, "listen", 0), "address"), "[::1]:3128");
    assert_string_equal(conf_text(conf_find(c, "issuers", "local"), "key"), "/d/issuer/local.key");
    assert_false(conf_has(conf_section(c, "publish"), "address"));
    assert_string_equal(conf_text(conf_section(c, "admin"), "address"), "unix:/d/admin.sock");
    assert_non_null(policy_find(p, "npm.example", 443));
    assert_non_null(policy_find(p, "a.corp.example", 8443));
    assert_null(policy_find(p, "a.corp.example", 443));
    policy_free(p);
    conf_free(c);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_services),
        cmocka_unit_test(test_services_refused),
        cmocka_unit_test(test_file),
    };

    return cmocka_run_group_tests_name("setup", tests, NULL, NULL);
}
