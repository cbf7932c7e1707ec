#include "base/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/secret.h"

struct entry {
    struct entry *next;
    uint64_t hash;
    void *value;
    size_t len;
    char key[];
};

struct table {
    struct entry **slots;
    size_t n_slots; /* a power of two */
    size_t count;
    uint64_t seed[2];
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static uint64_t hash_of(const struct table *t, struct slice key)
{
    return hash_bytes(t->seed, key);
}

struct table *table_new(void)
{
    struct table *t = must(calloc(1, sizeof *t));

    t->n_slots = 16;
    t->slots = must(calloc(t->n_slots, sizeof(struct entry *)));
    secret_random(t->seed, sizeof t->seed);
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_slots; i++)
        for (struct entry *e = t->slots[i], *next; e; e = next) {
            next = e->next;
            free(e);
        }
    free(t->slots);
    free(t);
}

size_t table_count(const struct table *t)
{
    return t->count;
}

static struct entry **find(const struct table *t, struct slice key, uint64_t hash)
{
    struct entry **at = &t->slots[hash & (t->n_slots - 1)];

    while (*at && !((*at)->hash == hash && slice_equals(slice_make((*at)->key, (*at)->len), key)))
        at = &(*at)->next;
    return at;
}

void *table_get(const struct table *t, struct slice key)
{
    struct entry *e = *find(t, key, hash_of(t, key));

    return e ? e->value : NULL;
}

static void grow(struct table *t)
{
    size_t n = t->n_slots * 2;
    struct entry **slots = must(calloc(n, sizeof(struct entry *)));

    for (size_t i = 0; i < t->n_slots; i++)
        for (struct entry *e = t->slots[i], *next; e; e = next) {
            next = e->next;
            e->next = slots[e->hash & (n - 1)];
            slots[e->hash & (n - 1)] = e;
        }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n;
}

void *table_put(struct table *t, struct slice key, void *value)
{
    uint64_t hash = hash_of(t, key);
    struct entry **at = find(t, key, hash), *e;
    void *old = NULL;

    assert(value);
    if (*at) {
        old = (*at)->value;
        (*at)->value = value;
        return old;
    }
    if (t->count >= t->n_slots) {
        grow(t);
        at = find(t, key, hash);
    }
    e = must(malloc(sizeof *e + key.len));
    *e = (struct entry){.hash = hash, .value = value, .len = key.len};
    if (key.len)
        memcpy(e->key, key.ptr, key.len);
    *at = e;
    t->count++;
    return NULL;
}

void *table_remove(struct table *t, struct slice key)
{
    struct entry **at = find(t, key, hash_of(t, key)), *e = *at;
    void *value;

    if (!e)
        return NULL;
    value = e->value;
    *at = e->next;
    free(e);
    t->count--;
    return value;
}

void table_each(const struct table *t, void (*visit)(void *arg, struct slice key, void *value), void *arg)
{
    for (size_t i = 0; i < t->n_slots; i++)
        for (struct entry *e = t->slots[i]; e; e = e->next)
            visit(arg, slice_make(e->key, e->len), e->value);
}
