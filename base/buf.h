/*
 * Growable bytes with a consumed front: a queue, a string builder and a
 * message under construction. A zeroed struct is an empty buffer.
 * Growth failure aborts the role (style: small allocations may abort); callers
 * cap what a peer can make them hold.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <assert.h>
#include <stdarg.h>

#include "base/slice.h"

struct buf {
    char *ptr;
    size_t start; /* first byte not yet consumed */
    size_t end;   /* one past the last byte */
    size_t cap;
};

/* What is held, borrowed until the next change. */
static inline struct slice buf_slice(const struct buf *b)
{
    return slice_make(b->ptr ? b->ptr + b->start : "", b->end - b->start);
}

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}

void buf_text(struct buf *b, const char *text);
void buf_decimal(struct buf *b, uint64_t n);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *format, va_list args);

/* buf_reserve when there is no room yet. */
char *buf_grow(struct buf *b, size_t n);

/* Make room for n more bytes and return where they go; buf_commit says how many came. */
static inline char *buf_reserve(struct buf *b, size_t n)
{
    return b->ptr && b->cap - b->end >= n ? b->ptr + b->end : buf_grow(b, n);
}

static inline void buf_commit(struct buf *b, size_t n)
{
    assert(n <= b->cap - b->end);
    b->end += n;
}

static inline void buf_append(struct buf *b, struct slice s)
{
    if (s.len == 0)
        return;
    memcpy(buf_reserve(b, s.len), s.ptr, s.len);
    b->end += s.len;
}

static inline void buf_char(struct buf *b, char c)
{
    if (b->end == b->cap)
        buf_grow(b, 1);
    b->ptr[b->end++] = c;
}

/* Drop n bytes from the front (n <= buf_len). */
void buf_consume(struct buf *b, size_t n);
/* Shorten to n bytes (n <= buf_len). */
void buf_truncate(struct buf *b, size_t n);

/* Empty, memory kept. */
void buf_clear(struct buf *b);
/* Empty, memory freed; the struct can be used again. */
void buf_free(struct buf *b);
/* As buf_free, bytes wiped first. */
void buf_wipe(struct buf *b);

/* Give the bytes as a NUL-terminated text (receiver frees); the buffer is empty after. */
char *buf_take_text(struct buf *b);

#endif
