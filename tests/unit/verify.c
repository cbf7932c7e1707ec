/* log_verify against journals that somebody has touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "journal/log.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/scratch.h"

/* Six records in three segments: 1 2, 3 4, 5 6. */
static void write_journal(struct scratch *s)
{
    struct log_settings settings = {.segment = 560};
    struct fault why = {0};
    bool torn;
    struct log_writer *w = log_open(s->fd, &settings, &torn, &why);

    assert_non_null(w);
    for (int i = 0; i < 6; i++) {
        log_detail(w, "worker 0", (uint64_t)i + 1, RECORD_RESULT, "GET /left-pad");
        assert_true(log_flush(w, &why));
    }
    log_close(w);
    assert_true(scratch_has(s, "000000000005.ndjson"));
}

static void replace_in(struct scratch *s, const char *name, const char *from, const char *to)
{
    struct buf text = {0}, out = {0};
    ptrdiff_t at;

    scratch_read(s, name, &text);
    at = slice_search(buf_slice(&text), slice_of(from));
    assert_true(at >= 0);
    buf_append(&out, slice_cut(buf_slice(&text), 0, (size_t)at));
    buf_text(&out, to);
    buf_append(&out, slice_from(buf_slice(&text), (size_t)at + strlen(from)));
    scratch_replace(s, name, buf_slice(&out));
    buf_free(&text);
    buf_free(&out);
}

/* The two lines of the middle segment, in another arrangement: "21", "112", ... */
static void arrange(struct scratch *s, const char *order)
{
    struct buf text = {0}, out = {0};
    struct slice rest, lines[2];

    scratch_read(s, "000000000003.ndjson", &text);
    rest = buf_slice(&text);
    assert_true(slice_next(&rest, '\n', &lines[0]) && slice_next(&rest, '\n', &lines[1]));
    for (; *order; order++) {
        buf_append(&out, lines[*order - '1']);
        buf_char(&out, '\n');
    }
    scratch_replace(s, "000000000003.ndjson", buf_slice(&out));
    buf_free(&text);
    buf_free(&out);
}

static void edit(struct scratch *s)
{
    replace_in(s, "000000000003.ndjson", "left-pad", "left-pat");
}

static void edit_last(struct scratch *s)
{
    replace_in(s, "000000000005.ndjson", "\"prev\":\"", "\"prev\":\"0");
}

static void edit_space(struct scratch *s)
{
    replace_in(s, "000000000001.ndjson", "\"detail\":", "\"detail\": ");
}

static void break_json(struct scratch *s)
{
    replace_in(s, "000000000003.ndjson", "\"detail\"", "detail");
}

static void other_schema(struct scratch *s)
{
    replace_in(s, "000000000003.ndjson", "exeat.record/1", "exeat.record/9");
}

static void double_member(struct scratch *s)
{
    replace_in(s, "000000000003.ndjson", "\"detail\"", "\"seq\":3,\"detail\"");
}

static void remove_second(struct scratch *s)
{
    arrange(s, "1");
}

static void remove_first(struct scratch *s)
{
    arrange(s, "2");
}

static void reorder(struct scratch *s)
{
    arrange(s, "21");
}

static void insert_copy(struct scratch *s)
{
    arrange(s, "112");
}

static void empty_line(struct scratch *s)
{
    scratch_append(s, "000000000003.ndjson", SLICE("\n"));
}

static void torn_end(struct scratch *s)
{
    scratch_append(s, "000000000005.ndjson", SLICE("{\"schema\""));
}

static void torn_middle(struct scratch *s)
{
    scratch_append(s, "000000000003.ndjson", SLICE("{\"schema\""));
}

static void remove_segment(struct scratch *s)
{
    unlinkat(s->fd, "000000000003.ndjson", 0);
}

static void remove_first_segment(struct scratch *s)
{
    unlinkat(s->fd, "000000000001.ndjson", 0);
}

static void rename_segment(struct scratch *s)
{
    renameat(s->fd, "000000000003.ndjson", s->fd, "000000000004.ndjson");
}

static void rename_away(struct scratch *s)
{
    renameat(s->fd, "000000000003.ndjson", s->fd, "000000000003.ndjson.old");
}

static void empty_middle(struct scratch *s)
{
    scratch_replace(s, "000000000003.ndjson", SLICE(""));
}

static void very_long_line(struct scratch *s)
{
    char *zeros = calloc(1, 3 << 20);

    scratch_append(s, "000000000005.ndjson", slice_make(zeros, 3 << 20));
    free(zeros);
}

