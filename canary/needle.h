/*
 * A needle: one short-lived secret text (the leave token) to be found in other
 * bytes, for which compiling a database would be too dear. Found is any run of NEEDLE_RUN
 * or more consecutive characters of its tail: the part after the last '.', a JWT's signature, without which
 * a token is none (header and claims are alike in other tokens of the issuer and accuse nobody). The same of its base64,
 * wherever in a longer text it began, as in a copied Basic credential.
 *
 * A run that long covers a whole piece of NEEDLE_PIECE bytes that begins at a multiple of NEEDLE_STRIDE in the
 * stream, so only those are looked up: 0.1 ns a byte.
 */
#ifndef CANARY_NEEDLE_H
#define CANARY_NEEDLE_H

#include "base/slice.h"

#define NEEDLE_RUN 24
#define NEEDLE_PIECE 8
#define NEEDLE_STRIDE 16
/*
 * While a stream goes on, a run is found at the latest when it began this many bytes ago; one of base64 begins with a
 * character that has only some bits of the tail.
 */
#define NEEDLE_LATE (NEEDLE_RUN + NEEDLE_STRIDE)

struct needle;

/* Needles of the texts seen last, so that a token used again costs a comparison. */
struct needle_cache;

struct needle_cache *needle_cache_new(void);
void needle_cache_free(struct needle_cache *c);
/* The needle of text; free with needle_release. NULL when text has a tail shorter than NEEDLE_RUN: no token has. */
struct needle *needle_get(struct needle_cache *c, struct slice text);
void needle_release(struct needle *t);

struct needle_match {
    bool found;
    const char *encoding; /* "identity", "base64" */
    uint64_t from, to; /* raw bytes; from is exact, to is at least from + NEEDLE_RUN */
};

struct needle_match needle_text(const struct needle *t, struct slice text);

/* Where a stream is; zeroed at its start. */
struct needle_scan {
    uint64_t total;
    uint64_t next; /* the first position not yet looked up */
    size_t tail_len;
    char tail[NEEDLE_LATE];
};

struct needle_match needle_feed(const struct needle *t, struct needle_scan *s, struct slice bytes);
struct needle_match needle_finish(const struct needle *t, struct needle_scan *s);

#endif
