/* What works a word at a time, held against what works byte by byte: folding of case, and the hash against its authors' vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/slice.h"

static unsigned char fold(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 0x20) : c;
}

/* Every pair of bytes, at every place of texts around the size of a word. */
static void case_is_folded_of_letters_alone(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 20; n++)
        for (size_t at = 0; at < n; at += n < 10 ? 1 : 3)
            for (unsigned a = 0; a < 256; a++)
                for (unsigned b = 0; b < 256; b++) {
                    char left[20], right[20];

                    memset(left, 'k', n);
                    memset(right, 'K', n);
                    left[at] = (char)a;
                    right[at] = (char)b;
                    if (slice_folds_alike(left, right, n) != (fold((unsigned char)a) == fold((unsigned char)b)))
                        fail_msg("%02x and %02x at %zu of %zu", a, b, at, n);
                }
}

/* SipHash-2-4 with the key 00 01 ... 0f, of 00 01 ... : the vectors that Aumasson and Bernstein publish. */
static void the_hash_is_siphash(void **state)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } vectors[] = {
        {0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {2, 0x0d6c8009d9a94f5a}, {3, 0x85676696d7fb7e2d},
        {4, 0xcf2794e0277187b7}, {5, 0x18765564cd99a68d}, {6, 0xcbc9466e58fee3ce}, {7, 0xab0200f58b01d137},
        {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5},
    };
    const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    char text[16];

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        assert_int_equal(hash_bytes(key, slice_make(text, vectors[i].len)), vectors[i].hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_is_folded_of_letters_alone),
        cmocka_unit_test(the_hash_is_siphash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
