/*
 * A gzip body opened, so that it can be looked into (RFC 1952). Pure: bytes in, bytes out.
 */
#ifndef CANARY_GZIP_H
#define CANARY_GZIP_H

#include <stdbool.h>

#include "base/buf.h"

/* Append what packed holds, all of its members, to out. False when it is not whole gzip to its very end, or more than most. */
bool gzip_open(struct slice packed, size_t most, struct buf *out);

#endif
