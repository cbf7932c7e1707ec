/*
 * Memory of a size that is asked for again and again: what was put back is given out again without a look at the
 * allocator. glibc's own quick lists hold seven blocks of a size, end at 1032 bytes, and its calloc never looks there. Sizes are rounded up to a
 * power of two; those outside 64 bytes to 16 KiB go to malloc and free. Each thread has lists of its own, and may put back
 * what another one got. Built with AddressSanitizer all do, so that
 * use after free is seen.
 */
#ifndef BASE_SPARE_H
#define BASE_SPARE_H

#include <stddef.h>

/* At least size bytes, not zeroed; never NULL (aborts). Give them back with spare_put and the same size. */
void *spare_get(size_t size);
/* The same, zeroed. */
void *spare_get_zeroed(size_t size);
/* ptr may be NULL. Bytes are kept as they are: wipe secrets first. */
void spare_put(void *ptr, size_t size);

#endif
