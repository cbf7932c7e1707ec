/* Shares of what all use, and how much happened lately. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/pace.h"
#include "proxy/share.h"

static const struct share_row {
    const char *name;
    struct share share;
    uint64_t held, more, active;
    bool allowed;
} share_rows[] = {
    {"under its own limit", {10, 0}, 9, 1, 1, true},
    {"at its own limit", {10, 0}, 10, 1, 1, false},
    {"several at once, just fitting", {10, 0}, 4, 6, 1, true},
    {"several at once, one too many", {10, 0}, 4, 7, 1, false},
    {"alone: half of what is common", {100, 40}, 19, 1, 1, true},
    {"alone: not more than half", {100, 40}, 20, 1, 1, false},
    {"three of them: a quarter each", {100, 40}, 9, 1, 3, true},
    {"three of them: not more than a quarter", {100, 40}, 10, 1, 3, false},
    {"who holds more than its share since others came gets nothing further", {100, 40}, 20, 1, 3, false},
    {"its own limit counts when it is lower than the share", {5, 40}, 5, 1, 1, false},
    {"more sandboxes than places: one each", {100, 4}, 0, 1, 50, true},
    {"more sandboxes than places: not two", {100, 4}, 1, 1, 50, false},
    {"a limit of nothing", {0, 0}, 0, 1, 0, false},
    {"a limit of nothing, of something common", {0, 40}, 0, 1, 0, false},
    {"numbers that do not fit together do not wrap", {UINT64_MAX, 0}, UINT64_MAX - 1, UINT64_MAX, 1, false},
};

static void test_share(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof share_rows / sizeof *share_rows; i++) {
        const struct share_row *r = &share_rows[i];

        if (share_allows(&r->share, r->held, r->more, r->active) != r->allowed)
            fail_msg("%s", r->name);
    }
}

/* However many there are: all together leave room for one more. */
static void test_room_for_one_more(void **state)
{
    (void)state;
    for (uint64_t active = 1; active < 200; active++) {
        struct share s = {1000, 1000};

        assert_true(active * share_most(&s, active) + share_most(&s, active) <= 1000);
    }
}

static const struct pace_row {
    const char *name;
    int64_t at_ms[4]; /* one each; 0 behind the last */
    int64_t look_ms;
    uint64_t sum;
} pace_rows[] = {
    {"nothing yet", {0}, 5000, 0},
    {"in the same window", {1000, 1001, 1999}, 1999, 3},
    {"half a window later half of it counts", {1000, 1500, 1800, 1900}, 2500, 2},
    {"at the turn all of it counts", {1000, 1500}, 2000, 2},
    {"a window later nothing counts", {1000, 1500}, 3000, 0},
    {"long after nothing counts", {1000}, 90000, 0},
    {"the last of it counts until its window is over", {1000}, 2999, 1},
    {"old and new", {1100, 1200, 2100, 2200}, 2500, 3},
};

static void test_pace(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pace_rows / sizeof *pace_rows; i++) {
        const struct pace_row *r = &pace_rows[i];
        struct pace p = {0};

        for (size_t k = 0; k < 4 && r->at_ms[k]; k++)
            pace_add(&p, 1000, r->at_ms[k], 1);
        if (pace_sum(&p, 1000, r->look_ms) != r->sum)
            fail_msg("%s: %llu", r->name, (unsigned long long)pace_sum(&p, 1000, r->look_ms));
    }
}

/* No second in which more than a window's worth passes, wherever the windows turn. */
static void test_pace_never_twice(void **state)
{
    struct pace p = {0};
    int passed[40] = {0};

    (void)state;
    for (int tick = 0; tick < 4000; tick++) {
        int64_t now = 10000 + tick;

        if (pace_sum(&p, 1000, now) < 100) {
            pace_add(&p, 1000, now, 1);
            passed[tick / 100]++;
        }
    }
    for (int from = 0; from + 10 <= 40; from++) {
        int sum = 0;

        for (int i = from; i < from + 10; i++)
            sum += passed[i];
        assert_in_range(sum, 1, 130);
    }
}

static void test_pace_of_others(void **state)
{
    struct pace wild = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, p = {0};

    (void)state;
    wild.window = 6; /* what another process wrote can be anything: capped, never wrapped */
    assert_int_equal(pace_sum(&wild, 1000, 5000), PACE_MOST);
    pace_add(&p, 1000, 5000, UINT64_MAX);
    pace_add(&p, 1000, 5001, UINT64_MAX);
    assert_int_equal(pace_sum(&p, 1000, 5002), PACE_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),        cmocka_unit_test(test_room_for_one_more),
        cmocka_unit_test(test_pace),         cmocka_unit_test(test_pace_never_twice),
        cmocka_unit_test(test_pace_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
