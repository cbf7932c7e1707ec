/* Owns nothing: bytes to text, one after another. */
#include "base/put.h"

#include <endian.h>

static const char hex_digits[] = "0123456789abcdef";

static size_t decimal_len(uint64_t n)
{
    size_t len = 1;

    for (; n >= 10000; n /= 10000)
        len += 4;
    return len + (n >= 10) + (n >= 100) + (n >= 1000);
}

char *put_decimal(char *at, uint64_t n)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
                                "4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
                                "99";
    char *end = at + decimal_len(n), *to = end;

    for (; n >= 100; n /= 100)
        memcpy(to -= 2, pairs + n % 100 * 2, 2);
    if (n >= 10)
        memcpy(to - 2, pairs + n * 2, 2);
    else
        to[-1] = (char)('0' + n);
    return end;
}

/* ---- hexadecimal ---- */

/* Four bytes become eight digits at once: every record has some sixty bytes in hex. */
static uint64_t eight_digits(uint32_t bytes)
{
    const uint64_t ones = 0x0101010101010101U;
    uint64_t x = bytes, letters;

    x = (x | x << 16) & 0x0000ffff0000ffffU; /* a byte in each second place, the first one lowest */
    x = (x | x << 8) & 0x00ff00ff00ff00ffU;
    x = (x >> 4 | x << 8) & 0x0f0f0f0f0f0f0f0fU; /* its high half first */
    letters = (x + 6 * ones) >> 4 & ones;
    return x + ones * '0' + letters * ('a' - '9' - 1);
}

char *put_hex(char *at, struct slice bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.ptr, *end = p + bytes.len;

    for (; end - p >= 4; p += 4, at += 8) {
        uint32_t four;
        uint64_t digits;

        memcpy(&four, p, sizeof four);
        digits = htole64(eight_digits(le32toh(four)));
        memcpy(at, &digits, sizeof digits);
    }
    for (; p < end; p++) {
        *at++ = hex_digits[*p >> 4];
        *at++ = hex_digits[*p & 15];
    }
    return at;
}

/* ---- JSON ---- */

static char *escape(char *at, unsigned char c)
{
    switch (c) {
    case '\0':
        return PUT(at, "\\u2400");
    case '"':
        return PUT(at, "\\\"");
    case '\\':
        return PUT(at, "\\\\");
    case '\n':
        return PUT(at, "\\n");
    case '\r':
        return PUT(at, "\\r");
    case '\t':
        return PUT(at, "\\t");
    default:
        at = PUT(at, "\\u00");
        return put_hex(at, slice_make(&c, 1));
    }
}

/*
 * Nothing but ASCII that JSON takes as it is? A byte that is not gets its top bit: by itself, or where something is taken from
 * it that is more. What that borrows from its neighbours makes no difference, since only none at all is plain.
 */
static inline bool word_is_plain(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101U;
    uint64_t marks = word | (word - ones * 0x20) | ((word ^ ones * '"') - ones) | ((word ^ ones * '\\') - ones) |
                     ((word ^ ones * 0x7f) - ones);

    return (marks & ones * 0x80) == 0;
}

static bool char_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static inline bool copy_plain_word(char *at, const char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof word);
    memcpy(at, &word, sizeof word);
    return word_is_plain(word);
}

/*
 * The front of s that needs no escape, copied eight bytes at a time, since nearly every text is such; its length. What is
 * left over is copied with some of what went before.
 */
static size_t put_plain(char *at, struct slice s)
{
    const size_t word = sizeof(uint64_t);
    size_t n = 0;

    while (n + word <= s.len && copy_plain_word(at + n, s.ptr + n))
        n += word;
    if (n < s.len && n + word > s.len && s.len >= word && copy_plain_word(at + s.len - word, s.ptr + s.len - word))
        return s.len;
    for (; n < s.len && char_is_plain((unsigned char)s.ptr[n]); n++)
        at[n] = s.ptr[n];
    return n;
}

char *put_json(char *at, struct slice bytes)
{
    size_t n;

    *at++ = '"';
    n = put_plain(at, bytes);
    at += n;
    if (n < bytes.len) {
        bool pass_high = slice_is_utf8(bytes);

        for (; n < bytes.len; n++) {
            unsigned char c = (unsigned char)bytes.ptr[n];

            if (c >= 0x80 ? pass_high : char_is_plain(c))
                *at++ = (char)c;
            else
                at = escape(at, c);
        }
    }
    *at++ = '"';
    return at;
}
