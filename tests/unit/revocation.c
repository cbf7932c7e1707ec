/* Revocations: what holds, for whom and how long; the file; the shared memory; crashes and races. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "authz/ledger.h"
#include "authz/revocation.h"
#include "base/clock.h"
#include "base/file.h"

static char directory[64], path[96];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/exeat-revoked-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/revocations", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static bool is_revoked(const struct revocations *r, const char *jti, const char *sandbox, int64_t issued_s, int64_t now)
{
    struct identity *i =
        identity_make(&(struct identity_claims){.jti = jti, .sandbox = sandbox, .issued_s = issued_s}, NULL);
    bool has = revocations_has(r, i, now);

    identity_unref(i);
    return has;
}

static struct revocations *create(void)
{
    struct fault why = {0};
    struct revocations *r = revocations_create(path, &why);

    if (!r)
        fail_msg("%s", why.text);
    return r;
}

static void each_kind_holds_for_what_it_names_alone(void **state)
{
    struct revocations *r = create();

    (void)state;
    assert_false(is_revoked(r, "j1", "vm1", 1000, 2000));
    assert_true(revocations_add(r, REVOKE_JTI, SLICE("j1"), 0, NULL));
    assert_true(is_revoked(r, "j1", "vm1", 1000, 2000));
    assert_false(is_revoked(r, "j2", "vm1", 1000, 2000));
    assert_false(is_revoked(r, "J1", "vm1", 1000, 2000));
    assert_false(is_revoked(r, "vm1", "j1", 1000, 2000));
    assert_true(revocations_add(r, REVOKE_SANDBOX, SLICE("vm2"), 0, NULL));
    assert_true(is_revoked(r, "j3", "vm2", 1000, 2000));
    assert_false(is_revoked(r, "vm2", "vm3", 1000, 2000));
    assert_true(revocations_add(r, REVOKE_ISSUED_BEFORE, SLICE("1000"), 0, NULL));
    assert_false(is_revoked(r, "j4", "vm4", 1000, 2000));
    assert_true(is_revoked(r, "j4", "vm4", 999, 2000));
    assert_true(revocations_add(r, REVOKE_ISSUED_BEFORE, SLICE("500"), 0, NULL));
    assert_true(is_revoked(r, "j4", "vm4", 999, 2000));
    revocations_free(r);
}

static void they_hold_until_their_time_is_over(void **state)
{
    struct revocations *r = create();

    (void)state;
    assert_true(revocations_add(r, REVOKE_SANDBOX, SLICE("vm1"), 5000, NULL));
    assert_true(is_revoked(r, "j", "vm1", 1, 4999));
    assert_false(is_revoked(r, "j", "vm1", 1, 5000));
    assert_true(revocations_add(r, REVOKE_SANDBOX, SLICE("vm1"), 6000, NULL));
    assert_true(is_revoked(r, "j", "vm1", 1, 5000));
    assert_true(revocations_add(r, REVOKE_SANDBOX, SLICE("vm1"), 5500, NULL)); /* never shorter */
    assert_true(is_revoked(r, "j", "vm1", 1, 5999));
    assert_true(revocations_add(r, REVOKE_SANDBOX, SLICE("vm1"), 0, NULL));
    assert_true(is_revoked(r, "j", "vm1", 1, 1LL << 40));
    revocations_free(r);
}

static bool file_has(const char *value)
{
    struct buf text = {0};
    bool has;

    assert_true(file_read(path, 16 << 20, &text, NULL));
    has = slice_search(buf_slice(&text), slice_of(value)) >= 0;
    buf_free(&text);
    return has;
}

#define LINE(members) "{\"schema\":\"exeat.revocation/1\"," members "}\n"
#define AT(time) "\"at\":\"" time "\","

