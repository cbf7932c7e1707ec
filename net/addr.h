/*
 * IP addresses and what we think of them: textual forms, the special-purpose
 * registries (RFC 6890 and its successors), embedded addresses. Pure.
 */
#ifndef NET_ADDR_H
#define NET_ADDR_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fault.h"

struct addr {
    int family; /* AF_INET, AF_INET6, AF_UNIX; 0: none */
    uint16_t port;
    unsigned char ip[16]; /* the first 4 for AF_INET */
};

/* "127.0.0.1:80", "[::1]:80"; strict dotted quad, no octal, no short forms. */
bool addr_parse(struct slice text, struct addr *out);
/* An address without port; the same strictness. */
bool addr_parse_ip(struct slice text, struct addr *out);
void addr_text(struct buf *out, const struct addr *a);    /* with port */
void addr_ip_text(struct buf *out, const struct addr *a); /* without */
bool addr_equals(const struct addr *a, const struct addr *b);
bool addr_ip_equals(const struct addr *a, const struct addr *b);
void addr_from_sockaddr(struct addr *out, const struct sockaddr *sa);
socklen_t addr_to_sockaddr(const struct addr *a, struct sockaddr_storage *out);

enum addr_class {
    ADDR_GLOBAL,
    ADDR_PRIVATE,   /* RFC 1918, ULA, CGNAT: only with allow-private */
    ADDR_LOOPBACK,  /* only by a service's fixed `addresses` */
    ADDR_LINKLOCAL, /* only by a service's fixed `addresses` */
    ADDR_METADATA,  /* cloud metadata (169.254.169.254, fd00:ec2::254, ...): never */
    ADDR_SPECIAL,   /* every other special-purpose range, multicast, unspecified, reserved: never */
};

/*
 * The class of an address. Embedded IPv4 (v4-mapped, v4-compatible, NAT64
 * 64:ff9b::/96 and 64:ff9b:1::/48, 6to4, Teredo) is decoded and judged too; the worse of the two counts.
 */
enum addr_class addr_classify(const struct addr *a);
const char *addr_class_name(enum addr_class c);

#endif
