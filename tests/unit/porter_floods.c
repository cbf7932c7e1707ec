/* The porter and a worker that keeps no limits: what that one takes, it takes from itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/porter_fixture.h"

static void dial_as(struct channel *worker, uint32_t id, const char *sandbox)
{
    struct buf out = {0};

    pack_dial_of(&out, id, sandbox, "silent.test", PORT);
    channel_send(worker, MSG_DIAL, buf_slice(&out), -1);
    buf_free(&out);
}

/*
 * Dials that another worker may have at once for one sandbox, of 40 that it asks for, beside a worker that does as it likes.
 * What is over a limit is refused when it is read, and each worker's questions are read in turn: the answer to one more, of
 * another sandbox, comes after those.
 */
static int left_beside(void (*greedy)(void))
{
    enum { LAST = 5000 };
    struct channel *other = join_worker(1);
    struct buf out = {0};

    greedy();
    for (int i = 0; i < 20; i++)
        turn_for(1);
    for (uint32_t i = 0; i < 40; i++)
        dial_as(other, 2000 + i, "sb-1");
    pack_dial_of(&out, LAST, "sb-last", "fixed.test", 443);
    channel_send(other, MSG_DIAL, buf_slice(&out), -1);
    buf_free(&out);
    for (int i = 0; i < 20000 && bench.id != LAST; i++) /* each answer ends one */
        turn_for(1);
    assert_int_equal(bench.id, LAST);
    return 40 - bench.limited;
}

static void make_names_up(void)
{
    for (uint32_t i = 0; i < 1200; i++) {
        char name[20];

        snprintf(name, sizeof name, "sb-made-up-%u", i);
        dial_as(bench.worker, 600 + i, name);
    }
}

static void take_anothers_name(void)
{
    for (uint32_t i = 0; i < 200; i++)
        dial_as(bench.worker, 600 + i, "sb-1");
}

/* Worker 0's answers are read by nobody. How many descriptors the porter holds for it. */
static size_t held_for_the_deaf(void)
{
    size_t before = 0, after = 0;
    int pair[2], served;

    assert_true(channel_pair(pair, NULL));
    porter_ops.on_peer(&bench.context, ROLE_WORKER, 0, pair[1]);
    for (int fd = 0; fd < 4096; fd++)
        before += fcntl(fd, F_GETFD) >= 0;
    for (uint32_t i = 0; i < 1500; i++) {
        struct buf out = {0};

        buf_append(&out, slice_make(&(uint16_t){MSG_DIAL}, 2));
        pack_dial(&out, 600 + i, "fixed.test", 443);
        assert_true(send(pair[0], buf_slice(&out).ptr, buf_len(&out), MSG_NOSIGNAL) > 0);
        buf_free(&out);
        if (i % 8 != 7)
            continue;
        turn_for(1);
        while ((served = accept(bench.origin, NULL, NULL)) >= 0)
            close(served);
    }
    for (int fd = 0; fd < 4096; fd++)
        after += fcntl(fd, F_GETFD) >= 0;
    return after - before;
}

static bool names_are_made_up(void)
{
    return left_beside(make_names_up) == 40;
}

static bool names_are_taken(void)
{
    return left_beside(take_anothers_name) == 40;
}

static bool nobody_reads(void)
{
    return held_for_the_deaf() < 600;
}

static void test_who_keeps_no_limits_starves_nobody(void **state)
{
    static const struct {
        const char *name;
        bool (*holds)(void);
    } floods[] = {
        {"sandboxes that it makes up", names_are_made_up},
        {"the sandbox of another worker", names_are_taken},
        {"answers that it does not read, each with a descriptor", nobody_reads},
    };

    (void)state;
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            bench.worker = join_worker(0);
            _exit(floods[i].holds() && !bench.malformed ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: the others have less than their share", floods[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_who_keeps_no_limits_starves_nobody)};

    return cmocka_run_group_tests_name("porter_floods", tests, bench_set_up, bench_tear_down);
}
