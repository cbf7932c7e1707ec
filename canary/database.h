/*
 * The compiled patterns of a registry: every spelling of every canary, as
 * Vectorscan literals, once for whole texts and once for streams. Vectorscan shows only here.
 */
#ifndef CANARY_DATABASE_H
#define CANARY_DATABASE_H

#include "canary/canary.h"

struct database;
struct database_stream;

struct match {
    bool found;
    const char *canary, *view; /* borrowed from registry and database */
    uint64_t from, to;         /* raw bytes */
};

/* r is kept; it has at least one canary (assert). NULL and why when Vectorscan cannot compile or run here. */
struct database *database_new(const struct registry *r, struct fault *why);
/*
 * What was compiled, for another process with the same canaries: thousands take seconds to compile, and milliseconds to unpack. Appended to
 * out, which holds secrets then (buf_wipe). unpack is new otherwise; NULL and why too when packed is none, or of other canaries.
 */
void database_pack(const struct database *d, struct buf *out);
struct database *database_unpack(const struct registry *r, struct slice packed, struct fault *why);
void database_free(struct database *d);
/* The most raw bytes from the start of a match to the last byte but one of its literal. */
size_t database_hold(const struct database *d);

/* The match that ends first. len is under 4 GiB (assert), here and in feed. */
struct match database_text(const struct database *d, struct slice text);

/* A stream; reset makes it new again. After a match it must be reset or closed. */
struct database_stream *database_open(const struct database *d);
void database_reset(const struct database *d, struct database_stream *s);
void database_close(const struct database *d, struct database_stream *s);
/* The match that ends first, at the latest when its last byte is fed. */
struct match database_feed(const struct database *d, struct database_stream *s, struct slice bytes);

#endif
