/* The porter: what is dialled and what is refused, the record before the descriptor, and what nobody waits for any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/porter_fixture.h"

static const struct row {
    const char *name, *host;
    uint16_t port;
    const char *address; /* dialled; NULL: refused with reason */
    enum reason reason;
    const char *record[4]; /* all in the journal, before the answer */
    bool own_network;      /* needs one */
} rows[] = {
    {"a fixed address is dialled, loopback too", "fixed.test", 443, "127.0.0.1:39181", REASON_NONE,
     {"dial ", "\"reason\":\"allowed\"", "\"address\":\"127.0.0.1:39181\"", "\"sandbox\":\"sb-1\""}, false},
    {"the record names exchange, service and destination", "fixed.test", 443, "127.0.0.1:39181", REASON_NONE,
     {"\"id\":\"ab000000-0000", "\"service\":\"fixed\"", "\"host\":\"fixed.test\"", "\"outcome\":\"complete\""}, false},
    {"nobody listens there", "away.test", 443, NULL, REASON_CONNECT_REFUSED,
     {"\"reason\":\"connect_refused\"", "\"outcome\":\"failed\"", "\"addresses\":\"127.0.0.1:39182\""}, false},
    {"the gateway's own listener is never dialled", "own.test", 443, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "\"outcome\":\"refused\"", "own listener"}, false},
    {"nor one on every address, by any of loopback's", "chosen.test", 443, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "\"outcome\":\"refused\"", "127.9.9.9:39184 (own listener)"}, false},
    {"nor by an address of an interface", "beside.test", 443, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "\"outcome\":\"refused\"", "10.9.9.9:39184 (own listener)"}, true},
    {"but another host's port of that number is none of ours", "later.test", 443, NULL, REASON_CONNECT_FAILED,
     {"\"reason\":\"connect_failed\"", "\"addresses\":\"172.20.1.1:39184\""}, true},
    {"a host that no service lists", "evil.test", 443, NULL, REASON_DIAL_UNLISTED,
     {"\"reason\":\"dial_unlisted\"", "\"severity\":\"high\"", "\"host\":\"evil.test\""}, false},
    {"a listed host on a port that is not", "fixed.test", 8443, NULL, REASON_DIAL_UNLISTED,
     {"\"reason\":\"dial_unlisted\"", "\"port\":8443"}, false},
    {"a service that is closed by hand", "shut.test", 443, NULL, REASON_SERVICE_CLOSED,
     {"\"reason\":\"service_closed\"", "\"outcome\":\"refused\"", "service shut was closed by hand"}, false},
    {"a name that points to loopback", "rebound.test", PORT, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "127.0.0.1:39181 (loopback)", "\"severity\":\"high\""}, false},
    {"a name that points to cloud metadata", "metadata.test", PORT, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "(metadata)"}, false},
    {"a name that points to a private address", "private.test", PORT, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "(private)"}, false},
    {"a name that does not exist", "nx.test", PORT, NULL, REASON_NAME_NOT_RESOLVED,
     {"\"reason\":\"name_not_resolved\"", "NXDOMAIN"}, false},
    {"a name server that does not answer", "silent.test", PORT, NULL, REASON_NAME_TIMEOUT,
     {"\"reason\":\"name_timeout\""}, false},
    {"a global address is dialled", "global.test", PORT, "8.8.8.8:39181", REASON_NONE, {"\"reason\":\"allowed\""}, true},
    {"a private address with allow-private", "intranet.test", PORT, "10.9.9.9:39181", REASON_NONE,
     {"\"reason\":\"allowed\"", "\"service\":\"intranet\""}, true},
    {"of a mixed set only what is allowed is dialled, and the rest is a finding", "mixed.test", PORT, "8.8.8.8:39181",
     REASON_NONE, {"finding ", "\"reason\":\"address_denied\"", "10.9.9.9:39181 (private)", "[::1]:39181 (loopback)"},
     true},
};

static void run_row(const struct row *r, uint32_t id)
{
    send_dial(id, r->host, r->port);
    loop_run(bench.loop);
    assert_int_equal(bench.id, id);
    if (!r->address)
        turn_for(10); /* what nobody waits for is on its way yet */
    for (int i = 0; i < 4 && r->record[i]; i++)
        if (!journal_has(r->record[i]))
            fail_msg("%s: no %s in %.*s", r->name, r->record[i], SLICE_ARG(buf_slice(&bench.journal)));
    if (r->address) {
        if (bench.type != MSG_DIALLED)
            fail_msg("%s: %s %s", r->name, reason_code(bench.reason), bench.text);
        assert_string_equal(bench.text, r->address);
        check_descriptor();
    } else {
        assert_int_equal(bench.type, MSG_NOT_DIALLED);
        assert_int_equal(bench.fd, -1);
        assert_string_equal(reason_code(bench.reason), reason_code(r->reason));
        assert_true(*bench.text);
        assert_int_equal(accept(bench.origin, NULL, NULL), -1); /* nobody was dialled */
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].own_network && !bench.own_network)
            continue;
        print_message("  %s\n", rows[i].name);
        run_row(&rows[i], (uint32_t)i);
    }
}

