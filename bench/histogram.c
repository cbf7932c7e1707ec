#include "bench/histogram.h"

/* Below 64 each value has its slot; above, the five bits after the leading one choose among 32. */
static unsigned slot_of(uint64_t us)
{
    unsigned doubling = 0;

    while (us >> doubling >= 2 * HISTOGRAM_STEPS)
        doubling++;
    unsigned slot = doubling * HISTOGRAM_STEPS + (unsigned)(us >> doubling);
    return slot < HISTOGRAM_SLOTS ? slot : HISTOGRAM_SLOTS - 1;
}

/* The largest value of a slot. */
static uint64_t value_of(unsigned slot)
{
    unsigned doubling = slot < 2 * HISTOGRAM_STEPS ? 0 : slot / HISTOGRAM_STEPS - 1;

    return (((uint64_t)(slot - doubling * HISTOGRAM_STEPS) + 1) << doubling) - 1;
}

void histogram_add(struct histogram *h, uint64_t us)
{
    h->slots[slot_of(us)]++;
    h->count++;
    if (us > h->max)
        h->max = us;
}

uint64_t histogram_at(const struct histogram *h, unsigned per_mille)
{
    uint64_t left = (h->count * per_mille + 999) / 1000;

    for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++) {
        if (left <= h->slots[i])
            return value_of(i) < h->max ? value_of(i) : h->max;
        left -= h->slots[i];
    }
    return h->max;
}
