/*
 * Borrowed bytes: a pointer and a length, never owned, not NUL-terminated.
 * Everything that is parsed is passed as a slice, so that no parser can run
 * past its input.
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *ptr;
    size_t len;
};

/* A slice of a string literal. */
#define SLICE(literal) ((struct slice){"" literal, sizeof(literal) - 1})
/* For printf: printf("%.*s", SLICE_ARG(s)). */
#define SLICE_ARG(s) (int)(s).len, (s).ptr

static inline struct slice slice_make(const void *ptr, size_t len)
{
    return (struct slice){len ? ptr : "", len};
}

/* The whole of a NUL-terminated text (borrowed); NULL gives the empty slice. */
static inline struct slice slice_of(const char *text)
{
    return text ? slice_make(text, strlen(text)) : slice_make("", 0);
}

static inline bool slice_equals(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Are n bytes the same when ASCII case is folded? */
bool slice_folds_alike(const char *a, const char *b, size_t n);

/* ASCII case is folded; other bytes are compared as they are (RFC 9110 5.1). */
static inline bool slice_equals_nocase(struct slice a, struct slice b)
{
    if (a.len != b.len || a.len == 0)
        return a.len == b.len;
    return ((a.ptr[0] ^ b.ptr[0]) & ~0x20) == 0 && slice_folds_alike(a.ptr, b.ptr, a.len);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_equals(a, slice_of(text));
}

static inline bool slice_is_nocase(struct slice a, const char *text)
{
    return slice_equals_nocase(a, slice_of(text));
}

bool slice_starts(struct slice s, struct slice prefix);
bool slice_ends(struct slice s, struct slice suffix);
bool slice_starts_nocase(struct slice s, struct slice prefix);

/* Offset of the first c, or of the first occurrence of needle; -1 when absent. */
ptrdiff_t slice_find(struct slice s, char c);
ptrdiff_t slice_search(struct slice s, struct slice needle);

/* The part of s from offset from (clamped), and [from, to) (clamped). */
static inline struct slice slice_cut(struct slice s, size_t from, size_t to)
{
    if (to > s.len)
        to = s.len;
    if (from >= to) /* also of a zeroed slice, whose pointer takes no sums */
        return slice_make("", 0);
    return slice_make(s.ptr + from, to - from);
}

static inline struct slice slice_from(struct slice s, size_t from)
{
    return slice_cut(s, from, s.len);
}

/* Without optional white space (SP, HTAB; RFC 9110 5.6.3) at both ends. */
struct slice slice_trim(struct slice s);

/*
 * Cut s at the first sep: *head is what stood before it, s becomes what
 * follows. False at the end of input (when *s is already exhausted). An empty
 * input gives one empty piece.  Start with a copy of the slice.
 */
bool slice_next(struct slice *s, char sep, struct slice *piece);

/*
 * An unsigned decimal of digits only (no sign, no space, at most 19 digits,
 * leading zeros accepted) that is <= max.
 */
bool slice_decimal(struct slice s, uint64_t max, uint64_t *out);

/* memcmp order, shorter first on a common prefix. */
int slice_compare(struct slice a, struct slice b);

/* Valid UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool slice_is_utf8(struct slice s);

#endif
