/*
 * How much happened lately: a sliding window out of two fixed ones. What the window before held counts for the part of
 * it that is not over yet, so that nobody gets twice the limit around the turn of a window. Pure; the struct may lie in shared
 * memory that one process writes and others read: every word is written whole, and a reader who catches a turn of the
 * window is wrong for one look.
 */
#ifndef PROXY_PACE_H
#define PROXY_PACE_H

#include <stdint.h>

struct pace {
    _Atomic uint64_t window; /* number of the window that now counts in; 0: nothing happened yet */
    _Atomic uint64_t now, before;
};

/* n more, at now_ms. Only the owner calls this. */
void pace_add(struct pace *p, int64_t window_ms, int64_t now_ms, uint64_t n);
/* How much in the last window_ms. At most PACE_MOST, whatever stands in memory that somebody else writes. */
uint64_t pace_sum(const struct pace *p, int64_t window_ms, int64_t now_ms);
/* Until the window turns: when to ask again. */
int64_t pace_wait_ms(int64_t window_ms, int64_t now_ms);

#define PACE_MOST (UINT64_C(1) << 50)

#endif
