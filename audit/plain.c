#include "audit/plain.h"

#include <string.h>

#include "base/slice.h"

size_t plain_character(const char *text)
{
    static const char *const movers[] = {"\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d",
                                         "\u202e", "\u2060", "\u2066", "\u2067", "\u2068", "\u2069", "\u061c", "\ufeff", "\ufffe", "\uffff"};
    unsigned char first = (unsigned char)*text;
    size_t len = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

    if (len == 1)
        return first >= ' ' && first < 0x7f ? 1 : 0;
    if (strnlen(text, len) < len || !slice_is_utf8(slice_make(text, len)) || (first == 0xc2 && (unsigned char)text[1] < 0xa0))
        return 0;
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        if (slice_is(slice_make(text, len), movers[i]))
            return 0;
    return len;
}

/* The first bytes of a character, with nothing behind them: a text that was cut to its room. */
static bool is_cut(const char *text)
{
    unsigned char first = (unsigned char)*text;
    size_t have = strlen(text), len = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;

    for (size_t i = 1; i < have; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return false;
    return have < len;
}

void plain_make(char *text)
{
    while (*text) {
        size_t n = plain_character(text);

        if (n) {
            text += n;
        } else if (is_cut(text)) {
            *text = '\0';
        } else {
            *text++ = '?';
        }
    }
}
