/* Who gets how much of a thread: on a clock that moves when somebody works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/lane.h"

enum { LANES = 4, STREAMS = 64, SHARE = 400, LEAST = 50, ALONE = 4000 };

static int64_t now;

static int64_t read_clock(void)
{
    return now;
}

/* A stream that is always ready, and whose event takes cost. */
struct busy {
    struct lane_seat seat;
    int64_t cost;
    int64_t *used;
};

static void work(void *arg, unsigned ready)
{
    struct busy *b = arg;

    (void)ready;
    now += b->cost;
    *b->used += b->cost;
}

static void on_ready(struct busy *b)
{
    if (lane_admit(&b->seat, 1))
        work(b, 1);
}

static const struct row {
    const char *name;
    struct {
        int streams;
        int64_t cost;
    } lanes[LANES];
    int64_t percent[LANES]; /* of the time, at least */
} rows[] = {
    {"one alone has it all", {{10, 10}}, {100}},
    {"twenty streams beside sixty", {{20, 10}, {64, 10}}, {45, 45}},
    {"costly events beside cheap ones", {{60, 5}, {60, 300}}, {45, 45}},
    {"few costly ones beside many cheap ones", {{2, 600}, {64, 10}}, {45, 45}},
    {"one honest, three greedy", {{16, 10}, {64, 10}, {64, 100}, {64, 400}}, {22, 22, 22, 22}},
    {"who has little to do is not held back by others", {{1, 10}, {64, 100}}, {2, 45}},
};

static void check(const struct row *r)
{
    struct lanes *ls = lanes_new(NULL, SHARE, LEAST, ALONE, read_clock);
    static struct busy streams[LANES][STREAMS];
    struct lane lanes[LANES];
    int64_t used[LANES] = {0}, begun = now;
    int turns = 3000;

    for (int i = 0; i < LANES; i++) {
        lane_init(&lanes[i], ls);
        for (int k = 0; k < r->lanes[i].streams; k++) {
            streams[i][k] = (struct busy){.cost = r->lanes[i].cost, .used = &used[i]};
            streams[i][k].seat = (struct lane_seat){.go = work, .arg = &streams[i][k]};
            lane_sit(&streams[i][k].seat, &lanes[i]);
        }
    }
    for (int t = 0; t < turns; t++) {
        for (int k = 0; k < STREAMS; k++)
            for (int i = 0; i < LANES; i++)
                if (k < r->lanes[i].streams)
                    on_ready(&streams[i][k]);
        lanes_turn(ls);
    }
    for (int i = 0; i < LANES; i++)
        if (used[i] * 100 < r->percent[i] * (now - begun))
            fail_msg("%s: lane %d got %lld of %lld", r->name, i, (long long)used[i], (long long)(now - begun));
    for (int i = 0; i < LANES; i++) {
        for (int k = 0; k < r->lanes[i].streams; k++)
            lane_rise(&streams[i][k].seat);
        lane_clear(&lanes[i]);
    }
    free(ls);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i]);
}

/* First come, first served within a lane; and who waits is not overtaken by what is ready later. */
static int order[8], n_order;

static void note(void *arg, unsigned ready)
{
    order[n_order++] = *(int *)arg;
    now += 30;
    assert_int_equal(ready, 3);
}

static void test_order(void **state)
{
    struct lanes *ls = lanes_new(NULL, SHARE, LEAST, SHARE, read_clock);
    int numbers[4] = {1, 2, 3, 4};
    struct lane_seat seats[4];
    struct lane lane, other;

    (void)state;
    n_order = 0;
    lane_init(&lane, ls);
    lane_init(&other, ls);
    lane_enter(&lane);
    assert_false(lane_is_out(&lane));
    now += 1000;
    assert_true(lane_is_out(&lane));
    for (int i = 0; i < 4; i++) {
        seats[i] = (struct lane_seat){.go = note, .arg = &numbers[i]};
        assert_true(lane_admit(&seats[i], 1)); /* sits nowhere */
        lane_sit(&seats[i], &lane);
        assert_false(lane_admit(&seats[i], 1));
        assert_false(lane_admit(&seats[i], 2)); /* told once, of both */
    }
    lane_rise(&seats[1]);
    lane_rise(&seats[1]);
    lane_sit(&seats[3], &other); /* goes on waiting there, where there is time */
    lanes_turn(ls);
    assert_int_equal(n_order, 1); /* the first lane owes 600 of its 400: turns go by */
    for (int i = 0; i < 4; i++)
        lanes_turn(ls);
    assert_true(n_order == 3 && order[0] == 4 && order[1] == 1 && order[2] == 3);
    assert_true(lane_admit(&seats[0], 1));
    lane_clear(&lane);
    lane_clear(&other);
    free(ls);
}

