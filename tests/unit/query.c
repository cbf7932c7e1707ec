/* Questions to a journal, and how records look to people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "journal/query.h"
#include "journal/view.h"
#include "tests/unit/scratch.h"
#include "tests/unit/journal_fixture.h"

#define A "01890a5d-ac96-774b-bcce-b302099aaaaa"
#define B "01890a5d-ac96-774b-bcce-b302099bbbbb"
#define C "01890a5d-ac96-774b-bcce-b302099ccccc"

/* seq: 1 A allow s1 npm.example, 2 B deny s2 evil.example, 3 result of A, 4 C deny s1 npm.example, 5 heartbeat */
static void write_journal(struct journal *j, uint64_t segment)
{
    struct record_writer *w;

    journal_open(j, segment);
    journal_decision(j, A, NULL, "s1", "GET", "npm.example", "/left-pad", REASON_ALLOWED);
    journal_decision(j, B, NULL, "s2", "GET", "evil.example", "/s1", REASON_HOST_NOT_LISTED);
    w = journal_begin(j, RECORD_RESULT, A);
    record_text(w, FIELD_SANDBOX, SLICE("s1"));
    record_number(w, FIELD_STATUS, 200);
    journal_end(j, "worker 0");
    journal_decision(j, C, A, "s1", "POST", "npm.example", "/\"quoted\"", REASON_METHOD_NOT_ALLOWED);
    journal_begin(j, RECORD_HEARTBEAT, NULL);
    journal_end(j, "scribe");
}

/* The seqs found, as digits. */
static bool note_seq(void *arg, struct slice line)
{
    json_t *o = json_loadb(line.ptr, line.len, 0, NULL);

    *strchr(arg, '\0') = (char)('0' + view_number(o, "seq", 0));
    json_decref(o);
    return true;
}

static const struct row {
    const char *name;
    struct query q;
    const char *seqs;
} rows[] = {
    {"everything", {.kind = NULL}, "12345"},
    {"kind", {.kind = "decision"}, "124"},
    {"kind without records", {.kind = "dial"}, ""},
    {"sandbox", {.sandbox = "s1"}, "134"},
    {"a value elsewhere in the line is no match", {.sandbox = "/s1"}, ""},
    {"the value of another member is no match", {.service = "s1"}, ""},
    {"a part of a name is no match", {.sandbox = "s"}, ""},
    {"service", {.service = "npm"}, "1"},
    {"host", {.host = "npm.example"}, "14"},
    {"reason", {.reason = "host_not_listed"}, "2"},
    {"action", {.action = "deny"}, "24"},
    {"two of them", {.action = "deny", .sandbox = "s1"}, "4"},
    {"whole id", {.id = A}, "13"},
    {"short id", {.id = "9bbbbb"}, "2"},
    {"short id in upper case", {.id = "9BBBBB"}, "2"},
    {"id of nobody", {.id = "000000"}, ""},
    {"tunnel", {.tunnel = A}, "4"},
    {"last 1", {.last = 1}, "5"},
    {"last 2 of a kind", {.last = 2, .kind = "decision"}, "24"},
    {"last, more than there are", {.last = 100}, "12345"},
    {"since long ago", {.since_ns = 1}, "12345"},
    {"until long ago", {.until_ns = 1000}, ""},
};

static void what_fits_is_found(void **state)
{
    static const uint64_t segments[] = {1 << 20, 500}; /* in one file, and each record in its own */

    (void)state;
    for (size_t s = 0; s < 2; s++) {
        struct journal j;

        write_journal(&j, segments[s]);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char seqs[16] = "";
            size_t matched;
            struct fault why = {0};

            if (!query_run(j.scratch.path, &rows[i].q, note_seq, seqs, &matched, &why))
                fail_msg("%s: %s", rows[i].name, why.text);
            if (strcmp(seqs, rows[i].seqs) != 0 || matched != strlen(seqs))
                fail_msg("%s: found %s (%zu)", rows[i].name, seqs, matched);
        }
        journal_close(&j);
    }
}

static const struct bad_row {
    const char *name;
    struct query q;
} bad_rows[] = {
    {"unknown kind", {.kind = "decisions"}},
    {"unknown reason", {.reason = "because"}},
    {"unknown action", {.action = "drop"}},
    {"an id too short", {.id = "9bbbb"}},
    {"an id of other letters", {.id = "9bbbbg"}},
    {"a whole id with a letter wrong", {.id = "01890a5d-ac96-774b-bcce-b302099bbbbg"}},
    {"since after until", {.since_ns = 5, .until_ns = 4}},
};

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        struct fault why = {0};

        if (query_check(&bad_rows[i].q, &why) || why.kind != FAULT_USAGE)
            fail_msg("%s", bad_rows[i].name);
    }
}

