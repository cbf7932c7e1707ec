/* One rule of a service: what is none, and what it says of a request by itself, whatever other rules there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "authz/path.h"
#include "authz/rule.h"

#define TEN     "ABCDEFGHIJ"
#define FIFTY   TEN TEN TEN TEN TEN
#define HUNDRED FIFTY FIFTY

static const struct {
    const char *name, *text, *fault; /* fault: NULL when it is one */
} parsed[] = {
    {"a method and a path", "GET /a", NULL},
    {"any letters", "ZAP /a", NULL},
    {"a method with a hyphen", "M-SEARCH /a", NULL},
    {"a method of 24 letters", TEN TEN "ABCD /a", NULL},
    {"one of 25", TEN TEN "ABCDE /a", "expected a rule such as"},
    {"small letters", "get /a", "capital letters, found \"get\""},
    {"a letter behind Z", "GET[ /a", "capital letters"},
    {"a method of digits", "G3T /a", "capital letters"},
    {"no method", " /a", "expected a rule such as"},
    {"nothing between commas", "GET,,PUT /a", "expected a rule such as"},
    {"no path", "GET", "found \"GET\""},
    {"tunnels", "CONNECT /a", "CONNECT is never a rule's: hosts and ports decide on tunnels"},
    {"TRACE", "GET,TRACE /a", "TRACE is never a rule's: it is always refused"},
    {"255 characters", "GET /" HUNDRED HUNDRED FIFTY, NULL},
    {"256", "GET /" HUNDRED HUNDRED FIFTY "A", "at most 255 characters"},
};

static void what_is_a_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof parsed / sizeof *parsed; i++) {
        struct methods methods = {0};
        struct fault why = {0};
        struct rule r;
        bool ok = rule_parse(&r, parsed[i].text, &methods, true, NULL, 0, &why);

        if (ok != !parsed[i].fault || (!ok && !strstr(why.text, parsed[i].fault)))
            fail_msg("%s: %s", parsed[i].name, why.text);
        rule_clear(&r);
    }
}

/* Of one service: each is a bit. */
static void methods_are_counted(void **state)
{
    struct methods methods = {0};
    struct fault why = {0};
    struct rule r;
    char text[] = "A_ /a";

    (void)state;
    for (int i = 0; i <= METHODS_MAX; i++) {
        bool ok;

        text[0] = (char)('A' + i / 26);
        text[1] = (char)('A' + i % 26);
        ok = rule_parse(&r, text, &methods, true, NULL, 0, &why);
        rule_clear(&r);
        assert_int_equal(ok, i < METHODS_MAX);
    }
    assert_non_null(strstr(why.text, "more than 32 methods"));
    assert_true(rule_parse(&r, "AB,AA /a", &methods, true, NULL, 0, &why));
    assert_int_equal(r.methods, methods_bit(&methods, SLICE("AA")) | methods_bit(&methods, SLICE("AB")));
    rule_clear(&r);
}

static const struct {
    const char *name, *rule, *method, *target;
    bool fits, denies; /* when it is one of a preset's allow; when it is a deny rule */
} asked[] = {
    {"as it stands", "GET /a/*?", "GET", "/a/b", true, true},
    {"as a careless server reads it", "GET /a/*?", "GET", "//a;x/b", true, true},
    {"another path", "GET /a/*?", "GET", "/b/b", false, false},
    {"another method", "GET,PUT /a/*?", "POST", "/a/b", false, false},
    {"a method that the rule does not have and another has", "GET /a/*?", "PUT", "/a/b", false, false},
    {"a query that is asked for", "GET /a?x=1", "GET", "/a?x=1", true, true},
    {"another value", "GET /a?x=1", "GET", "/a?x=2", false, false},
    {"a query beside it: nothing is allowed by that, and nothing escapes by it", "GET /a?x=1", "GET", "/a?x=1&y=2", false, true},
    {"a query where any may be", "GET /a", "GET", "/a?x=1", true, true},
};

static void what_it_says_of_a_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct methods methods = {0};
        struct request q = {0};
        struct rule r, other;
        struct buf loose = {0};
        char url[80];
        uint32_t method;

        assert_true(rule_parse(&r, asked[i].rule, &methods, true, NULL, 0, NULL));
        assert_true(rule_parse(&other, "PUT /other", &methods, true, NULL, 0, NULL));
        snprintf(url, sizeof url, "https://a.test%s", asked[i].target);
        assert_true(request_from_url(&q, slice_of(asked[i].method), slice_of(url), NULL));
        path_loosen(buf_slice(&q.path), &loose);
        method = methods_bit(&methods, q.method);
        if (rule_fits_loosely(&r, method, &q, buf_slice(&loose)) != asked[i].fits)
            fail_msg("%s: %s and %s %s", asked[i].name, asked[i].rule, asked[i].method, asked[i].target);
        if (rule_denies(&r, method, &q, buf_slice(&loose)) != asked[i].denies)
            fail_msg("deny, %s: %s and %s %s", asked[i].name, asked[i].rule, asked[i].method, asked[i].target);
        buf_free(&loose);
        request_clear(&q);
        rule_clear(&other);
        rule_clear(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_a_rule),
        cmocka_unit_test(methods_are_counted),
        cmocka_unit_test(what_it_says_of_a_request),
    };

    return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}
