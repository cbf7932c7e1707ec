/*
 * A trace: one short-lived secret text (the leave token) to be found in other
 * bytes, for which compiling a database would be too dear. Found is any run of TRACE_RUN
 * or more consecutive characters of its tail: the part after the last '.', a JWT's signature, without which
 * a token is none (header and claims are alike in other tokens of the issuer and accuse nobody).
 *
 * A run that long covers a whole piece of TRACE_PIECE bytes that begins at a multiple of TRACE_STRIDE in the
 * stream, so only those are looked up: 0.1 ns a byte.
 */
#ifndef CANARY_TRACE_H
#define CANARY_TRACE_H

#include "base/slice.h"

#define TRACE_RUN 24
#define TRACE_PIECE 8
#define TRACE_STRIDE 16
/* While a stream goes on, a run is found at the latest when it began this many bytes ago. */
#define TRACE_LATE (TRACE_RUN + TRACE_STRIDE - 1)

struct trace;

/* Traces of the texts seen last, so that a token used again costs a comparison. */
struct trace_cache;

struct trace_cache *trace_cache_new(void);
void trace_cache_free(struct trace_cache *c);
/* The trace of text; free with trace_release. NULL when text has a tail shorter than TRACE_RUN: no token has. */
struct trace *trace_get(struct trace_cache *c, struct slice text);
void trace_release(struct trace *t);

struct trace_match {
    bool found;
    uint64_t from, to; /* raw bytes; from is exact, to is at least from + TRACE_RUN */
};

struct trace_match trace_text(const struct trace *t, struct slice text);

/* Where a stream is; zeroed at its start. */
struct trace_scan {
    uint64_t total;
    uint64_t next; /* the first position not yet looked up */
    size_t tail_len;
    char tail[TRACE_LATE];
};

struct trace_match trace_feed(const struct trace *t, struct trace_scan *s, struct slice bytes);
struct trace_match trace_finish(const struct trace *t, struct trace_scan *s);

#endif
