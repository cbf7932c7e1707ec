/* Look-ups that are one: what one client wants to know twice at one time, over the porter's real channels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/porter_fixture.h"

static void send_cancel_by(struct channel *who, uint32_t id)
{
    struct buf out = {0};

    pack_u32(&out, id);
    assert_true(channel_send(who, MSG_DIAL_CANCEL, buf_slice(&out), -1));
    buf_free(&out);
}

/* Messages that the name server got for these: each "CLIENT HOST", all at once. It answers those of nx.test, so that none is sent again. */
static int asked_for(struct channel *usher, uint32_t id, const char *const *wants)
{
    int before = bench.server.asked;

    for (; *wants; wants++) {
        struct slice rest = slice_of(*wants), client;
        char text[40];

        slice_next(&rest, ' ', &client);
        snprintf(text, sizeof text, "%.*s", SLICE_ARG(client));
        send_look_up(usher, id++, text, "10.0.0.2:5353", rest.ptr, "");
    }
    turn_for(50);
    return bench.server.asked - before;
}

/* What one client wants to know at one time is asked once; what another wants is none of its business. */
static void test_questions_that_are_one(void **state)
{
    static const struct {
        const char *name, *wants[5];
        bool more; /* than the two messages, of A and AAAA, that one look-up is at most */
    } rows[] = {
        {"one", {"10.0.0.2 nx.test"}, false},
        {"the same by one client", {"10.0.0.2 nx.test", "10.0.0.2 nx.test", "10.0.0.2 nx.test"}, false},
        {"the same by two clients", {"10.0.0.2 nx.test", "10.0.0.3 nx.test"}, true},
        {"another name", {"10.0.0.2 nx.test", "10.0.0.2 x.open.test"}, true},
    };
    struct channel *usher = join_as(ROLE_USHER, 0);
    uint32_t id = 1000;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, id += 10) {
        int asked = asked_for(usher, id, rows[i].wants);

        if (asked == 0 || (asked > 2) != rows[i].more)
            fail_msg("%s: asked %d times", rows[i].name, asked);
        turn_for(20);
    }
    channel_free(usher);
    turn_for(10);
}

/* Each is answered, and recorded, by itself; one that leaves takes no other with it, and the last of them all. */
static void test_one_of_several_leaves(void **state)
{
    static const char *const both[] = {"10.0.0.2 silent.test", "10.0.0.2 silent.test", NULL};
    struct channel *usher = join_as(ROLE_USHER, 0);

    (void)state;
    buf_clear(&bench.journal);
    asked_for(usher, 2000, both);
    send_cancel_by(usher, 2000);
    loop_run(bench.loop);
    assert_int_equal(bench.id, 2001);
    assert_int_equal(bench.reason, REASON_NAME_TIMEOUT);
    turn_for(10);
    assert_true(journal_has("\"outcome\":\"cut\"") && journal_has("\"outcome\":\"failed\""));
    asked_for(usher, 2010, both);
    bench.n_answers = 0;
    send_cancel_by(usher, 2010);
    send_cancel_by(usher, 2011);
    turn_for(400);
    assert_int_equal(bench.n_answers, 0);
    channel_free(usher);
    turn_for(10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions_that_are_one),
        cmocka_unit_test(test_one_of_several_leaves),
    };

    return cmocka_run_group_tests_name("quest", tests, bench_set_up, bench_tear_down);
}
