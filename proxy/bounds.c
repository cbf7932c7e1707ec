/* Owns the list of the gateway's own sockets. */
#include "proxy/bounds.h"

#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

struct bounds {
    struct addr *own;
    size_t count, cap;
    uint16_t *wild; /* ports of listeners on the unspecified address */
    size_t n_wild;
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

struct addr *bounds_interfaces(size_t *n)
{
    struct ifaddrs *all = NULL;
    struct addr *out = NULL;

    *n = 0;
    if (getifaddrs(&all) < 0)
        return NULL;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct addr a = {0};

        if (i->ifa_addr)
            addr_from_sockaddr(&a, i->ifa_addr);
        if (a.family != AF_INET && a.family != AF_INET6)
            continue;
        out = must(realloc(out, (*n + 1) * sizeof *out));
        out[(*n)++] = a;
    }
    freeifaddrs(all);
    return out;
}

static bool is_own(const struct bounds *b, const struct addr *a)
{
    struct addr real = addr_plain(a);

    for (size_t i = 0; i < b->count; i++)
        if (addr_equals(&b->own[i], &real))
            return true;
    for (size_t i = 0; i < b->n_wild; i++)
        if (b->wild[i] == a->port && addr_classify(a) == ADDR_LOOPBACK)
            return true;
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
