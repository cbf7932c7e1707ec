/* What was compiled of canaries, packed for another process: the same is found there, and nothing else is taken for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "canary/scan.h"
#include "tests/unit/canaries_fixture.h"

/* A copy of which one bit is another; to be freed. */
static char *flipped(const struct buf *b, size_t at)
{
    char *copy = malloc(buf_len(b));

    assert_non_null(copy);
    assert_true(at < buf_len(b));
    memcpy(copy, buf_slice(b).ptr, buf_len(b));
    copy[at] ^= 1;
    return copy;
}

/* Each canary, in a text and in a stream that is cut within it. */
static void finds_all(struct scanner *s, const struct registry *r)
{
    for (size_t i = 0; i < registry_count(r); i++) {
        const struct canary *c = registry_get(r, i);
        struct slice value = slice_make(c->value, c->value_len);
        struct scan *stream = scan_start(s, SLICE(""));
        uint64_t safe;

        assert_string_equal(scanner_text(s, value).canary, c->id);
        assert_false(scan_feed(stream, slice_cut(value, 0, 5), &safe).found);
        assert_string_equal(scan_feed(stream, slice_from(value, 5), &safe).canary, c->id);
        scan_free(stream);
    }
}

/* What was compiled is as good in another process, and of use to nobody with other canaries. */
static void packed_it_is_the_same(void **state)
{
    const struct fixture *f = *state;
    struct registry *none = registry_new(), *other = registry_new();
    struct buf packed = {0}, nothing = {0};
    struct fault why = {0};
    struct scanner *s;
    char *damaged;

    scanner_pack(f->scanner, &packed);
    assert_non_null(s = scanner_unpack(f->registry, buf_slice(&packed), NULL));
    finds_all(s, f->registry);
    scanner_free(s);
    assert_non_null(registry_mint(other, "npm", "", 1767323045, NULL));
    assert_null(scanner_unpack(other, buf_slice(&packed), &why));
    assert_non_null(strstr(why.text, "damaged, or of others"));
    assert_null(scanner_unpack(f->registry, slice_cut(buf_slice(&packed), 0, buf_len(&packed) - 1), &why));
    damaged = flipped(&packed, buf_len(&packed) / 2);
    assert_null(scanner_unpack(f->registry, slice_make(damaged, buf_len(&packed)), &why));
    assert_non_null(s = scanner_unpack(none, SLICE(""), NULL));
    scanner_pack(s, &nothing);
    assert_int_equal(buf_len(&nothing), 0);
    scanner_free(s);
    registry_free(none);
    registry_free(other);
    free(damaged);
    buf_wipe(&packed);
}

/* In front of each database Vectorscan says for which processor it is, behind its mark, version and length. */
static void what_another_processor_compiled_is_compiled_again(void **state)
{
    enum { MARK = 8, LENGTH = 4, PLATFORM = 12 };
    const struct fixture *f = *state;
    struct buf packed = {0};
    struct fault why = {0};
    struct scanner *s;
    char *other;

    scanner_pack(f->scanner, &packed);
    other = flipped(&packed, MARK + LENGTH + PLATFORM);
    s = scanner_unpack(f->registry, slice_make(other, buf_len(&packed)), &why);
    assert_non_null(s);
    finds_all(s, f->registry);
    scanner_free(s);
    free(other);
    buf_wipe(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packed_it_is_the_same, with_hundred, drop),
        cmocka_unit_test_setup_teardown(what_another_processor_compiled_is_compiled_again, with_hundred, drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
