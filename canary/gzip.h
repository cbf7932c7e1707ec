/*
 * A gzip body opened, so that it can be looked into (RFC 1952). Pure: bytes in, bytes out.
 */
#ifndef CANARY_GZIP_H
#define CANARY_GZIP_H

#include "base/buf.h"

/* Append what packed holds, all of its members, to out. False when it is not whole gzip to its very end, or more than most. */
bool gzip_open(struct slice packed, size_t most, struct buf *out);

/* The same as a stream, for what is only looked at. */
struct gunzip;

struct gunzip *gunzip_new(void);
void gunzip_free(struct gunzip *g);
/*
 * Open the next bytes; take gets what they hold, piece by piece (borrowed), until it says false, which ends it. False: it is not gzip,
 * or holds a hundred times as much as it is long; from then on nothing is opened.
 */
bool gunzip_feed(struct gunzip *g, struct slice packed, bool (*take)(void *arg, struct slice piece), void *arg);

#endif
