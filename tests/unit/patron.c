/* Who asks a DNS listener: how many questions and names, alone and among others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/patron.h"

static const struct limits limits = {.dns_questions = 10, .dns_questions_total = 40, .dns_names = 5, .sandbox_names = 2};

static struct {
    size_t times;
    uint64_t count;
} told;

static void on_sum(void *arg, const struct patron *p, const struct sum *s)
{
    (void)arg, (void)p;
    told.times++;
    told.count += s->count;
}

static struct patron *from(struct patrons *ps, const char *text, int64_t now_ms)
{
    struct addr a;

    assert_true(addr_parse_ip(slice_of(text), &a));
    return patrons_find(ps, NULL, &a, now_ms);
}

static size_t within(struct patrons *ps, struct patron *p, size_t asks, int64_t now_ms, size_t *far)
{
    char detail[160];
    size_t n = 0;

    *far = 0;
    for (size_t i = 0; i < asks; i++) {
        enum patron_pace pace = patrons_count(ps, p, &limits, now_ms, detail);

        n += pace == PATRON_WITHIN;
        *far += pace == PATRON_FAR;
    }
    return n;
}

static void a_source_is_an_address_or_its_network(void **state)
{
    static const struct {
        const char *name, *a, *b;
        bool same;
    } rows[] = {
        {"one IPv4 address", "10.0.0.1", "10.0.0.1", true},
        {"two IPv4 addresses", "10.0.0.1", "10.0.0.2", false},
        {"one /64", "fd00::1", "fd00::ffff:1:2:3", true},
        {"two /64", "fd00::1", "fd00:0:0:1::1", false},
        {"IPv4, and IPv6 of the same bytes", "10.0.0.1", "a00:1::", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct patrons *ps = patrons_new(on_sum, NULL);

        if ((from(ps, rows[i].a, 1) == from(ps, rows[i].b, 1)) != rows[i].same)
            fail_msg("%s", rows[i].name);
        patrons_free(ps);
    }
}

static void a_sandbox_is_one_wherever_it_asks_from(void **state)
{
    struct patrons *ps = patrons_new(on_sum, NULL);
    struct addr a, b;

    (void)state;
    addr_parse_ip(SLICE("10.0.0.1"), &a);
    addr_parse_ip(SLICE("10.0.0.2"), &b);
    assert_ptr_equal(patrons_find(ps, "vm1", &a, 1), patrons_find(ps, "vm1", &b, 1));
    assert_ptr_not_equal(patrons_find(ps, "vm1", &a, 1), patrons_find(ps, "vm2", &a, 1));
    assert_ptr_not_equal(patrons_find(ps, "vm1", &a, 1), patrons_find(ps, NULL, &a, 1));
    patrons_free(ps);
}

static void over_its_rate_it_is_refused_and_then_ignored(void **state)
{
    struct patrons *ps = patrons_new(on_sum, NULL);
    struct patron *p = from(ps, "10.0.0.1", 100000);
    size_t far;

    (void)state;
    assert_int_equal(within(ps, p, 1000, 100000, &far), 100); /* 10 s of them */
    assert_int_equal(far, 1000 - 200);
    assert_int_equal(within(ps, p, 1000, 115000, &far), 0);   /* what is left of twice as many */
    assert_int_equal(within(ps, p, 1000, 140000, &far), 100);
    patrons_free(ps);
}

