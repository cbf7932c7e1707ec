/*
 * What one of several may take of what all use. The rule that every limit asks: a sandbox gets at most
 * 1/(active+1) of any common resource, where active counts it too. So one alone gets half, nobody can hold all, and
 * who comes next always finds room: n of them together hold n/(n+1). Pure.
 */
#ifndef PROXY_SHARE_H
#define PROXY_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct share {
    uint64_t own;    /* what one may take at most, however few there are; 0: nothing at all */
    uint64_t common; /* what there is for all; 0: it is nobody's common resource, own alone counts */
};

/* What each of active may hold now: at least 1, so that a full house never shuts somebody out for good. */
uint64_t share_most(const struct share *s, uint64_t active);
/* May one who holds held (or moved so much in the window) take more? */
bool share_allows(const struct share *s, uint64_t held, uint64_t more, uint64_t active);

#endif
