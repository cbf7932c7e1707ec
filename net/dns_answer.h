/* An answer to a DNS question, written by libldns. The question goes back as it came, letter for letter. Pure. */
#ifndef NET_DNS_ANSWER_H
#define NET_DNS_ANSWER_H

#include "net/addr.h"
#include "net/dns_question.h"

enum dns_code { DNS_NOERROR = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5, DNS_BADVERS = 16 };

/* "NXDOMAIN". */
const char *dns_code_name(enum dns_code c);

enum {
    DNS_UDP_MOST = 1232,  /* bytes of a datagram that no path cuts into fragments (DNS flag day 2020) */
    DNS_TCP_MOST = 65535,
    DNS_ADDRESSES_MAX = 8, /* of one answer */
};

struct dns_answer {
    enum dns_code code;
    const struct addr *addresses; /* of the family that was asked for */
    size_t n_addresses;
    uint32_t ttl_s;
    bool nothing;   /* the name is there and has nothing of that type: a SOA says how long that holds (RFC 2308) */
    bool any;       /* RFC 8482: what little is said to ANY */
    bool truncated; /* nothing is in it: ask again by TCP */
    bool explained; /* with an Extended DNS Error (RFC 8914), where the client speaks EDNS */
    uint16_t error; /* its number */
    const char *text; /* its words: a reason code and a short id */
};

/*
 * Appends the answer. most: bytes that fit (dns_answer_room); when they do not, it goes without addresses, truncated.
 */
void dns_answer_write(struct buf *out, const struct dns_question *q, const struct dns_answer *a, size_t most);
/* What a datagram to this client may have. */
size_t dns_answer_room(const struct dns_question *q);

#endif