/* dns-questions-total: 400 in 10 s; each of nine gets a tenth of it. */
static void many_share_what_all_may_ask(void **state)
{
    struct patrons *ps = patrons_new(on_sum, NULL);
    static const char *const who[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9"};
    size_t n = sizeof who / sizeof *who, far;

    (void)state;
    for (size_t i = 0; i < n; i++)
        within(ps, from(ps, who[i], 100000), 1, 100000, &far);
    patrons_tick(ps, 100000, false);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(within(ps, from(ps, who[i], 100000), 1000, 100000, &far), 39);
    patrons_free(ps);
}

static enum reason name(struct patrons *ps, struct patron *p, const char *text, bool below, int64_t now_ms, bool *is_new)
{
    char detail[160];

    return patrons_name(ps, p, slice_of(text), below, &limits, now_ms, is_new, detail);
}

static void distinct_names_are_counted_by_the_hour(void **state)
{
    static const struct {
        const char *name;
        bool below;
        int64_t now_ms;
        enum reason reason;
        bool is_new;
    } rows[] = {
        {"one", true, 0, REASON_NONE, true},
        {"ONE", true, 0, REASON_NONE, false}, /* names have no case */
        {"two", true, 0, REASON_NONE, true},
        {"three", true, 0, REASON_LIMIT_NAMES, true},
        {"three", false, 0, REASON_NONE, true},
        {"four", false, 0, REASON_NONE, true},
        {"five", false, 0, REASON_NONE, true},
        {"six", false, 0, REASON_LIMIT_QUESTIONS, true},
        {"one", true, 3600000, REASON_NONE, false}, /* of the hour before */
        {"six", false, 3600001, REASON_LIMIT_QUESTIONS, true},
        {"six", false, 7200000, REASON_NONE, true},
        {"one", true, 7200000, REASON_NONE, true},
    };
    struct patrons *ps = patrons_new(on_sum, NULL);
    struct patron *p = from(ps, "10.0.0.1", 1);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_new;
        enum reason r = name(ps, p, rows[i].name, rows[i].below, rows[i].now_ms + 36000000, &is_new);

        if (r != rows[i].reason || is_new != rows[i].is_new)
            fail_msg("row %zu: %s: %s", i, rows[i].name, reason_code(r));
    }
    patrons_free(ps);
}

static void nobody_waits_with_all_there_is_room_for(void **state)
{
    struct patrons *ps = patrons_new(on_sum, NULL);
    struct patron *p = from(ps, "10.0.0.1", 1);
    size_t n = 0;

    (void)state;
    while (patrons_have_room(ps, p)) {
        patrons_hold(ps, p, 1);
        n++;
    }
    assert_int_equal(n, PATRON_PENDING);
    assert_true(patrons_have_room(ps, from(ps, "10.0.0.2", 1)));
    patrons_hold(ps, p, -1);
    assert_true(patrons_have_room(ps, p));
    patrons_free(ps);
}

static void made_up_sources_do_not_pile_up(void **state)
{
    struct patrons *ps = patrons_new(on_sum, NULL);
    struct patron *held = from(ps, "10.255.255.255", 1);
    struct id id = id_new(1);

    (void)state;
    told.times = told.count = 0;
    sums_add(&held->sums, REASON_LIMIT_QUESTIONS, "", 1, 1, &id);
    sums_add(&held->sums, REASON_LIMIT_QUESTIONS, "", 1, 1, &id);
    for (uint32_t i = 0; i < 3 * PATRONS_MAX; i++) {
        struct addr a = {.family = AF_INET, .ip = {10, (unsigned char)(i >> 16), (unsigned char)(i >> 8), (unsigned char)i}};

        patron_unref(patrons_find(ps, NULL, &a, 2));
    }
    assert_int_equal(patrons_number(ps), PATRONS_MAX);
    assert_ptr_equal(from(ps, "10.255.255.255", 3), held);
    patrons_tick(ps, 3600000, false);
    assert_int_equal(patrons_number(ps), 1);
    assert_int_equal(told.times, 1);
    assert_int_equal(told.count, 1);
    patrons_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_is_an_address_or_its_network),
        cmocka_unit_test(a_sandbox_is_one_wherever_it_asks_from),
        cmocka_unit_test(over_its_rate_it_is_refused_and_then_ignored),
        cmocka_unit_test(many_share_what_all_may_ask),
        cmocka_unit_test(distinct_names_are_counted_by_the_hour),
        cmocka_unit_test(nobody_waits_with_all_there_is_room_for),
        cmocka_unit_test(made_up_sources_do_not_pile_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
