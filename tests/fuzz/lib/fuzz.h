/* What every target needs: the entry point that libFuzzer calls, and the input as a cursor. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next byte of the input; 0 at its end. */
static inline uint8_t fuzz_byte(struct slice *input)
{
    uint8_t b = input->len ? (uint8_t)input->ptr[0] : 0;

    *input = slice_from(*input, 1);
    return b;
}

/* The next n bytes, or what is left. */
static inline struct slice fuzz_take(struct slice *input, size_t n)
{
    struct slice piece = slice_cut(*input, 0, n);

    *input = slice_from(*input, n);
    return piece;
}

/* The next line, without its newline; the last one needs none. */
static inline struct slice fuzz_line(struct slice *input)
{
    struct slice line = slice_make("", 0);

    slice_next(input, '\n', &line);
    return line;
}

/* The size of the next piece, 1 to most: a cut that depends on seed alone. */
static inline size_t fuzz_cut(unsigned *seed, unsigned most)
{
    *seed = *seed * 1103515245u + 12345u;
    return 1 + (*seed >> 16) % most;
}

#endif
