/*
 * The one registry of reason codes (reason.def). Every surface, the answers,
 * the journal, reports and the docs, takes code and text from here.
 */
#ifndef BASE_REASON_H
#define BASE_REASON_H

#include <stdbool.h>

#include "base/slice.h"

enum severity { SEVERITY_INFO, SEVERITY_LOW, SEVERITY_MEDIUM, SEVERITY_HIGH, SEVERITY_CRITICAL };

enum reason {
#define REASON(upper, code, status, error, ede, level, text) REASON_##upper,
#include "base/reason.def"
#undef REASON
    N_REASONS
};

struct reason_entry {
    const char *code;               /* "host_not_listed" */
    int status;                     /* HTTP status, 0 when there is no answer */
    const char *proxy_status_error; /* RFC 9209 2.3, or "" */
    int ede;                        /* RFC 8914 */
    enum severity severity;
    const char *text;
};

/* The entry of a reason; never NULL. */
const struct reason_entry *reason_get(enum reason r);
/* "host_not_listed" */
const char *reason_code(enum reason r);
/* The first sentence of its text: what happened, without what the operator may do. */
struct slice reason_sentence(enum reason r);
/* The rest of it: what the operator may do; "" when there is nothing to say. */
struct slice reason_advice(enum reason r);
/* The reason with this code; false when there is none. */
bool reason_find(struct slice code, enum reason *out);
/* "low", "critical" */
const char *severity_name(enum severity s);
/* True for token_missing .. token_binding: what a fresh token may mend (407 or 401). */
bool reason_is_token(enum reason r);

#endif
