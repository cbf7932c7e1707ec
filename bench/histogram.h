/* Latencies in microseconds, log-linear: 32 steps to each doubling, so a figure is off by at most 3 %. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS 32
#define HISTOGRAM_SLOTS (HISTOGRAM_STEPS * 40)

struct histogram {
    uint64_t count, max;
    uint64_t slots[HISTOGRAM_SLOTS];
};

void histogram_add(struct histogram *h, uint64_t us);
/* The value that so many of a thousand do not exceed; 0 when empty. */
uint64_t histogram_at(const struct histogram *h, unsigned per_mille);

#endif
