/*
 * Another configuration in a running gateway, by SIGHUP or `exeat reload`. It is read and checked once; on any
 * error what is in force stays whole. Then, step by step, each when all roles of the one before have answered:
 *
 *   COMPILE  where there are other canaries, their patterns, in a process of its own (proxy/lexicon.h)
 *   PREPARE  every role builds the new set beside its own (MSG_RELOAD); one that cannot ends the reload
 *   RECORD   the journal has it; from here on it cannot fail, and roles that start again start with it
 *   WIDEN    porter and keeper go over to it and still answer questions by the old one (MSG_SWITCH)
 *   SWAP     workers, clerk and scribe go over to it; what is open and no longer allowed ends
 *   NARROW   porter and keeper drop the old one, as all others do (MSG_SETTLE); sockets of removed listeners close
 *
 * so that no worker is ever ahead of the porter, and nothing newly denied passes once it is acknowledged.
 */
#ifndef PROXY_RELOAD_H
#define PROXY_RELOAD_H

#include "proxy/supervisor.h"

/* s is kept; path is the configuration's, kept. */
struct reload *reload_new(struct supervisor *s, const char *path);
void reload_free(struct reload *r);

/* Reload, now or after the one under way; whoever asks meanwhile shares that next one. */
void reload_ask(struct reload *r, const struct asker *who);

/* What the supervisor hears of its processes. */
void reload_on_ready(struct reload *r, struct process *p);
void reload_on_death(struct reload *r, struct process *p);
void reload_on_did(struct reload *r, struct process *p, struct slice payload);
void reload_on_cannot(struct reload *r, struct process *p, struct slice payload);
/* A process of ours has ended: the one that compiles, maybe. */
void reload_on_child(struct reload *r, pid_t pid, int status);
/* It is being decided which configuration a process starts with: wait. */
bool reload_holds_starts(const struct reload *r);

/* Is one under way? */
bool reload_is_busy(const struct reload *r);

/* The last one, for status: NULL text: none yet; "" it went well. */
const char *reload_last_error(const struct reload *r, int64_t *at_s);

#endif
