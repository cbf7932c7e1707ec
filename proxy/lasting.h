/*
 * Answers that last: streams of events, which stand still between two of them and whose every event is meant to arrive when it is
 * sent. Pure.
 */
#ifndef PROXY_LASTING_H
#define PROXY_LASTING_H

#include "net/head.h"

/* Is it one, by its Content-Type: text/event-stream, application/x-ndjson, application/json-seq? */
bool lasting_is(const struct head *response);
/* Does a piece of one end where an event may end, so that nothing after it may be waited for? */
bool lasting_may_rest(struct slice piece);

#endif
