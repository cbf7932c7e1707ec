/* Owns the list of the gateway's own sockets. */
#include "proxy/bounds.h"

#include <stdlib.h>
#include <string.h>

#include "base/pack.h"

struct bounds {
    struct addr *own;
    size_t count, cap;
    uint16_t *wild; /* ports of listeners on the unspecified address */
    size_t n_wild;
    bounds_is_here *ask;
    void *arg;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct bounds *bounds_new(void)
{
    return must(calloc(1, sizeof(struct bounds)));
}

void bounds_free(struct bounds *b)
{
    if (!b)
        return;
    free(b->own);
    free(b->wild);
    free(b);
}

void bounds_replace(struct bounds *b, struct bounds *by)
{
    by->ask = b->ask;
    by->arg = b->arg;
    free(b->own);
    free(b->wild);
    *b = *by;
    free(by);
}

static void add_own(struct bounds *b, const struct addr *a)
{
    if (b->count == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 16;
        b->own = must(realloc(b->own, b->cap * sizeof *b->own));
    }
    b->own[b->count++] = addr_plain(a);
}

void bounds_add_listener(struct bounds *b, const struct addr *listener)
{
    if (listener->family != AF_INET && listener->family != AF_INET6)
        return;
    if (!addr_is_unspecified(listener)) {
        add_own(b, listener);
        return;
    }
    b->wild = must(realloc(b->wild, (b->n_wild + 1) * sizeof *b->wild));
    b->wild[b->n_wild++] = listener->port;
}

struct bounds *bounds_read(struct slice own)
{
    struct unpack u = unpack_start(own);
    struct bounds *b = bounds_new();
    struct addr a;

    for (uint16_t n = unpack_u16(&u); n && !u.bad; n--) {
        if (!addr_parse(unpack_bytes(&u), &a))
            u.bad = true;
        else
            bounds_add_listener(b, &a);
    }
    if (unpack_done(&u))
        return b;
    bounds_free(b);
    return NULL;
}

void bounds_ask(struct bounds *b, bounds_is_here *ask, void *arg)
{
    b->ask = ask;
    b->arg = arg;
}

static bool is_here(const struct bounds *b, const struct addr *a)
{
    return addr_classify(a) == ADDR_LOOPBACK || !b->ask || b->ask(b->arg, a);
}

static bool is_own(const struct bounds *b, const struct addr *a)
{
    struct addr real = addr_plain(a);

    for (size_t i = 0; i < b->count; i++)
        if (addr_equals(&b->own[i], &real))
            return true;
    for (size_t i = 0; i < b->n_wild; i++)
        if (b->wild[i] == real.port)
            return is_here(b, &real);
    return false;
}

const char *bounds_refuse(const struct bounds *b, const struct addr *a, enum bounds_source source)
{
    if (a->family != AF_INET && a->family != AF_INET6)
        return "special";
    if (is_own(b, a))
        return "own listener";
    switch (addr_classify(a)) {
    case ADDR_GLOBAL:
        return NULL;
    case ADDR_PRIVATE:
        return source == BOUNDS_RESOLVED ? "private" : NULL;
    case ADDR_LOOPBACK:
        return source == BOUNDS_FIXED ? NULL : "loopback";
    case ADDR_LINKLOCAL:
        return source == BOUNDS_FIXED ? NULL : "link-local";
    case ADDR_METADATA:
        return "metadata";
    case ADDR_SPECIAL:
        break;
    }
    return "special";
}