/* 2026-01-01T00:00:00Z is 1767225600. */
static const struct forget_row {
    const char *name;
    const char *newest; /* when the line behind it was written */
    int64_t until_s;
    bool forgotten;
} forget_rows[] = {
    {"one that ended before the last was written", AT("2026-01-01T00:00:00Z"), 1767225599, true},
    {"one that by the clock ended since", AT("2026-01-01T00:00:00Z"), 1767225601, false},
    {"lines that do not say when they were written", "", 1767225599, false},
    {"one that has not ended, before a line of a clock that was ahead", AT("2199-01-01T00:00:00Z"), 4070908800, false},
    {"one without an end", AT("2026-01-01T00:00:00Z"), 0, false},
};

static void what_is_over_is_forgotten_only_where_that_is_sure(void **state)
{
    (void)state;
    for (const struct forget_row *row = forget_rows; row < forget_rows + sizeof forget_rows / sizeof *forget_rows; row++) {
        struct buf text = {0};

        buf_printf(&text, LINE(AT("2020-01-01T00:00:00Z") "\"kind\":\"jti\",\"value\":\"this\",\"until\":%lld"),
                   (long long)row->until_s);
        buf_printf(&text, LINE("%s\"kind\":\"jti\",\"value\":\"other\",\"until\":0"), row->newest);
        assert_true(file_replace(path, 0600, buf_slice(&text), NULL));
        buf_free(&text);
        revocations_free(create());
        if (file_has("\"this\"") == row->forgotten)
            fail_msg("%s: it is %s", row->name, row->forgotten ? "still there" : "gone");
    }
    unlink(path);
}

