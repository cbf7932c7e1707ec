/* Who holds which identity: one at a time, and after a restart the same one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "proxy/holders.h"

#define NOW 1000000

static char folder[] = "/tmp/exeat-holders-XXXXXX";
static char *path;

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    path = file_join(folder, "holders");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    free(path);
    return rmdir(folder);
}

static struct holders *open_at(int64_t now_s)
{
    struct fault why = {0};
    struct holders *h = holders_open(path, now_s, &why);

    if (!h)
        fail_msg("%s", why.text);
    return h;
}

static enum holders_answer take(struct holders *h, const char *identity, const char *who, int64_t until_s, int64_t now_s)
{
    struct fault why = {0};

    return holders_take(h, slice_of(identity), slice_of(who), until_s, now_s, &why);
}

static void one_holds_it_until_its_time_is_over(void **state)
{
    struct holders *h = open_at(NOW);

    (void)state;
    assert_int_equal(take(h, "a", "ci\nvm1", NOW + 60, NOW), HOLDERS_YES);
    assert_int_equal(take(h, "a", "ci\nvm2", NOW + 60, NOW), HOLDERS_ANOTHER);
    assert_int_equal(take(h, "a", "gl\nvm1", NOW + 60, NOW), HOLDERS_ANOTHER); /* of another issuer */
    assert_int_equal(take(h, "b", "ci\nvm2", NOW + 60, NOW), HOLDERS_YES);
    assert_int_equal(take(h, "a", "ci\nvm1", NOW + 90, NOW + 59), HOLDERS_YES); /* it goes on */
    assert_int_equal(take(h, "a", "ci\nvm2", NOW + 200, NOW + 89), HOLDERS_ANOTHER);
    assert_int_equal(take(h, "a", "ci\nvm2", NOW + 200, NOW + 90), HOLDERS_YES);
    assert_int_equal(take(h, "a", "ci\nvm1", NOW + 200, NOW + 91), HOLDERS_ANOTHER);
    holders_free(h);
    unlink(path);
}

static void a_restart_changes_nothing(void **state)
{
    struct holders *h = open_at(NOW);
    struct stat info;

    (void)state;
    assert_int_equal(take(h, "file:/etc/secret", "ci\nvm1", NOW + 60, NOW), HOLDERS_YES);
    assert_int_equal(take(h, "b", "ci\nvm \"2\"", NOW + 60, NOW), HOLDERS_YES);
    holders_free(h); /* nothing is written at the end: it might not come to that */
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    h = open_at(NOW + 10);
    assert_int_equal(take(h, "file:/etc/secret", "ci\nvm2", NOW + 99, NOW + 10), HOLDERS_ANOTHER);
    assert_int_equal(take(h, "b", "ci\nvm1", NOW + 99, NOW + 10), HOLDERS_ANOTHER);
    assert_int_equal(take(h, "b", "ci\nvm \"2\"", NOW + 99, NOW + 10), HOLDERS_YES);
    holders_free(h);
    h = open_at(NOW + 60 + HOLDERS_AHEAD_S); /* told ahead, and no longer than that */
    assert_int_equal(take(h, "file:/etc/secret", "ci\nvm2", NOW + 999, NOW + 60 + HOLDERS_AHEAD_S), HOLDERS_YES);
    holders_free(h);
    unlink(path);
}

static void a_time_that_grows_is_written_seldom(void **state)
{
    struct holders *h = open_at(NOW);
    struct stat before, after;

    (void)state;
    assert_int_equal(take(h, "a", "x", NOW + 60, NOW), HOLDERS_YES);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(take(h, "a", "x", NOW + 60 + HOLDERS_AHEAD_S, NOW + 1), HOLDERS_YES);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(take(h, "a", "x", NOW + 61 + HOLDERS_AHEAD_S, NOW + 2), HOLDERS_YES);
    assert_int_equal(stat(path, &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino);
    holders_free(h);
    unlink(path);
}

static void what_cannot_be_written_down_is_not_given(void **state)
{
    struct holders *h = open_at(NOW);
    struct fault why = {0};
    char moved[64];

    (void)state;
    snprintf(moved, sizeof moved, "%s-moved", folder);
    assert_int_equal(rename(folder, moved), 0);
    assert_int_equal(holders_take(h, SLICE("a"), SLICE("x"), NOW + 60, NOW, &why), HOLDERS_UNWRITTEN);
    assert_true(why.text[0]);
    assert_int_equal(rename(moved, folder), 0);
    assert_int_equal(take(h, "a", "y", NOW + 60, NOW), HOLDERS_YES); /* x got nothing, and holds nothing */
    holders_free(h);
    h = open_at(NOW);
    assert_int_equal(take(h, "a", "x", NOW + 60, NOW), HOLDERS_ANOTHER);
    holders_free(h);
    unlink(path);
}

static void only_so_many_are_remembered(void **state)
{
    struct holders *h;
    struct buf text = {0};
    struct fault why = {0};

    (void)state;
    buf_text(&text, "exeat.holders/1\n");
    for (int i = 0; i < HOLDERS_MOST; i++)
        buf_printf(&text, "%064x %d \"x\"\n", i, NOW + 100);
    assert_true(file_replace(path, 0600, buf_slice(&text), &why));
    h = open_at(NOW);
    assert_int_equal(take(h, "a", "y", NOW + 60, NOW), HOLDERS_FULL);
    assert_int_equal(take(h, "a", "y", NOW + 200, NOW + 100), HOLDERS_YES); /* one that is over makes room */
    holders_free(h);
    buf_free(&text);
    unlink(path);
}

#define LINE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef 1000100 \"x\"\n"

static void a_file_that_says_something_else_is_refused(void **state)
{
    static const struct {
        const char *name, *text, *says; /* says NULL: read */
    } rows[] = {
        {"one line", "exeat.holders/1\n" LINE, NULL},
        {"none", "exeat.holders/1\n", NULL},
        {"an empty file", "", ":1: is no list"},
        {"another head", "exeat.holders/2\n" LINE, ":1: is no list"},
        {"a short digest", "exeat.holders/1\n0123 1000100 \"x\"\n", ":2: "},
        {"no time", "exeat.holders/1\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef soon \"x\"\n", ":2: "},
        {"nobody", "exeat.holders/1\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef 1000100 \"\"\n", ":2: "},
        {"a line twice", "exeat.holders/1\n" LINE LINE, ":3: "},
        {"half a line", "exeat.holders/1\n" LINE "0123", ":3: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        struct holders *h;

        assert_true(file_replace(path, 0600, slice_of(rows[i].text), &why));
        h = holders_open(path, NOW, &why);
        if (rows[i].says ? h || !strstr(why.text, rows[i].says) : !h)
            fail_msg("%s: %s", rows[i].name, h ? "read" : why.text);
        holders_free(h);
    }
    assert_int_equal(chmod(path, 0666), 0);
    assert_null(holders_open(path, NOW, NULL));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_holds_it_until_its_time_is_over),
        cmocka_unit_test(a_restart_changes_nothing),
        cmocka_unit_test(a_time_that_grows_is_written_seldom),
        cmocka_unit_test(what_cannot_be_written_down_is_not_given),
        cmocka_unit_test(only_so_many_are_remembered),
        cmocka_unit_test(a_file_that_says_something_else_is_refused),
    };

    return cmocka_run_group_tests_name("holders", tests, set_up, tear_down);
}
