/* Tokens for one use: once, on any worker, over a crash and a restart; and forgotten when they could not be shown any more. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "authz/spent.h"
#include "base/file.h"
#include "tests/unit/moment.h"

static char directory[64], path[96];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/exeat-spent-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/spent", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static struct spent *open_it(void)
{
    struct fault why = {0};
    struct spent *s = spent_open(path, &why);

    if (!s)
        fail_msg("%s", why.text);
    return s;
}

static enum spent_use use(struct spent *s, const char *issuer, const char *jti, int64_t forget_s, int64_t now_s)
{
    struct identity *i = identity_make(&(struct identity_claims){.issuer = issuer, .jti = jti, .sandbox = "s"}, NULL);
    enum spent_use how = spent_use(s, i, forget_s, now_s);

    identity_unref(i);
    return how;
}

static void a_token_is_good_once_on_all_workers(void **state)
{
    struct spent *s = open_it(), *one = spent_map(spent_fd(s), NULL), *other = spent_map(spent_fd(s), NULL);

    (void)state;
    assert_int_equal(use(one, "a", "j1", 100, 1), SPENT_NOW);
    assert_int_equal(use(one, "a", "j1", 100, 1), SPENT_BEFORE);
    assert_int_equal(use(other, "a", "j1", 100, 2), SPENT_BEFORE);
    assert_int_equal(use(other, "a", "j2", 100, 2), SPENT_NOW);
    assert_int_equal(use(other, "b", "j1", 100, 2), SPENT_NOW); /* another issuer's */
    spent_free(one);
    spent_free(other);
    spent_free(s);
}