static void they_survive_a_restart_and_those_that_are_over_are_forgotten(void **state)
{
    int64_t now = clock_wall_s();
    struct revocations *r = create();
    struct stat st;

    (void)state;
    assert_true(revocations_add(r, REVOKE_JTI, SLICE("for-good"), 0, NULL));
    assert_true(revocations_add(r, REVOKE_JTI, SLICE("long"), now + 1000, NULL));
    assert_true(revocations_add(r, REVOKE_JTI, SLICE("over"), now - 1, NULL));
    assert_true(revocations_add(r, REVOKE_ISSUED_BEFORE, SLICE("77"), now - 1, NULL));
    revocations_free(r);
    assert_true(revocations_append(path, REVOKE_SANDBOX, SLICE("vm\"1"), 0, NULL));

    r = create();
    assert_true(is_revoked(r, "for-good", "x", 1000, now));
    assert_true(is_revoked(r, "long", "x", 1000, now));
    assert_false(is_revoked(r, "over", "x", 1000, now - 100));
    assert_true(is_revoked(r, "j", "vm\"1", 1000, now));
    assert_true(is_revoked(r, "j", "x", 76, now));
    revocations_free(r);
    assert_true(file_has("\"long\"") && !file_has("\"over\""));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

#define GOOD LINE("\"kind\":\"jti\",\"value\":\"a\",\"until\":0")

static void files_are_read_or_refused_by_line(void **state)
{
    static const struct {
        const char *name, *text, *says; /* says NULL: read */
    } rows[] = {
        {"empty", "", NULL},
        {"one line", GOOD, NULL},
        {"members we do not know", LINE("\"kind\":\"jti\",\"value\":\"a\",\"until\":0,\"by\":\"me\""), NULL},
        {"half a line at the end", GOOD "{\"schema\":\"exe", NULL},
        {"a whole line without its newline was not confirmed", "{\"schema\":\"exeat.revocation/1\"}", NULL},
        {"half a line in the middle", "{\"schema\n" GOOD, "revocations:1: not a revocation"},
        {"empty line", GOOD "\n" GOOD, "revocations:2:"},
        {"another schema", "{\"schema\":\"exeat.revocation/2\",\"kind\":\"jti\",\"value\":\"a\",\"until\":0}\n", ":1:"},
        {"unknown kind", GOOD GOOD LINE("\"kind\":\"kid\",\"value\":\"a\",\"until\":0"), "revocations:3:"},
        {"no value", LINE("\"kind\":\"jti\",\"until\":0"), ":1:"},
        {"empty value", LINE("\"kind\":\"jti\",\"value\":\"\",\"until\":0"), ":1:"},
        {"value with a blank", LINE("\"kind\":\"jti\",\"value\":\"a b\",\"until\":0"), ":1:"},
        {"no until", LINE("\"kind\":\"jti\",\"value\":\"a\""), ":1:"},
        {"until negative", LINE("\"kind\":\"jti\",\"value\":\"a\",\"until\":-1"), ":1:"},
        {"issued-before no time", LINE("\"kind\":\"issued-before\",\"value\":\"now\",\"until\":0"), ":1:"},
        {"a member twice", LINE("\"kind\":\"jti\",\"kind\":\"jti\",\"value\":\"a\",\"until\":0"), ":1:"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault why = {0};
        struct revocations *r;

        assert_true(file_replace(path, 0600, slice_of(rows[i].text), NULL));
        r = revocations_create(path, &why);
        if (rows[i].says ? r || !strstr(why.text, rows[i].says) : !r)
            fail_msg("%s: %s", rows[i].name, r ? "read" : why.text);
        revocations_free(r);
    }
}

static void what_follows_half_a_line_is_a_line_of_its_own(void **state)
{
    struct revocations *r;

    (void)state;
    assert_true(file_replace(path, 0600, SLICE(GOOD "{\"schema\":\"exe"), NULL));
    assert_true(revocations_append(path, REVOKE_JTI, SLICE("b"), 0, NULL));
    r = create();
    assert_true(is_revoked(r, "a", "x", 1, 1));
    assert_true(is_revoked(r, "b", "x", 1, 1));
    revocations_free(r);
}

static void values_that_name_nothing_are_refused_and_not_written(void **state)
{
    struct revocations *r = create();
    struct fault why = {0};
    char big[300];

    (void)state;
    memset(big, 'x', sizeof big);
    assert_false(revocations_add(r, REVOKE_JTI, SLICE(""), 0, &why));
    assert_int_equal(why.kind, FAULT_USAGE);
    assert_false(revocations_add(r, REVOKE_JTI, SLICE("a b"), 0, &why));
    assert_false(revocations_add(r, REVOKE_SANDBOX, SLICE("a\nb"), 0, &why));
    assert_false(revocations_add(r, REVOKE_JTI, slice_make(big, 257), 0, &why));
    assert_true(revocations_add(r, REVOKE_JTI, slice_make(big, 256), 0, &why));
    assert_false(revocations_add(r, REVOKE_ISSUED_BEFORE, SLICE("yesterday"), 0, &why));
    assert_false(revocations_add(r, REVOKE_ISSUED_BEFORE, SLICE("-1"), 0, &why));
    assert_false(revocations_append(path, REVOKE_JTI, SLICE(""), 0, &why));
    revocations_free(r);
    revocations_free(create());
}

static void a_worker_sees_them_at_once_and_cannot_write_them(void **state)
{
    struct revocations *supervisor = create();
    struct revocations *worker = revocations_map(revocations_fd(supervisor), NULL);
    uint64_t before = revocations_version(worker);
    struct fault why = {0};

    (void)state;
    assert_non_null(worker);
    assert_false(is_revoked(worker, "j1", "vm1", 1, 1));
    assert_true(revocations_add(supervisor, REVOKE_JTI, SLICE("j1"), 0, NULL));
    assert_true(is_revoked(worker, "j1", "vm1", 1, 1));
    assert_true(revocations_version(worker) > before);
    assert_false(revocations_add(worker, REVOKE_JTI, SLICE("j2"), 0, &why));
    assert_int_equal(why.kind, FAULT_REFUSED);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, revocations_fd(supervisor), 0), MAP_FAILED);
    assert_int_equal(ftruncate(revocations_fd(supervisor), 0), -1);
    revocations_free(worker);
    revocations_free(supervisor);
}

static void memory_that_holds_no_revocations_is_refused(void **state)
{
    int fd = memfd_create("x", MFD_ALLOW_SEALING);
    struct fault why = {0};

    (void)state;
    assert_null(revocations_map(-1, &why));
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_null(revocations_map(fd, &why));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_null(revocations_map(fd, &why));
    assert_int_equal(why.kind, FAULT_REFUSED);
    close(fd);
}

