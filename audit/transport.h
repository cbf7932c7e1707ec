/*
 * Sending: each probe on a connection of its own, to the address that was looked up when the target was opened and to no
 * other; no redirect is followed, no proxy used, no cookie kept. A wait ends with the manifest's time-out.
 */
#ifndef AUDIT_TRANSPORT_H
#define AUDIT_TRANSPORT_H

#include "audit/turn.h"
#include "audit/target.h"

struct transport;
struct ferry;

/* agent goes into User-Agent. t is kept. */
struct transport *transport_new(const struct target *t, const char *agent, struct fault *why);
void transport_free(struct transport *s);
/* Send it and wait for the answer (give: turn_free). Always gives one, with an outcome. */
struct turn *transport_send(struct transport *s, const struct probe *p);
/*
 * From here on as a sandbox's request through the gateway at this address, with this leave token (both kept); NULL: directly again. Services
 * behind TLS are reached through a tunnel, and ca (a file, kept) is the gateway's root. With is_bare no credential of the manifest's is
 * sent: the gateway puts in its own, if any.
 */
void transport_through(struct transport *s, const struct addr *gateway, const char *token, const char *ca, bool is_bare);
/*
 * As transport_through() by a socket that is no TCP: a bound listener's unix socket, which f (kept) leads to. The token may be NULL,
 * here and there, for such a listener has one itself.
 */
void transport_ferried(struct transport *s, struct ferry *f, const char *token, const char *ca, bool is_bare);

#endif
