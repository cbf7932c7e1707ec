#include <endian.h>
#include <string.h>

#include "net/line.h"

static const bool token_bytes[256] = {
    ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['!'] = true, ['#'] = true, ['$'] = true,
    ['%'] = true,         ['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true, ['-'] = true,
    ['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true, ['|'] = true, ['~'] = true,
};

bool line_is_token(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!token_bytes[(unsigned char)s.ptr[i]])
            return false;
    return s.len > 0;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Eight bytes at once: the lowest marked bit belongs to the first control; 0 when there is none. */
static uint64_t mark_controls(const char *eight)
{
    const uint64_t ones = 0x0101010101010101, tops = ones << 7;
    uint64_t word, deleted;

    memcpy(&word, eight, sizeof word);
    word = le64toh(word);
    deleted = word ^ ones * 0x7f;
    return (((word - ones * 0x20) & ~word) | ((deleted - ones) & ~deleted)) & tops;
}

size_t line_control(struct slice s, size_t from)
{
    for (; from + 8 <= s.len; from += 8) {
        uint64_t marks = mark_controls(s.ptr + from);

        if (marks)
            return from + (size_t)__builtin_ctzll(marks) / 8;
    }
    while (from < s.len && !is_control(s.ptr[from]))
        from++;
    return from;
}

/* It does not begin with a token and a colon. */
static bool refuse_field(struct slice line, struct fault *why)
{
    if (line.len && (line.ptr[0] == ' ' || line.ptr[0] == '\t'))
        return fault_reason(why, REASON_REQUEST_MALFORMED, "a folded field line");
    if (slice_find(line, ':') < 0)
        return fault_reason(why, REASON_REQUEST_MALFORMED, "a field line without a colon");
    return fault_reason(why, REASON_REQUEST_MALFORMED, "a field name that is empty or not a token");
}

bool line_field(struct slice line, struct field *out, struct fault *why)
{
    size_t n = 0; /* of the name */

    while (n < line.len && token_bytes[(unsigned char)line.ptr[n]])
        n++;
    if (n == 0 || n == line.len || line.ptr[n] != ':')
        return refuse_field(line, why);
    out->name = slice_cut(line, 0, n);
    out->value = slice_trim(slice_from(line, n + 1));
    return true;
}

bool line_next(struct slice *s, struct slice *line)
{
    ptrdiff_t at = slice_find(*s, '\n');

    if (at < 1)
        return false;
    *line = slice_cut(*s, 0, (size_t)at - 1);
    *s = slice_from(*s, (size_t)at + 1);
    return true;
}
