/* Owns the spelling of paths; knows nothing of rules. */
#include "authz/path.h"

#include <string.h>

enum kind {
    PLAIN = 'p',  /* stands for itself: unreserved, sub-delims, ':' and '@' (RFC 3986 3.3) */
    SLASH = '/',
    ESCAPE = '%',
    ODD = 'o',    /* printable, but only allowed encoded */
    BAD = '-',
};

static enum kind kind_of(char c)
{
    static const char kinds[] = "----------------"
                                "----------------"
                                "-po-p%ppppppppp/" /*  !"#$%&'()*+,-./ */
                                "ppppppppppppopo-" /* 0123456789:;<=>? */
                                "pppppppppppppppp" /* @ABCDEFGHIJKLMNO */
                                "pppppppppppo-oop" /* PQRSTUVWXYZ[\]^_ */
                                "oppppppppppppppp" /* `abcdefghijklmno */
                                "pppppppppppooop-"; /* pqrstuvwxyz{|}~ */

    return (unsigned char)c < 128 ? (enum kind)kinds[(unsigned char)c] : BAD;
}

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of the escape at the start of s, or -1. */
static int escape_value(struct slice s)
{
    if (s.len < 3 || s.ptr[0] != '%' || hex_value(s.ptr[1]) < 0 || hex_value(s.ptr[2]) < 0)
        return -1;
    return hex_value(s.ptr[1]) << 4 | hex_value(s.ptr[2]);
}

static size_t put_escape(char *at, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";

    at[0] = '%';
    at[1] = digits[c >> 4];
    at[2] = digits[c & 15];
    return 3;
}

static bool refuse(struct fault *why, const char *what)
{
    return fault_reason(why, REASON_PATH_INVALID, "the path has %s", what);
}

/* "." and "..", alone or before a parameter. */
static bool is_dot_segment(const char *segment, const char *end)
{
    const char *at = segment;

    while (at < end && at - segment < 2 && *at == '.')
        at++;
    if (at == segment)
        return false;
    return at == end || *at == ';' || (end - at >= 3 && memcmp(at, "%3B", 3) == 0);
}

/* Copy the escapes of one UTF-8 character above ASCII; the bytes taken from s, or 0. */
static size_t put_utf8(struct slice s, char **at, struct fault *why)
{
    unsigned char bytes[4];
    size_t want, n = 0;
    int value = escape_value(s);

    want = value >= 0xf0 ? 4 : value >= 0xe0 ? 3 : 2;
    while (n < want && (value = escape_value(slice_from(s, 3 * n))) >= 0x80)
        bytes[n++] = (unsigned char)value;
    if (n < want || !slice_is_utf8(slice_make(bytes, n)))
        return refuse(why, "escapes that are not UTF-8");
    if (bytes[0] == 0xc2 && bytes[1] < 0xa0)
        return refuse(why, "an encoded control");
    for (size_t i = 0; i < n; i++)
        *at += put_escape(*at, bytes[i]);
    return 3 * n;
}

/* One escape at the start of s; the bytes taken from it, or 0. */
static size_t put_decoded(struct slice s, char **at, struct fault *why)
{
    int value = escape_value(s);

    if (value < 0)
        return refuse(why, "a percent sign without two hexadecimal digits");
    if (value < 0x20 || value == 0x7f)
        return refuse(why, "an encoded control");
    if (value == '\\')
        return refuse(why, "an encoded backslash");
    if (value >= 0x80)
        return put_utf8(s, at, why);
    if (is_unreserved((unsigned char)value))
        *(*at)++ = (char)value;
    else
        *at += put_escape(*at, (unsigned char)value);
    return 3;
}

static bool refuse_byte(unsigned char c, struct fault *why)
{
    if (c > 0x20 && c < 0x7f)
        return fault_reason(why, REASON_PATH_INVALID, "the path has a '%c'", c);
    if (c >= 0x80)
        return refuse(why, "an octet that is not ASCII; it must be percent-encoded");
    return refuse(why, c == ' ' ? "a space" : "a control");
}

