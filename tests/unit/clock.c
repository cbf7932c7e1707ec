/* Times as text (RFC 3339), and which of them nanoseconds in 64 bits can hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static const struct row {
    const char *name, *text;
    bool ok;
    int64_t ns;
} rows[] = {
    {"seconds", "1970-01-01T00:00:01Z", true, 1000000000},
    {"a fraction", "1970-01-01T00:00:00.25Z", true, 250000000},
    {"an offset", "1970-01-01T01:00:00+01:00", true, 0},
    {"a leap day", "2028-02-29T00:00:00Z", true, 1835395200000000000},
    {"no leap day", "2027-02-29T00:00:00Z", false, 0},
    {"a century without one", "2100-02-29T00:00:00Z", false, 0},
    {"the 31st of a short month", "2027-04-31T00:00:00Z", false, 0},
    {"month zero", "2027-00-10T00:00:00Z", false, 0},
    {"before 1970", "1969-12-31T23:59:59Z", true, -1000000000},
    {"the last second that fits", "2262-04-11T23:47:15Z", true, 9223372035000000000},
    {"a second too late", "2262-04-11T23:47:16Z", false, 0},
    {"a far year", "6305-01-02T03:04:05Z", false, 0},
    {"the first second that fits", "1677-09-21T00:12:45Z", true, -9223372035000000000},
    {"a second too early", "1677-09-21T00:12:44Z", false, 0},
    {"no time", "today", false, 0},
    {"something behind it", "1970-01-01T00:00:01Zz", false, 0},
};

static void times_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ns = 0;

        if (clock_parse(slice_of(rows[i].text), &ns) != rows[i].ok || (rows[i].ok && ns != rows[i].ns))
            fail_msg("%s: %s", rows[i].name, rows[i].text);
    }
}

static void what_is_written_is_read(void **state)
{
    struct buf out = {0};
    int64_t ns;

    (void)state;
    clock_rfc3339(&out, 1767323045000000006);
    assert_true(slice_is(buf_slice(&out), "2026-01-02T03:04:05.000000006Z"));
    assert_true(clock_parse(buf_slice(&out), &ns));
    assert_int_equal(ns, 1767323045000000006);
    buf_free(&out);
}

static void seconds_are_written_for_http_and_for_people(void **state)
{
    struct buf out = {0};

    (void)state;
    clock_http_date(&out, 1767323045);
    assert_true(slice_is(buf_slice(&out), "Fri, 02 Jan 2026 03:04:05 GMT"));
    buf_clear(&out);
    clock_time_of_day(&out, 1767323045);
    assert_true(slice_is(buf_slice(&out), "03:04:05"));
    buf_free(&out);
}

static void lately_is_when_it_was_last_asked(void **state)
{
    int64_t before = clock_mono_ns();

    (void)state;
    assert_int_equal(clock_mono_lately_ns(), before);
    assert_true(clock_mono_ms() >= before / 1000000);
    assert_true(clock_mono_lately_ns() >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(seconds_are_written_for_http_and_for_people),
        cmocka_unit_test(lately_is_when_it_was_last_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
