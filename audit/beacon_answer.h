/* What the auditor's listener answers. Pure. */
#ifndef AUDIT_BEACON_ANSWER_H
#define AUDIT_BEACON_ANSWER_H

#include "audit/beacon.h"

/* Is it a request with all of its content? What is no request never is. */
bool beacon_is_whole(struct slice in);
bool beacon_wants_continue(struct slice in);
/*
 * The whole answer. serial differs each time; caches want to know when it was (now_s); to is what the act names; of a plain
 * page, the upstream's own host (NULL: none). CONNECT is refused: this is no proxy.
 */
void beacon_answer(struct slice request, enum act act, const char *to, uint64_t serial, int64_t now_s, struct buf *out);
/* The value of a field of the request; empty when there is none. */
struct slice beacon_field(struct slice request, const char *name);

#endif
