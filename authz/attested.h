/*
 * What audits have shown of a service: is it open by the last of them, until when, and why not. What an attestation is, and
 * whether it is to be believed: handoff/attestation.h. Pure.
 */
#ifndef AUTHZ_ATTESTED_H
#define AUTHZ_ATTESTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct attested {
    int64_t at_s;      /* when the last audit ended; 0: there is none */
    int64_t until_s;   /* until then it counts */
    char trouble[200]; /* why it does not count, whatever the time: a clause without a full stop; "" when it does */
};

bool attested_is_open(const struct attested *a, int64_t now_s);
/* Why it is not open: "nobody has audited it", "its audit of 2026-11-30 is too old". */
void attested_explain(const struct attested *a, int64_t now_s, struct buf *out);
/* The day of a time, "2026-11-30", UTC. */
void attested_day(int64_t wall_s, struct buf *out);

#endif
