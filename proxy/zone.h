/*
 * A zone: what one DNS listener (dns.NAME) says to which question. Steering, it answers a listed name with the gateway's own addresses,
 * and no question travels anywhere; with `answer: real` a listed name is looked up by the porter. Whatever is not listed is refused. Pure.
 */
#ifndef PROXY_ZONE_H
#define PROXY_ZONE_H

#include "authz/policy.h"
#include "net/dns_answer.h"

extern const struct conf_section dns_section;

struct zone {
    const char *name;    /* of the listener; these are borrowed from the configuration */
    const char *sandbox; /* the one behind it; NULL: clients are told apart by their addresses */
    struct addr address; /* where it listens */
    struct addr answers[DNS_ADDRESSES_MAX]; /* steering */
    size_t n_answers;
    bool real;
    uint32_t ttl_s;
};

struct zones {
    struct zone *list;
    size_t n;
};

/* c is kept. False with "file:line:col: ..." in why; *out is then empty. */
bool zones_compile(const struct conf *c, struct zones *out, struct fault *why);
void zones_clear(struct zones *z);
/* Does resolver.servers lead to dns.NAME, which listens at address? Then true and why; the porter's question would be one for the porter, for ever. */
bool zone_asks_itself(const struct conf *c, const char *name, const struct addr *address, struct fault *why);
/* NULL: none is called so. */
const struct zone *zones_find(const struct zones *z, struct slice name);

enum zone_kind {
    ZONE_REFUSED,   /* reason says why */
    ZONE_ADDRESSES, /* those of the zone, of the family that is asked for */
    ZONE_NOTHING,   /* a listed name that has nothing of this type */
    ZONE_LITTLE,    /* RFC 8482 */
    ZONE_LOOK_UP,   /* the porter knows */
};

struct zone_verdict {
    enum zone_kind kind;
    enum reason reason;            /* allowed, or why not */
    const struct service *service; /* that lists it; NULL: none */
    char host[NAME_MAX_LEN + 1];   /* canonical; "": it has no such form */
    bool below_suffix;             /* listed by "*.suffix" alone */
    char detail[160];
};

/*
 * The one decision about a question that was read. HTTPS and SVCB of a listed name are nothing, so that no client moves to ECH or
 * HTTP/3; so is every type but addresses. trace may be NULL.
 */
struct zone_verdict zone_judge(const struct zone *z, const struct policy *p, const struct dns_question *q, const struct trace *trace);
/*
 * The response code for a reason. A name that nobody may have does not exist: after NXDOMAIN a resolver asks on along its search list, and
 * says so to its program at once, where REFUSED is "ask somebody else" to it (glibc), or no answer at all (musl).
 */
enum dns_code zone_code(enum reason r);
/* Those of the zone that a question of this type is answered with; *out has room for DNS_ADDRESSES_MAX. */
size_t zone_addresses(const struct zone *z, uint16_t type, struct addr *out);

#endif
