/* Knows addresses and the registries; resolves and dials nothing. */
#include "net/addr.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

struct range {
    unsigned char ip[16];
    int bits;
    enum addr_class class;
};

/*
 * Ranges in the order they are tried: the first that holds the address decides. After the addresses that clouds
 * serve metadata and credentials from, the IANA special-purpose registries, multicast and reserved space.
 */
static const struct range ranges4[] = {
    {{169, 254, 169, 0}, 24, ADDR_METADATA},   /* 169.254.169.254 and its neighbours: most clouds */
    {{169, 254, 170, 0}, 24, ADDR_METADATA},   /* .2 and .23: credentials of containers */
    {{169, 254, 0, 23}, 32, ADDR_METADATA},
    {{169, 254, 42, 42}, 32, ADDR_METADATA},
    {{100, 100, 100, 200}, 32, ADDR_METADATA}, /* inside RFC 6598 space */
    {{168, 63, 129, 16}, 32, ADDR_METADATA},   /* inside global space */
    {{192, 0, 0, 192}, 32, ADDR_METADATA},
    {{0}, 8, ADDR_SPECIAL},                    /* this network, RFC 791 */
    {{10}, 8, ADDR_PRIVATE},                   /* RFC 1918 */
    {{100, 64}, 10, ADDR_PRIVATE},             /* shared space of carriers, RFC 6598 */
    {{127}, 8, ADDR_LOOPBACK},                 /* RFC 1122 */
    {{169, 254}, 16, ADDR_LINKLOCAL},          /* RFC 3927 */
    {{172, 16}, 12, ADDR_PRIVATE},             /* RFC 1918 */
    {{192, 0, 0}, 24, ADDR_SPECIAL},           /* IETF protocol assignments, RFC 6890 */
    {{192, 0, 2}, 24, ADDR_SPECIAL},           /* documentation, RFC 5737 */
    {{192, 31, 196}, 24, ADDR_SPECIAL},        /* AS112, RFC 7535 */
    {{192, 52, 193}, 24, ADDR_SPECIAL},        /* AMT, RFC 7450 */
    {{192, 88, 99}, 24, ADDR_SPECIAL},         /* 6to4 relays, RFC 7526 */
    {{192, 168}, 16, ADDR_PRIVATE},            /* RFC 1918 */
    {{192, 175, 48}, 24, ADDR_SPECIAL},        /* AS112, RFC 7534 */
    {{198, 18}, 15, ADDR_SPECIAL},             /* benchmarks, RFC 2544 */
    {{198, 51, 100}, 24, ADDR_SPECIAL},        /* documentation, RFC 5737 */
    {{203, 0, 113}, 24, ADDR_SPECIAL},         /* documentation, RFC 5737 */
    {{224}, 4, ADDR_SPECIAL},                  /* multicast, RFC 5771 */
    {{240}, 4, ADDR_SPECIAL},                  /* reserved and broadcast, RFC 1112, RFC 8190 */
};

/* The last one holds every address. */
static const struct range ranges6[] = {
    {{0xfd, 0x00, 0x0e, 0xc2}, 32, ADDR_METADATA}, /* fd00:ec2::254 and its neighbours */
    {{0xfd, 0x00, 0x00, 0xc1}, 32, ADDR_METADATA}, /* fd00:c1::a9fe:a9fe */
    {{0xfd, 0x00, 0x00, 0x42}, 32, ADDR_METADATA}, /* fd00:42::42 */
    {{0xfd, 0x20, 0x00, 0xce}, 32, ADDR_METADATA}, /* fd20:ce::254 */
    {{0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe}, 128, ADDR_METADATA},
    {{[15] = 1}, 128, ADDR_LOOPBACK},              /* RFC 4291 */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, ADDR_SPECIAL},  /* documentation, RFC 3849 */
    {{0x20, 0x01}, 23, ADDR_SPECIAL},              /* IETF protocol assignments, RFC 2928; Teredo, RFC 4380 */
    {{0x20, 0x02}, 16, ADDR_SPECIAL},              /* 6to4, RFC 3056 */
    {{0x26, 0x20, 0x00, 0x4f, 0x80}, 48, ADDR_SPECIAL}, /* AS112, RFC 7534 */
    {{0x3f, 0xff}, 20, ADDR_SPECIAL},              /* documentation, RFC 9637 */
    {{0x20}, 3, ADDR_GLOBAL},                      /* the global unicast space */
    {{0xfc}, 7, ADDR_PRIVATE},                     /* unique local, RFC 4193 */
    {{0xfe, 0x80}, 10, ADDR_LINKLOCAL},            /* RFC 4291 */
    /* All else: unspecified, v4-compatible, local NAT64 (RFC 8215), discard, site-local, multicast, unallocated */
    {{0}, 0, ADDR_SPECIAL},
};

static bool range_holds(const struct range *r, const unsigned char *ip)
{
    size_t whole = (size_t)r->bits / 8;
    int odd = r->bits % 8;

    if (memcmp(r->ip, ip, whole) != 0)
        return false;
    return odd == 0 || (r->ip[whole] ^ ip[whole]) >> (8 - odd) == 0;
}

