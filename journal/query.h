/* Questions to the journal: log query, why. Lines are parsed by jansson, never by hand. */
#ifndef JOURNAL_QUERY_H
#define JOURNAL_QUERY_H

#include "journal/log.h"

struct query {
    const char *kind, *sandbox, *service, *host, *reason, *action; /* NULL: any */
    const char *id;     /* of an exchange: whole, or its last digits (at least ID_SHORT_LEN) */
    const char *tunnel; /* whole id of the CONNECT it came through */
    int64_t since_ns, until_ns; /* wall clock; 0: open */
    size_t last; /* only the last n that match; 0: all */
};

/* Why a question cannot be asked (FAULT_USAGE): a kind, reason, action or id that cannot be. */
bool query_check(const struct query *q, struct fault *why);

/*
 * Each matching line, as written and without its newline (borrowed), in order. The newest segments are read first for
 * `last`, so that it does not cost the whole journal. Lines that are no records are passed over: log_verify is for them.
 * False when the journal cannot be read, or when match returned false (then why stays as it was). *matched counts.
 */
typedef bool query_match(void *arg, struct slice line);
bool query_run(const char *directory, const struct query *q, query_match *match, void *arg, size_t *matched,
               struct fault *why);

/* Which exchange: the one of this id, whole or short, or else the last that was decided, of all of them or of the refused. */
struct why_which {
    const char *id;      /* NULL: the last */
    const char *sandbox; /* NULL: any */
    bool refused;        /* the last that was refused; clients go on asking after a refusal */
};

/*
 * What happened to an exchange, in sentences, and what the operator can do (text), or one object exeat.why/1 (json, one
 * line). FAULT_REFUSED when there is none (a negative answer). A short id that fits several: the latest, and the others
 * are named.
 */
bool query_why(const char *directory, const struct why_which *which, bool json, struct buf *out, struct fault *why);

#endif
