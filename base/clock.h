/* Time. Callers in pure code take `now` as a parameter and never call this. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Wall clock: nanoseconds and whole seconds since 1970 (UTC). */
int64_t clock_wall_ns(void);
int64_t clock_wall_s(void);
/* Monotonic: nanoseconds and milliseconds since some fixed point. */
int64_t clock_mono_ns(void);
int64_t clock_mono_ms(void);
/*
 * What clock_mono_ns said last in this thread: in a worker, when the event at work began (net/lane.h asks for each), or later.
 * To ask anew takes some 30 ns. 0: it was never called.
 */
int64_t clock_mono_lately_ns(void);

/* RFC 3339 in UTC with nanoseconds: 2026-01-02T03:04:05.000000006Z */
void clock_rfc3339(struct buf *out, int64_t wall_ns);
/* An HTTP date (RFC 9110 5.6.7): Fri, 02 Jan 2026 03:04:05 GMT */
void clock_http_date(struct buf *out, int64_t wall_s);
/* 03:04:05, in UTC */
void clock_time_of_day(struct buf *out, int64_t wall_s);
/* Reads RFC 3339 (fraction and offset optional as in RFC 3339), from 1677 to 2262: what 64 bits hold. */
bool clock_parse(struct slice text, int64_t *wall_ns);

#endif
