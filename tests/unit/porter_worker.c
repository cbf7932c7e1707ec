/* The porter and its workers: by which configuration one decided, and what ends the porter's trust in one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "tests/unit/porter_fixture.h"

/* Another configuration: "fixed" is another service, "away" is gone, "named" is as it was. */
static const char other_services[] =
    "services:\n"
    "  named:\n"
    "    hosts: [global.test, mixed.test, private.test, rebound.test, metadata.test, nx.test, silent.test]\n"
    "    ports: [39181]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  fixed:\n"
    "    hosts: [other.test]\n    addresses: [\"127.0.0.1:39181\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n";

static void expect(const char *what, uint64_t generation, const char *host, bool dialled, const char *recorded)
{
    bench.says = generation;
    send_dial(77, host, 443);
    loop_run(bench.loop);
    if ((bench.type == MSG_DIALLED) != dialled)
        fail_msg("%s: %s", what, dialled ? "not dialled" : "dialled");
    if (dialled)
        check_descriptor();
    turn_for(10);
    if (recorded && !journal_has(recorded))
        fail_msg("%s: no %s in %.*s", what, recorded, SLICE_ARG(buf_slice(&bench.journal)));
}

/* Two look-ups are under way when the old set is dropped: that of a service that is as it was goes on. */
static void settle_under_way(void)
{
    bench.says = 1;
    send_dial(80, "fixed.test", 443);
    turn_for(1); /* it has not begun, or waits for its record */
    porter_ops.settle(&bench.context);
    if (!bench.n_answers)
        loop_run(bench.loop);
    assert_int_equal(bench.id, 80);
    if (bench.type == MSG_DIALLED)
        check_descriptor(); /* it was given before */
    send_dial(81, "silent.test", PORT);
    loop_run(bench.loop);
    assert_int_equal(bench.reason, REASON_NAME_TIMEOUT);
}

static struct role_set build(uint64_t generation, const char *listed)
{
    struct role_set s = {.generation = generation, .conf = read_conf(listed)};

    s.policy = policy_compile(s.conf, NULL);
    assert_non_null(s.policy);
    policy_set_generation(s.policy, generation);
    return s;
}

/* As the frame of every role does it; the set before is given. */
static struct role_set adopt(const struct role_set *next)
{
    struct role_set before = {bench.context.generation, NULL, bench.context.conf, bench.context.policy};

    bench.context.generation = next->generation;
    bench.context.conf = next->conf;
    bench.context.policy = next->policy;
    porter_ops.adopt(&bench.context, &before);
    return before;
}

static void drop(struct role_set *s)
{
    policy_free(s->policy);
    conf_free(s->conf);
}

static void test_two_generations(void **state)
{
    struct role_set next = build(2, other_services), last = build(3, services), before;

    (void)state;
    policy_set_generation(bench.context.policy, 1);
    bench.context.generation = 1;
    assert_true(porter_ops.prepare(&bench.context, &next, NULL));
    expect("built, and not in force", 2, "other.test", false, "\"reason\":\"dial_unlisted\"");
    porter_ops.abandon(&bench.context);
    expect("given up", 1, "fixed.test", true, NULL);
    assert_true(porter_ops.prepare(&bench.context, &next, NULL));
    before = adopt(&next);
    expect("in force, by the old one", 1, "fixed.test", true, "\"generation\":2");
    expect("in force, by the new one", 2, "other.test", true, NULL);
    expect("in force, a new host by the old one", 1, "other.test", false, "\"reason\":\"dial_unlisted\"");
    expect("in force, an old host by the new one", 2, "fixed.test", false, "\"reason\":\"dial_unlisted\"");
    settle_under_way();
    drop(&before);
    expect("settled: a straggler is no violation", 1, "fixed.test", false, "\"reason\":\"host_not_listed\"");
    expect("settled: an old host", 2, "fixed.test", false, "\"reason\":\"dial_unlisted\"");
    expect("settled: a new host", 2, "other.test", true, NULL);
    assert_true(porter_ops.prepare(&bench.context, &last, NULL)); /* for the tests that follow */
    before = adopt(&last);
    porter_ops.settle(&bench.context);
    drop(&before);
    bench.says = 3;
}

/* ---- what ends the porter's trust in a worker ---- */

static void v_unknown(void)
{
    channel_send(bench.worker, MSG_CERTIFY, SLICE(""), -1);
}

static void v_short(void)
{
    channel_send(bench.worker, MSG_DIAL, SLICE("\1\0\0\0"), -1);
}

static void v_cancel_short(void)
{
    channel_send(bench.worker, MSG_DIAL_CANCEL, SLICE("\1"), -1);
}

