#include "base/pack.h"

#include <endian.h>
#include <string.h>

static inline void pack_number(struct buf *b, uint64_t n, size_t width)
{
    n = htole64(n);
    buf_append(b, slice_make(&n, width));
}

void pack_u8(struct buf *b, uint8_t n)
{
    pack_number(b, n, 1);
}

void pack_u16(struct buf *b, uint16_t n)
{
    pack_number(b, n, 2);
}

void pack_u32(struct buf *b, uint32_t n)
{
    pack_number(b, n, 4);
}

void pack_u64(struct buf *b, uint64_t n)
{
    pack_number(b, n, 8);
}

void pack_bytes(struct buf *b, struct slice s)
{
    pack_u32(b, (uint32_t)s.len);
    buf_append(b, s);
}

struct unpack unpack_start(struct slice message)
{
    return (struct unpack){.left = message};
}

static uint64_t unpack_number(struct unpack *u, size_t width)
{
    uint64_t n = 0;

    if (u->bad || u->left.len < width) {
        u->bad = true;
        return 0;
    }
    memcpy(&n, u->left.ptr, width);
    u->left = slice_from(u->left, width);
    return le64toh(n);
}

uint8_t unpack_u8(struct unpack *u)
{
    return (uint8_t)unpack_number(u, 1);
}

uint16_t unpack_u16(struct unpack *u)
{
    return (uint16_t)unpack_number(u, 2);
}

uint32_t unpack_u32(struct unpack *u)
{
    return (uint32_t)unpack_number(u, 4);
}

uint64_t unpack_u64(struct unpack *u)
{
    return unpack_number(u, 8);
}

struct slice unpack_bytes(struct unpack *u)
{
    size_t len = unpack_u32(u);
    struct slice out;

    if (u->bad || u->left.len < len) {
        u->bad = true;
        return slice_make("", 0);
    }
    out = slice_cut(u->left, 0, len);
    u->left = slice_from(u->left, len);
    return out;
}

bool unpack_done(const struct unpack *u)
{
    return !u->bad && u->left.len == 0;
}
