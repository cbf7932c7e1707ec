/* A keyed hash of bytes (SipHash-2-4): who does not know the seed cannot choose what collides. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

#include "base/slice.h"

uint64_t hash_bytes(const uint64_t seed[2], struct slice bytes);

#endif
