/* The sending side of the journal against a scribe played here, on a real loop and a real channel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pack.h"
#include "proxy/recorder.h"
#include "proxy/role.h"
#include "tests/unit/record_fixture.h"

enum { MESSAGES = 128, WAITS = 8 };

/* What one MSG_RECORDS said. */
struct heard {
    uint64_t first;
    uint32_t count, read;
    char details[256]; /* of its records, a comma after each */
};

struct bench {
    struct loop *loop;
    struct recorder *r;
    struct channel *scribe;
    struct heard heard[MESSAGES];
    size_t n_heard;
    struct record_wait waits[WAITS];
    char told[64]; /* '+' and '-' in order */
    void (*in_callback)(struct bench *b);
};

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct bench *b = arg;
    struct heard *h = &b->heard[b->n_heard++];
    struct unpack u = unpack_start(payload);
    struct buf members = {0};
    enum record_kind kind;
    bool bad;

    assert_int_equal(fd, -1);
    assert_int_equal(type, MSG_RECORDS);
    assert_true(b->n_heard < MESSAGES);
    h->first = unpack_u64(&u);
    h->count = unpack_u32(&u);
    while (record_next(&u.left, &kind, &members, &bad)) {
        struct slice text = buf_slice(&members);

        h->read++;
        if (text.len < 120 && strlen(h->details) + text.len < sizeof h->details - 1) {
            strncat(h->details, text.ptr, text.len);
            strncat(h->details, ",", 2);
        }
        buf_clear(&members);
    }
    assert_false(bad);
    assert_int_equal(h->read, h->count);
    buf_free(&members);
}

static void on_end(void *arg)
{
    (void)arg;
}

static const struct channel_handler handler = {on_message, on_end};

static void attach(struct bench *b)
{
    int fds[2];

    assert_true(channel_pair(fds, NULL));
    channel_free(b->scribe);
    b->scribe = channel_new(b->loop, fds[0], &handler, b);
    recorder_attach(b->r, fds[1]);
}

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->loop = loop_new();
    b->r = recorder_new(b->loop);
}

static void tear_down(struct bench *b)
{
    recorder_free(b->r);
    channel_free(b->scribe);
    loop_free(b->loop);
}

static void stop(void *arg)
{
    loop_stop(((struct bench *)arg)->loop);
}

/* The loop for so long that every message has arrived and been answered: in turns, for what is sent in one is read in the next. */
static void settle(struct bench *b)
{
    for (int i = 0; i < 10; i++) {
        struct timer *t = timer_new(b->loop, stop, b);

        timer_set(t, 2);
        loop_run(b->loop);
        timer_free(t);
    }
}

static void answer(struct bench *b, enum role_message type, uint64_t role_seq)
{
    struct buf payload = {0};

    pack_u64(&payload, role_seq);
    if (type == MSG_REFUSED)
        pack_bytes(&payload, SLICE("no space"));
    assert_true(channel_send(b->scribe, type, buf_slice(&payload), -1));
    buf_free(&payload);
    settle(b);
}

static struct bench *current;

static void on_recorded(void *arg, bool ok)
{
    char *mark = strchr(current->told, '\0');

    (void)arg;
    *mark = ok ? '+' : '-';
    if (current->in_callback)
        current->in_callback(current);
}

static void put_kind(struct bench *b, enum record_kind kind, const char *detail, struct record_wait *wait)
{
    struct record_writer w = recorder_begin(b->r, kind);

    current = b;
    record_text(&w, FIELD_DETAIL, slice_of(detail));
    if (wait)
        wait->on_recorded = on_recorded;
    recorder_end(b->r, &w, wait);
}

static void put(struct bench *b, const char *detail, struct record_wait *wait)
{
    put_kind(b, RECORD_RESULT, detail, wait);
}

static void records_of_a_turn_are_one_message(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    attach(&b);
    for (int i = 0; i < 100; i++)
        put(&b, "a longer detail, so that nothing is collected from it", NULL);
    assert_int_equal(b.n_heard, 0);
    settle(&b);
    assert_int_equal(b.n_heard, 1);
    assert_int_equal(b.heard[0].count, 100);
    assert_int_equal(b.heard[0].first, 1);
    put(&b, "x", NULL);
    settle(&b);
    assert_int_equal(b.n_heard, 2);
    assert_int_equal(b.heard[1].first, 101);
    tear_down(&b);
}

static void one_turn(struct bench *b)
{
    loop_defer(b->loop, stop, b);
    loop_run(b->loop);
}

/* A result and then, a turn later, a decision: how many messages. */
static size_t messages_when_first_is(enum record_kind kind)
{
    struct bench b;
    size_t n;

    set_up(&b);
    attach(&b);
    put_kind(&b, kind, "one", NULL);
    one_turn(&b);
    b.waits[0] = (struct record_wait){.on_recorded = on_recorded, .arg = &b};
    put_kind(&b, RECORD_DECISION, "two", &b.waits[0]);
    settle(&b);
    n = b.n_heard;
    tear_down(&b);
    return n;
}

