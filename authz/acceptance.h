/*
 * Weaknesses that the operator takes upon himself, as services.NAME.accept has them: {AN-1: "no listing here, ticket 12
 * until 2026-12-31"}. Pure.
 */
#ifndef AUTHZ_ACCEPTANCE_H
#define AUTHZ_ACCEPTANCE_H

#include "base/conf.h"

struct acceptance {
    char *check;     /* "AN-1"; whether there is such a check, the audit knows */
    char *reason;    /* without "until DATE" */
    int64_t until_s; /* the end of that day, UTC */
};

struct acceptances {
    struct acceptance *list;
    size_t count;
};

/* Of one item of services; out is zeroed, and cleared by acceptances_clear() in any case. */
bool acceptances_read(const struct conf_item *item, struct acceptances *out, struct fault *why);
void acceptances_clear(struct acceptances *a);

#endif
