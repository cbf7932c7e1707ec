/*
 * The locksmith: the clerk's part of keys that issuers publish (`jwks-uri`). It fetches each set when the role starts, again
 * every jwks-refresh (or sooner, as the answer's Cache-Control says), and when a worker met a kid that it does not
 * know: then not more often than every few seconds, and ever more seldom while that brings nothing new. What it fetches it
 * checks, cuts down to public members, and hands to the supervisor (MSG_FETCHED_KEYS). It follows nothing in an answer.
 */
#ifndef PROXY_LOCKSMITH_H
#define PROXY_LOCKSMITH_H

#include "proxy/asks.h"
#include "proxy/metrics.h"
#include "proxy/recorder.h"
#include "proxy/role.h"

/* Works by the set that context holds now, and by each later one after locksmith_use. context, porter and recorder are kept. */
void locksmith_open(struct role_context *context, struct asks *porter, struct recorder *recorder);
void locksmith_use(void);
/* MSG_KEYS of the supervisor: what is in force, from before this process. False when it cannot be read. */
bool locksmith_take(struct slice message);
/* MSG_WANT_KEYS. False when it cannot be read. */
bool locksmith_want(struct slice message);
/* Everything is handed over: begin. */
void locksmith_start(void);
/* How things stand, for status, metrics and readyz (borrowed until the next call of any function here). */
const struct metrics_issuer *locksmith_report(size_t *n);
void locksmith_close(void);

#endif
