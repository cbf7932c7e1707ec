/* The writer of the journal in directories of its own: chain, rotation, crashes, a full disk. */
#include <fcntl.h>
#include <jansson.h>
#include <openssl/sha.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/text.h"
#include "journal/log.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/scratch.h"

/* The directory of one test; those that need several make their own. */
static struct scratch own;

static int make_own(void **state)
{
    (void)state;
    scratch_make(&own);
    return 0;
}

static int remove_own(void **state)
{
    (void)state;
    scratch_remove(&own);
    return 0;
}

#define IN_OWN(test) cmocka_unit_test_setup_teardown(test, make_own, remove_own)

static const struct log_settings usual = {.segment = 1 << 20};

static void add(struct log_writer *w, const char *detail)
{
    log_detail(w, "worker 1", 7, RECORD_RESULT, detail);
}

static struct log_writer *must_open(struct scratch *s, const struct log_settings *settings, bool expect_torn)
{
    struct fault why = {0};
    bool torn;
    struct log_writer *w = log_open(s->fd, settings, &torn, &why);

    if (!w)
        fail_msg("%s", why.text);
    assert_int_equal(torn, expect_torn);
    return w;
}

static void must_flush(struct log_writer *w)
{
    struct fault why = {0};

    if (!log_flush(w, &why))
        fail_msg("%s", why.text);
}

static void add_one(struct log_writer *w, const char *detail)
{
    add(w, detail);
    must_flush(w);
}

static void must_be_intact(struct scratch *s, uint64_t records, uint64_t segments)
{
    struct log_verdict v;
    struct fault why = {0};

    assert_true(log_verify(s->path, NULL, NULL, NULL, &v, &why));
    if (!v.intact)
        fail_msg("%s: %s", v.place, v.fault);
    assert_int_equal(v.records, records);
    assert_int_equal(v.segments, segments);
}

static void a_line_is_stamped_and_chained(void **state)
{
    struct log_writer *w;
    struct buf text = {0}, hex = {0};
    struct slice rest, first, second;
    unsigned char hash[SHA256_DIGEST_LENGTH];
    json_t *o;

    (void)state;
    w = must_open(&own, &usual, false);
    add(w, "one");
    log_detail(w, "scribe", 1, RECORD_HEARTBEAT, NULL);
    must_flush(w);
    assert_int_equal(log_seq(w), 2);
    log_close(w);
    scratch_read(&own, "000000000001.ndjson", &text);
    rest = buf_slice(&text);
    assert_true(slice_next(&rest, '\n', &first) && slice_next(&rest, '\n', &second));
    assert_int_equal(rest.len, 0);

    o = json_loadb(first.ptr, first.len, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "schema")), "exeat.record/1");
    assert_int_equal(json_integer_value(json_object_get(o, "seq")), 1);
    assert_int_equal(strlen(json_string_value(json_object_get(o, "ts"))), 30);
    assert_true(json_integer_value(json_object_get(o, "mono")) > 0);
    assert_string_equal(json_string_value(json_object_get(o, "role")), "worker 1");
    assert_int_equal(json_integer_value(json_object_get(o, "role_seq")), 7);
    assert_string_equal(json_string_value(json_object_get(o, "kind")), "result");
    assert_string_equal(json_string_value(json_object_get(o, "detail")), "one");
    assert_string_equal(json_string_value(json_object_get(o, "prev")),
                        "0000000000000000000000000000000000000000000000000000000000000000");
    json_decref(o);

    SHA256((const unsigned char *)first.ptr, first.len, hash); /* what sha256sum would say of the line */
    text_hex(&hex, slice_make(hash, sizeof hash));
    o = json_loadb(second.ptr, second.len, JSON_REJECT_DUPLICATES, NULL);
    assert_true(slice_is(buf_slice(&hex), json_string_value(json_object_get(o, "prev"))));
    json_decref(o);
    buf_free(&text);
    buf_free(&hex);
}

