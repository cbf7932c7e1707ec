/*
 * Growable bytes with a consumed front: a queue, a string builder and a
 * message under construction. A zeroed struct is an empty buffer.
 * Growth failure aborts the role (style: small allocations may abort); callers
 * cap what a peer can make them hold.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>

#include "base/slice.h"

struct buf {
    char *ptr;
    size_t start; /* first byte not yet consumed */
    size_t end;   /* one past the last byte */
    size_t cap;
};

/* What is held, borrowed until the next change. */
struct slice buf_slice(const struct buf *b);
size_t buf_len(const struct buf *b);

void buf_append(struct buf *b, struct slice s);
void buf_text(struct buf *b, const char *text);
void buf_char(struct buf *b, char c);
void buf_decimal(struct buf *b, uint64_t n);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *format, va_list args);

/* Make room for n more bytes and return where they go; buf_commit says how many came. */
char *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);

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