static enum addr_class classify4(const unsigned char *ip)
{
    for (size_t i = 0; i < sizeof ranges4 / sizeof *ranges4; i++)
        if (range_holds(&ranges4[i], ip))
            return ranges4[i].class;
    return ADDR_GLOBAL;
}

/*
 * Two forms are only another spelling of an IPv4 address: they are what that address is. The others that embed one
 * (v4-compatible, local NAT64, 6to4, Teredo) are special-purpose whatever is inside.
 */
static bool embeds_ipv4(const unsigned char *ip)
{
    static const struct range mapped = {{[10] = 0xff, 0xff}, 96, ADDR_GLOBAL};
    static const struct range nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96, ADDR_GLOBAL};

    return range_holds(&mapped, ip) || range_holds(&nat64, ip);
}

static enum addr_class classify6(const unsigned char *ip)
{
    size_t i = 0;

    if (embeds_ipv4(ip))
        return classify4(ip + 12);
    while (!range_holds(&ranges6[i], ip))
        i++;
    return ranges6[i].class;
}

enum addr_class addr_classify(const struct addr *a)
{
    switch (a->family) {
    case AF_INET:
        return classify4(a->ip);
    case AF_INET6:
        return classify6(a->ip);
    default:
        return ADDR_SPECIAL;
    }
}

const char *addr_class_name(enum addr_class c)
{
    static const char *const names[] = {"global", "private", "loopback", "link-local", "cloud metadata",
                                        "special-purpose"};

    return names[c];
}

bool addr_parse_ip(struct slice text, struct addr *out)
{
    char copy[INET6_ADDRSTRLEN];
    int family = slice_find(text, ':') >= 0 ? AF_INET6 : AF_INET;

    if (text.len == 0 || text.len >= sizeof copy || slice_find(text, '\0') >= 0)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *out = (struct addr){.family = family};
    return inet_pton(family, copy, out->ip) == 1;
}

bool addr_parse(struct slice text, struct addr *out)
{
    bool literal = text.len && text.ptr[0] == '[';
    ptrdiff_t end = slice_find(text, literal ? ']' : ':');
    struct slice ip, rest;
    uint64_t port;

    if (end < 0)
        return false;
    ip = slice_cut(text, literal ? 1 : 0, (size_t)end);
    rest = slice_from(text, (size_t)end + (literal ? 1 : 0));
    if (rest.len < 2 || rest.len > 6 || rest.ptr[0] != ':' || (rest.len > 2 && rest.ptr[1] == '0'))
        return false;
    if (!slice_decimal(slice_from(rest, 1), UINT16_MAX, &port) || !addr_parse_ip(ip, out))
        return false;
    out->port = (uint16_t)port;
    return (out->family == AF_INET6) == literal;
}

void addr_ip_text(struct buf *out, const struct addr *a)
{
    char text[INET6_ADDRSTRLEN];

    if (a->family == AF_UNIX)
        buf_text(out, "unix");
    else if (a->family == AF_VSOCK)
        buf_text(out, "vsock");
    else if (inet_ntop(a->family, a->ip, text, sizeof text))
        buf_text(out, text);
}

void addr_text(struct buf *out, const struct addr *a)
{
    bool literal = a->family == AF_INET6;

    if (literal)
        buf_char(out, '[');
    addr_ip_text(out, a);
    if (literal)
        buf_char(out, ']');
    if (literal || a->family == AF_INET) {
        buf_char(out, ':');
        buf_decimal(out, a->port);
    }
}

static size_t ip_len(const struct addr *a)
{
    return a->family == AF_INET6 ? 16 : a->family == AF_INET ? 4 : 0;
}

bool addr_ip_equals(const struct addr *a, const struct addr *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, ip_len(a)) == 0;
}

bool addr_is_unspecified(const struct addr *a)
{
    static const unsigned char zero[16];

    return ip_len(a) && memcmp(a->ip, zero, ip_len(a)) == 0;
}

struct addr addr_plain(const struct addr *a)
{
    struct addr v4 = {.family = AF_INET, .port = a->port};

    if (a->family != AF_INET6 || !embeds_ipv4(a->ip))
        return *a;
    memcpy(v4.ip, a->ip + 12, 4);
    return v4;
}

bool addr_equals(const struct addr *a, const struct addr *b)
{
    return a->port == b->port && addr_ip_equals(a, b);
}

void addr_from_sockaddr(struct addr *out, const struct sockaddr *sa)
{
    *out = (struct addr){.family = sa->sa_family};
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, sa, sizeof in);
        out->port = ntohs(in.sin_port);
        memcpy(out->ip, &in.sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, sa, sizeof in6);
        out->port = ntohs(in6.sin6_port);
        memcpy(out->ip, &in6.sin6_addr, 16);
    }
}

socklen_t addr_to_sockaddr(const struct addr *a, struct sockaddr_storage *out)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};

    memset(out, 0, sizeof *out);
    if (a->family == AF_INET) {
        memcpy(&in.sin_addr, a->ip, 4);
        memcpy(out, &in, sizeof in);
        return sizeof in;
    }
    if (a->family == AF_INET6) {
        memcpy(&in6.sin6_addr, a->ip, 16);
        memcpy(out, &in6, sizeof in6);
        return sizeof in6;
    }
    return 0;
}
