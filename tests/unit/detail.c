/* authorization_details: what an http_egress entry may say, and what refuses the token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "authz/detail.h"
#include "authz/identity.h"

#define WITH(members) "[{\"type\":\"http_egress\"," members "}]"
#define LOCATION(text) WITH("\"locations\":[\"" text "\"]")

static void entries_are_read_or_refused(void **state)
{
    static const struct {
        const char *name, *json;
        int count; /* -1: refused */
    } rows[] = {
        {"none", "[]", 0},
        {"only of another type", "[{\"type\":\"payment\",\"amount\":{}}]", 0},
        {"one without narrowing", "[{\"type\":\"http_egress\"}]", 1},
        {"one of two types", "[{\"type\":\"x\"},{\"type\":\"http_egress\"},{\"type\":\"http_egress\"}]", 2},
        {"everything", WITH("\"locations\":[\"a.b\"],\"actions\":[\"GET\",\"PUT\"],\"paths\":[\"/x/*/**\"]"), 1},
        {"host", LOCATION("npm.example"), 1},
        {"suffix", LOCATION("*.npm.example"), 1},
        {"host and port", LOCATION("npm.example:8443"), 1},
        {"URL", LOCATION("https://npm.example"), 1},
        {"URL with slash", LOCATION("http://npm.example:80/"), 1},
        {"an object", "{\"type\":\"http_egress\"}", -1},
        {"a text", "\"http_egress\"", -1},
        {"not JSON", "[", -1},
        {"entry no object", "[\"http_egress\"]", -1},
        {"entry without type", "[{\"locations\":[\"a.b\"]}]", -1},
        {"type no text", "[{\"type\":1}]", -1},
        {"type twice", "[{\"type\":\"x\",\"type\":\"http_egress\"}]", -1},
        {"a member we do not know", WITH("\"datatypes\":[\"x\"]"), -1},
        {"a member in another case", WITH("\"Locations\":[\"a.b\"]"), -1},
        {"identifier", WITH("\"identifier\":\"x\""), -1},
        {"empty list", WITH("\"locations\":[]"), -1},
        {"list no list", WITH("\"locations\":\"a.b\""), -1},
        {"entry of a list no text", WITH("\"actions\":[\"GET\",1]"), -1},
        {"host in upper case", LOCATION("Npm.example"), -1},
        {"host with a trailing dot", LOCATION("npm.example."), -1},
        {"empty host", LOCATION(""), -1},
        {"star alone", LOCATION("*"), -1},
        {"star in the middle", LOCATION("a.*.b"), -1},
        {"label with a hyphen in front", LOCATION("-a.b"), -1},
        {"underscore", LOCATION("a_b.c"), -1},
        {"URL with a path", LOCATION("https://npm.example/a"), -1},
        {"URL with user", LOCATION("https://u@npm.example"), -1},
        {"other scheme", LOCATION("ftp://npm.example"), -1},
        {"host with slash and no scheme", LOCATION("npm.example/"), -1},
        {"port 0", LOCATION("npm.example:0"), -1},
        {"port with a leading zero", LOCATION("npm.example:0443"), -1},
        {"port too large", LOCATION("npm.example:65536"), -1},
        {"empty port", LOCATION("npm.example:"), -1},
        {"NUL in a host", LOCATION("npm.example\\u0000.evil"), -1},
        {"method in lower case", WITH("\"actions\":[\"get\"]"), -1},
        {"empty method", WITH("\"actions\":[\"\"]"), -1},
        {"path that captures", WITH("\"paths\":[\"/x/{n}/**\"]"), -1},
        {"path with a dot segment", WITH("\"paths\":[\"/x/../y\"]"), -1},
        {"path without slash", WITH("\"paths\":[\"a\"]"), -1},
        {"path with a query", WITH("\"paths\":[\"/a?b\"]"), -1},
        {"path with a blank", WITH("\"paths\":[\"/a b\"]"), -1},
        {"path beyond ASCII", WITH("\"paths\":[\"/\xc3\xa4\"]"), -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault why = {0};
        struct details *d = details_parse(slice_of(rows[i].json), &why);

        if (d ? (int)details_count(d) != rows[i].count : rows[i].count != -1)
            fail_msg("%s: %s", rows[i].name, d ? "accepted" : why.text);
        if (!d && why.reason != REASON_TOKEN_CLAIMS)
            fail_msg("%s: %s", rows[i].name, reason_code(why.reason));
        details_free(d);
    }
}

static void lists_are_handed_over_in_order(void **state)
{
    static const char json[] = WITH("\"locations\":[\"https://a.b/\",\"*.c:8443\"],\"actions\":[\"GET\",\"M-SEARCH\"]");
    struct details *d = details_parse(slice_of(json), NULL);
    const struct detail *one = details_get(d, 0);

    (void)state;
    assert_int_equal(one->n_locations, 2);
    assert_string_equal(one->locations[0], "https://a.b");
    assert_string_equal(one->locations[1], "*.c:8443");
    assert_int_equal(one->n_methods, 2);
    assert_string_equal(one->methods[1], "M-SEARCH");
    assert_int_equal(one->n_paths, 0);
    details_free(d);
}

static void an_identity_knows_no_details_from_empty_details(void **state)
{
    struct identity *without = identity_make(&(struct identity_claims){.sandbox = "vm1"}, NULL);
    struct identity *empty = identity_make(&(struct identity_claims){.sandbox = "vm1", .details = "[]"}, NULL);
    struct fault why = {0};

    (void)state;
    assert_false(identity_has_details(without));
    assert_int_equal(identity_detail_count(without), 0);
    assert_true(identity_has_details(empty));
    assert_int_equal(identity_detail_count(empty), 0);
    assert_string_equal(identity_jti(without), "");
    assert_null(identity_make(&(struct identity_claims){.sandbox = "vm1", .details = "{}"}, &why));
    assert_int_equal(why.reason, REASON_TOKEN_CLAIMS);
    identity_unref(without);
    identity_unref(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_or_refused),
        cmocka_unit_test(lists_are_handed_over_in_order),
        cmocka_unit_test(an_identity_knows_no_details_from_empty_details),
    };

    return cmocka_run_group_tests_name("detail", tests, NULL, NULL);
}