/* The host gets an address that a service has, while the gateway runs: nobody has to tell the porter. */
static void test_an_address_that_came_later(void **state)
{
    static const struct row now = {"an address that the host got since", "later.test", 443, NULL, REASON_ADDRESS_DENIED,
                                   {"\"reason\":\"address_denied\"", "172.20.1.1:39184 (own listener)"}, true};
    int fd;

    (void)state;
    if (!bench.own_network)
        return;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    give_address(fd, "lo:3", "172.20.1.1");
    close(fd);
    run_row(&now, 90);
}

/* A question that its own resolver sent, and something led to the usher: it goes no second way round. */
static void test_a_question_of_its_own(void **state)
{
    struct channel *usher = join_as(ROLE_USHER, 0);
    struct buf from = {0};

    (void)state;
    bench.server.from = (struct addr){0};
    buf_clear(&bench.journal);
    send_look_up(usher, 91, "10.0.0.2", "10.0.0.2:5353", "silent.test", "");
    turn_for(50);
    assert_int_equal(bench.server.from.family, AF_INET);
    addr_text(&from, &bench.server.from);
    buf_char(&from, '\0');
    send_look_up(usher, 92, "127.0.0.1", buf_slice(&from).ptr, "silent.test", "");
    loop_run(bench.loop);
    assert_int_equal(bench.type, MSG_NOT_FOUND);
    assert_int_equal(bench.id, 92);
    assert_string_equal(reason_code(bench.reason), "loop_detected");
    assert_non_null(strstr(bench.text, "what is asked of resolver.servers comes to a DNS listener of the gateway's own"));
    turn_for(10);
    assert_true(journal_has("\"reason\":\"loop_detected\""));
    loop_run(bench.loop); /* the first waits for its answer, and is told by its time */
    assert_int_equal(bench.id, 91);
    assert_int_equal(bench.reason, REASON_NAME_TIMEOUT);
    buf_free(&from);
    channel_free(usher);
    turn_for(10);
}

/* The record first; the descriptor only when it is written. */
static void test_no_record_no_descriptor(void **state)
{
    int served;
    char c;

    (void)state;
    bench.mood = WAITS;
    send_dial(100, "fixed.test", 443);
    turn_for(60);
    assert_true(journal_has("\"outcome\":\"complete\""));
    assert_int_equal(bench.n_answers, 0);
    scribe_says(MSG_RECORDED, bench.last_seq);
    loop_run(bench.loop);
    assert_int_equal(bench.type, MSG_DIALLED);
    check_descriptor();

    send_dial(101, "fixed.test", 443);
    turn_for(60);
    assert_int_equal(bench.n_answers, 0);
    scribe_says(MSG_REFUSED, bench.last_seq);
    loop_run(bench.loop);
    assert_int_equal(bench.type, MSG_NOT_DIALLED);
    assert_int_equal(bench.reason, REASON_RECORD_UNAVAILABLE);
    served = accept(bench.origin, NULL, NULL);
    assert_int_equal(recv(served, &c, 1, 0), 0); /* closed */
    close(served);

    bench.mood = WRITES;
    send_dial(102, "fixed.test", 443); /* the journal is closed: nothing is even tried */
    loop_run(bench.loop);
    assert_int_equal(bench.reason, REASON_RECORD_UNAVAILABLE);
    assert_int_equal(accept(bench.origin, NULL, NULL), -1);
    scribe_says(MSG_RECORDED, bench.last_seq);
    turn_for(20);
}

static void test_cancel(void **state)
{
    int served;
    char c;

    (void)state;
    send_dial(200, "silent.test", PORT); /* while it is looked up */
    turn_for(30);
    send_cancel(200);
    turn_for(300);
    assert_int_equal(bench.n_answers, 0);
    assert_true(journal_has("\"outcome\":\"cut\""));

    bench.mood = WAITS;
    send_dial(201, "fixed.test", 443); /* while it is recorded */
    turn_for(60);
    send_cancel(201);
    turn_for(20);
    scribe_says(MSG_RECORDED, bench.last_seq);
    bench.mood = WRITES;
    turn_for(40);
    assert_int_equal(bench.n_answers, 0);
    served = accept(bench.origin, NULL, NULL);
    assert_int_equal(recv(served, &c, 1, 0), 0);
    close(served);

    send_cancel(999); /* one that was answered, or never was: fine */
    send_dial(201, "fixed.test", 443); /* the number is free again */
    loop_run(bench.loop);
    assert_int_equal(bench.type, MSG_DIALLED);
    check_descriptor();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_an_address_that_came_later),
        cmocka_unit_test(test_a_question_of_its_own),
        cmocka_unit_test(test_no_record_no_descriptor),
        cmocka_unit_test(test_cancel),
    };

    return cmocka_run_group_tests_name("porter", tests, bench_set_up, bench_tear_down);
}
