/*
 * Messages between roles: fixed-width little-endian numbers and length-prefixed
 * bytes. Writing appends to a buf; reading checks every length and the exact end.
 */
#ifndef BASE_PACK_H
#define BASE_PACK_H

#include "base/buf.h"

void pack_u8(struct buf *b, uint8_t n);
void pack_u16(struct buf *b, uint16_t n);
void pack_u32(struct buf *b, uint32_t n);
void pack_u64(struct buf *b, uint64_t n);
/* u32 length and the bytes. */
void pack_bytes(struct buf *b, struct slice s);

/* A cursor over a message. Once a read fails, bad stays set and every later read gives 0. */
struct unpack {
    struct slice left;
    bool bad;
};

struct unpack unpack_start(struct slice message);
uint8_t unpack_u8(struct unpack *u);
uint16_t unpack_u16(struct unpack *u);
uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
/* Borrowed from the message. */
struct slice unpack_bytes(struct unpack *u);
/* True when every read succeeded and nothing is left. */
bool unpack_done(const struct unpack *u);

#endif
