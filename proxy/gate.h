/*
 * The gate: where a worker's clients come in. Owns its listening sockets; accepts in batches while there is room;
 * pauses when the worker is full or the system is out of descriptors or memory, and goes on by itself. While it is
 * out, COUNTER_EXHAUSTED holds the errno, which makes /readyz red.
 */
#ifndef PROXY_GATE_H
#define PROXY_GATE_H

#include "proxy/worker.h"

/* Before gate_open. Takes fd. */
void gate_add(struct slice name, int fd);
void gate_open(struct worker *w);
/* For good: the worker stops. */
void gate_close(void);
/* A session has ended: there is room again. */
void gate_session_ended(struct worker *w);
/* Something here or at the porter failed for want of descriptors or memory (error: EMFILE and the like). */
void gate_exhausted(struct worker *w, int error);
/* Each second: is it over? */
void gate_tick(struct worker *w);

#endif