static void what_tells_of_an_end_rides_with_the_next_record(void **state)
{
    (void)state;
    assert_int_equal(messages_when_first_is(RECORD_RESULT), 1);
    assert_int_equal(messages_when_first_is(RECORD_CONNECTION), 1);
    assert_int_equal(messages_when_first_is(RECORD_FINDING), 2);
    assert_int_equal(messages_when_first_is(RECORD_LIMIT), 2);
}

static void what_is_needed_no_sooner_than_another_rides_and_is_told_before_it(void **state)
{
    struct bench b;
    struct record_writer w;

    (void)state;
    set_up(&b);
    attach(&b);
    current = &b;
    w = recorder_begin(b.r, RECORD_DECISION);
    record_text(&w, FIELD_DETAIL, SLICE("connect"));
    b.waits[0].on_recorded = on_recorded;
    recorder_ride(b.r, &w, &b.waits[0]);
    one_turn(&b);
    assert_int_equal(b.n_heard, 0);
    put(&b, "inner", &b.waits[1]);
    settle(&b);
    assert_int_equal(b.n_heard, 1);
    assert_int_equal(b.heard[0].count, 2);
    assert_non_null(strstr(b.heard[0].details, "connect"));
    recorder_cancel(b.r, &b.waits[1]);
    answer(&b, MSG_REFUSED, 2);
    assert_string_equal(b.told, "-");
    tear_down(&b);
}

static void what_tells_of_an_end_goes_alone_when_no_other_comes(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    attach(&b);
    put(&b, "one", NULL);
    one_turn(&b);
    assert_false(recorder_is_settled(b.r));
    settle(&b);
    assert_int_equal(b.n_heard, 1);
    tear_down(&b);
}

static void a_batch_larger_than_a_message_is_split_between_records(void **state)
{
    struct bench b;
    char text[RECORD_TEXT_MAX];
    uint32_t total = 0;

    (void)state;
    set_up(&b);
    attach(&b);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 100; i++)
        put(&b, text, NULL);
    settle(&b);
    assert_in_range(b.n_heard, 7, 8);
    for (size_t i = 0; i < b.n_heard; i++) {
        assert_int_equal(b.heard[i].first, total + 1);
        total += b.heard[i].count;
    }
    assert_int_equal(total, 100);
    tear_down(&b);
}

static void who_waits_is_told_when_it_is_written_and_not_before(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    attach(&b);
    for (int i = 0; i < 3; i++)
        put(&b, "x", &b.waits[i]);
    settle(&b);
    assert_string_equal(b.told, "");
    answer(&b, MSG_RECORDED, 2);
    assert_string_equal(b.told, "++");
    assert_true(record_is_waiting(&b.waits[2]));
    answer(&b, MSG_RECORDED, 3);
    assert_string_equal(b.told, "+++");
    assert_int_equal(recorder_written(b.r), 3);
    assert_true(recorder_is_settled(b.r));
    tear_down(&b);
}

static void without_a_scribe_the_answer_is_no_and_comes_later(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    assert_false(recorder_is_open(b.r));
    put(&b, "x", &b.waits[0]);
    assert_string_equal(b.told, ""); /* never from inside */
    settle(&b);
    assert_string_equal(b.told, "-");
    attach(&b);
    settle(&b);
    assert_int_equal(b.n_heard, 0); /* a refused decision is not told afterwards as if it had been let through */
    tear_down(&b);
}

static void a_cancelled_wait_is_not_called(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    put(&b, "x", &b.waits[0]);
    recorder_cancel(b.r, &b.waits[0]);
    attach(&b);
    put(&b, "y", &b.waits[1]);
    put(&b, "z", &b.waits[2]);
    settle(&b);
    recorder_cancel(b.r, &b.waits[1]);
    recorder_cancel(b.r, &b.waits[1]); /* again is fine */
    answer(&b, MSG_RECORDED, 2);
    assert_string_equal(b.told, "+");
    tear_down(&b);
}

static void cancel_both(struct bench *b)
{
    recorder_cancel(b->r, &b->waits[1]);
    recorder_cancel(b->r, &b->waits[2]);
}

static void a_callback_may_cancel_the_others(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    b.in_callback = cancel_both;
    for (int i = 0; i < 3; i++)
        put(&b, "x", &b.waits[i]);
    settle(&b);
    assert_string_equal(b.told, "-");
    attach(&b);
    for (int i = 0; i < 3; i++)
        put(&b, "x", &b.waits[i]);
    settle(&b);
    answer(&b, MSG_RECORDED, 3);
    assert_string_equal(b.told, "-+");
    tear_down(&b);
}

static void put_again(struct bench *b)
{
    if (strlen(b->told) < 4)
        put(b, "again", &b->waits[0]);
}

