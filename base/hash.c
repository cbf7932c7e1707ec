/* SipHash-2-4 (Aumasson and Bernstein, 2012). */
#include "base/hash.h"

#include <endian.h>
#include <string.h>

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static inline void take_in(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

/* Little-endian, whatever the machine is: the same bytes have the same hash everywhere. */
static uint64_t word_at(const char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof word);
    return le64toh(word);
}

uint64_t hash_bytes(const uint64_t seed[2], struct slice bytes)
{
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575, seed[1] ^ 0x646f72616e646f6d, seed[0] ^ 0x6c7967656e657261,
                     seed[1] ^ 0x7465646279746573};
    uint64_t last = (uint64_t)bytes.len << 56;
    size_t i = 0;

    for (; i + 8 <= bytes.len; i += 8)
        take_in(v, word_at(bytes.ptr + i));
    for (unsigned shift = 0; i < bytes.len; i++, shift += 8)
        last |= (uint64_t)(unsigned char)bytes.ptr[i] << shift;
    take_in(v, last);
    v[2] ^= 0xff;
    for (int round = 0; round < 4; round++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
