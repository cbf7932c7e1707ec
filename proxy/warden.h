/*
 * The warden of one process: what the supervisor knows of its cell. It hears what the kernel refused the role, counts it, says
 * and records it, and asks for the role's end when it did what nobody honest does. It outlives the processes of its role.
 */
#ifndef PROXY_WARDEN_H
#define PROXY_WARDEN_H

#include "proxy/cell.h"
#include "proxy/recorder.h"

struct warden;

/* recorder is kept. end(arg): the process is to be ended at once; never called twice for one process. */
struct warden *warden_new(struct loop *l, struct recorder *recorder, enum role role, int index, void (*end)(void *arg),
                          void *arg);
void warden_free(struct warden *w);

/* The role says which walls stand; takes ear (-1: none). */
void warden_close(struct warden *w, unsigned walls, int ear);
/* Its process is gone; by_kernel: the kernel ended it for a call that nobody heard. */
void warden_leave(struct warden *w, bool by_kernel);
/* It broke the table of messages: what (borrowed, one line, may be hostile) tells how; by is who noticed. */
void warden_accuse(struct warden *w, const char *by, struct slice what);

bool warden_is_closed(const struct warden *w);
unsigned warden_walls(const struct warden *w); /* of the process that runs, or ran last */

/* What was refused to all processes of this place: calls by name, and messages. */
struct warden_count {
    char what[32];
    uint64_t times;
};
uint64_t warden_refused(const struct warden *w);
uint64_t warden_ended(const struct warden *w); /* processes that were ended for it */
const struct warden_count *warden_counts(const struct warden *w, size_t *n);

#endif
