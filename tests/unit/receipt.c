/* Receipts: the hash over the lines is RFC 6962's, and what was changed is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/receipt.h"
#include "base/text.h"

#define LINE(check, n) "{\"schema\":\"exeat.audit-exchange/1\",\"check\":\"" check "\",\"n\":" #n "}\n"
#define WHOLE LINE("", 0) LINE("AN-1", 1) LINE("AN-1", 2) LINE("RL-2", 3) LINE("CN-7", 4)

static void make(const char *lines, struct receipt *out)
{
    struct fault why = {0};

    if (!receipt_make(slice_of(lines), out, &why))
        fail_msg("%s", why.text);
}

/* Made once with Python's hashlib, by the recursion of RFC 6962 2.1. */
static void the_root_is_the_tree_hash(void **state)
{
    static const struct {
        const char *lines, *root;
        size_t n;
    } rows[] = {
        {LINE("AN-1", 1), "ad60c0848d241af398dddd6fa6be7f2b5f47508c915c0e495c9a0d519b79abf2", 1},
        {LINE("AN-1", 1) LINE("AN-1", 2), "2fbf231629e3628d87a21a9e19bea60a88f41754bd04fef91db7e1e31ffda1ec", 2},
        {LINE("AN-1", 1) LINE("AN-1", 2) LINE("RL-2", 3), "8d7de5442bef86a5273e6a01a6afb9671aa64a6ff34a2cd9c082e13a3b8bc251", 3},
        {WHOLE, "635de1b9391dbac56a174221c054cd2785416a309a8f5da978b660ea44f052fd", 5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct receipt r;
        struct buf hex = {0};

        make(rows[i].lines, &r);
        text_hex(&hex, slice_make((char *)r.root, sizeof r.root));
        assert_int_equal(r.n, rows[i].n);
        if (!slice_is(buf_slice(&hex), rows[i].root))
            fail_msg("%zu: %.*s", i, SLICE_ARG(buf_slice(&hex)));
        buf_free(&hex);
        receipt_clear(&r);
    }
}

static const struct row {
    const char *name, *lines, *differs;
} rows[] = {
    {"nothing", WHOLE, ""},
    {"an exchange was changed", LINE("", 0) LINE("AN-1", 1) LINE("AN-1", 9) LINE("RL-2", 3) LINE("CN-7", 4), "AN-1"},
    {"one was left out", LINE("", 0) LINE("AN-1", 1) LINE("AN-1", 2) LINE("CN-7", 4), "RL-2"},
    {"the last was cut off", LINE("", 0) LINE("AN-1", 1) LINE("AN-1", 2) LINE("RL-2", 3), "CN-7"},
    {"one was added", WHOLE LINE("XT-1", 5), "XT-1"},
    {"two changed places", LINE("", 0) LINE("AN-1", 2) LINE("AN-1", 1) LINE("RL-2", 3) LINE("CN-7", 4), "AN-1"},
    {"a baseline was changed", LINE("", 7) LINE("AN-1", 1) LINE("AN-1", 2) LINE("RL-2", 3) LINE("CN-7", 4), "the baselines"},
    {"one was given to another check", LINE("", 0) LINE("AN-1", 1) LINE("AN-2", 2) LINE("RL-2", 3) LINE("CN-7", 4), "AN-1, AN-2"},
    {"checks changed places", LINE("", 0) LINE("RL-2", 3) LINE("AN-1", 1) LINE("AN-1", 2) LINE("CN-7", 4), ""},
};

static void what_was_changed_is_named(void **state)
{
    struct receipt whole;

    (void)state;
    make(WHOLE, &whole);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct receipt r;
        struct buf out = {0};

        make(rows[i].lines, &r);
        receipt_compare(buf_slice(&whole.checks), buf_slice(&r.checks), &out);
        if (!slice_is(buf_slice(&out), rows[i].differs))
            fail_msg("%s: %.*s", rows[i].name, SLICE_ARG(buf_slice(&out)));
        assert_int_equal(memcmp(r.root, whole.root, sizeof r.root) == 0, i == 0);
        buf_free(&out);
        receipt_clear(&r);
    }
    receipt_clear(&whole);
}

static void what_is_no_file_of_exchanges_is_refused(void **state)
{
    static const struct {
        const char *name, *lines, *said;
    } bad[] = {
        {"nothing", "", "no exchange"},
        {"a line without its end", LINE("", 0) "{\"schema\":\"exeat.audit-exchange/1\",\"check\":\"AN-1\"}", "line 2"},
        {"no JSON", LINE("", 0) "{\n", "line 2"},
        {"another schema", "{\"schema\":\"exeat.audit/1\",\"check\":\"AN-1\"}\n", "line 1"},
        {"no check", "{\"schema\":\"exeat.audit-exchange/1\"}\n", "line 1"},
        {"a check that is a list", "{\"schema\":\"exeat.audit-exchange/1\",\"check\":\"AN-1=00,AN-2\"}\n", "line 1"},
        {"an empty line", LINE("", 0) "\n" LINE("", 0), "line 2"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct receipt r;
        struct fault why = {0};

        if (receipt_make(slice_of(bad[i].lines), &r, &why) || !strstr(why.text, bad[i].said))
            fail_msg("%s: %s", bad[i].name, why.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_is_the_tree_hash),
        cmocka_unit_test(what_was_changed_is_named),
        cmocka_unit_test(what_is_no_file_of_exchanges_is_refused),
    };

    return cmocka_run_group_tests_name("receipt", tests, NULL, NULL);
}