/* The file is what is filled here: syncing thousands of single lines would take minutes. */
static void sixteen_thousand_are_all_found_and_no_others(void **state)
{
    struct buf text = {0};
    struct revocations *r;
    struct fault why = {0};
    char jti[32];

    (void)state;
    for (int i = 0; i < 16000; i++)
        buf_printf(&text, LINE("\"kind\":\"jti\",\"value\":\"j%d\",\"until\":%d"), i, i % 2 ? 0 : 2000000000);
    assert_true(file_replace(path, 0600, buf_slice(&text), NULL));
    buf_free(&text);
    r = create();
    for (int i = 0; i < 16000; i++) {
        snprintf(jti, sizeof jti, "j%d", i);
        if (!is_revoked(r, jti, "x", 1, 1))
            fail_msg("%s was lost", jti);
        snprintf(jti, sizeof jti, "k%d", i);
        if (is_revoked(r, jti, "x", 1, 1))
            fail_msg("%s was never revoked", jti);
    }
    assert_true(revocations_add(r, REVOKE_JTI, SLICE("one-more"), 0, &why));
    assert_true(is_revoked(r, "one-more", "x", 1, 1));
    revocations_free(r);
}

static void two_that_append_at_once_lose_nothing_even_while_the_file_is_compacted(void **state)
{
    int status, all = 0;
    struct revocations *r;
    char jti[32];

    (void)state;
    assert_true(revocations_append(path, REVOKE_JTI, SLICE("over"), 1, NULL));
    for (int child = 0; child < 2; child++)
        if (fork() == 0) {
            for (int i = 0; i < 20; i++) {
                snprintf(jti, sizeof jti, "c%d-%d", child, i);
                if (!revocations_append(path, REVOKE_JTI, slice_of(jti), i % 3 ? 0 : 1, NULL))
                    _exit(1);
            }
            _exit(0);
        }
    for (int i = 0; i < 20; i++)
        assert_true(ledger_compact(path, 1000, NULL));
    for (int child = 0; child < 2; child++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    r = create();
    for (int child = 0; child < 2; child++)
        for (int i = 0; i < 20; i++) {
            snprintf(jti, sizeof jti, "c%d-%d", child, i);
            all += is_revoked(r, jti, "x", 1, 1) || i % 3 == 0;
        }
    assert_int_equal(all, 40);
    revocations_free(r);
}

/* Whoever waited for the lock must not write into the file that was replaced meanwhile. */
static void an_append_that_waited_goes_into_the_new_file(void **state)
{
    struct revocations *r;
    int status, fd;
    pid_t pid;

    (void)state;
    assert_true(revocations_append(path, REVOKE_JTI, SLICE("old"), 0, NULL));
    fd = open(path, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    pid = fork();
    if (pid == 0) {
        close(fd); /* or this copy would keep the lock */
        _exit(!revocations_append(path, REVOKE_JTI, SLICE("waited"), 0, NULL));
    }
    usleep(100000); /* it waits now; should it be slower, this row proves nothing and fails nothing */
    assert_true(file_replace(path, 0600, SLICE(GOOD), NULL));
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    r = create();
    assert_true(is_revoked(r, "a", "x", 1, 1));
    assert_true(is_revoked(r, "waited", "x", 1, 1));
    assert_false(is_revoked(r, "old", "x", 1, 1));
    revocations_free(r);
}

static void reading_for_a_tool_changes_nothing(void **state)
{
    struct revocations *r;
    struct buf text = {0};
    struct fault why = {0};

    (void)state;
    r = revocations_read(path, &why);
    assert_non_null(r);
    assert_false(file_exists(path));
    revocations_free(r);
    assert_true(revocations_append(path, REVOKE_JTI, SLICE("over"), 1, NULL));
    r = revocations_read(path, &why);
    assert_false(is_revoked(r, "over", "x", 1, 1));
    assert_false(revocations_add(r, REVOKE_JTI, SLICE("j"), 0, &why));
    revocations_free(r);
    assert_true(file_read(path, 4096, &text, NULL));
    assert_true(slice_search(buf_slice(&text), SLICE("over")) > 0);
    buf_free(&text);
}

/* ---- quarantine ---- */

static bool is_quarantined(const struct revocations *r, const char *sandbox)
{
    struct identity *i = identity_make(&(struct identity_claims){.jti = "j", .sandbox = sandbox, .issued_s = 1}, NULL);
    bool has = revocations_quarantines(r, i);

    assert_false(revocations_has(r, i, 2000));
    identity_unref(i);
    return has;
}

static struct suspension named(const char *sandbox, const char *why)
{
    return (struct suspension){slice_of(sandbox), SLICE("admin"), slice_of(why), 1000, slice_of("")};
}

static void list_one(void *arg, const struct suspension *q)
{
    buf_printf(arg, "%.*s/%.*s/%.*s/%lld/%d ", SLICE_ARG(q->name), SLICE_ARG(q->by), SLICE_ARG(q->why), (long long)q->uid,
               (int)(q->at.len > 20));
}

static void assert_list(const struct revocations *r, const char *expected)
{
    struct buf out = {0};

    revocations_each_suspension(r, REVOKE_QUARANTINE, list_one, &out);
    buf_char(&out, '\0');
    assert_string_equal(buf_slice(&out).ptr, expected);
    buf_free(&out);
}

static void a_sandbox_is_in_quarantine_until_it_is_released(void **state)
{
    struct revocations *r = create(), *worker = revocations_map(revocations_fd(r), NULL);
    struct suspension one = named("vm1", "it sent a canary"), two = named("vm2", ""), more = named("vm1", "ticket 7");
    uint64_t version = revocations_version(worker);
    struct fault why = {0};

    (void)state;
    assert_false(is_quarantined(worker, "vm1"));
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &one, NULL));
    assert_true(is_quarantined(worker, "vm1"));
    assert_false(is_quarantined(worker, "vm10"));
    assert_int_not_equal(revocations_version(worker), version);
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &two, NULL));
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &one, NULL)); /* twice is once */
    assert_list(r, "vm1/admin/it sent a canary/1000/1 vm2/admin//1000/1 ");
    more.by = SLICE("gateway");
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &more, NULL)); /* another reason takes nothing from the first */
    assert_list(r, "vm1/admin/it sent a canary; ticket 7/1000/1 vm2/admin//1000/1 ");
    assert_true(revocations_suspend(r, REVOKE_RELEASE, &one, NULL));
    assert_false(is_quarantined(worker, "vm1"));
    assert_true(is_quarantined(worker, "vm2"));
    assert_false(revocations_suspend(r, REVOKE_RELEASE, &one, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    assert_true(revocations_suspend(r, REVOKE_RELEASE, &two, NULL));
    assert_false(is_quarantined(worker, "vm2"));
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &one, NULL));
    assert_true(is_quarantined(worker, "vm1"));
    revocations_free(worker);
    revocations_free(r);
}