/* Write what s spells at *at, which has room; dot segments end at slashes and at encoded ones. */
static bool spell(struct slice s, char **at, struct fault *why)
{
    char *segment = *at, *before;
    size_t taken;

    for (size_t i = 0; i < s.len; i += taken) {
        enum kind kind = kind_of(s.ptr[i]);

        before = *at;
        taken = 1;
        if (kind == PLAIN || kind == SLASH)
            *(*at)++ = s.ptr[i];
        else if (kind == ODD)
            *at += put_escape(*at, (unsigned char)s.ptr[i]);
        else if (kind == BAD)
            return refuse_byte((unsigned char)s.ptr[i], why);
        else if ((taken = put_decoded(slice_from(s, i), at, why)) == 0)
            return false;
        if (kind == SLASH || (kind == ESCAPE && *at - before == 3 && memcmp(before, "%2F", 3) == 0)) {
            if (is_dot_segment(segment, before))
                return refuse(why, "a dot segment");
            segment = *at;
        }
    }
    return !is_dot_segment(segment, *at) || refuse(why, "a dot segment");
}

/* "%25" and two digits, however they were written, would be another escape for who decodes twice. */
static bool has_double_escape(struct slice canonical)
{
    ptrdiff_t at;

    while ((at = slice_search(canonical, SLICE("%25"))) >= 0) {
        canonical = slice_from(canonical, (size_t)at + 3);
        if (canonical.len >= 2 && hex_value(canonical.ptr[0]) >= 0 && hex_value(canonical.ptr[1]) >= 0)
            return true;
    }
    return false;
}

/* How long the canonical spelling may become. */
static size_t room_for(struct slice raw)
{
    size_t n = raw.len;

    for (size_t i = 0; i < raw.len; i++)
        n += kind_of(raw.ptr[i]) == ODD ? 2 : 0;
    return n;
}

bool path_canonical(struct slice raw, struct buf *out, struct fault *why)
{
    char *start, *at;

    if (raw.len == 0 || raw.ptr[0] != '/')
        return refuse(why, "no leading slash");
    start = at = buf_reserve(out, room_for(raw));
    if (!spell(raw, &at, why))
        return false;
    if (slice_find(raw, '%') >= 0 && has_double_escape(slice_make(start, (size_t)(at - start))))
        return refuse(why, "a percent sign that is encoded twice");
    buf_commit(out, (size_t)(at - start));
    return true;
}

bool path_is_loose(struct slice canonical)
{
    return slice_find(canonical, '%') >= 0 || slice_find(canonical, ';') >= 0 ||
           slice_search(canonical, SLICE("//")) >= 0;
}

void path_loosen(struct slice canonical, struct buf *out)
{
    char *start = buf_reserve(out, canonical.len), *at = start;
    bool parameter = false;

    for (size_t i = 0; i < canonical.len; i++) {
        int value = escape_value(slice_from(canonical, i));
        char c = value >= 0 ? (char)value : canonical.ptr[i];

        i += value >= 0 ? 2 : 0;
        if (c == '/')
            parameter = false;
        else if (c == ';')
            parameter = true;
        if (parameter || (c == '/' && at > start && at[-1] == '/'))
            continue;
        *at++ = c;
    }
    buf_commit(out, (size_t)(at - start));
}

size_t path_unit(struct slice *s, char unit[3], bool *bad)
{
    size_t n = 1;
    int value;

    if (s->len == 0)
        return 0;
    unit[0] = s->ptr[0];
    if (unit[0] == '%') {
        if ((value = escape_value(*s)) < 0) {
            *bad = true;
            return 0;
        }
        if (is_unreserved((unsigned char)value))
            unit[0] = (char)value;
        else
            n = put_escape(unit, (unsigned char)value);
        *s = slice_from(*s, 2);
    }
    *s = slice_from(*s, 1);
    return n;
}
