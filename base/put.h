/*
 * Text written at a place that has room for it, by those who reserved it all at once beforehand: the floor under text.h and
 * buf.h. Each returns the place behind what it wrote; nothing is terminated.
 */
#ifndef BASE_PUT_H
#define BASE_PUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"

#define PUT_DECIMAL_MAX 20
#define PUT_HEX_MAX(n) (2 * (n))
#define PUT_JSON_MAX(n) (6 * (n) + 2)

static inline char *put_slice(char *at, struct slice s)
{
    memcpy(at, s.ptr, s.len);
    return at + s.len;
}

/* A literal text. */
#define PUT(at, literal) put_slice(at, slice_make(literal, sizeof literal - 1))

char *put_decimal(char *at, uint64_t n);
/* Lower-case hexadecimal. */
char *put_hex(char *at, struct slice bytes);
/* A JSON string with its quotes; which bytes are escaped and how: text_json. */
char *put_json(char *at, struct slice bytes);

#endif
