/*
 * Sending: each probe on a connection of its own, to the address that was looked up when the target was opened and to no
 * other; no redirect is followed, no proxy used, no cookie kept. A wait ends with the manifest's time-out.
 */
#ifndef AUDIT_TRANSPORT_H
#define AUDIT_TRANSPORT_H

#include "audit/turn.h"
#include "audit/target.h"

struct transport;

/* agent goes into User-Agent. t is kept. */
struct transport *transport_new(const struct target *t, const char *agent, struct fault *why);
void transport_free(struct transport *s);
/* Send it and wait for the answer (give: turn_free). Always gives one, with an outcome. */
struct turn *transport_send(struct transport *s, const struct probe *p);
/* The field that carries a credential: "Authorization: Bearer ..." (wiped by the caller). Nothing when there is none. */
void credential_field(const struct credential *c, struct buf *out);

#endif
