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

size_t record_redact(struct buf *out, size_t from)
{
    static const struct slice mark = {"[token removed]", 15};
    size_t removed = 0;

    for (;;) {
        struct slice rest = slice_from(buf_slice(out), from);
        char *at = rest.len ? memmem(rest.ptr, rest.len, "ey", 2) : NULL;
        size_t len;

        if (!at)
            return removed;
        rest = slice_from(rest, (size_t)(at - rest.ptr));
        len = token_length(rest);
        from = (size_t)(at - buf_slice(out).ptr) + (len ? mark.len : 2);
        if (!len)
            continue;
        memcpy(at, mark.ptr, mark.len);
        memmove(at + mark.len, at + len, rest.len - len);
        buf_truncate(out, buf_len(out) - len + mark.len);
        removed++;
    }
}
