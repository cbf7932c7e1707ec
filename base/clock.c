#include "base/clock.h"

#include <string.h>
#include <time.h>

#define LAST_S (INT64_MAX / 1000000000 - 1) /* what nanoseconds can count, to the end of the second */

static int64_t read_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

int64_t clock_wall_s(void)
{
    return clock_wall_ns() / 1000000000;
}

static _Thread_local int64_t lately_ns;

int64_t clock_mono_ns(void)
{
    return lately_ns = read_ns(CLOCK_MONOTONIC);
}

int64_t clock_mono_lately_ns(void)
{
    return lately_ns;
}

int64_t clock_mono_ms(void)
{
    return clock_mono_ns() / 1000000;
}

static struct tm utc(int64_t wall_s)
{
    time_t t = (time_t)wall_s;
    struct tm tm;

    gmtime_r(&t, &tm);
    return tm;
}

static void put2(char *at, int n)
{
    at[0] = (char)('0' + n / 10 % 10);
    at[1] = (char)('0' + n % 10);
}

void clock_rfc3339(struct buf *out, int64_t wall_ns)
{
    static int64_t cached_second = -1;
    static char cached[20]; /* "2026-01-02T03:04:05" */
    int64_t second = wall_ns / 1000000000;
    int64_t ns = wall_ns % 1000000000;
    char fraction[11];

    if (second != cached_second) {
        struct tm tm = utc(second);
        int year = tm.tm_year + 1900;

        put2(cached, year / 100);
        put2(cached + 2, year);
        cached[4] = cached[7] = '-';
        put2(cached + 5, tm.tm_mon + 1);
        put2(cached + 8, tm.tm_mday);
        cached[10] = 'T';
        put2(cached + 11, tm.tm_hour);
        put2(cached + 14, tm.tm_min);
        put2(cached + 17, tm.tm_sec);
        cached[13] = cached[16] = ':';
        cached_second = second;
    }
    fraction[0] = '.';
    for (int i = 9; i >= 1; i--) {
        fraction[i] = (char)('0' + ns % 10);
        ns /= 10;
    }
    fraction[10] = 'Z';
    buf_append(out, slice_make(cached, 19));
    buf_append(out, slice_make(fraction, 11));
}

void clock_http_date(struct buf *out, int64_t wall_s)
{
    struct tm tm = utc(wall_s);
    char text[40];

    buf_append(out, slice_make(text, strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm)));
}

void clock_time_of_day(struct buf *out, int64_t wall_s)
{
    struct tm tm = utc(wall_s);

    buf_printf(out, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static bool digits(struct slice *s, size_t n, uint64_t max, int *out)
{
    uint64_t value;

    if (s->len < n || !slice_decimal(slice_cut(*s, 0, n), max, &value))
        return false;
    *out = (int)value;
    *s = slice_from(*s, n);
    return true;
}

static bool literal(struct slice *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = slice_from(*s, 1);
    return true;
}

static bool parse_fraction(struct slice *s, int64_t *ns)
{
    int64_t unit = 100000000;

    *ns = 0;
    if (!literal(s, '.'))
        return true;
    if (s->len == 0 || s->ptr[0] < '0' || s->ptr[0] > '9')
        return false;
    while (s->len && s->ptr[0] >= '0' && s->ptr[0] <= '9') {
        *ns += (s->ptr[0] - '0') * unit;
        unit /= 10;
        *s = slice_from(*s, 1);
    }
    return true;
}

static bool parse_offset(struct slice *s, int64_t *seconds)
{
    int hours, minutes, sign;

    *seconds = 0;
    if (literal(s, 'Z') || literal(s, 'z'))
        return true;
    if (literal(s, '+'))
        sign = 1;
    else if (literal(s, '-'))
        sign = -1;
    else
        return false;
    if (!digits(s, 2, 23, &hours) || !literal(s, ':') || !digits(s, 2, 59, &minutes))
        return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

/* month: 0 to 11. */
static int days_of(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return month >= 0 && month < 12 ? days[month] + (month == 1 && leap) : 0;
}

bool clock_parse(struct slice text, int64_t *wall_ns)
{
    struct tm tm = {0};
    int64_t ns, offset, second;

    if (!digits(&text, 4, 9999, &tm.tm_year) || !literal(&text, '-') || !digits(&text, 2, 12, &tm.tm_mon) ||
        !literal(&text, '-') || !digits(&text, 2, 31, &tm.tm_mday) || !(literal(&text, 'T') || literal(&text, 't')) ||
        !digits(&text, 2, 23, &tm.tm_hour) || !literal(&text, ':') || !digits(&text, 2, 59, &tm.tm_min) ||
        !literal(&text, ':') || !digits(&text, 2, 60, &tm.tm_sec) || !parse_fraction(&text, &ns) ||
        !parse_offset(&text, &offset) || text.len)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    if (tm.tm_mday > days_of(tm.tm_year + 1900, tm.tm_mon))
        return false;
    second = (int64_t)timegm(&tm) - offset;
    if (second > LAST_S || second < -LAST_S)
        return false;
    *wall_ns = second * 1000000000 + ns;
    return true;
}
