/*
 * The supervisor's part of a grant: it reads the credential that the operator keeps somewhere, when the keeper asks, and lets
 * no two sandboxes have one (design 13). What a program printed is kept for its lifetime; files and variables are read each
 * time, so that a change counts from the next grant on.
 */
#ifndef PROXY_SOURCES_H
#define PROXY_SOURCES_H

#include "proxy/supervisor.h"

struct sources *sources_new(struct supervisor *s);
/* Once, when the state directory is ours: who holds what (proxy/holders.h). Before the first fetch. */
bool sources_open(struct sources *s, struct fault *why);
/* Ends programs that run. */
void sources_free(struct sources *s);
/* MSG_FETCH of this keeper, answered now or later. False: it is malformed. */
bool sources_fetch(struct sources *s, struct process *keeper, struct slice payload);
/* A child of the supervisor has ended; not all are programs. */
void sources_on_child(struct sources *s, pid_t pid, int status);

#endif
