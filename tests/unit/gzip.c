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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_whole_gzip_alone),
        cmocka_unit_test(opens_no_more_than_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
