/* Questions to the journal: log query, why. Lines are parsed by jansson, never by hand. */
#ifndef JOURNAL_QUERY_H
#define JOURNAL_QUERY_H

#include "journal/log.h"

struct query {
    const char *kind, *sandbox, *service, *host, *reason, *action, *id; /* NULL: any; id also as short id */
    int64_t since_ns, until_ns; /* 0: open */
    size_t last;                /* only the last n that match; 0: all */
};

/* Each matching line, as written, to out with its newline. *matched counts them. */
bool query_run(const char *directory, const struct query *q, struct buf *out, size_t *matched, struct fault *why);

/*
 * What happened to an exchange, in sentences, and what the operator can do (text), or one object exeat.why/1 (json).
 * id: full or short; NULL: the last one (of sandbox, when not NULL). False with FAULT_MISSING when there is none.
 * A short id that fits several: the latest, and the others are named.
 */
bool query_why(const char *directory, const char *id, const char *sandbox, bool json, struct buf *out,
               struct fault *why);

#endif
