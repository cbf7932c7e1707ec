/*
 * What the evidence of a check would be if a gateway had answered some of its probes, and what its judge would say then: a copy, with the
 * gateway's refusals in the place of the service's answers. Pure.
 */
#ifndef AUDIT_REHEARSAL_H
#define AUDIT_REHEARSAL_H

#include "audit/check.h"

struct rehearsal;

/* e is borrowed until rehearsal_free(). */
struct rehearsal *rehearsal_new(const struct evidence *e);
void rehearsal_free(struct rehearsal *h);
/* The ith probe is refused with this status (0: 403); nobody comes to the listener or the upstream because of it. */
void rehearsal_refuse(struct rehearsal *h, size_t i, int status);
/* Would c's judge call it good? Not while something of it was never answered. */
bool rehearsal_is_good(const struct rehearsal *h, const struct check *c);

#endif
