/*
 * The gate: where a worker's clients come in. Owns its listening sockets; accepts in batches while there is room;
 * pauses when the worker is full or the system is out of descriptors or memory, and goes on by itself. While it is
 * out, COUNTER_EXHAUSTED holds the errno, which makes /readyz red.
 */
#ifndef PROXY_GATE_H
#define PROXY_GATE_H

#include "proxy/bound.h"
#include "proxy/worker.h"

/* What the listener of this name is, which gate_add is called for next. Takes b. */
void gate_bind(struct bound *b);
/* A bound listener's token, or another one (empty: none): its tunnels go on by it. */
void gate_token(struct slice name, struct slice token);
/* While no other configuration is being prepared: this one opens; this one goes, as by gate_renew. */
void gate_open_added(struct slice name);
void gate_remove(struct slice name);
/* Takes fd. Before gate_open; or, for another configuration, before gate_renew or gate_abandon. */
void gate_add(struct slice name, int fd);
/*
 * That configuration is in force: what was added opens, what it has no more closes. Connections of a listener that goes
 * end once they are idle; where only its name has changed, they go on under the new one.
 */
void gate_renew(const struct conf *conf);
/* It is not to be: what was added goes. */
void gate_abandon(void);
void gate_open(struct worker *w);
/* For good: the worker stops. */
void gate_close(void);
/* Is it the address of a listener of ours? */
bool gate_is_own(const struct addr *a);
/* A session has ended: there is room again. */
void gate_session_ended(struct worker *w);
/* Something here or at the porter failed for want of descriptors or memory (error: EMFILE and the like). */
void gate_exhausted(struct worker *w, int error);
/* Each second: is it over? */
void gate_tick(struct worker *w);

#endif
