/*
 * The limits that count: what a party holds and what it did lately, over all workers, against the limits section and
 * against its share of what all use (share.h). The answers are reason codes; who refuses, records and sums is the exchange.
 */
#ifndef PROXY_QUOTA_H
#define PROXY_QUOTA_H

#include "proxy/limits.h"
#include "proxy/party.h"

struct quota {
    const struct limits *limits; /* kept; of the configuration in force */
    struct tally *tally;
    size_t n_workers; /* limits.connections is for each */
};

struct verdict {
    enum reason reason;
    int64_t retry_ms;    /* when it makes sense to ask again */
    char detail[160];    /* "512 of limits.sandbox-exchanges (512)" */
};

/* May p take one more of h? If not, *v says why. Nothing is taken; tally_hold does that. */
bool quota_room(const struct quota *q, struct party *p, enum tally_hold h, int64_t now_ms, struct verdict *v);
/* May p do n more of what is counted by pace? If not, *v says why. Nothing is counted; tally_add_pace does that. */
bool quota_pace(const struct quota *q, struct party *p, enum tally_pace pace, uint64_t n, int64_t now_ms,
                struct verdict *v);

#endif