/* A callback that ends another that waits, and its lane. */
static struct lane doomed;
static struct lane_seat doomed_seat;

static void end_other(void *arg, unsigned ready)
{
    (void)arg, (void)ready;
    lane_rise(&doomed_seat);
    lane_clear(&doomed);
}

static void test_ending(void **state)
{
    struct lanes *ls = lanes_new(NULL, SHARE, LEAST, SHARE, read_clock);
    struct lane_seat killer = {.go = end_other}, again = {.go = work};
    struct lane lane;
    int64_t used = 0;
    struct busy b = {.cost = 10, .used = &used};

    (void)state;
    again.arg = &b;
    doomed_seat = (struct lane_seat){.go = note};
    n_order = 0;
    lane_init(&lane, ls);
    lane_init(&doomed, ls);
    lane_enter(&doomed);
    now += SHARE;
    lane_enter(&lane);
    now += SHARE;
    lane_sit(&killer, &lane);
    lane_sit(&doomed_seat, &doomed);
    lane_sit(&again, &lane);
    assert_false(lane_admit(&killer, 1) || lane_admit(&doomed_seat, 1) || lane_admit(&again, 1));
    lanes_turn(ls);
    lanes_turn(ls);
    assert_int_equal(n_order, 0);
    assert_int_equal(used, 10);
    lane_clear(&lane);
    free(ls);
}

/* The one who accepts asks, does not wait in its lane, and is told again in the next turn: a debt is paid though nobody else is at work. */
static void test_debt_of_who_only_asks(void **state)
{
    struct lanes *ls = lanes_new(NULL, SHARE, LEAST, ALONE, read_clock);
    struct lane lane;
    int turns = 0;

    (void)state;
    lane_init(&lane, ls);
    lane_enter(&lane);
    now += 10 * ALONE;
    lanes_turn(ls);
    assert_true(lane_is_out(&lane));
    while (lane_is_out(&lane) && turns++ < 1000)
        lanes_turn(ls);
    assert_in_range(turns, 1, 100);
    lane_clear(&lane);
    free(ls);
}

static void count(void *arg, unsigned ready)
{
    (void)ready;
    ++*(int *)arg;
}

/* Who owes ten turns waits them out beside another who is at work in each; alone, no longer than it takes to see that. */
static void check_debt(bool alone, int least, int most)
{
    struct lanes *ls = lanes_new(NULL, SHARE, LEAST, SHARE, read_clock);
    struct lane lane, other;
    int called = 0, turns = 0;
    struct lane_seat seat = {.go = count, .arg = &called};

    lane_init(&lane, ls);
    lane_init(&other, ls);
    lane_enter(&lane);
    now += 10 * SHARE;
    lane_sit(&seat, &lane);
    assert_false(lane_admit(&seat, 1));
    while (!called && turns++ < 1000) {
        if (!alone) {
            lane_enter(&other);
            now += 1;
        }
        lanes_turn(ls);
    }
    assert_in_range(turns, least, most);
    lane_clear(&lane);
    lane_clear(&other);
    free(ls);
}

static void test_debt_of_who_waits(void **state)
{
    (void)state;
    check_debt(true, 1, 2);
    check_debt(false, 10, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_ending),
        cmocka_unit_test(test_debt_of_who_only_asks),
        cmocka_unit_test(test_debt_of_who_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
