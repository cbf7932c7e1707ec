/* The scribe as the role it is, on a real loop, in a directory of its own; the roles that send to it are played here. */
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pack.h"
#include "journal/log.h"
#include "proxy/counters.h"
#include "proxy/recorder.h"
#include "proxy/role.h"
#include "tests/unit/scratch.h"

/* The frame of the roles, as far as the scribe knows it. */
const char *role_name(enum role r)
{
    static const char *const names[] = {"supervisor", "worker", "porter", "keeper", "scribe", "clerk", "usher"};

    return names[r];
}

void role_label(enum role r, int index, char *out, size_t size)
{
    if (r == ROLE_WORKER)
        snprintf(out, size, "worker %d", index);
    else
        snprintf(out, size, "%s", role_name(r));
}

static int reported;

void role_violation(struct role_context *c, enum role peer, int index, const char *what)
{
    (void)c;
    fprintf(stderr, "violation by %s %d: %s\n", role_name(peer), index, what);
    reported++;
}

void role_distrust(struct role_context *c, const char *what)
{
    (void)c, (void)what;
    _exit(1);
}

void role_trouble(struct role_context *c, const char *text)
{
    (void)c;
    (void)text;
}

struct counters *counters_map(int fd, bool writable, struct fault *why)
{
    static struct counters page;

    (void)fd;
    (void)writable;
    (void)why;
    page.values[COUNTER_CONNECTIONS_ACCEPTED] = 7;
    page.values[COUNTER_CONNECTIONS_CLOSED] = 3;
    return &page;
}

static const struct conf_key gateway_keys[] = {{.name = "name", .type = CONF_NAME, .fallback = "gw.test"}};
static const struct conf_section gateway = {.name = "gateway", .keys = gateway_keys, .n_keys = 1};

struct bench {
    struct scratch scratch;
    struct role_context context;
    int control[2];
};

static void on_control_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    (void)arg;
    (void)type;
    (void)payload;
    (void)fd;
}

static void on_control_end(void *arg)
{
    (void)arg;
}

static const struct channel_handler control = {on_control_message, on_control_end};

static void start(struct bench *b, const char *journal)
{
    static const struct conf_section *const sections[] = {&gateway, &journal_section};
    struct fault why = {0};

    memset(b, 0, sizeof *b);
    scratch_make(&b->scratch);
    b->context.role = ROLE_SCRIBE;
    b->context.generation = 5;
    b->context.loop = loop_new();
    b->context.files = bundle_new();
    bundle_add(b->context.files, "proxy.conf", SLICE("gateway: {}\n"));
    b->context.conf = conf_parse(slice_of(journal), "proxy.conf", "/", sections, 2, &why);
    if (!b->context.conf)
        fail_msg("%s", why.text);
    assert_true(channel_pair(b->control, NULL));
    b->context.control = channel_new(b->context.loop, b->control[0], &control, b);
    scribe_ops.on_resource(&b->context, MSG_DIRECTORY, SLICE("journal"), false, dup(b->scratch.fd));
    scribe_ops.on_resource(&b->context, MSG_SHARED, SLICE("counters/worker 0"), false, dup(b->scratch.fd));
    if (!scribe_ops.start(&b->context, &why))
        fail_msg("%s", why.text);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

static void turn(struct bench *b, int ms)
{
    struct timer *t = timer_new(b->context.loop, stop_loop, b->context.loop);

    timer_set(t, ms);
    loop_run(b->context.loop);
    timer_free(t);
}

static struct recorder *join(struct bench *b, enum role role, int index)
{
    struct recorder *r = recorder_new(b->context.loop);
    int fds[2];

    assert_true(channel_pair(fds, NULL));
    scribe_ops.on_peer(&b->context, role, index, fds[0]);
    recorder_attach(r, fds[1]);
    return r;
}

static char told[64];

static void on_recorded(void *arg, bool ok)
{
    (void)arg;
    *strchr(told, '\0') = ok ? '+' : '-';
}

static void put(struct recorder *r, enum record_kind kind, const char *detail, struct record_wait *wait)
{
    struct record_writer w = recorder_begin(r, kind);

    record_text(&w, FIELD_DETAIL, slice_of(detail));
    if (wait)
        wait->on_recorded = on_recorded;
    recorder_end(r, &w, wait);
}

/* "kind/role/role_seq/detail" of every record, one a line. */
struct listing {
    struct buf text;
};

static bool list_line(void *arg, const struct log_line *line)
{
    struct listing *l = arg;
    json_t *o = json_loadb(line->text.ptr, line->text.len, JSON_REJECT_DUPLICATES, NULL);
    const char *detail = json_string_value(json_object_get(o, "detail"));

    assert_non_null(o);
    buf_printf(&l->text, "%s/%s/%d/%.20s\n", json_string_value(json_object_get(o, "kind")),
               json_string_value(json_object_get(o, "role")), (int)json_integer_value(json_object_get(o, "role_seq")),
               detail ? detail : "");
    json_decref(o);
    return true;
}

static void must_list(struct bench *b, const char *expected)
{
    struct listing l = {0};
    struct log_verdict v;

    assert_true(log_verify(b->scratch.path, NULL, NULL, NULL, &v, NULL));
    assert_true(v.intact);
    assert_true(log_read(b->scratch.path, list_line, &l, NULL));
    buf_char(&l.text, '\0');
    if (strcmp(buf_slice(&l.text).ptr, expected) != 0)
        fail_msg("%s", buf_slice(&l.text).ptr);
    buf_free(&l.text);
}

/* Each test in a process of its own: the role is one per process. */
static void in_child(void (*test)(struct bench *b), const char *journal, int expected_status)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static struct bench b;

        setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failure ends this process alone */
        told[0] = '\0';
        start(&b, journal);
        test(&b);
        scratch_remove(&b.scratch);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected_status)
        fail_msg("status %x", (unsigned)status);
}

