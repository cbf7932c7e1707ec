/* The last line of defence: what looks like a JWT does not reach the disk, whoever let it get this far. */
#include <string.h>

#include "journal/record.h"

enum { TOKEN_MIN = 40 };

static bool is_base64url(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Length of a dot at s: 1, 3 when percent-encoded, 0 when there is none. */
static size_t dot_length(struct slice s)
{
    if (s.len && s.ptr[0] == '.')
        return 1;
    return slice_starts_nocase(s, SLICE("%2e")) ? 3 : 0;
}

/* Length of what looks like a token at the front of s (a text cut short counts, by the dots that mark the cut), or 0. */
static size_t token_length(struct slice s)
{
    size_t at = 0, dots = 0;

    /* {" and {SPACE" in base64url: how a header begins */
    if (!slice_starts(s, SLICE("eyJ")) && !slice_starts(s, SLICE("eyAi")))
        return 0;
    while (at < s.len) {
        size_t dot = dot_length(slice_from(s, at));

        if (!dot && !is_base64url(s.ptr[at]))
            break;
        dots += dot > 0;
        at += dot ? dot : 1;
    }
    return dots >= 2 && at >= TOKEN_MIN ? at : 0;
}

/* The next "ey" at or after from, or -1. By its second letter: memchr is far quicker than memmem, and e is everywhere. */
static ptrdiff_t next_ey(struct slice s, size_t from)
{
    while (++from < s.len) {
        const char *y = memchr(s.ptr + from, 'y', s.len - from);

        if (!y)
            return -1;
        if (y[-1] == 'e')
            return y - 1 - s.ptr;
        from = (size_t)(y - s.ptr);
    }
    return -1;
}

size_t record_redact(struct buf *out, size_t from)
{
    static const struct slice mark = {"[token removed]", 15};
    size_t removed = 0;

    for (;;) {
        struct slice all = buf_slice(out);
        ptrdiff_t at = next_ey(all, from);
        size_t len;

        if (at < 0)
            return removed;
        len = token_length(slice_from(all, (size_t)at));
        from = (size_t)at + (len ? mark.len : 2);
        if (!len)
            continue;
        char *token = (char *)all.ptr + at;

        memcpy(token, mark.ptr, mark.len);
        memmove(token + mark.len, token + len, all.len - (size_t)at - len);
        buf_truncate(out, all.len - len + mark.len);
        removed++;
    }
}
