/*
 * Strikes: how often each source failed lately, so that guessing and flooding with forged tokens stay cheap for us.
 * Bounded: a fixed number of sources is remembered, the one that began longest ago is forgotten first. Pure.
 */
#ifndef AUTHZ_STRIKES_H
#define AUTHZ_STRIKES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct strikes;

/* At most most failures in window_s seconds from the first one; at most max_sources remembered. */
struct strikes *strikes_new(unsigned most, int64_t window_s, size_t max_sources);
void strikes_free(struct strikes *s);
/* Has source used up its failures? */
bool strikes_is_out(const struct strikes *s, struct slice source, int64_t now_s);
void strikes_add(struct strikes *s, struct slice source, int64_t now_s);

#endif