static void a_revocation_of_the_sandbox_is_another_thing(void **state)
{
    struct revocations *r = create();
    struct suspension one = named("vm1", "");

    (void)state;
    assert_true(revocations_add(r, REVOKE_SANDBOX, SLICE("vm1"), 0, NULL));
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &one, NULL));
    assert_true(revocations_suspend(r, REVOKE_RELEASE, &one, NULL));
    assert_true(is_revoked(r, "j", "vm1", 1, 1));
    revocations_free(r);
}

static void a_service_is_closed_until_it_is_opened(void **state)
{
    struct suspension npm = named("npm", "it relays"), vm = named("npm", "");
    struct identity_mark mark = revocation_service_mark(SLICE("npm")), other = revocation_service_mark(SLICE("git"));
    struct revocations *r = create(), *mapped;
    struct fault why = {0};

    (void)state;
    mapped = revocations_map(revocations_fd(r), NULL);
    assert_false(revocations_closes(mapped, mark));
    assert_false(revocations_suspend(r, REVOKE_OPEN, &npm, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    assert_true(revocations_suspend(r, REVOKE_CLOSE, &npm, NULL));
    assert_true(revocations_closes(mapped, mark) && !revocations_closes(mapped, other));
    assert_true(revocations_suspends(r, REVOKE_CLOSE, npm.name) && !revocations_suspends(r, REVOKE_QUARANTINE, npm.name));
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &vm, NULL)); /* a sandbox may be called as a service is */
    assert_true(revocations_suspend(r, REVOKE_RELEASE, &vm, NULL));
    assert_true(revocations_closes(mapped, mark));
    revocations_free(r);
    r = create(); /* a restart, which writes the file anew */
    assert_true(revocations_closes(r, mark) && revocations_suspends(r, REVOKE_CLOSE, npm.name));
    assert_true(revocations_suspend(r, REVOKE_OPEN, &npm, NULL));
    assert_false(revocations_closes(r, mark));
    revocations_free(r);
    r = create();
    assert_false(revocations_closes(r, mark));
    revocations_free(r);
    revocations_free(mapped);
}

