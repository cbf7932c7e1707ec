/*
 * What a process is handed when it starts: its files, the sockets and memory of its role, and channels to those it asks.
 */
#ifndef PROXY_HANDOUT_H
#define PROXY_HANDOUT_H

#include "proxy/supervisor.h"

/* Over its control channel; payload may be NULL. Nothing happens when it is not there. */
void process_tell(struct process *p, enum role_message type, const struct buf *payload, int fd);

/* type: MSG_CONFIG or MSG_RELOAD. */
void handout_config(struct process *p, enum role_message type, const struct gateway_config *config, uint64_t generation);
/* Is that listener served by a process of this kind? */
bool handout_is_for(const struct process *p, const struct listening *l);
void handout_listener(struct process *p, const struct listening *l);
void handout_assets(struct supervisor *s, struct process *p);
/* To the porter: where the gateway itself listens, and will (plan may be NULL). */
void handout_own(struct process *porter, const struct listeners *now, const struct listeners *plan);
/* A new channel between the two, for both. */
void handout_channel(struct process *a, struct process *b);
/* Our own line to the scribe. */
void handout_ourselves(struct supervisor *s, struct process *scribe);

/* Do they talk, one way or the other? And is it asker who asks server, so that server may say that asker broke its table? */
bool handout_is_wired(enum role a, enum role b);
bool handout_serves(enum role server, enum role asker);
/* The token of a bound listener as it was read last, to a worker; its file is read when it never was. */
void handout_token(struct process *worker, const struct listening *l);

#endif
