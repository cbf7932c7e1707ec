/*
 * The catalogue: one row for each check, one file for each group (audit/check_*.c). A row says what it needs, sends its probes
 * into evidence, and judges the evidence; the judge is pure. To add a check is to add a row.
 */
#ifndef AUDIT_CHECK_H
#define AUDIT_CHECK_H

#include "audit/evidence.h"

enum verdict { VERDICT_NOT_RUN, VERDICT_PASS, VERDICT_WEAK, VERDICT_FAIL, VERDICT_OPEN, VERDICT_NA, VERDICT_INCONCLUSIVE, VERDICTS };

/* What unlocks a check; 0: it only reads, and always runs. */
enum {
    RUN_WRITES = 1,   /* --active */
    RUN_TENANTS = 2,  /* --tenant2 */
    RUN_ISSUER = 4,   /* --issuer-key */
    RUN_LISTENER = 8, /* --beacon */
    RUN_NAMED = 16,   /* may disturb: only when --check names it */
    RUN_SHOWS = 64,   /* what is tried is a credential itself: without it nothing is asked */
    RUN_LAST = 32,    /* the service may answer differently for ever after: behind all others */
};

struct finding {
    enum verdict verdict;
    char note[480]; /* one sentence: what was seen; no secret */
};

struct check {
    const char *id;
    enum severity severity;
    unsigned run;
    void (*send)(struct evidence *e);                             /* NULL: there is no fixture that shows it good and bad */
    void (*judge)(const struct evidence *e, struct finding *f);
    const char *title;      /* what is asked, in words */
    const char *standard;   /* RFC and section, or "" */
    const char *at_service; /* what to change at the service */
    const char *at_gateway; /* and, until then, at the gateway */
};

struct check_group {
    const char *prefix; /* "AN" */
    const char *title;  /* "anonymous access" */
    const struct check *checks;
    size_t n;
};

extern const struct check_group check_anonymous, check_token, check_scope, check_delegation, check_binding, check_headers, check_relay,
    check_fetch, check_redirect, check_tenant, check_publish, check_reflection, check_cache, check_upload, check_canary;

/* In the catalogue's order; NULL: no more. */
const struct check_group *check_group_at(size_t i);
size_t check_count(void);

const char *verdict_name(enum verdict v);

void finding_set(struct finding *f, enum verdict v, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The worse of both: what f says, unless v is worse (fail, weak, open, inconclusive, pass, n/a, not-run). */
void finding_worsen(struct finding *f, enum verdict v, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool verdict_is_worse(enum verdict a, enum verdict b);

#endif