static void nobody_else_may_read_a_segment(void **state)
{
    struct stat st;

    (void)state;
    struct log_writer *w = must_open(&own, &usual, false);
    add_one(w, "one");
    assert_int_equal(fstatat(own.fd, "000000000001.ndjson", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    log_close(w);
}

static void it_goes_on_after_a_restart(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        struct log_writer *w = must_open(&own, &usual, false);

        assert_int_equal(log_seq(w), i);
        add(w, "x");
        must_flush(w);
        log_close(w);
    }
    must_be_intact(&own, 3, 1);
}

static void a_full_segment_is_followed_by_one_named_by_its_first_seq(void **state)
{
    struct log_settings small = {.segment = 600};

    (void)state;
    struct log_writer *w = must_open(&own, &small, false);
    for (int i = 0; i < 6; i++) {
        add(w, "x");
        must_flush(w);
    }
    log_close(w);
    assert_true(scratch_has(&own, "000000000001.ndjson"));
    assert_true(scratch_has(&own, "000000000003.ndjson"));
    assert_true(scratch_has(&own, "000000000005.ndjson"));
    must_be_intact(&own, 6, 3);
    w = must_open(&own, &small, false);
    add_one(w, "x");
    log_close(w);
    must_be_intact(&own, 7, 4);
}

static void a_torn_last_line_is_moved_away(void **state)
{
    struct buf torn = {0};

    (void)state;
    struct log_writer *w = must_open(&own, &usual, false);
    add(w, "one");
    add_one(w, "two");
    log_close(w);
    scratch_append(&own, "000000000001.ndjson", SLICE("{\"schema\":\"exeat.rec"));
    w = must_open(&own, &usual, true);
    assert_int_equal(log_seq(w), 2);
    add_one(w, "three");
    log_close(w);
    must_be_intact(&own, 3, 1);
    scratch_read(&own, "000000000001.torn", &torn);
    assert_true(slice_is(buf_slice(&torn), "{\"schema\":\"exeat.rec\n"));
    buf_free(&torn);
}

static void a_torn_first_line_of_a_new_segment_goes_on_from_the_one_before(void **state)
{
    struct log_writer *w = must_open(&own, &usual, false);

    (void)state;
    add_one(w, "one");
    log_close(w);
    scratch_append(&own, "000000000002.ndjson", SLICE("{\"sch"));
    w = must_open(&own, &usual, true);
    assert_int_equal(log_seq(w), 1);
    add_one(w, "two");
    log_close(w);
    must_be_intact(&own, 2, 2);
}

static void a_torn_very_first_line(void **state)
{
    (void)state;
    scratch_append(&own, "000000000001.ndjson", SLICE("{\"sch"));
    struct log_writer *w = must_open(&own, &usual, true);
    add_one(w, "one");
    log_close(w);
    must_be_intact(&own, 1, 1);
}

static const struct refused_row {
    const char *name, *file, *bytes, *says;
} refused[] = {
    {"a last line that is no JSON", "000000000001.ndjson", "hello\n", "no record"},
    {"a last line without seq", "000000000001.ndjson", "{}\n", "no record"},
    {"a seq below the name", "000000000009.ndjson", "{\"seq\":3}\n", "no record"},
    {"an empty segment that follows nothing", "000000000009.ndjson", "", "does not follow"},
    {"an empty line at the end", "000000000001.ndjson", "{\"seq\":1}\n\n", "no record"},
};

static void it_does_not_go_on_from_what_it_did_not_write(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct scratch s;
        struct fault why = {0};
        bool torn;

        scratch_make(&s);
        scratch_append(&s, refused[i].file, slice_of(refused[i].bytes));
        if (log_open(s.fd, &usual, &torn, &why))
            fail_msg("opened: %s", refused[i].name);
        if (!strstr(why.text, refused[i].says))
            fail_msg("%s: %s", refused[i].name, why.text);
        scratch_remove(&s);
    }
}

static void a_second_writer_is_kept_out_until_the_first_is_gone(void **state)
{
    struct fault why = {0};
    bool torn;

    (void)state;
    struct log_writer *w = must_open(&own, &usual, false);
    assert_null(log_open(own.fd, &usual, &torn, &why));
    assert_int_equal(why.kind, FAULT_BUSY);
    log_close(w);
    log_close(must_open(&own, &usual, false));
}

static void dropped_records_leave_no_gap(void **state)
{
    struct log_writer *w = must_open(&own, &usual, false);

    (void)state;
    add_one(w, "one");
    add(w, "dropped");
    add(w, "dropped too");
    log_drop(w);
    must_flush(w); /* nothing to do */
    assert_int_equal(log_seq(w), 1);
    add_one(w, "two");
    log_close(w);
    must_be_intact(&own, 2, 1);
}

/* A limit on the file's size stands in for a full disk: the write is cut in the middle of a line. */
static void a_full_disk_undoes_the_whole_batch_and_it_goes_on_later(void **state)
{
    struct rlimit old, tight;
    struct fault why = {0};
    struct stat st;

    (void)state;
    struct log_writer *w = must_open(&own, &usual, false);
    add_one(w, "one");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = old;
    tight.rlim_cur = 1000;
    setrlimit(RLIMIT_FSIZE, &tight);
    for (int i = 0; i < 5; i++)
        add(w, "too much");
    assert_false(log_flush(w, &why));
    assert_non_null(strstr(why.text, "000000000001.ndjson"));
    assert_int_equal(fstatat(own.fd, "000000000001.ndjson", &st, 0), 0);
    assert_in_range(st.st_size, 200, 400); /* the first line alone */
    assert_false(log_flush(w, &why));
    setrlimit(RLIMIT_FSIZE, &old);
    log_drop(w);
    add_one(w, "two");
    log_close(w);
    must_be_intact(&own, 2, 1);
}

static void too_little_free_space_is_said_before_anything_is_written(void **state)
{
    struct log_settings greedy = {.segment = 1 << 20, .min_free = 1ULL << 60};
    struct fault why = {0};

    (void)state;
    struct log_writer *w = must_open(&own, &greedy, false);
    add(w, "one");
    assert_false(log_flush(w, &why));
    assert_int_equal(why.kind, FAULT_LIMIT);
    assert_non_null(strstr(why.text, "journal.min-free"));
    assert_false(scratch_has(&own, "000000000001.ndjson"));
    log_close(w);
}

