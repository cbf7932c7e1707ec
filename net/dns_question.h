/*
 * A DNS question as a client sends it (RFC 1035 4.1, EDNS(0): RFC 6891). Messages are read by libldns, name for name; a label is
 * bytes, whatever they are, and no dot in one is taken for the end of it. Pure.
 */
#ifndef NET_DNS_QUESTION_H
#define NET_DNS_QUESTION_H

#include "base/buf.h"
#include "net/name.h"

enum {
    DNS_NAME_MAX = 255, /* bytes of a name on the wire, lengths and root included */
    DNS_HEADER = 12,
    DNS_ASKED_MAX = 4096, /* bytes of a message that asks; what is longer carries something else */
};

enum dns_type { DNS_A = 1, DNS_SOA = 6, DNS_HINFO = 13, DNS_AAAA = 28, DNS_IXFR = 251, DNS_AXFR = 252, DNS_ANY = 255 };
enum { DNS_IN = 1 };

struct dns_question {
    uint16_t id;
    unsigned opcode;
    bool recursion;                   /* RD, to be given back */
    bool checking_off;                /* CD, the same */
    bool named;                       /* there is one question, and what follows is it */
    unsigned char name[DNS_NAME_MAX]; /* labels, each with its length in front, as they came */
    size_t name_len;
    uint16_t type, class;
    bool edns, dnssec_ok;
    unsigned edns_version;
    size_t most; /* bytes that the client takes in one datagram: 512, or what EDNS says */
};

enum dns_reading {
    DNS_READ,
    DNS_DROPPED,   /* no answer: too short to be one, or an answer itself */
    DNS_MALFORMED, /* FORMERR */
    DNS_UNKNOWN,   /* NOTIMP: another opcode than QUERY */
    DNS_VERSION,   /* BADVERS: another version of EDNS than 0 */
};

/*
 * One question, and nothing but an OPT and what else may stand behind it: other counts, a name in pieces (there is nothing a
 * first name could point to), bytes behind the end are malformed. why says what. out is filled as far as it was read.
 */
enum dns_reading dns_question_read(struct slice message, struct dns_question *out, struct fault *why);

/* The labels one after another; start with *at 0. False at the root. Borrowed from q. */
bool dns_question_label(const struct dns_question *q, size_t *at, struct slice *label);
/* As people write it, without the final dot but for the root: a dot in a label is "\.", what is not printed "\000" (RFC 4343 2.1). */
void dns_question_text(struct buf *out, const struct dns_question *q);
/* The canonical host that it names; false (host_invalid) when it is none, as with a dot or a NUL in a label. */
bool dns_question_host(const struct dns_question *q, char out[NAME_MAX_LEN + 1], struct fault *why);
/* "A", "HTTPS", "TYPE1234". */
void dns_type_text(struct buf *out, uint16_t type);
/* The number of such a name; false: there is none. */
bool dns_type_find(const char *name, uint16_t *type);
/* A question about host (canonical), as a tool asks it. */
struct dns_question dns_question_make(const char *host, uint16_t type);

#endif
