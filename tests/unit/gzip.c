/* canary/gzip.h: what is opened, and what is not. */
#include "canary/gzip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MOST = 100000 };

/* text in one member; wrap 16: gzip, 0: zlib. */
static void pack(struct buf *out, const char *text, size_t len, int wrap)
{
    z_stream z = {0};
    size_t room = len + 1000;

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + wrap, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (unsigned)len;
    z.next_out = (unsigned char *)buf_reserve(out, room);
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    buf_commit(out, room - z.avail_out);
    deflateEnd(&z);
}

static const struct row {
    const char *requirement;
    const char *members[3];
    int wrap;
    size_t cut;        /* bytes taken from the end */
    const char *after; /* bytes put behind it */
    const char *opened; /* NULL: refused */
} table[] = {
    {"one member", {"hello"}, 16, 0, "", "hello"},
    {"members in a row are one text", {"hel", "", "lo"}, 16, 0, "", "hello"},
    {"an empty member", {""}, 16, 0, "", ""},
    {"nothing", {0}, 16, 0, "", NULL},
    {"no gzip", {0}, 16, 0, "hello, this is no gzip at all", NULL},
    {"zlib's own form", {"hello"}, 0, 0, "", NULL},
    {"cut by a byte", {"hello"}, 16, 1, "", NULL},
    {"cut in its head", {"hello"}, 16, 20, "", NULL},
    {"something behind it", {"hello"}, 16, 0, "x", NULL},
    {"a second member that is cut", {"hel", "lo"}, 16, 4, "", NULL},
};

static void opens_whole_gzip_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *r = &table[i];
        struct buf packed = {0}, out = {0};
        struct slice bytes;
        bool ok;

        for (size_t m = 0; m < 3 && r->members[m]; m++)
            pack(&packed, r->members[m], strlen(r->members[m]), r->wrap);
        buf_text(&packed, r->after);
        bytes = slice_cut(buf_slice(&packed), 0, buf_len(&packed) - r->cut);
        ok = gzip_open(bytes, MOST, &out);
        if (ok != (r->opened != NULL) || (ok && !slice_is(buf_slice(&out), r->opened)))
            fail_msg("%s", r->requirement);
        buf_free(&packed);
        buf_free(&out);
    }
}

static void opens_no_more_than_most(void **state)
{
    char *zeros = calloc(1, MOST + 1);

    (void)state;
    for (size_t len = MOST; len <= MOST + 1; len++) {
        struct buf packed = {0}, out = {0};

        pack(&packed, zeros, len, 16);
        assert_true(gzip_open(buf_slice(&packed), MOST, &out) == (len == MOST));
        assert_true(buf_len(&out) < 2 * MOST);
        buf_free(&packed);
        buf_free(&out);
    }
    free(zeros);
}

static bool append(void *arg, struct slice piece)
{
    buf_append(arg, piece);
    return true;
}

/* Its end may be missing, and a byte behind it: that is for whom it is meant to say. */
static void a_stream_opens_the_same_however_it_is_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t step = 1; step < 40; step += 6) {
            const struct row *r = &table[i];
            struct buf packed = {0}, out = {0};
            struct gunzip *g = gunzip_new();
            struct slice left;
            bool ok = true;

            for (size_t m = 0; m < 3 && r->members[m]; m++)
                pack(&packed, r->members[m], strlen(r->members[m]), r->wrap);
            buf_text(&packed, r->after);
            left = slice_cut(buf_slice(&packed), 0, buf_len(&packed) - r->cut);
            for (; left.len && ok; left = slice_from(left, step))
                ok = gunzip_feed(g, slice_cut(left, 0, step), append, &out);
            if (r->opened && (!ok || !slice_is(buf_slice(&out), r->opened)))
                fail_msg("%s, by %zu", r->requirement, step);
            if (!r->opened && ok && (!r->members[0] || !r->wrap) && *r->after)
                fail_msg("%s, by %zu, is taken", r->requirement, step);
            gunzip_free(g);
            buf_free(&packed);
            buf_free(&out);
        }
}

static bool count(void *arg, struct slice piece)
{
    *(size_t *)arg += piece.len;
    return true;
}

static bool stop(void *arg, struct slice piece)
{
    *(size_t *)arg += piece.len;
    return false;
}

static void a_stream_that_opens_to_too_much_is_left(void **state)
{
    size_t len = 64 << 20, n = 0;
    char *zeros = calloc(1, len);
    struct buf packed = {0};
    struct gunzip *g = gunzip_new();

    (void)state;
    pack(&packed, zeros, len, 16);
    assert_false(gunzip_feed(g, buf_slice(&packed), count, &n));
    assert_true(n < 10 << 20);
    assert_false(gunzip_feed(g, SLICE("more"), count, &n));
    gunzip_free(g);
    g = gunzip_new();
    n = 0;
    assert_true(gunzip_feed(g, buf_slice(&packed), stop, &n));
    assert_true(gunzip_feed(g, buf_slice(&packed), stop, &n));
    assert_true(n <= 16 << 10);
    gunzip_free(g);
    buf_free(&packed);
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_whole_gzip_alone),
        cmocka_unit_test(opens_no_more_than_most),
        cmocka_unit_test(a_stream_opens_the_same_however_it_is_cut),
        cmocka_unit_test(a_stream_that_opens_to_too_much_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
