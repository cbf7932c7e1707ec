/* The list of canaries: what its file may say, and what is minted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "canary/canary.h"

#define SCHEMA "\"schema\":\"exeat.canaries/1\""
#define KIND "\"kind\":\"npm\",\"sandbox\":\"vm1\","
#define VALUE "\"value\":\"npm_0123456789ABCDEFGHIJ\",\"random_from\":4,\"random_len\":20,"
#define CREATED "\"created\":\"2026-01-02T03:04:05Z\""
#define GOOD "{\"id\":\"npm-1\"," KIND VALUE CREATED "}"
#define LIST(items) "{" SCHEMA ",\"canaries\":[" items "]}"
#define ONE(value, from, len) \
    LIST("{\"id\":\"x\"," KIND "\"value\":\"" value "\",\"random_from\":" from ",\"random_len\":" len "," CREATED "}")

static const struct row {
    const char *name, *json;
    const char *why; /* part of the fault; NULL: accepted */
    size_t count;
} rows[] = {
    {"no canaries", LIST(""), NULL, 0},
    {"one", LIST(GOOD), NULL, 1},
    {"two", LIST(GOOD ",{\"id\":\"b\"," KIND "\"value\":\"ABCDEFGHIJ0123456789\",\"random_from\":0,\"random_len\":20,"
                 CREATED "}"), NULL, 2},
    {"random part of 80 bits", ONE("0123456789abcdef0123", "0", "20"), NULL, 1},
    {"random part of 79 bits", ONE("0123456789abcdef0123", "0", "19"),
     "canaries[0] (x): the random part has 76 bits", 0},
    {"a text that only looks long enough", ONE("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0", "30"), "has 0 bits", 0},
    {"random part within the value", ONE("0123456789abcdefghij", "10", "10"), "has 47 bits", 0},
    {"random part beyond the value", ONE("0123456789ABCDEFGHIJ", "4", "17"), "reach beyond", 0},
    {"random part that wraps around", ONE("0123456789ABCDEFGHIJ", "20", "9223372036854775807"), "reach beyond", 0},
    {"random_from below 0", ONE("0123456789ABCDEFGHIJ", "-1", "20"), "random_from: expected", 0},
    {"random_len as text", ONE("0123456789ABCDEFGHIJ", "0", "\"20\""), "random_len: expected", 0},
    {"random_len with a fraction", ONE("0123456789ABCDEFGHIJ", "0", "20.0"), "random_len: expected", 0},
    {"empty value", ONE("", "0", "0"), "canaries[0] (x): value is empty", 0},
    {"an id twice", LIST(GOOD ",{\"id\":\"npm-1\"," KIND
                         "\"value\":\"ABCDEFGHIJ0123456789\",\"random_from\":0,\"random_len\":20," CREATED "}"),
     "canaries[1] (npm-1): id stands twice", 0},
    {"a value twice", LIST(GOOD ",{\"id\":\"b\"," KIND VALUE CREATED "}"),
     "canaries[1] (b): value is the same as that of npm-1", 0},
    {"an unknown member", LIST("{\"id\":\"x\",\"note\":\"\"," KIND VALUE CREATED "}"),
     "canaries[0]: unknown member \"note\"", 0},
    {"a missing member", LIST("{\"id\":\"x\"," KIND VALUE "\"created\":1}"), "created: expected a string", 0},
    {"a member twice", LIST("{\"id\":\"x\",\"id\":\"x\"," KIND VALUE CREATED "}"), "test.json:1:", 0},
    {"no id", LIST("{" KIND VALUE CREATED "}"), "canaries[0]: member \"id\" is missing", 0},
    {"an empty id", LIST("{\"id\":\"\"," KIND VALUE CREATED "}"), "canaries[0]: id: expected", 0},
    {"an id with a space", LIST("{\"id\":\"a b\"," KIND VALUE CREATED "}"), "canaries[0]: id: expected", 0},
    {"the scanner's own id", LIST("{\"id\":\"leave-token\"," KIND VALUE CREATED "}"), "what the scanner calls", 0},
    {"a kind with a slash", LIST("{\"id\":\"x\",\"kind\":\"a/b\",\"sandbox\":\"\"," VALUE CREATED "}"),
     "kind: expected", 0},
    {"a sandbox with a line break", LIST("{\"id\":\"x\",\"kind\":\"a\",\"sandbox\":\"a\\n\"," VALUE CREATED "}"),
     "sandbox: expected", 0},
    {"created that is no time", LIST("{\"id\":\"x\"," KIND VALUE "\"created\":\"today\"}"),
     "created: expected a time", 0},
    {"a canary that is a text", LIST("\"x\""), "canaries[0]: expected an object", 0},
    {"another schema", "{\"schema\":\"exeat.canaries/2\",\"canaries\":[]}", "schema: expected \"exeat.canaries/1\"", 0},
    {"no list", "{" SCHEMA ",\"canaries\":{}}", "canaries: expected a list", 0},
    {"a list alone", "[]", "test.json: expected an object", 0},
    {"an unknown member outside", "{" SCHEMA ",\"canaries\":[],\"more\":1}", "unknown member \"more\"", 0},
    {"cut off", "{" SCHEMA ",\"canaries\":[", "not JSON", 0},
    {"something after it", LIST("") "x", "not JSON", 0},
    {"nothing", "", "not JSON", 0},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault why = {0};
        struct registry *r = registry_parse(slice_of(rows[i].json), "test.json", &why);
        bool good = rows[i].why ? !r && strstr(why.text, rows[i].why) && why.kind == FAULT_SYNTAX
                                : r && registry_count(r) == rows[i].count;

        if (!good)
            fail_msg("%s: %s", rows[i].name, r ? "accepted" : why.text);
        registry_free(r);
    }
}

