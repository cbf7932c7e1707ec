/*
 * Which names were seen within the hour, and a little longer: the hour that is and the one before it, as keyed hashes that the caller makes
 * (base/hash.h; 0 is none). Pure.
 */
#ifndef PROXY_SEEN_H
#define PROXY_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEEN_MS = 3600 * 1000 };

struct seen;

struct seen *seen_new(void);
void seen_free(struct seen *s);
bool seen_has(struct seen *s, uint64_t hash, int64_t now_ms);
/* One that seen_has does not know, or that it knows of the hour before alone: it is seen in this one. */
void seen_add(struct seen *s, uint64_t hash, int64_t now_ms);
/* Was it, in this hour? */
bool seen_is_fresh(struct seen *s, uint64_t hash, int64_t now_ms);
/* How many this hour has. */
size_t seen_count(struct seen *s, int64_t now_ms);

#endif
