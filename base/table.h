/*
 * A hash table from bytes to pointers. Keys are copied. The hash is seeded per
 * process (SipHash-2-4), so that peers who choose keys cannot choose collisions.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include "base/slice.h"

struct table;

struct table *table_new(void);
/* Frees the table and its keys; values are the caller's (use table_each first). */
void table_free(struct table *t);

size_t table_count(const struct table *t);
/* The value, or NULL. */
void *table_get(const struct table *t, struct slice key);
/* Store value (not NULL) under key; returns the value it replaces, or NULL. */
void *table_put(struct table *t, struct slice key, void *value);
/* Remove key; returns its value, or NULL. */
void *table_remove(struct table *t, struct slice key);
/* Call visit for each entry; visit must not change the table. */
void table_each(const struct table *t, void (*visit)(void *arg, struct slice key, void *value), void *arg);

#endif