static void test_length_is_capped(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct fault why = {0};
        struct buf json = {0};
        struct registry *r;

        buf_text(&json, "{" SCHEMA ",\"canaries\":[{\"id\":\"x\"," KIND CREATED ",\"random_from\":0,\"random_len\":40,"
                        "\"value\":\"");
        for (int i = 0; i < CANARY_VALUE_MAX + over; i++)
            buf_char(&json, (char)('A' + i % 26));
        buf_text(&json, "\"}]}");
        r = registry_parse(buf_slice(&json), "test.json", &why);
        assert_int_equal(r != NULL, !over);
        if (over)
            assert_non_null(strstr(why.text, "canaries[0] (x): value has 513 bytes"));
        registry_free(r);
        buf_free(&json);
    }
}

static void test_fault_never_quotes_a_value(void **state)
{
    static const char *const broken[] = {
        "{" SCHEMA ",\"canaries\":[{\"id\":\"x\",\"value\":\"0123456789secret\" oops",
        "{" SCHEMA ",\"canaries\":[{\"value\":0123456789secret}]}",
        "{" SCHEMA ",\"canaries\":[{\"value\":\"0123456789secret\n\"}]}",
        LIST("{\"id\":\"0123456789secret/\"," KIND VALUE CREATED "}"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct fault why = {0};

        assert_null(registry_parse(slice_of(broken[i]), "test.json", &why));
        if (strstr(why.text, "secret"))
            fail_msg("%s", why.text);
    }
}

static void test_mint_every_kind(void **state)
{
    struct registry *r = registry_new();
    struct slice names = slice_of(registry_kinds()), name;

    (void)state;
    while (slice_next(&names, '|', &name)) {
        char kind[32];

        snprintf(kind, sizeof kind, "%.*s", SLICE_ARG(name));
        for (int i = 0; i < 20; i++) {
            struct fault why = {0};
            const struct canary *c = registry_mint(r, kind, "vm1", 1767323045, &why);
            struct canary twisted;
            char value[CANARY_VALUE_MAX + 1];

            if (!c)
                fail_msg("%s: %s", kind, why.text);
            assert_true(canary_is_marked(c));
            assert_string_equal(c->sandbox, "vm1");
            assert_string_equal(c->created, "2026-01-02T03:04:05.000000000Z");
            snprintf(value, sizeof value, "%s", c->value);
            value[c->random_from] = value[c->random_from] == 'a' ? 'b' : 'a';
            twisted = *c;
            twisted.value = value;
            assert_false(canary_is_marked(&twisted));
        }
        assert_string_not_equal(registry_where(kind), registry_where("none"));
    }
    assert_int_equal(registry_count(r), 120);
    registry_free(r);
}

static void test_mint_refuses(void **state)
{
    struct registry *r = registry_new();
    struct fault why = {0};

    (void)state;
    assert_null(registry_mint(r, "gold", "", 0, &why));
    assert_int_equal(why.kind, FAULT_USAGE);
    assert_non_null(strstr(why.text, "aws|generic"));
    assert_null(registry_mint(r, "npm", "two words", 0, &why));
    assert_non_null(strstr(why.text, "sandbox"));
    assert_int_equal(registry_count(r), 0);
    registry_free(r);
}

static void test_file_form_comes_back_whole(void **state)
{
    struct registry *r = registry_parse(
        SLICE(LIST("{\"id\":\"odd\",\"kind\":\"pem\",\"sandbox\":\"\",\"value\":\"\\\"0123456789\\nABCDEFGHIJ\\u00e9\","
                   "\"random_from\":1,\"random_len\":21," CREATED "}")), "test.json", NULL);
    struct registry *again;
    struct buf json = {0}, twice = {0};

    (void)state;
    assert_non_null(r);
    for (int i = 0; i < 30; i++)
        assert_non_null(registry_mint(r, i % 2 ? "jwt" : "aws", "", 1767323045, NULL));
    registry_json(r, &json);
    again = registry_parse(buf_slice(&json), "again", NULL);
    assert_non_null(again);
    registry_json(again, &twice);
    assert_true(slice_equals(buf_slice(&json), buf_slice(&twice)));
    assert_string_equal(registry_get(again, 0)->value, "\"0123456789\nABCDEFGHIJ\xc3\xa9");
    assert_null(registry_get(again, 31));
    buf_free(&json);
    buf_free(&twice);
    registry_free(again);
    registry_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_length_is_capped),
        cmocka_unit_test(test_fault_never_quotes_a_value),
        cmocka_unit_test(test_mint_every_kind),
        cmocka_unit_test(test_mint_refuses),
        cmocka_unit_test(test_file_form_comes_back_whole),
    };

    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