#define USUAL "gateway: {name: gw.test}\njournal: {min-free: 0}\n"

static void tell_story(struct bench *b)
{
    struct recorder *worker = join(b, ROLE_WORKER, 1), *porter = join(b, ROLE_PORTER, 0);
    struct record_wait waits[3] = {0};

    put(worker, RECORD_DECISION, "d1", &waits[0]);
    put(worker, RECORD_RESULT, "r2", NULL);
    put(porter, RECORD_DIAL, "p1", &waits[1]);
    turn(b, 30);
    assert_string_equal(told, "++");
    put(worker, RECORD_DECISION, "d3", &waits[2]);
    turn(b, 30);
    assert_string_equal(told, "+++");
    must_list(b, "boot/scribe/1/\nconfig/scribe/2/\ndecision/worker 1/1/d1\nresult/worker 1/2/r2\ndial/porter/1/p1\n"
                 "decision/worker 1/3/d3\n");
}

static void records_are_stamped_with_the_channel_they_came_from(void **state)
{
    (void)state;
    in_child(tell_story, USUAL, 0);
}

static long writes_so_far(void)
{
    struct buf text = {0};
    const char *at;
    long n;

    assert_true(file_read("/proc/self/io", 4096, &text, NULL));
    buf_char(&text, '\0');
    at = strstr(buf_slice(&text).ptr, "syscw: ");
    n = at ? strtol(at + 7, NULL, 10) : -1;
    buf_free(&text);
    return n;
}

static void play_batch(struct bench *b)
{
    struct recorder *workers[3];
    struct record_wait waits[3] = {0};
    long before;

    for (int i = 0; i < 3; i++)
        workers[i] = join(b, ROLE_WORKER, i);
    turn(b, 10);
    before = writes_so_far();
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 99; j++)
            put(workers[i], RECORD_RESULT, "r", NULL);
        put(workers[i], RECORD_DECISION, "d", &waits[i]);
    }
    turn(b, 30);
    assert_string_equal(told, "+++");
    assert_int_equal(writes_so_far() - before, 1);
}

static void three_hundred_records_of_a_turn_are_one_write(void **state)
{
    (void)state;
    in_child(play_batch, USUAL, 0);
}

static void limit_files_to(rlim_t bytes)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void play_full_disk(struct bench *b)
{
    struct recorder *worker = join(b, ROLE_WORKER, 1), *idle = join(b, ROLE_WORKER, 2);
    struct record_wait waits[5] = {0};

    put(worker, RECORD_DECISION, "d1", &waits[0]);
    turn(b, 30);
    limit_files_to(1100);
    put(worker, RECORD_DECISION, "d2", &waits[1]);
    put(worker, RECORD_RESULT, "r3", NULL);
    turn(b, 30);
    assert_string_equal(told, "+-");
    assert_false(recorder_is_open(worker));
    assert_false(recorder_is_open(idle)); /* the gateway is closed, not one worker */
    put(worker, RECORD_DECISION, "not sent", &waits[2]);
    turn(b, 600); /* a try in vain */
    assert_string_equal(told, "+--");
    limit_files_to(RLIM_INFINITY);
    turn(b, 600);
    assert_true(recorder_is_open(worker) && recorder_is_open(idle));
    put(worker, RECORD_DECISION, "d5", &waits[3]);
    turn(b, 30);
    assert_string_equal(told, "+--+");
    must_list(b, "boot/scribe/1/\nconfig/scribe/2/\ndecision/worker 1/1/d1\nheartbeat/scribe/3/\n"
                 "lost/scribe/4/refused while the jo\nresult/worker 1/4/r3\ndecision/worker 1/5/d5\n");
}