static void a_callback_may_wait_again(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    b.in_callback = put_again;
    put(&b, "x", &b.waits[0]);
    settle(&b);
    assert_string_equal(b.told, "----");
    tear_down(&b);
}

static void refused_closes_and_recorded_opens(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    attach(&b);
    assert_true(recorder_is_open(b.r));
    put(&b, "x", &b.waits[0]);
    settle(&b);
    answer(&b, MSG_REFUSED, 1);
    assert_string_equal(b.told, "-");
    assert_false(recorder_is_open(b.r));
    put(&b, "y", &b.waits[0]);
    settle(&b);
    assert_string_equal(b.told, "--");
    assert_int_equal(b.n_heard, 1);
    answer(&b, MSG_RECORDED, 1); /* open again: 1 stays refused */
    assert_true(recorder_is_open(b.r));
    put(&b, "z", &b.waits[0]);
    settle(&b);
    assert_int_equal(b.heard[1].first, 2);
    answer(&b, MSG_RECORDED, 2);
    assert_string_equal(b.told, "--+");
    assert_int_equal(recorder_written(b.r), 1);
    tear_down(&b);
}

static void results_survive_a_refusal_and_are_sent_first(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    attach(&b);
    put(&b, "r1", NULL);
    put(&b, "d2", &b.waits[0]);
    settle(&b);
    answer(&b, MSG_REFUSED, 2);
    put(&b, "r3", NULL);
    settle(&b);
    assert_int_equal(b.n_heard, 1);
    assert_false(recorder_is_settled(b.r));
    answer(&b, MSG_RECORDED, 2);
    assert_int_equal(b.n_heard, 2);
    assert_int_equal(b.heard[1].first, 3);
    assert_string_equal(b.heard[1].details, "\"detail\":\"r1\",\"detail\":\"r3\",");
    tear_down(&b);
}

static void results_survive_the_scribe(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    attach(&b);
    put(&b, "r1", NULL);
    settle(&b);
    answer(&b, MSG_RECORDED, 1);
    put(&b, "r2", NULL);
    put(&b, "d3", &b.waits[0]);
    settle(&b);
    channel_free(b.scribe); /* it dies, r2 and d3 unanswered */
    b.scribe = NULL;
    settle(&b);
    assert_string_equal(b.told, "-");
    assert_false(recorder_is_open(b.r));
    put(&b, "r4", NULL);
    b.n_heard = 0;
    memset(b.heard, 0, sizeof b.heard);
    attach(&b);
    settle(&b);
    assert_int_equal(b.n_heard, 1);
    assert_string_equal(b.heard[0].details, "\"detail\":\"r2\",\"detail\":\"r4\",");
    answer(&b, MSG_RECORDED, b.heard[0].first + 1);
    assert_true(recorder_is_settled(b.r));
    tear_down(&b);
}

static void what_is_kept_has_a_cap_and_the_loss_is_told(void **state)
{
    struct bench b;
    char text[RECORD_TEXT_MAX];
    uint32_t total = 0;

    (void)state;
    set_up(&b);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 1100; i++) /* 4.5 MiB */
        put(&b, text, NULL);
    attach(&b);
    for (int i = 0; i < 10; i++)
        settle(&b);
    for (size_t i = 0; i < b.n_heard; i++)
        total += b.heard[i].count;
    assert_in_range(total, 1000, 1099);
    assert_non_null(strstr(b.heard[b.n_heard - 1].details, "lost"));
    tear_down(&b);
}

static void an_answer_to_what_was_not_asked_closes(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    attach(&b);
    put(&b, "x", &b.waits[0]);
    settle(&b);
    answer(&b, MSG_RECORDED, 2);
    assert_string_equal(b.told, "-");
    assert_false(recorder_is_open(b.r));
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_a_turn_are_one_message),
        cmocka_unit_test(what_tells_of_an_end_rides_with_the_next_record),
        cmocka_unit_test(what_is_needed_no_sooner_than_another_rides_and_is_told_before_it),
        cmocka_unit_test(what_tells_of_an_end_goes_alone_when_no_other_comes),
        cmocka_unit_test(a_batch_larger_than_a_message_is_split_between_records),
        cmocka_unit_test(who_waits_is_told_when_it_is_written_and_not_before),
        cmocka_unit_test(without_a_scribe_the_answer_is_no_and_comes_later),
        cmocka_unit_test(a_cancelled_wait_is_not_called),
        cmocka_unit_test(a_callback_may_cancel_the_others),
        cmocka_unit_test(a_callback_may_wait_again),
        cmocka_unit_test(refused_closes_and_recorded_opens),
        cmocka_unit_test(results_survive_a_refusal_and_are_sent_first),
        cmocka_unit_test(results_survive_the_scribe),
        cmocka_unit_test(what_is_kept_has_a_cap_and_the_loss_is_told),
        cmocka_unit_test(an_answer_to_what_was_not_asked_closes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
