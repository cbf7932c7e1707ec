/* Owns nothing: bytes to text, one after another. */
#include "base/put.h"

static size_t decimal_len(uint64_t n)
{
    size_t len = 0;

    for (; n >= 10000; n /= 10000)
        len += 4;
    if (n < 100)
        return len + (n < 10 ? 1 : 2);
    return len + (n < 1000 ? 3 : 4);
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

/* ---- sixteen bytes at once: most of what is put is digits in hex and text that nothing is escaped in ---- */

typedef signed char block __attribute__((vector_size(16)));
typedef uint64_t words __attribute__((vector_size(16)));
typedef uint32_t half_words __attribute__((vector_size(16)));

static inline block block_load(const char *from)
{
    block b;

    memcpy(&b, from, sizeof b);
    return b;
}

/* ---- hexadecimal ---- */

static inline block digits_of(block halves)
{
    return halves + '0' + ((halves > 9) & ('a' - '9' - 1));
}

static char *put_hex_block(char *at, const char *from)
{
    block bytes = block_load(from), high = digits_of(bytes >> 4 & 15), low = digits_of(bytes & 15);
    block front = __builtin_shufflevector(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    block back = __builtin_shufflevector(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);

    memcpy(at, &front, sizeof front);
    memcpy(at + sizeof front, &back, sizeof back);
    return at + PUT_HEX_MAX(sizeof bytes);
}

char *put_hex(char *at, struct slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    const char *p = bytes.ptr, *end = p + bytes.len;

    for (; end - p >= (ptrdiff_t)sizeof(block); p += sizeof(block))
        at = put_hex_block(at, p);
    for (; p < end; p++) {
        *at++ = digits[(unsigned char)*p >> 4];
        *at++ = digits[*p & 15];
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

/* Nothing but ASCII that JSON takes as it is? What is not ASCII is less than zero here. */
static inline bool block_is_plain(block b)
{
    block marks = (b < ' ') | (b == '"') | (b == '\\') | (b == 0x7f);
    uint64_t halves[2];

    memcpy(halves, &marks, sizeof halves);
    return (halves[0] | halves[1]) == 0;
}

static bool char_is_plain(char c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

static inline bool copy_plain_block(char *at, const char *from)
{
    block b = block_load(from);

    memcpy(at, &b, sizeof b);
    return block_is_plain(b);
}

/* Eight to fifteen bytes, or four to seven: as two halves that may overlap. */
static inline bool copy_plain_words(char *at, const char *from, size_t n)
{
    uint64_t front, back;

    memcpy(&front, from, sizeof front);
    memcpy(&back, from + n - sizeof back, sizeof back);
    memcpy(at, &front, sizeof front);
    memcpy(at + n - sizeof back, &back, sizeof back);
    return block_is_plain((block)(words){front, back});
}

static inline bool copy_plain_half_words(char *at, const char *from, size_t n)
{
    uint32_t front, back;

    memcpy(&front, from, sizeof front);
    memcpy(&back, from + n - sizeof back, sizeof back);
    memcpy(at, &front, sizeof front);
    memcpy(at + n - sizeof back, &back, sizeof back);
    return block_is_plain((block)(half_words){front, front, back, back});
}

static inline size_t put_plain_blocks(char *at, struct slice s)
{
    const size_t size = sizeof(block);
    size_t n = 0;

    for (; n + size <= s.len; n += size)
        if (!copy_plain_block(at + n, s.ptr + n))
            return n;
    return copy_plain_block(at + s.len - size, s.ptr + s.len - size) ? s.len : n;
}

/* Copy s while it is plain: nearly always all of it. How much was copied, which may be less than could be. */
static inline size_t put_plain(char *at, struct slice s)
{
    size_t n = 0;

    if (s.len >= sizeof(block))
        return put_plain_blocks(at, s);
    if (s.len >= sizeof(uint64_t))
        return copy_plain_words(at, s.ptr, s.len) ? s.len : 0;
    if (s.len >= sizeof(uint32_t))
        return copy_plain_half_words(at, s.ptr, s.len) ? s.len : 0;
    for (; n < s.len && char_is_plain(s.ptr[n]); n++)
        at[n] = s.ptr[n];
    return n;
}

/* The rest of bytes, behind a front that is written. Apart, for what it needs on the stack put_json should not set up each time. */
static __attribute__((noinline)) char *put_escaped(char *at, struct slice bytes, size_t front)
{
    bool pass_high = slice_is_utf8(bytes);

    for (size_t n = front; n < bytes.len; n++) {
        char c = bytes.ptr[n];

        if (c < 0 ? pass_high : char_is_plain(c))
            *at++ = c;
        else
            at = escape(at, (unsigned char)c);
    }
    return at;
}

char *put_json(char *at, struct slice bytes)
{
    size_t plain;

    *at++ = '"';
    plain = put_plain(at, bytes);
    at = plain == bytes.len ? at + plain : put_escaped(at + plain, bytes, plain);
    *at++ = '"';
    return at;
}
