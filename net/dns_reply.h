/*
 * What a tool asks a name server, and what it is told: the other side of dns_question.h and dns_answer.h. Messages are read by libldns. Pure.
 */
#ifndef NET_DNS_REPLY_H
#define NET_DNS_REPLY_H

#include "net/dns_answer.h"

/* Appends the question of dns_question_make() with this id, by EDNS, so that an Extended DNS Error may come (RFC 8914). */
void dns_ask_write(struct buf *out, const struct dns_question *q, uint16_t id);

struct dns_reply {
    unsigned code;      /* RCODE, the part in EDNS with it */
    struct addr list[DNS_ADDRESSES_MAX]; /* A and AAAA of the answer, whatever name they are of */
    size_t n;
    bool explained;
    uint16_t error;     /* of an Extended DNS Error */
    char text[128];     /* its words, printable */
};

/* False: no answer to a question of this id. */
bool dns_reply_read(struct slice message, uint16_t id, struct dns_reply *out);

#endif
