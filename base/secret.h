/*
 * Secret bytes: wiped on free, compared in constant time, never formatted.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/fault.h"
#include "base/slice.h"

struct secret;

/* A copy of s. Give it back with secret_free(), which wipes it when nobody else holds it. */
struct secret *secret_new(struct slice s);
void secret_free(struct secret *s);
/* One holder more: it too gives it back with secret_free(). Returns s. */
struct secret *secret_share(struct secret *s);
/* The bytes, borrowed; NUL follows them (not counted). */
struct slice secret_slice(const struct secret *s);

/*
 * Read a file of at most max bytes that nobody but its owner may read or write:
 * any group or other permission bit refuses it (FAULT_PERMISSION), and the text
 * of the fault says which chmod mends it. One trailing newline is dropped.
 */
struct secret *secret_read_file(const char *path, size_t max, struct fault *why);

/* Equal, in time that depends on the lengths alone. */
bool secret_equals(struct slice a, struct slice b);
void secret_wipe(void *ptr, size_t len);

/* n bytes from the kernel's generator; aborts when it cannot give them. */
void secret_random(void *out, size_t n);

#endif