static void quarantines_survive_a_restart_and_released_ones_leave_the_file(void **state)
{
    struct suspension one = named("vm1", "why \"so\""), two = named("vm2", "");
    struct revocations *r = create();
    struct buf text = {0};

    (void)state;
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &one, NULL));
    assert_true(revocations_suspend(r, REVOKE_QUARANTINE, &two, NULL));
    assert_true(revocations_suspend(r, REVOKE_RELEASE, &two, NULL));
    revocations_free(r);
    assert_true(revocations_append_suspension(path, REVOKE_QUARANTINE, &(struct suspension){SLICE("vm3"), SLICE("file"), SLICE(""), -1, SLICE("")}, NULL));
    r = create();
    assert_true(is_quarantined(r, "vm1"));
    assert_false(is_quarantined(r, "vm2"));
    assert_true(is_quarantined(r, "vm3"));
    assert_list(r, "vm1/admin/why \"so\"/1000/1 vm3/file//-1/1 ");
    assert_true(file_read(path, 65536, &text, NULL));
    assert_true(slice_search(buf_slice(&text), SLICE("vm2")) < 0);
    buf_free(&text);
    revocations_free(r);
    assert_true(revocations_append_suspension(path, REVOKE_RELEASE, &one, NULL));
    r = create();
    assert_false(is_quarantined(r, "vm1"));
    revocations_free(r);
}

static void names_that_no_token_can_have_are_refused(void **state)
{
    struct revocations *r = create();
    char longest[130];

    (void)state;
    memset(longest, 'x', sizeof longest);
    longest[129] = '\0';
    for (int i = 0; i < 3; i++) {
        struct suspension q = named(i == 0 ? "" : i == 1 ? "a b" : longest, "");
        struct fault why = {0};

        assert_false(revocations_suspend(r, REVOKE_QUARANTINE, &q, &why));
        assert_non_null(strstr(why.text, "a sandbox "));
    }
    assert_false(file_exists(path));
    revocations_free(r);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(each_kind_holds_for_what_it_names_alone),
        ROW(they_hold_until_their_time_is_over),
        ROW(what_is_over_is_forgotten_only_where_that_is_sure),
        ROW(they_survive_a_restart_and_those_that_are_over_are_forgotten),
        ROW(files_are_read_or_refused_by_line),
        ROW(what_follows_half_a_line_is_a_line_of_its_own),
        ROW(values_that_name_nothing_are_refused_and_not_written),
        ROW(a_worker_sees_them_at_once_and_cannot_write_them),
        ROW(memory_that_holds_no_revocations_is_refused),
        ROW(sixteen_thousand_are_all_found_and_no_others),
        ROW(two_that_append_at_once_lose_nothing_even_while_the_file_is_compacted),
        ROW(an_append_that_waited_goes_into_the_new_file),
        ROW(reading_for_a_tool_changes_nothing),
        ROW(a_sandbox_is_in_quarantine_until_it_is_released),
        ROW(a_revocation_of_the_sandbox_is_another_thing),
        ROW(quarantines_survive_a_restart_and_released_ones_leave_the_file),
        ROW(a_service_is_closed_until_it_is_opened),
        ROW(names_that_no_token_can_have_are_refused),
    };

    return cmocka_run_group_tests_name("revocation", tests, NULL, NULL);
}
