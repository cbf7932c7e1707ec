/* The warden: what a role was refused is counted and recorded, and who does what nobody honest does is ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/say.h"
#include "journal/record.h"
#include "proxy/warden.h"
#include "tests/unit/prisoner.h"
#include "tests/unit/record_fixture.h"

static struct ward {
    struct loop *loop;
    struct recorder *recorder;
    struct channel *scribe;
    struct warden *warden;
    struct buf records;
    int ended;
} ward;

static void on_record(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct slice batch = slice_from(payload, 12);
    enum record_kind kind;
    bool bad = false;

    (void)arg, (void)fd;
    assert_int_equal(type, MSG_RECORDS);
    while (record_next(&batch, &kind, &ward.records, &bad))
        buf_printf(&ward.records, " %s\n", record_kind_name(kind));
    assert_false(bad);
}

static void on_nothing(void *arg)
{
    (void)arg;
}

static void on_end_wanted(void *arg)
{
    (void)arg;
    ward.ended++;
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

static void turn(void)
{
    struct timer *t = timer_new(ward.loop, stop_loop, ward.loop);

    timer_set(t, 20);
    loop_run(ward.loop);
    timer_free(t);
}

static void open_ward(void)
{
    static const struct channel_handler scribe = {on_record, on_nothing};
    int pair[2];

    ward = (struct ward){.loop = loop_new()};
    assert_true(channel_pair(pair, NULL));
    ward.recorder = recorder_new(ward.loop);
    ward.scribe = channel_new(ward.loop, pair[1], &scribe, NULL);
    recorder_attach(ward.recorder, pair[0]);
    channel_send(ward.scribe, MSG_RECORDED, SLICE("\0\0\0\0\0\0\0\0"), -1);
    ward.warden = warden_new(ward.loop, ward.recorder, ROLE_WORKER, 3, on_end_wanted, NULL);
    turn();
}

static void close_ward(void)
{
    warden_free(ward.warden);
    recorder_free(ward.recorder);
    channel_free(ward.scribe);
    buf_free(&ward.records);
    loop_free(ward.loop);
}

static void must_record(const char *what)
{
    if (slice_search(buf_slice(&ward.records), slice_of(what)) < 0)
        fail_msg("no %s in %.*s", what, SLICE_ARG(buf_slice(&ward.records)));
}

static size_t recorded(const char *what)
{
    struct slice left = buf_slice(&ward.records);
    size_t n = 0;

    for (ptrdiff_t at; (at = slice_search(left, slice_of(what))) >= 0; n++)
        left = slice_from(left, (size_t)at + 1);
    return n;
}

static uint64_t times(const char *what)
{
    size_t n;
    const struct warden_count *counts = warden_counts(ward.warden, &n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(counts[i].what, what) == 0)
            return counts[i].times;
    return 0;
}

static void a_message_outside_the_table_is_recorded_and_ends_who_sent_it_once(void **state)
{
    (void)state;
    open_ward();
    warden_close(ward.warden, CELL_CALLS, -1);
    warden_accuse(ward.warden, "keeper", SLICE("a second key"));
    warden_accuse(ward.warden, "porter", SLICE("what it sent before it was gone"));
    turn();
    assert_int_equal(ward.ended, 1);
    assert_int_equal(times("message"), 1);
    must_record("\"reason\":\"role_violation\"");
    must_record("\"violation\":{\"role\":\"worker 3\",\"what\":\"message\"}");
    must_record("it sent the keeper what its table does not allow: a second key; it is ended");
    must_record(" finding\n");
    warden_leave(ward.warden, false);
    assert_false(warden_is_closed(ward.warden));
    warden_close(ward.warden, CELL_CALLS, -1); /* the next process of this place */
    warden_accuse(ward.warden, "keeper", SLICE("again"));
    assert_int_equal(ward.ended, 2);
    assert_int_equal(warden_refused(ward.warden), 2);
    close_ward();
}

static void an_end_by_the_kernel_is_counted(void **state)
{
    (void)state;
    open_ward();
    warden_close(ward.warden, CELL_CALLS, -1);
    warden_leave(ward.warden, true);
    turn();
    assert_int_equal(ward.ended, 0); /* it is gone already */
    assert_int_equal(warden_ended(ward.warden), 1);
    must_record("the kernel ended it");
    close_ward();
}

/* A prisoner of the warden's: does the same harmless call n times, then a hostile one. */
static pid_t start_ward_prisoner(int n, bool hostile)
{
    int line[2];
    struct prisoner_word word;
    pid_t child;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct fault why;
        int ear;

        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (!cell_close(ROLE_WORKER, -1, &word.walls, &ear, &why))
            _exit(2);
        prisoner_give(line[1], &word, ear);
        close(ear);
        for (int i = 0; i < n; i++)
            syscall(SYS_times, NULL);
        _exit(hostile && open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 1 : 0);
    }
    warden_close(ward.warden, CELL_CALLS | CELL_HEARD, prisoner_take(line[0], &word));
    close(line[0]);
    close(line[1]);
    return child;
}

static void refused_calls_are_counted_and_a_hostile_one_gets_no_answer(void **state)
{
    pid_t child;
    int status;

    (void)state;
    open_ward();
    child = start_ward_prisoner(5, true);
    for (int i = 0; i < 500 && !ward.ended; i++)
        turn();
    assert_int_equal(ward.ended, 1);
    assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* it waits for the answer that never comes */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(times("times"), 5);
    assert_int_equal(times("openat"), 1);
    turn();
    assert_int_equal(recorded("\"what\":\"times\""), 1); /* the first of its kind */
    assert_int_equal(recorded("\"what\":\"openat\""), 1);
    must_record("the kernel refused it openat; it is ended");
    close_ward();
}

static void nobody_goes_on_for_ever_with_what_is_refused(void **state)
{
    pid_t child;

    (void)state;
    open_ward();
    child = start_ward_prisoner(100000, false);
    for (int i = 0; i < 500 && !ward.ended; i++)
        turn();
    assert_int_equal(ward.ended, 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close_ward();
}

int main(void)
{
    const struct CMUnitTest closed[] = {
        cmocka_unit_test(a_message_outside_the_table_is_recorded_and_ends_who_sent_it_once),
        cmocka_unit_test(an_end_by_the_kernel_is_counted),
        cmocka_unit_test(refused_calls_are_counted_and_a_hostile_one_gets_no_answer),
        cmocka_unit_test(nobody_goes_on_for_ever_with_what_is_refused),
    };
    const struct CMUnitTest relaxed[] = {
        cmocka_unit_test(a_message_outside_the_table_is_recorded_and_ends_who_sent_it_once),
    };

    say_level(SAY_ERROR);
    return cell_is_relaxed() ? cmocka_run_group_tests_name("warden, relaxed", relaxed, NULL, NULL)
                             : cmocka_run_group_tests_name("warden", closed, NULL, NULL);
}
