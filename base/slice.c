/* Owns nothing: every function here only looks. */
#include "base/slice.h"

#include <string.h>
#include <strings.h>

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Eight bytes, their large ASCII letters made small: the top bit of each byte of `letters` says that it is one. */
static uint64_t lower_eight(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101U, tops = ones * 0x80;
    uint64_t low = word & ~tops, letters = (low + ones * (0x80 - 'A')) & ~(low + ones * (0x7f - 'Z')) & ~word & tops;

    return word | letters >> 2;
}

static uint64_t lower_word(const char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof word);
    return lower_eight(word);
}

/* Of four to eight bytes: the first four and the last four. */
static uint64_t lower_short(const char *from, size_t n)
{
    uint32_t front, back;

    memcpy(&front, from, sizeof front);
    memcpy(&back, from + n - sizeof back, sizeof back);
    return lower_eight((uint64_t)front << 32 | back);
}

bool slice_folds_alike(const char *a, const char *b, size_t n)
{
    size_t i = 0;

    if (n >= 8) { /* the last word may have some of the one before it */
        for (; i + 8 <= n; i += 8)
            if (lower_word(a + i) != lower_word(b + i))
                return false;
        return i == n || lower_word(a + n - 8) == lower_word(b + n - 8);
    }
    if (n >= 4)
        return lower_short(a, n) == lower_short(b, n);
    for (; i < n; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

bool slice_starts(struct slice s, struct slice prefix)
{
    return s.len >= prefix.len && slice_equals(slice_cut(s, 0, prefix.len), prefix);
}

bool slice_starts_nocase(struct slice s, struct slice prefix)
{
    return s.len >= prefix.len && slice_equals_nocase(slice_cut(s, 0, prefix.len), prefix);
}

bool slice_ends(struct slice s, struct slice suffix)
{
    return s.len >= suffix.len && slice_equals(slice_from(s, s.len - suffix.len), suffix);
}

ptrdiff_t slice_find(struct slice s, char c)
{
    const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;

    return at ? at - s.ptr : -1;
}

ptrdiff_t slice_search(struct slice s, struct slice needle)
{
    if (needle.len == 0)
        return 0;
    for (size_t i = 0; i + needle.len <= s.len; i++) {
        const char *at = memchr(s.ptr + i, needle.ptr[0], s.len - needle.len - i + 1);

        if (!at)
            return -1;
        i = (size_t)(at - s.ptr);
        if (memcmp(at, needle.ptr, needle.len) == 0)
            return (ptrdiff_t)i;
    }
    return -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice s)
{
    while (s.len && is_blank(s.ptr[0]))
        s = slice_from(s, 1);
    while (s.len && is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

bool slice_next(struct slice *s, char sep, struct slice *piece)
{
    ptrdiff_t at;

    if (!s->ptr)
        return false;
    at = slice_find(*s, sep);
    if (at < 0) {
        *piece = *s;
        *s = (struct slice){NULL, 0};
    } else {
        *piece = slice_cut(*s, 0, (size_t)at);
        *s = slice_from(*s, (size_t)at + 1);
    }
    return true;
}

bool slice_decimal(struct slice s, uint64_t max, uint64_t *out)
{
    uint64_t n = 0;

    if (s.len == 0 || s.len > 19)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    if (n > max)
        return false;
    *out = n;
    return true;
}

int slice_compare(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.ptr, b.ptr, n) : 0;

    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

/* Length of the UTF-8 sequence that starts s, 0 when there is no valid one. */
static size_t utf8_step(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80, high = 0xBF;
    size_t n;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF)
        n = 2;
    else if (p[0] >= 0xE0 && p[0] <= 0xEF)
        n = 3;
    else if (p[0] >= 0xF0 && p[0] <= 0xF4)
        n = 4;
    else
        return 0;
    if (p[0] == 0xE0)
        low = 0xA0;
    else if (p[0] == 0xED)
        high = 0x9F;
    else if (p[0] == 0xF0)
        low = 0x90;
    else if (p[0] == 0xF4)
        high = 0x8F;
    if (left < n || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return n;
}

bool slice_is_utf8(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;

    for (size_t i = 0; i < s.len;) {
        size_t n = utf8_step(p + i, s.len - i);

        if (n == 0)
            return false;
        i += n;
    }
    return true;
}
