/* Owns the bytes of a struct buf; knows nothing of what they mean. */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/put.h"
#include "base/secret.h"
#include "base/spare.h"

char *buf_grow(struct buf *b, size_t n)
{
    size_t len = buf_len(b), cap;

    if (b->start && b->cap - len >= n && b->start >= len) {
        memmove(b->ptr, b->ptr + b->start, len);
        b->start = 0;
        b->end = len;
        return b->ptr + b->end;
    }
    cap = b->cap ? b->cap : 256;
    while (cap - len < n) {
        if (cap > SIZE_MAX / 2)
            abort();
        cap *= 2;
    }
    char *grown = spare_get(cap);

    if (len)
        memcpy(grown, b->ptr + b->start, len);
    spare_put(b->ptr, b->cap);
    b->ptr = grown;
    b->cap = cap;
    b->start = 0;
    b->end = len;
    return b->ptr + b->end;
}

void buf_text(struct buf *b, const char *text)
{
    buf_append(b, slice_of(text));
}

void buf_decimal(struct buf *b, uint64_t n)
{
    char *at = buf_reserve(b, PUT_DECIMAL_MAX);

    buf_commit(b, (size_t)(put_decimal(at, n) - at));
}

void buf_vprintf(struct buf *b, const char *format, va_list args)
{
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        abort();
    vsnprintf(buf_reserve(b, (size_t)n + 1), (size_t)n + 1, format, again);
    b->end += (size_t)n;
    va_end(again);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(b, format, args);
    va_end(args);
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= buf_len(b));
    b->start += n;
    if (b->start == b->end)
        b->start = b->end = 0;
}

void buf_truncate(struct buf *b, size_t n)
{
    assert(n <= buf_len(b));
    b->end = b->start + n;
}

void buf_clear(struct buf *b)
{
    b->start = b->end = 0;
}

void buf_free(struct buf *b)
{
    spare_put(b->ptr, b->cap);
    *b = (struct buf){0};
}

void buf_wipe(struct buf *b)
{
    if (b->ptr)
        secret_wipe(b->ptr, b->cap);
    buf_free(b);
}

char *buf_take_text(struct buf *b)
{
    char *text;

    buf_char(b, '\0');
    if (b->start) {
        memmove(b->ptr, b->ptr + b->start, buf_len(b));
    }
    text = b->ptr;
    *b = (struct buf){0};
    return text;
}
