#include "base/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-2-4 (Aumasson and Bernstein, 2012). */
static uint64_t hash_of(const struct table *t, struct slice key)
{
    uint64_t v[4] = {t->seed[0] ^ 0x736f6d6570736575, t->seed[1] ^ 0x646f72616e646f6d,
                     t->seed[0] ^ 0x6c7967656e657261, t->seed[1] ^ 0x7465646279746573};
    uint64_t word = 0;

    for (size_t i = 0; i < key.len; i++) {
        word |= (uint64_t)(unsigned char)key.ptr[i] << (8 * (i % 8));
        if (i % 8 == 7) {
            v[3] ^= word;
            sip_round(v);
            sip_round(v);
            v[0] ^= word;
            word = 0;
        }
    }
    word |= (uint64_t)key.len << 56;
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
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
