#include "net/line.h"

bool line_is_token(struct slice s)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && slice_find(slice_make(marks, sizeof marks - 1), c) < 0)
            return false;
    }
    return s.len > 0;
}

static bool is_value(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

bool line_field(struct slice line, struct field *out, struct fault *why)
{
    ptrdiff_t colon = slice_find(line, ':');

    if (line.len && (line.ptr[0] == ' ' || line.ptr[0] == '\t'))
        return fault_reason(why, REASON_REQUEST_MALFORMED, "a folded field line");
    if (colon < 0)
        return fault_reason(why, REASON_REQUEST_MALFORMED, "a field line without a colon");
    out->name = slice_cut(line, 0, (size_t)colon);
    out->value = slice_trim(slice_from(line, (size_t)colon + 1));
    if (!line_is_token(out->name))
        return fault_reason(why, REASON_REQUEST_MALFORMED, "a field name that is empty or not a token");
    return is_value(out->value) || fault_reason(why, REASON_REQUEST_MALFORMED, "a control character in a field value");
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
