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

/* "127.0.0.1:80", "[::1]:80"; strict dotted quad, no octal, no short forms, no zones. Port 0 is read as such. */
bool addr_parse(struct slice text, struct addr *out);
/* An address without port; the same strictness. */
bool addr_parse_ip(struct slice text, struct addr *out);
/* RFC 5952; "unix" for AF_UNIX, "vsock" for AF_VSOCK. */
void addr_text(struct buf *out, const struct addr *a);    /* with port */
void addr_ip_text(struct buf *out, const struct addr *a); /* without */
bool addr_equals(const struct addr *a, const struct addr *b);
/* 0.0.0.0 or ::, whatever the port. */
bool addr_is_unspecified(const struct addr *a);
bool addr_ip_equals(const struct addr *a, const struct addr *b);
/* What it reaches: of an IPv4 address in IPv6 clothes (v4-mapped, RFC 4291 2.5.5.2; NAT64, RFC 6052 2.1) the one inside. */
struct addr addr_plain(const struct addr *a);
void addr_from_sockaddr(struct addr *out, const struct sockaddr *sa);
/* Its length; 0 when the family has none. */
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
 * The class of an address. v4-mapped and NAT64 (64:ff9b::/96) addresses are decoded: they are what the IPv4
 * address in them is. Other forms that embed one (v4-compatible, 64:ff9b:1::/48, 6to4, Teredo) are special-purpose
 * whatever is inside. So is IPv6 space that is not allocated, and any other family.
 */
enum addr_class addr_classify(const struct addr *a);
const char *addr_class_name(enum addr_class c);

#endif
