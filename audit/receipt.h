/*
 * The receipt of an audit: one hash that stands for all its exchanges, and one, shortened, for those of each check. It goes into the
 * journal; the exchanges stay in a file. Who has both can show that none was changed, added, left out or moved, and of which check.
 *
 * The hash is the Merkle tree hash of RFC 6962 2.1 over the lines of the file (exeat.audit-exchange/1), each without its newline.
 */
#ifndef AUDIT_RECEIPT_H
#define AUDIT_RECEIPT_H

#include "base/buf.h"
#include "base/fault.h"

enum { RECEIPT_HASH = 32, RECEIPT_SHORT = 12 /* hexadecimal digits of a check's */, RECEIPT_MAX = 64 << 20 /* bytes of a file */ };

struct receipt {
    size_t n;                         /* exchanges */
    unsigned char root[RECEIPT_HASH];
    struct buf checks;                /* "AN-1=0123456789ab,...": in their order; "" is the name of what belongs to none */
};

/* Of the lines of a file. False and why, with the number of the line that is no exchange; then out is empty. */
bool receipt_make(struct slice lines, struct receipt *out, struct fault *why);
void receipt_clear(struct receipt *r);

/* The checks whose short hash differs between two such lists, or that stand in one alone: "AN-1, RL-2", into out. */
void receipt_compare(struct slice recorded, struct slice found, struct buf *out);

#endif
