/*
 * /metrics: the counters of all roles as Prometheus text (exposition format 0.0.4). Pure: pages and facts in,
 * text out. Names are an interface.
 */
#ifndef PROXY_METRICS_H
#define PROXY_METRICS_H

#include "authz/policy.h"
#include "base/buf.h"
#include "proxy/counters.h"

/* One role's page; both borrowed. */
struct metrics_page {
    const char *role; /* "worker 0" */
    const struct counters *counters;
};

/* An issuer that publishes its keys; texts are borrowed. */
struct metrics_issuer {
    const char *name, *uri;
    size_t keys;        /* in force */
    int64_t fetched_s;  /* when they were fetched last; 0: never */
    int64_t until_s;    /* when they are too old */
    bool good;          /* there are keys, and they are not */
    const char *error;  /* of the last attempt to fetch them; "" when it went well */
};

struct metrics {
    const char *version;
    uint64_t generation;
    const struct metrics_page *pages;
    size_t n_pages;
    const struct policy *policy; /* borrowed: services, and what audits say of them; NULL: none */
    int64_t now_s;               /* wall clock, by which they count */
    const struct metrics_issuer *issuers;
    size_t n_issuers;
    size_t n_file_issuers; /* others, whose keys are from files and always there */
};

void metrics_write(struct buf *out, const struct metrics *m);

/* The sum over all pages. Another process writes them, so two reads may differ. */
uint64_t metrics_sum(const struct metrics *m, enum counter c);
/* The errno because of which some role is out of descriptors or memory; 0: none is. */
int metrics_exhausted(const struct metrics *m);
/* Has any issuer keys? Without one nobody can have leave. True when there are no issuers at all. */
bool metrics_has_keys(const struct metrics *m);
/* Are there pages, and does every one of them say so? */
bool metrics_journal_is_open(const struct metrics *m);

#endif