static void since_and_until_bound_it(void **state)
{
    struct journal j;
    char seqs[16] = "";
    size_t matched;

    (void)state;
    write_journal(&j, 500);
    int64_t now = clock_wall_ns();
    struct query before = {.until_ns = now, .since_ns = now - 60 * INT64_C(1000000000)};
    struct query after = {.since_ns = now + 1};

    assert_true(query_run(j.scratch.path, &before, note_seq, seqs, &matched, NULL));
    assert_string_equal(seqs, "12345");
    assert_true(query_run(j.scratch.path, &after, note_seq, seqs, &matched, NULL));
    assert_int_equal(matched, 0);
    journal_close(&j);
}

static void a_torn_or_foreign_line_is_passed_over(void **state)
{
    struct journal j;
    char seqs[16] = "";
    size_t matched;
    struct query all = {.kind = NULL};

    (void)state;
    write_journal(&j, 1 << 20);
    scratch_append(&j.scratch, "000000000001.ndjson", SLICE("hello\n{\"seq\":6"));
    assert_true(query_run(j.scratch.path, &all, note_seq, seqs, &matched, NULL));
    assert_string_equal(seqs, "12345");
    journal_close(&j);
}

static void no_directory_is_a_fault(void **state)
{
    struct query all = {.kind = NULL};
    size_t matched;
    struct fault why = {0};

    (void)state;
    assert_false(query_run("/nowhere/at/all", &all, note_seq, NULL, &matched, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
}

static const struct view_row {
    const char *name, *in, *out;
} views[] = {
    {"plain", "npm.example", "npm.example"},
    {"UTF-8 stays", "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
    {"ANSI escape", "\x1b[2J", "\\x1b[2J"},
    {"newline", "a\nb", "a\\x0ab"},
    {"DEL", "\x7f", "\\x7f"},
    {"C1 control (CSI)", "\xc2\x9b" "31m", "\\u009b31m"},
    {"right-to-left override", "\xe2\x80\xae" "gpj", "\\u202egpj"},
    {"zero width space", "a\xe2\x80\x8b" "b", "a\\u200bb"},
    {"emoji stays", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
};

static void text_cannot_play_with_a_terminal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct buf out = {0};

        view_put(&out, views[i].in);
        if (!slice_is(buf_slice(&out), views[i].out))
            fail_msg("%s: %.*s", views[i].name, (int)buf_len(&out), buf_slice(&out).ptr);
        buf_free(&out);
    }
}

static bool view_it(void *arg, struct slice line)
{
    json_t *o = json_loadb(line.ptr, line.len, 0, NULL);

    view_put_line(arg, o);
    json_decref(o);
    return true;
}

static void a_record_is_one_line_for_people(void **state)
{
    struct journal j;
    struct buf out = {0};
    struct query q = {.id = B};
    size_t matched;

    (void)state;
    write_journal(&j, 1 << 20);
    assert_true(query_run(j.scratch.path, &q, view_it, &out, &matched, NULL));
    assert_true(slice_is(slice_from(buf_slice(&out), 23),
                         " 9bbbbb decision deny host_not_listed sandbox s2 GET https://evil.example/s1"));
    buf_free(&out);
    journal_close(&j);
}

static const struct {
    const char *name, *record, *line; /* line: after the time */
} lines[] = {
    {"what was allowed needs no reason", "{\"kind\":\"decision\",\"action\":\"allow\",\"reason\":\"allowed\",\"sandbox\":\"s1\"}",
     " -      decision allow sandbox s1"},
    {"what was denied has one", "{\"kind\":\"decision\",\"action\":\"deny\",\"reason\":\"token_missing\"}",
     " -      decision deny token_missing"},
    {"a revocation says of what", "{\"kind\":\"revocation\",\"revocation\":{\"key\":\"sandbox\",\"value\":\"s1\"}}",
     " -      revocation sandbox s1"},
};

static void a_line_says_what_matters_and_nothing_twice(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct buf out = {0};

        view_it(&out, slice_of(lines[i].record));
        if (!slice_is(slice_from(buf_slice(&out), 1), lines[i].line))
            fail_msg("%s: %.*s", lines[i].name, (int)buf_len(&out), buf_slice(&out).ptr);
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_found),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(since_and_until_bound_it),
        cmocka_unit_test(a_torn_or_foreign_line_is_passed_over),
        cmocka_unit_test(no_directory_is_a_fault),
        cmocka_unit_test(text_cannot_play_with_a_terminal),
        cmocka_unit_test(a_record_is_one_line_for_people),
        cmocka_unit_test(a_line_says_what_matters_and_nothing_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
