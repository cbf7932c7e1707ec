/*
 * Signed URLs: who holds one needs no credential (handoff check RD-2). Recognised by the names in their query: X-Amz-* and
 * X-Goog-* (signature version 4), Azure's shared access signatures (sig, se, sp), and Expires with Signature
 * (CloudFront, S3 and OSS version 2, Cloud Storage version 2). The signature itself is never given on. Pure.
 */
#ifndef HANDOFF_PRESIGNED_H
#define HANDOFF_PRESIGNED_H

#include "base/slice.h"

struct presigned {
    char method[16];    /* it is good for, when the URL says: "GET", "PUT", "DELETE"; else "" */
    int64_t lifetime_s; /* from now on, or in all where that is what it says; 0: over; -1: it does not say */
};

/* query: without "?". now_s: seconds since 1970. */
bool presigned_read(struct slice query, int64_t now_s, struct presigned *out);

#endif
