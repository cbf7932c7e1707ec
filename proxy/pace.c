#include "proxy/pace.h"

#include <stdatomic.h>

static uint64_t get(const _Atomic uint64_t *word)
{
    uint64_t n = atomic_load_explicit((_Atomic uint64_t *)word, memory_order_relaxed);

    return n < PACE_MOST ? n : PACE_MOST;
}

static void put(_Atomic uint64_t *word, uint64_t n)
{
    atomic_store_explicit(word, n, memory_order_relaxed);
}

/* Never 0, which stands for a pace that was never used. */
static uint64_t number(int64_t window_ms, int64_t now_ms)
{
    return (uint64_t)(now_ms / window_ms) + 1;
}

void pace_add(struct pace *p, int64_t window_ms, int64_t now_ms, uint64_t n)
{
    uint64_t w = number(window_ms, now_ms), was = get(&p->window);

    if (was != w) {
        put(&p->before, was + 1 == w ? get(&p->now) : 0);
        put(&p->now, 0);
        put(&p->window, w);
    }
    put(&p->now, get(&p->now) + (n < PACE_MOST ? n : PACE_MOST));
}

uint64_t pace_sum(const struct pace *p, int64_t window_ms, int64_t now_ms)
{
    uint64_t w = number(window_ms, now_ms), was = get(&p->window), left = (uint64_t)(window_ms - now_ms % window_ms);
    uint64_t now = get(&p->now), before = get(&p->before);

    if (was + 1 == w) {
        before = now;
        now = 0;
    } else if (was != w) {
        return 0;
    }
    /* The part of the window before that is still inside the last window_ms, rounded up. In double: the product may not fit. */
    before = (uint64_t)((double)before * (double)left / (double)window_ms + 0.999);
    return now + before < PACE_MOST ? now + before : PACE_MOST;
}

int64_t pace_wait_ms(int64_t window_ms, int64_t now_ms)
{
    return window_ms - now_ms % window_ms;
}
