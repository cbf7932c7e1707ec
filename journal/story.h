/* The records of one exchange as sentences. */
#ifndef JOURNAL_STORY_H
#define JOURNAL_STORY_H

#include <jansson.h>

#include "base/buf.h"
#include "base/reason.h"

/* All borrowed; NULL or 0 when there is none. */
struct story {
    const json_t *decision, *dial, *certificate, *result, *connection;
    const json_t *question, *lookup; /* by DNS: the first stands as decision too */
    const json_t *findings;        /* array */
    const json_t *sums;            /* array: refusals like this one that were only counted */
    const json_t *tunnel_dial;     /* of the CONNECT it came through */
    const json_t *audit;           /* it is no exchange, but an audit of a service */
    size_t inner, inner_refused;   /* requests that came through this CONNECT */
};

/* The sentences, in order: an array of texts (give). */
json_t *story_tell(const struct story *s);

#endif