static const struct row {
    const char *name;
    void (*touch)(struct scratch *s);
    const char *place, *fault;
} rows[] = {
    {"an edit shows at the line after", edit, "000000000003.ndjson:2", "prev is not the hash"},
    {"an edit of the last line's own prev", edit_last, "000000000005.ndjson:1", "prev is not the hash"},
    {"an edit that means the same", edit_space, "000000000001.ndjson:2", "prev is not the hash"},
    {"a line that is no JSON", break_json, "000000000003.ndjson:1", "not JSON"},
    {"another schema", other_schema, "000000000003.ndjson:1", "schema"},
    {"a member twice", double_member, "000000000003.ndjson:1", "not JSON"},
    {"a line removed at a segment's end", remove_second, "000000000005.ndjson:1", "seq 5 after 3"},
    {"a line removed at a segment's front", remove_first, "000000000003.ndjson:1", "begins with seq 4"},
    {"lines exchanged", reorder, "000000000003.ndjson:1", "begins with seq 4"},
    {"a line inserted", insert_copy, "000000000003.ndjson:2", "seq 3 after 3"},
    {"an empty line", empty_line, "000000000003.ndjson:3", "not JSON"},
    {"a torn end", torn_end, "000000000005.ndjson:3", "torn line"},
    {"a torn line in the middle", torn_middle, "000000000003.ndjson:3", "torn line"},
    {"a segment missing", remove_segment, "000000000005.ndjson:1", "seq 5 after 2"},
    {"the first segment missing", remove_first_segment, "000000000003.ndjson:1", "seq 3 after 0"},
    {"a segment renamed", rename_segment, "000000000004.ndjson:1", "renamed"},
    {"a segment renamed out of sight", rename_away, "000000000005.ndjson:1", "seq 5 after 2"},
    {"a segment emptied", empty_middle, "000000000005.ndjson:1", "seq 5 after 2"},
    {"a line longer than any record", very_long_line, "000000000005.ndjson", "longer than any record"},
};

static void what_was_touched_is_found_and_placed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scratch s;
        struct log_verdict v;
        struct fault why = {0};

        scratch_make(&s);
        write_journal(&s);
        rows[i].touch(&s);
        assert_true(log_verify(s.path, NULL, NULL, NULL, &v, &why));
        if (v.intact || strcmp(v.place, rows[i].place) != 0 || !strstr(v.fault, rows[i].fault))
            fail_msg("%s: %d %s: %s", rows[i].name, v.intact, v.place, v.fault);
        scratch_remove(&s);
    }
}

static void what_was_not_touched_is_intact(void **state)
{
    struct scratch s;
    struct log_verdict v;
    struct fault why = {0};

    (void)state;
    scratch_make(&s);
    assert_true(log_verify(s.path, NULL, NULL, NULL, &v, &why));
    assert_true(v.intact && v.records == 0);
    write_journal(&s);
    scratch_append(&s, "000000000001.torn", SLICE("left of a crash\n")); /* not part of the chain */
    assert_true(log_verify(s.path, NULL, NULL, NULL, &v, &why));
    assert_true(v.intact);
    assert_int_equal(v.records, 6);
    assert_int_equal(v.segments, 3);
    assert_int_equal(strlen(v.head), 64);
    assert_true(strcmp(v.first_ts, v.last_ts) < 0);
    scratch_remove(&s);
}

/* The end cut off: the chain alone cannot see it, a head kept elsewhere does. */
static void a_head_kept_elsewhere_shows_a_cut_end(void **state)
{
    struct scratch s;
    struct log_verdict before, v;
    struct fault why = {0};

    (void)state;
    scratch_make(&s);
    write_journal(&s);
    assert_true(log_verify(s.path, NULL, NULL, NULL, &before, &why));
    assert_true(log_verify(s.path, before.head, NULL, NULL, &v, &why) && v.intact);
    unlinkat(s.fd, "000000000005.ndjson", 0);
    assert_true(log_verify(s.path, NULL, NULL, NULL, &v, &why));
    assert_true(v.intact);
    assert_int_equal(v.records, 4);
    assert_true(log_verify(s.path, before.head, NULL, NULL, &v, &why));
    assert_false(v.intact);
    assert_non_null(strstr(v.fault, "does not occur"));
    /* an older head is still in it */
    assert_true(log_verify(s.path, NULL, NULL, NULL, &before, &why));
    assert_true(log_verify(s.path, before.head, NULL, NULL, &v, &why) && v.intact);
    scratch_remove(&s);
}

static void a_directory_that_is_not_there_is_no_verdict(void **state)
{
    struct log_verdict v;
    struct fault why = {0};

    (void)state;
    assert_false(log_verify("/nowhere/at/all", NULL, NULL, NULL, &v, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_touched_is_found_and_placed),
        cmocka_unit_test(what_was_not_touched_is_intact),
        cmocka_unit_test(a_head_kept_elsewhere_shows_a_cut_end),
        cmocka_unit_test(a_directory_that_is_not_there_is_no_verdict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
