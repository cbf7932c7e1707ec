/* Knows the query parameters of signed URLs. */
#include "handoff/presigned.h"

#include <stdio.h>
#include <time.h>

enum { VALUE_MOST = 32 };

/* What a query says that matters here, decoded and cut; "" when it is not there. */
struct signs {
    bool amz, goog, sas, plain; /* a signature of that kind */
    char for_s[VALUE_MOST];     /* seconds from its date */
    char at_s[VALUE_MOST];      /* seconds since 1970 */
    char until[VALUE_MOST];     /* RFC 3339 */
    char permits[VALUE_MOST];
};

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static void decode(struct slice value, char out[VALUE_MOST])
{
    size_t n = 0;

    for (size_t i = 0; i < value.len && n + 1 < VALUE_MOST; i++) {
        char c = value.ptr[i];

        if (c == '%' && i + 2 < value.len && hex(value.ptr[i + 1]) >= 0 && hex(value.ptr[i + 2]) >= 0) {
            c = (char)(hex(value.ptr[i + 1]) << 4 | hex(value.ptr[i + 2]));
            i += 2;
        }
        out[n++] = c;
    }
    out[n] = '\0';
}

static void take(struct signs *s, struct slice name, struct slice value)
{
    if (slice_is_nocase(name, "X-Amz-Signature"))
        s->amz = true;
    else if (slice_is_nocase(name, "X-Goog-Signature"))
        s->goog = true;
    else if (slice_is_nocase(name, "sig"))
        s->sas = true;
    else if (slice_is_nocase(name, "Signature"))
        s->plain = true;
    else if (slice_is_nocase(name, "X-Amz-Expires") || slice_is_nocase(name, "X-Goog-Expires"))
        decode(value, s->for_s);
    else if (slice_is_nocase(name, "Expires"))
        decode(value, s->at_s);
    else if (slice_is_nocase(name, "se"))
        decode(value, s->until);
    else if (slice_is_nocase(name, "sp"))
        decode(value, s->permits);
}

/* "2026-01-02T03:04:05Z", "2026-01-02" */
static bool read_time(const char *text, int64_t *out)
{
    struct tm tm = {0};

    if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm)) {
        tm = (struct tm){0};
        if (!strptime(text, "%Y-%m-%d", &tm))
            return false;
    }
    *out = timegm(&tm);
    return true;
}

static int64_t left(int64_t until_s, int64_t now_s)
{
    return until_s > now_s ? until_s - now_s : 0;
}

static int64_t lifetime(const struct signs *s, int64_t now_s)
{
    int64_t until;
    uint64_t n;

    if ((s->amz || s->goog) && slice_decimal(slice_of(s->for_s), INT32_MAX, &n))
        return (int64_t)n;
    if (s->sas && read_time(s->until, &until))
        return left(until, now_s);
    if (s->plain && slice_decimal(slice_of(s->at_s), INT64_MAX, &n))
        return left((int64_t)n, now_s);
    return -1;
}

/* Azure's permissions: the most that one of them allows. */
static const char *method_of(const struct signs *s)
{
    struct slice permits = slice_of(s->permits);

    if (!s->sas || permits.len == 0)
        return "";
    if (slice_find(permits, 'd') >= 0)
        return "DELETE";
    return slice_find(permits, 'w') >= 0 || slice_find(permits, 'c') >= 0 || slice_find(permits, 'a') >= 0 ? "PUT" : "GET";
}

bool presigned_read(struct slice query, int64_t now_s, struct presigned *out)
{
    struct signs s = {0};
    struct slice piece;

    *out = (struct presigned){.lifetime_s = -1};
    if (query.len == 0)
        return false;
    while (slice_next(&query, '&', &piece)) {
        ptrdiff_t end = slice_find(piece, '=');

        if (end > 0)
            take(&s, slice_cut(piece, 0, (size_t)end), slice_from(piece, (size_t)end + 1));
    }
    if (!s.amz && !s.goog && !(s.sas && s.until[0]) && !(s.plain && s.at_s[0]))
        return false;
    out->lifetime_s = lifetime(&s, now_s);
    snprintf(out->method, sizeof out->method, "%s", method_of(&s));
    return true;
}