static void it_stays_used_after_a_restart_and_a_crash(void **state)
{
    pid_t pid = fork();
    struct spent *s;
    int status;

    (void)state;
    if (pid == 0) {
        s = spent_open(path, NULL);
        use(s, "a", "j1", 100, 1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    s = open_it();
    assert_int_equal(use(s, "a", "j1", 100, 2), SPENT_BEFORE);
    assert_int_equal(use(s, "a", "j2", 100, 2), SPENT_NOW);
    spent_free(s);
    s = open_it();
    assert_int_equal(use(s, "a", "j2", 100, 3), SPENT_BEFORE);
    spent_free(s);
}

static void of_many_at_once_one_is_first(void **state)
{
    enum { AT_ONCE = 8, TOKENS = 300 };
    struct spent *s = open_it();
    unsigned char *won = mmap(NULL, AT_ONCE * TOKENS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    (void)state;
    for (int w = 0; w < AT_ONCE; w++)
        if (fork() == 0) {
            for (int t = 0; t < TOKENS; t++) {
                char jti[16];

                snprintf(jti, sizeof jti, "j%d", t);
                won[w * TOKENS + t] = use(s, "a", jti, 100, 1) == SPENT_NOW;
            }
            _exit(0);
        }
    while (wait(&status) > 0)
        assert_int_equal(status, 0);
    for (int t = 0; t < TOKENS; t++) {
        int winners = 0;

        for (int w = 0; w < AT_ONCE; w++)
            winners += won[w * TOKENS + t];
        assert_int_equal(winners, 1);
    }
    munmap(won, AT_ONCE * TOKENS);
    spent_free(s);
}

static bool use_in_turn(void *arg, unsigned who, unsigned n)
{
    char jti[16];

    (void)who;
    snprintf(jti, sizeof jti, "j%u", n);
    return use(arg, "a", jti, 100, 1) == SPENT_NOW;
}

/* Each may give way to the other, when one was put off its processor in the middle: then nobody has used it. */
static void of_two_in_one_moment_never_both_are(void **state)
{
    struct spent *s = open_it();
    struct moments *m = moments_run(use_in_turn, s);
    unsigned nobody = 0;

    (void)state;
    for (unsigned n = 0; n < MOMENTS; n++) {
        if (m->won[0][n] && m->won[1][n])
            fail_msg("j%u was used twice", n);
        nobody += !m->won[0][n] && !m->won[1][n];
    }
    assert_true(nobody < MOMENTS / 10);
    moments_free(m);
    spent_free(s);
}

static void what_cannot_be_shown_any_more_makes_room(void **state)
{
    struct spent *s = open_it();
    bool full = false;

    (void)state;
    for (int t = 0; t < 1 << 17 && !full; t++) {
        char jti[16];

        snprintf(jti, sizeof jti, "j%d", t);
        full = use(s, "a", jti, 100, 1) == SPENT_NO_ROOM;
    }
    assert_true(full);
    assert_int_equal(use(s, "a", "j0", 100, 1), SPENT_BEFORE);
    for (int t = 0; t < 1000; t++) {
        char jti[16];

        snprintf(jti, sizeof jti, "k%d", t);
        assert_int_equal(use(s, "a", jti, 200, 100), SPENT_NOW);
    }
    spent_free(s);
}

/* Word 1 of each place, behind the two of the head. */
static void a_place_that_a_worker_died_in_ends_no_search(void **state)
{
    struct spent *s = open_it();
    uint64_t taken = 2;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    (void)state;
    for (int t = 0; t < 1 << 16; t++)
        assert_int_equal(pwrite(fd, &taken, sizeof taken, 16 + 24 * (off_t)t), sizeof taken);
    assert_int_equal(use(s, "a", "j", 100, 1), SPENT_NO_ROOM);
    spent_free(s);
    s = open_it();
    assert_int_equal(use(s, "a", "j", 100, 1), SPENT_NOW);
    assert_int_equal(use(s, "a", "j", 100, 1), SPENT_BEFORE);
    spent_free(s);
    close(fd);
}

static void a_file_that_is_none_is_refused_and_left(void **state)
{
    struct fault why = {0};
    struct buf text = {0};

    (void)state;
    assert_true(file_replace(path, 0600, SLICE("precious"), NULL));
    assert_null(spent_open(path, &why));
    assert_non_null(strstr(why.text, "is not a file of spent tokens"));
    assert_true(file_read(path, 100, &text, NULL));
    assert_true(slice_is(buf_slice(&text), "precious"));
    buf_free(&text);
    assert_null(spent_map(0, &why));
}

/* Every worker can write there. What one that was taken over wrote over its head, or behind its end, keeps nobody from it. */
static void who_writes_over_the_head_or_behind_the_end_keeps_nobody_out(void **state)
{
    struct spent *s = open_it(), *later;
    char bytes[16];

    (void)state;
    assert_int_equal(use(s, "i", "used", 100, 50), SPENT_NOW);
    memset(bytes, 0xfe, sizeof bytes);
    assert_int_equal(pwrite(spent_fd(s), bytes, sizeof bytes, 0), sizeof bytes);
    assert_true(lseek(spent_fd(s), 0, SEEK_END) > 0);
    assert_int_equal(write(spent_fd(s), bytes, sizeof bytes), sizeof bytes);
    spent_mend(s);
    assert_non_null(later = spent_map(spent_fd(s), NULL));
    assert_int_equal(use(later, "i", "used", 100, 50), SPENT_BEFORE);
    spent_free(later);
    assert_int_equal(write(spent_fd(s), bytes, sizeof bytes), sizeof bytes);
    spent_free(s);
    s = open_it();
    assert_int_equal(use(s, "i", "used", 100, 50), SPENT_BEFORE);
    spent_free(s);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_token_is_good_once_on_all_workers),
        ROW(it_stays_used_after_a_restart_and_a_crash),
        ROW(of_many_at_once_one_is_first),
        ROW(of_two_in_one_moment_never_both_are),
        ROW(what_cannot_be_shown_any_more_makes_room),
        ROW(a_place_that_a_worker_died_in_ends_no_search),
        ROW(a_file_that_is_none_is_refused_and_left),
        ROW(who_writes_over_the_head_or_behind_the_end_keeps_nobody_out),
    };

    return cmocka_run_group_tests_name("spent", tests, NULL, NULL);
}
