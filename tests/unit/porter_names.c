/* The porter and a role that holds no limits of names: what may leave by look-ups is the porter's to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/wait.h>

#include "tests/unit/porter_fixture.h"

/* limits.names 12: one role alone may have half of it, each of two a third. limits.sandbox-names 3. */

static uint32_t last_id;

static const char *name_of(unsigned number)
{
    static char name[40];

    snprintf(name, sizeof name, "n%u.open.test", number);
    return name;
}

static void dial(struct channel *worker, const char *sandbox, const char *host)
{
    struct buf out = {0};

    pack_dial_of(&out, ++last_id, sandbox, host, PORT);
    channel_send(worker, MSG_DIAL, buf_slice(&out), -1);
    buf_free(&out);
}

static void look_up(struct channel *usher, const char *client, const char *host)
{
    send_look_up(usher, ++last_id, client, "10.0.0.2:5353", host, "");
}

typedef void ask(struct channel *role, const char *who, const char *host);

/* Of so many questions for new names, each by another asker (%u) or all by one: how many are asked of the name server, which knows none of them. */
static int pass(ask *one, struct channel *role, unsigned first, unsigned n, const char *who)
{
    int passed = 0;

    for (unsigned i = first; i < first + n; i++) {
        char asker[40];

        snprintf(asker, sizeof asker, strchr(who, '-') ? "%s%u" : "%s", who, i);
        one(role, asker, name_of(i));
        loop_run(bench.loop);
        if (bench.reason != REASON_LIMIT_NAMES && bench.reason != REASON_NAME_NOT_RESOLVED)
            return -1;
        passed += bench.reason == REASON_NAME_NOT_RESOLVED;
    }
    return passed;
}

static bool one_sandbox(void)
{
    return pass(dial, join_worker(0), 0, 10, "vm") == 3;
}

static bool made_up_sandboxes(void)
{
    return pass(dial, join_worker(0), 0, 30, "vm-") == 6;
}

static bool one_client(void)
{
    return pass(look_up, join_as(ROLE_USHER, 0), 0, 10, "10.0.0.2") == 3;
}

static bool made_up_clients(void)
{
    return pass(look_up, join_as(ROLE_USHER, 0), 0, 30, "c-") == 6;
}

static bool clerk_too(void)
{
    return pass(dial, join_as(ROLE_CLERK, 0), 0, 30, "vm-") == 6;
}

/* What one has spent is not forgotten while another asks. */
static bool two_in_turn(void)
{
    struct channel *worker = join_worker(0);

    return pass(dial, worker, 0, 3, "vm") == 3 && pass(dial, worker, 10, 1, "wm") == 1 && pass(dial, worker, 20, 5, "vm") == 0 &&
           pass(dial, worker, 30, 5, "wm") == 2;
}

/* What one has spent is remembered when it comes again. */
static bool one_that_comes_again(void)
{
    return pass(look_up, join_as(ROLE_USHER, 0), 0, 30, "c-") == 6 && pass(look_up, join_as(ROLE_USHER, 0), 40, 30, "d-") == 0;
}

static bool others_have_their_share(void)
{
    struct channel *usher = join_as(ROLE_USHER, 0), *worker = join_worker(1);

    return pass(look_up, usher, 0, 30, "c-") == 6 && pass(dial, worker, 40, 30, "vm-") == 4;
}

/* Of whoever it is: it says nothing new to anybody. */
static bool a_name_once(void)
{
    struct channel *usher = join_as(ROLE_USHER, 0), *worker = join_worker(1);

    return pass(look_up, usher, 0, 3, "c-") == 3 && pass(dial, worker, 0, 3, "vm") == 3 && pass(dial, worker, 0, 3, "vm") == 3 &&
           pass(dial, worker, 10, 5, "vm") == 3;
}

/* Who has asked for nothing new is not at work. */
static bool who_spends_nothing_takes_no_share(void)
{
    struct channel *usher = join_as(ROLE_USHER, 0), *worker = join_worker(1);

    return pass(look_up, usher, 0, 2, "c-") == 2 && pass(dial, worker, 0, 2, "vm-") == 2 && pass(look_up, usher, 10, 30, "c-") == 4;
}

/* Whoever has no more for new names has it still. */
static bool names_that_are_listed_whole(void)
{
    struct channel *usher = join_as(ROLE_USHER, 0), *worker = join_worker(0);
    bool passed;

    if (pass(dial, worker, 0, 10, "vm") != 3 || pass(look_up, usher, 20, 10, "10.0.0.2") != 3)
        return false;
    dial(worker, "vm", "nx.test");
    loop_run(bench.loop);
    passed = bench.reason == REASON_NAME_NOT_RESOLVED;
    look_up(usher, "10.0.0.2", "nx.test");
    loop_run(bench.loop);
    return passed && bench.reason == REASON_NAME_NOT_RESOLVED;
}

static size_t times(const char *text)
{
    struct slice left = buf_slice(&bench.journal);
    size_t n = 0;

    for (ptrdiff_t at; (at = slice_search(left, slice_of(text))) >= 0; n++)
        left = slice_from(left, (size_t)at + 1);
    return n;
}

/* The first for itself, by whom it was asked; the rest in one. */
static bool are_recorded(void)
{
    buf_clear(&bench.journal);
    pass(look_up, join_as(ROLE_USHER, 0), 0, 30, "10.0.0.2");
    porter_ops.stop(&bench.context);
    turn_for(50);
    return times("\"reason\":\"limit_names\"") == 2 && journal_has("lookup \"id\":\"30313233") && journal_has("\"host\":\"n3.open.test\"") &&
           journal_has("3 of 3 new names, limits.sandbox-names") && journal_has("limit \"id\":\"30313233") && journal_has("\"asked_by\":\"usher\"") &&
           journal_has("\"count\":26");
}

static void test_names_that_leave_are_counted_by_the_porter(void **state)
{
    static const struct {
        const char *name;
        bool (*holds)(void);
    } rows[] = {
        {"a sandbox has its own", one_sandbox},
        {"sandboxes that a worker makes up share what it has", made_up_sandboxes},
        {"a client of the DNS listener has its own", one_client},
        {"two in turn have what each has", two_in_turn},
        {"clients that an usher makes up share what it has", made_up_clients},
        {"so do those of a clerk", clerk_too},
        {"a role that was started again has no more for it", one_that_comes_again},
        {"the others have their share", others_have_their_share},
        {"a name is counted once, whoever asks again", a_name_once},
        {"who asks for what is known takes no share", who_spends_nothing_takes_no_share},
        {"one that is listed as it stands is not counted", names_that_are_listed_whole},
        {"refusals are recorded, and summed", are_recorded},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            bool holds = rows[i].holds();

            turn_for(20); /* nothing is left for the next one in what they share */
            _exit(holds && !bench.malformed ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s", rows[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_that_leave_are_counted_by_the_porter)};

    return cmocka_run_group_tests_name("porter_names", tests, bench_set_up, bench_tear_down);
}