static void v_host(const char *host, uint16_t port, const char *more, int fd)
{
    struct buf out = {0};

    pack_dial(&out, 300, host, port);
    buf_text(&out, more);
    channel_send(bench.worker, MSG_DIAL, buf_slice(&out), fd);
    buf_free(&out);
}

static void v_upper(void)
{
    v_host("Fixed.Test", 443, "", -1);
}

static void v_literal(void)
{
    v_host("127.0.0.1", 443, "", -1);
}

static void v_port(void)
{
    v_host("fixed.test", 0, "", -1);
}

static void v_trailing(void)
{
    v_host("fixed.test", 443, "x", -1);
}

static void v_descriptor(void)
{
    v_host("fixed.test", 443, "", bench.origin);
}

static void v_twice(void)
{
    v_host("silent.test", PORT, "", -1);
    v_host("silent.test", PORT, "", -1);
}

static void v_keys(void)
{
    struct buf out = {0};

    pack_u32(&out, 301);
    pack_u64(&out, 1);
    buf_append(&out, SLICE("0123456789abcdef"));
    pack_bytes(&out, SLICE("gitlab"));
    channel_send(bench.worker, MSG_DIAL_KEYS, buf_slice(&out), -1);
    buf_free(&out);
}

static void v_look_up_of(const char *host, const char *more)
{
    send_look_up(bench.worker, 302, "10.0.0.2", "10.0.0.2:5353", host, more);
}

static void v_look_up_from_nowhere(void)
{
    send_look_up(bench.worker, 302, "10.0.0.2", "10.0.0.2", "global.test", "");
}

static void v_look_up(void)
{
    v_look_up_of("global.test", "");
}

static void v_look_up_upper(void)
{
    v_look_up_of("Global.test", "");
}

static void v_look_up_trailing(void)
{
    v_look_up_of("global.test", "x");
}

static void v_look_up_twice(void)
{
    v_look_up_of("silent.test", "");
    v_look_up_of("silent.test", "");
}

static void v_look_up_unlisted_often(void)
{
    for (int i = 0; i < 65; i++) {
        v_look_up_of("evil.test", "");
        turn_for(5);
    }
}

static void v_plain_dial(void)
{
    v_host("fixed.test", 443, "", -1);
}

static void v_unlisted_often(void)
{
    for (uint32_t i = 0; i < 65; i++) {
        send_dial(500 + i, "evil.test", 443);
        turn_for(5);
    }
}

static bool other_is_served(void)
{
    bench.worker = join_worker(1);
    send_dial(400, "fixed.test", 443);
    loop_run(bench.loop);
    return bench.type == MSG_DIALLED && bench.id == 400;
}

static void test_violations(void **state)
{
    static const struct {
        const char *name;
        void (*send)(void);
        bool usher;
    } violations[] = {
        {"a message of another table", v_unknown, false},
        {"a dial cut short", v_short, false},
        {"a cancel cut short", v_cancel_short, false},
        {"a host that is not canonical", v_upper, false},
        {"an address in place of a name", v_literal, false},
        {"port 0", v_port, false},
        {"bytes behind the message", v_trailing, false},
        {"a descriptor with a question", v_descriptor, false},
        {"one number for two open questions", v_twice, false},
        {"a dial for an issuer's keys, which is the clerk's", v_keys, false},
        {"65 dials to what no service lists", v_unlisted_often, false},
        {"a worker that looks up, which is the usher's", v_look_up, false},
        {"an usher that dials", v_plain_dial, true},
        {"an usher that asks for an issuer's keys", v_keys, true},
        {"an usher's name that is not canonical", v_look_up_upper, true},
        {"an usher's question from an address without a port", v_look_up_from_nowhere, true},
        {"bytes behind an usher's message", v_look_up_trailing, true},
        {"one number for two of an usher's questions", v_look_up_twice, true},
        {"65 look-ups of what no service lists", v_look_up_unlisted_often, true},
    };

    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)state;
    for (size_t i = 0; i < sizeof violations / sizeof *violations; i++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            dup2(quiet, 2);
            bench.accused = violations[i].usher ? ROLE_USHER : ROLE_WORKER;
            bench.worker = join_as(bench.accused, 0); /* its pair is not shared with the process that tests */
            violations[i].send();
            turn_for(100);
            _exit(bench.reported == 1 && bench.gone == 1 && other_is_served() && !bench.malformed ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: not told of, not dropped, or the others with it", violations[i].name);
    }
    close(quiet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_generations),
        cmocka_unit_test(test_violations),
    };

    return cmocka_run_group_tests_name("porter_worker", tests, bench_set_up, bench_tear_down);
}
