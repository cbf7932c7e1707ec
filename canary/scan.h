/*
 * The scanner: a Vectorscan streaming database over a registry's patterns in every view, and one scan per direction of an
 * exchange. First version: identity and base64 (three alignments, both alphabets), as literals in one database.
 * The seams for later: views (view.h) turn bytes into decoded bytes and tell which raw bytes a decoded
 * match covers; the registry says which patterns exist; the scan holds back.
 */
#ifndef CANARY_SCAN_H
#define CANARY_SCAN_H

#include "canary/canary.h"

struct scanner; /* database and scratch; one per process */

/* r is kept. No canaries is fine: every scan is clean at no cost. */
struct scanner *scanner_new(const struct registry *r, struct fault *why);
void scanner_free(struct scanner *s);
/* H: the most raw bytes that an unfinished match can cover (longest pattern in any view, less one). */
size_t scanner_hold(const struct scanner *s);

struct hit {
    bool found;
    const char *canary;   /* id; borrowed from the registry */
    const char *encoding; /* "identity", "base64" */
    uint64_t from, to;    /* raw bytes [from, to) of the scanned stream */
};

/* The whole of a small text (target, field, head): one call, no stream. */
struct hit scanner_text(const struct scanner *s, struct slice text);

/*
 * A stream with hold-back. Feed raw bytes in order. After a call, *safe is how many bytes
 * of the stream, counted from its start, may be forwarded: no byte at or after the first byte of a
 * match ever is. finish makes the rest safe or finds the match that the end completes.
 * extra: the leave token text of this exchange, matched as a canary with id "leave-token" (may be empty; copied as needed).
 */
struct scan;
struct scan *scan_start(const struct scanner *s, struct slice extra);
struct hit scan_feed(struct scan *c, struct slice bytes, uint64_t *safe);
struct hit scan_finish(struct scan *c, uint64_t *safe);
void scan_free(struct scan *c);

#endif