static void a_full_disk_closes_the_gateway_and_it_opens_by_itself(void **state)
{
    (void)state;
    in_child(play_full_disk, USUAL, 0);
}

static void play_closed_start(struct bench *b)
{
    struct recorder *worker = join(b, ROLE_WORKER, 1);
    struct record_wait wait = {0};

    turn(b, 10);
    assert_false(recorder_is_open(worker));
    put(worker, RECORD_DECISION, "d", &wait);
    put(worker, RECORD_RESULT, "r", NULL);
    turn(b, 30);
    assert_string_equal(told, "-");
    assert_false(scratch_has(&b->scratch, "000000000001.ndjson"));
}

static void without_free_space_it_starts_closed_and_writes_nothing(void **state)
{
    (void)state;
    in_child(play_closed_start, "gateway: {name: gw.test}\njournal: {min-free: 1000000g}\n", 0);
}

/* A peer that keeps to no rule: raw messages on its end of the pair. */
static int join_raw(struct bench *b, enum role role)
{
    int fds[2];

    assert_true(channel_pair(fds, NULL));
    scribe_ops.on_peer(&b->context, role, 0, fds[0]);
    return fds[1];
}

static void send_raw(int fd, uint16_t type, uint64_t first, uint32_t count, enum record_kind kind, int n)
{
    struct buf message = {0};

    pack_u16(&message, type);
    pack_u64(&message, first);
    pack_u32(&message, count);
    for (int i = 0; i < n; i++) {
        struct record_writer w = record_begin(&message, kind);

        record_text(&w, FIELD_DETAIL, SLICE("raw"));
        record_end(&w);
    }
    assert_int_equal(write(fd, buf_slice(&message).ptr, buf_len(&message)), buf_len(&message));
    buf_free(&message);
}

static const struct broken_row {
    const char *name;
    enum role role;
    uint16_t type;
    uint64_t first, second; /* of one record, then of another; 0: no other */
    uint32_t count;
    enum record_kind kind;
    int n, status;
} broken[] = {
    {"in order", ROLE_WORKER, MSG_RECORDS, 5, 6, 1, RECORD_RESULT, 1, 0},
    {"a hole", ROLE_WORKER, MSG_RECORDS, 5, 7, 1, RECORD_RESULT, 1, 42},
    {"a replay", ROLE_WORKER, MSG_RECORDS, 5, 5, 1, RECORD_RESULT, 1, 42},
    {"number 0", ROLE_WORKER, MSG_RECORDS, 0, 0, 1, RECORD_RESULT, 1, 42},
    {"no records", ROLE_WORKER, MSG_RECORDS, 5, 0, 0, RECORD_RESULT, 0, 42},
    {"fewer than it says", ROLE_WORKER, MSG_RECORDS, 5, 0, 3, RECORD_RESULT, 2, 42},
    {"more than it says", ROLE_WORKER, MSG_RECORDS, 5, 0, 1, RECORD_RESULT, 2, 42},
    {"another message", ROLE_WORKER, MSG_DIAL, 5, 0, 1, RECORD_RESULT, 1, 42},
    {"a worker writes no dial", ROLE_WORKER, MSG_RECORDS, 5, 0, 1, RECORD_DIAL, 1, 42},
    {"the porter does", ROLE_PORTER, MSG_RECORDS, 5, 0, 1, RECORD_DIAL, 1, 0},
    {"a worker writes no boot", ROLE_WORKER, MSG_RECORDS, 5, 0, 1, RECORD_BOOT, 1, 42},
    {"a worker revokes nothing", ROLE_WORKER, MSG_RECORDS, 5, 0, 1, RECORD_REVOCATION, 1, 42},
    {"the clerk revokes nothing: the supervisor does", ROLE_CLERK, MSG_RECORDS, 5, 0, 1, RECORD_REVOCATION, 1, 42},
    {"the supervisor does", ROLE_SUPERVISOR, MSG_RECORDS, 5, 0, 1, RECORD_REVOCATION, 1, 0},
    {"the porter decides nothing", ROLE_PORTER, MSG_RECORDS, 5, 0, 1, RECORD_DECISION, 1, 42},
    {"the usher writes questions", ROLE_USHER, MSG_RECORDS, 5, 0, 1, RECORD_QUESTION, 1, 0},
    {"the usher decides no request", ROLE_USHER, MSG_RECORDS, 5, 0, 1, RECORD_DECISION, 1, 42},
    {"the usher looks nothing up", ROLE_USHER, MSG_RECORDS, 5, 0, 1, RECORD_LOOKUP, 1, 42},
    {"a worker writes no question", ROLE_WORKER, MSG_RECORDS, 5, 0, 1, RECORD_QUESTION, 1, 42},
    {"nobody but us says shutdown", ROLE_KEEPER, MSG_RECORDS, 5, 0, 1, RECORD_SHUTDOWN, 1, 42},
};

