/* Who is convicted by crashes of a worker: rows of crashes, each with who was there and for whom it was at work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "proxy/suspects.h"
#include "proxy/tally.h"

static const unsigned char secret[16] = "of this gateway";

enum { CRASHES = 8, GUESTS = 3 };

struct crash {
    int64_t at_s;
    const char *flying;   /* a letter for each sandbox with an exchange in flight */
    char at_work;         /* 0: nobody, or somebody without a token */
    const char *convicts; /* "" for nobody */
};

static const struct row {
    const char *name;
    struct crash crashes[CRASHES];
} rows[] = {
    {"two crashes are no proof", {{1, "a", 'a', ""}, {2, "a", 'a', ""}}},
    {"the third convicts", {{1, "a", 'a', ""}, {2, "a", 'a', ""}, {3, "a", 'a', "a"}}},
    {"one that was not there is not counted", {{1, "a", 'a', ""}, {2, "b", 'b', ""}, {3, "a", 'a', ""}, {4, "a", 'a', "a"}}},
    {"a bystander is let be while the one at work is convicted",
     {{1, "ab", 'a', ""}, {2, "ab", 'a', ""}, {3, "ab", 'a', "a"}}},
    {"and goes when it crashes on without him", {{1, "ab", 'a', ""}, {2, "ab", 'a', ""}, {3, "ab", 'a', "a"}, {4, "bc", 0, "b"}}},
    {"of nobody at work all who were there thrice go", {{1, "ab", 0, ""}, {2, "abc", 0, ""}, {3, "abc", 0, "ab"}}},
    {"who is at work for the first time shields nobody", {{1, "a", 0, ""}, {2, "a", 0, ""}, {3, "ac", 'c', "a"}}},
    {"at work without an exchange in flight: the head is what crashes it",
     {{1, "", 'a', ""}, {2, "b", 'a', ""}, {3, "b", 'a', "a"}}},
    {"an hour later it is forgotten", {{1, "a", 'a', ""}, {2, "a", 'a', ""}, {3602, "a", 'a', ""}, {3602, "a", 'a', "a"}}},
    {"within the hour it is not", {{1, "a", 'a', ""}, {2, "a", 'a', ""}, {3601, "a", 'a', "a"}}},
    {"convicted, it begins anew",
     {{1, "a", 'a', ""}, {2, "a", 'a', ""}, {3, "a", 'a', "a"}, {4, "a", 'a', ""}, {5, "a", 'a', ""}, {6, "a", 'a', "a"}}},
    {"nobody there: nobody goes", {{1, "", 0, ""}, {2, "", 0, ""}, {3, "", 0, ""}}},
};

static void note(void *arg, struct slice sandbox)
{
    buf_append(arg, sandbox);
}

static bool is_in(const char *list, char c)
{
    return c && strchr(list, c);
}

/* A worker with these guests, until its end; who is left in its pages is given. */
static void live_and_die(int fd, const struct crash *c)
{
    struct tally *t = tally_new();
    struct tally_seat *seats[GUESTS];
    bool flies[GUESTS];

    assert_true(tally_own(t, fd, NULL));
    for (int i = 0; i < GUESTS; i++) {
        char name = (char)('a' + i);

        seats[i] = tally_sit(t, TALLY_SANDBOX, slice_make(&name, 1));
        tally_name(seats[i], slice_make(&name, 1));
        flies[i] = is_in(c->flying, name);
        tally_hold(seats[i], HOLD_EXCHANGES, flies[i]);
        if (c->at_work == name)
            atomic_store(tally_at_work(t), tally_tag(seats[i]));
    }
    /* Dead: memory stays as it is, nobody gives anything back. */
    for (int i = 0; i < GUESTS; i++)
        tally_leave(seats[i]);
    tally_free(t);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct suspects *s = suspects_new();
        int fd = tally_create(secret, NULL);

        for (const struct crash *c = rows[i].crashes; c->at_s; c++) {
            struct buf convicted = {0};
            char sorted[8] = "";

            live_and_die(fd, c);
            assert_true(suspects_crash(s, fd, c->at_s, note, &convicted, NULL));
            for (char name = 'a'; name <= 'c'; name++)
                if (memchr(buf_slice(&convicted).ptr, name, buf_len(&convicted)))
                    strncat(sorted, &name, 1);
            if (strcmp(sorted, c->convicts) != 0 || buf_len(&convicted) != strlen(c->convicts))
                fail_msg("%s: the crash at %d convicts \"%.*s\", not \"%s\"", rows[i].name, (int)c->at_s,
                         SLICE_ARG(buf_slice(&convicted)), c->convicts);
            buf_free(&convicted);
        }
        suspects_free(s);
        close(fd);
    }
}

/* What a worker that was taken over may write there. */
static void test_names_are_judged(void **state)
{
    static const char *const names[] = {"", "a b", "a\nb", "\x1b[2J", "caf\xc3\xa9"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct suspects *s = suspects_new();
        int fd = tally_create(secret, NULL);
        struct tally *t = tally_new();
        struct tally_seat *seat;
        struct buf convicted = {0};

        assert_true(tally_own(t, fd, NULL));
        seat = tally_sit(t, TALLY_SANDBOX, SLICE("x"));
        tally_name(seat, slice_of(names[i]));
        tally_hold(seat, HOLD_EXCHANGES, 1);
        for (int64_t at_s = 1; at_s < 5; at_s++)
            assert_true(suspects_crash(s, fd, at_s, note, &convicted, NULL));
        assert_int_equal(buf_len(&convicted), 0);
        tally_leave(seat);
        tally_free(t);
        suspects_free(s);
        close(fd);
    }
}

static void test_what_is_no_tally_convicts_nobody(void **state)
{
    struct suspects *s = suspects_new();
    int fd = memfd_create("no tally", MFD_CLOEXEC);
    struct buf convicted = {0};
    struct fault why = {0};

    (void)state;
    assert_false(suspects_crash(s, fd, 1, note, &convicted, &why));
    assert_non_null(strstr(why.text, "not shared memory"));
    close(fd);
    suspects_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_names_are_judged),
        cmocka_unit_test(test_what_is_no_tally_convicts_nobody),
    };

    return cmocka_run_group_tests_name("suspects", tests, NULL, NULL);
}
