/* Owns the lists of free blocks, one for each power of two in each thread. */
#include "base/spare.h"

#include <stdlib.h>
#include <string.h>

enum { SHIFT_MIN = 6, SHIFT_MAX = 14, KEEP_BYTES = 512 * 1024 /* on each shelf */, KEEP_MAX = 1024 };

#if defined __SANITIZE_ADDRESS__
#define KEEPS 0
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define KEEPS 0
#endif
#endif
#ifndef KEEPS
#define KEEPS 1
#endif

struct block {
    struct block *next;
};

static _Thread_local struct shelf {
    struct block *first;
    unsigned count;
} shelves[SHIFT_MAX + 1];

static unsigned shift_of(size_t size)
{
    return 64 - (unsigned)__builtin_clzll(size - 1); /* is_kept has seen to it that size is more than one */
}

static int is_kept(size_t size)
{
    return KEEPS && size >= (size_t)1 << SHIFT_MIN && size <= (size_t)1 << SHIFT_MAX;
}

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

void *spare_get(size_t size)
{
    struct shelf *s;
    struct block *b;
    unsigned shift;

    if (!is_kept(size))
        return must(malloc(size));
    shift = shift_of(size);
    s = &shelves[shift];
    if (!(b = s->first))
        return must(malloc((size_t)1 << shift));
    s->first = b->next;
    s->count--;
    return b;
}

void *spare_get_zeroed(size_t size)
{
    return memset(spare_get(size), 0, size);
}

void spare_put(void *ptr, size_t size)
{
    unsigned shift = is_kept(size) ? shift_of(size) : 0;
    struct shelf *s = &shelves[shift];
    struct block *b = ptr;

    if (!ptr || !shift || s->count >= KEEP_MAX || (size_t)s->count << shift >= KEEP_BYTES) {
        free(ptr);
        return;
    }
    b->next = s->first;
    s->first = b;
    s->count++;
}