static const struct broken_row *row;

/* Who broke the table is told of once, and heard no more; the scribe goes on with the others. */
static void go_on_with_another(struct bench *b, int dropped)
{
    struct recorder *other = join(b, ROLE_WORKER, 7);
    struct record_wait wait = {0};
    char rest[64];

    assert_int_equal(reported, 1);
    while (recv(dropped, rest, sizeof rest, 0) > 0)
        continue;
    assert_int_equal(recv(dropped, rest, sizeof rest, 0), 0);
    turn(b, 10);
    put(other, RECORD_DECISION, "d", &wait);
    turn(b, 30);
    assert_string_equal(told, "+");
    _exit(42);
}

static void play_broken(struct bench *b)
{
    int fd = join_raw(b, row->role);

    send_raw(fd, row->type, row->first, row->count, row->kind, row->n);
    turn(b, 10);
    if (row->second)
        send_raw(fd, row->type, row->second, row->count, row->kind, row->n);
    turn(b, 10);
    if (reported)
        go_on_with_another(b, fd);
    close(fd);
}

static void who_keeps_to_no_rule_is_dropped(void **state)
{
    (void)state;
    for (row = broken; row < broken + sizeof broken / sizeof *broken; row++) {
        print_message("           %s\n", row->name);
        in_child(play_broken, USUAL, row->status);
    }
}

static void play_stop(struct bench *b)
{
    int fd = join_raw(b, ROLE_WORKER);

    turn(b, 10);
    send_raw(fd, MSG_RECORDS, 1, 2, RECORD_RESULT, 2); /* the last words of a role that has exited */
    close(fd);
    scribe_ops.stop(&b->context);
    loop_run(b->context.loop); /* returns by itself */
    must_list(b, "boot/scribe/1/\nconfig/scribe/2/\nresult/worker 0/1/raw\nresult/worker 0/2/raw\nshutdown/scribe/3/\n");
}

static void it_stops_when_all_is_written(void **state)
{
    (void)state;
    in_child(play_stop, USUAL, 0);
}

static void play_stuck_peer(struct bench *b)
{
    int fd = join_raw(b, ROLE_WORKER);

    scribe_ops.stop(&b->context);
    loop_run(b->context.loop); /* the peer is still there; it does not wait for ever */
    must_list(b, "boot/scribe/1/\nconfig/scribe/2/\nshutdown/scribe/3/\n");
    close(fd);
}

static void it_does_not_wait_for_ever(void **state)
{
    (void)state;
    in_child(play_stuck_peer, USUAL, 0);
}

static void play_restart(struct bench *b)
{
    int fd = join_raw(b, ROLE_WORKER);

    send_raw(fd, MSG_RECORDS, 1, 1, RECORD_RESULT, 1);
    turn(b, 10);
    close(fd);
    fd = join_raw(b, ROLE_WORKER); /* the same role again: numbers begin anew */
    send_raw(fd, MSG_RECORDS, 1, 1, RECORD_RESULT, 1);
    turn(b, 10);
    must_list(b, "boot/scribe/1/\nconfig/scribe/2/\nresult/worker 0/1/raw\nresult/worker 0/1/raw\n");
    close(fd);
}

static void a_restarted_role_counts_from_the_start(void **state)
{
    (void)state;
    in_child(play_restart, USUAL, 0);
}

static void play_control(struct bench *b)
{
    struct buf message = {0};

    pack_u64(&message, 1);
    pack_u32(&message, 1);
    struct record_writer w = record_begin(&message, RECORD_REVOCATION);
    record_text(&w, FIELD_DETAIL, SLICE("by hand"));
    record_end(&w);
    scribe_ops.on_control(&b->context, MSG_RECORDS, buf_slice(&message));
    turn(b, 10);
    must_list(b, "boot/scribe/1/\nconfig/scribe/2/\nrevocation/supervisor/1/by hand\n");
    buf_free(&message);
}

static void the_supervisor_writes_over_the_control_channel(void **state)
{
    (void)state;
    in_child(play_control, USUAL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_stamped_with_the_channel_they_came_from),
        cmocka_unit_test(three_hundred_records_of_a_turn_are_one_write),
        cmocka_unit_test(a_full_disk_closes_the_gateway_and_it_opens_by_itself),
        cmocka_unit_test(without_free_space_it_starts_closed_and_writes_nothing),
        cmocka_unit_test(who_keeps_to_no_rule_is_dropped),
        cmocka_unit_test(it_stops_when_all_is_written),
        cmocka_unit_test(it_does_not_wait_for_ever),
        cmocka_unit_test(a_restarted_role_counts_from_the_start),
        cmocka_unit_test(the_supervisor_writes_over_the_control_channel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
