/*
 * What works on many bytes at once, held against what works byte by byte: folding of case, escapes of JSON, hexadecimal; and the
 * hash against its authors' vectors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/put.h"
#include "base/slice.h"

enum { LONGEST = 40 };

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

/* Every byte, at every place of texts around once and twice what is looked at together: as it is written where it stands alone. */
static void json_is_escaped_alike_wherever_it_stands(void **state)
{
    (void)state;
    for (size_t n = 1; n <= LONGEST; n++)
        for (size_t at = 0; at < n; at++)
            for (unsigned c = 0; c < 256; c++) {
                char text[LONGEST], one = (char)c, alone[PUT_JSON_MAX(1)];
                char whole[PUT_JSON_MAX(LONGEST)], expected[PUT_JSON_MAX(LONGEST)];
                struct slice escaped = slice_make(alone, (size_t)(put_json(alone, slice_make(&one, 1)) - alone));
                char *to = expected;

                memset(text, 'k', n);
                text[at] = one;
                to = put_slice(put_slice(PUT(to, "\""), slice_make(text, at)), slice_cut(escaped, 1, escaped.len - 1));
                to = PUT(put_slice(to, slice_from(slice_make(text, n), at + 1)), "\"");
                if (!slice_equals(slice_make(whole, (size_t)(put_json(whole, slice_make(text, n)) - whole)),
                                  slice_make(expected, (size_t)(to - expected))))
                    fail_msg("%02x at %zu of %zu", c, at, n);
            }
}

static void every_byte_is_two_digits_in_hex_wherever_it_stands(void **state)
{
    (void)state;
    for (size_t n = 1; n <= LONGEST; n++)
        for (unsigned c = 0; c < 256; c++) {
            char text[LONGEST], hex[PUT_HEX_MAX(LONGEST)], expected[PUT_HEX_MAX(LONGEST) + 1];

            for (size_t i = 0; i < n; i++) {
                text[i] = (char)(c + i * 37);
                snprintf(expected + 2 * i, 3, "%02x", (c + (unsigned)i * 37) % 256);
            }
            if (!slice_is(slice_make(hex, (size_t)(put_hex(hex, slice_make(text, n)) - hex)), expected))
                fail_msg("%.*s, not %s", (int)n * 2, hex, expected);
        }
}

static void numbers_are_written_in_decimal(void **state)
{
    (void)state;
    for (uint64_t n = 1, i = 0; i < 40; i++, n = n * 3 + i % 2) {
        uint64_t near[] = {n - 1, n, n + 1, UINT64_MAX - n, i ? n : 0};

        for (size_t k = 0; k < sizeof near / sizeof *near; k++) {
            char text[PUT_DECIMAL_MAX + 1], expected[PUT_DECIMAL_MAX + 1];

            *put_decimal(text, near[k]) = '\0';
            snprintf(expected, sizeof expected, "%llu", (unsigned long long)near[k]);
            assert_string_equal(text, expected);
        }
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
        cmocka_unit_test(json_is_escaped_alike_wherever_it_stands),
        cmocka_unit_test(every_byte_is_two_digits_in_hex_wherever_it_stands),
        cmocka_unit_test(numbers_are_written_in_decimal),
        cmocka_unit_test(the_hash_is_siphash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