/* ---- what somebody else does to the segment ---- */

#define FIRST "000000000001.ndjson"

static void cut_it(struct scratch *s)
{
    int fd = openat(s->fd, FIRST, O_WRONLY | O_CLOEXEC);

    assert_int_equal(ftruncate(fd, 100), 0);
    close(fd);
}

static void empty_it(struct scratch *s)
{
    scratch_replace(s, FIRST, SLICE(""));
}

static void write_into_it(struct scratch *s)
{
    scratch_append(s, FIRST, SLICE("{}\n"));
}

static void take_it_away(struct scratch *s)
{
    assert_int_equal(unlinkat(s->fd, FIRST, 0), 0);
}

static void put_a_copy_there(struct scratch *s)
{
    struct buf whole = {0};

    scratch_read(s, FIRST, &whole);
    assert_int_equal(renameat(s->fd, FIRST, s->fd, "moved"), 0);
    scratch_append(s, FIRST, buf_slice(&whole));
    buf_free(&whole);
}

static const struct {
    const char *name;
    void (*meddle)(struct scratch *s);
    const char *says;
    bool whole; /* another scribe may go on with what is there */
} meddlings[] = {
    {"cut", cut_it, "it has 100 bytes", false},
    {"emptied", empty_it, "it has 0 bytes", false},
    {"written into", write_into_it, "somebody changed it", false},
    {"taken away", take_it_away, "somebody took it away", false},
    {"replaced by a copy", put_a_copy_there, "another file was put in its place", true},
};

static void nothing_is_written_after_somebody_else_changed_the_segment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meddlings / sizeof *meddlings; i++) {
        struct log_settings known = {.segment = 1 << 20, .written = 2};
        struct fault why = {0};
        struct scratch s;
        bool torn;

        scratch_make(&s);
        struct log_writer *w = must_open(&s, &usual, false);
        add(w, "one");
        add(w, "two");
        must_flush(w);
        meddlings[i].meddle(&s);
        add(w, "three");
        if (log_flush(w, &why))
            fail_msg("written: %s", meddlings[i].name);
        if (why.kind != FAULT_REFUSED || !strstr(why.text, meddlings[i].says))
            fail_msg("%s: %s", meddlings[i].name, why.text);
        log_close(w);
        w = log_open(s.fd, &known, &torn, &why);
        if ((w != NULL) != meddlings[i].whole)
            fail_msg("opened %d: %s", w != NULL, meddlings[i].name);
        log_close(w);
        scratch_remove(&s);
    }
}

static void it_does_not_go_on_behind_what_is_known_to_be_written(void **state)
{
    static const struct {
        const char *name;
        uint64_t written;
        bool goes_on;
    } rows[] = {
        {"nothing is known", 0, true},
        {"less than there is: the last batch came through", 1, true},
        {"as much as there is", 2, true},
        {"more than there is", 3, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct log_settings known = {.segment = 1 << 20, .written = rows[i].written};
        struct fault why = {0};
        struct scratch s;
        bool torn;

        scratch_make(&s);
        struct log_writer *w = must_open(&s, &usual, false);
        add(w, "one");
        add(w, "two");
        must_flush(w);
        log_close(w);
        w = log_open(s.fd, &known, &torn, &why);
        if ((w != NULL) != rows[i].goes_on || (!w && !strstr(why.text, "record 3 was written")))
            fail_msg("%s: %s", rows[i].name, why.text);
        log_close(w);
        scratch_remove(&s);
    }
}

static void durability_disk_writes_the_same(void **state)
{
    struct log_settings sync = {.segment = 600, .sync = true};

    (void)state;
    struct log_writer *w = must_open(&own, &sync, false);
    for (int i = 0; i < 5; i++) {
        add(w, "x");
        must_flush(w);
    }
    log_close(w);
    must_be_intact(&own, 5, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_OWN(a_line_is_stamped_and_chained),
        IN_OWN(nobody_else_may_read_a_segment),
        IN_OWN(it_goes_on_after_a_restart),
        IN_OWN(a_full_segment_is_followed_by_one_named_by_its_first_seq),
        IN_OWN(a_torn_last_line_is_moved_away),
        IN_OWN(a_torn_first_line_of_a_new_segment_goes_on_from_the_one_before),
        IN_OWN(a_torn_very_first_line),
        cmocka_unit_test(it_does_not_go_on_from_what_it_did_not_write),
        IN_OWN(a_second_writer_is_kept_out_until_the_first_is_gone),
        IN_OWN(dropped_records_leave_no_gap),
        IN_OWN(a_full_disk_undoes_the_whole_batch_and_it_goes_on_later),
        IN_OWN(too_little_free_space_is_said_before_anything_is_written),
        cmocka_unit_test(nothing_is_written_after_somebody_else_changed_the_segment),
        cmocka_unit_test(it_does_not_go_on_behind_what_is_known_to_be_written),
        IN_OWN(durability_disk_writes_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
