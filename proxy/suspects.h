/*
 * Suspects: the sandboxes that were there when a worker crashed. One that had an exchange in flight at three crashes
 * within an hour is convicted. Bystanders are in flight too: when the worker was at work for one of those with three, it is
 * that one alone; otherwise all of them. So nobody who crashes workers stays, and a neighbour goes only when the crashes go
 * on without the first. Who was there is the word of the worker's shared memory (tally_visit). Pure but for that.
 */
#ifndef PROXY_SUSPECTS_H
#define PROXY_SUSPECTS_H

#include "base/fault.h"
#include "base/slice.h"

enum { SUSPECTS_CRASHES = 3, SUSPECTS_WINDOW_S = 3600, SUSPECTS_MAX = 65536 };

struct suspects;

struct suspects *suspects_new(void);
void suspects_free(struct suspects *s);
/*
 * A worker has crashed; tally is its pages' descriptor (borrowed). convict is called for each sandbox (borrowed, visible ASCII)
 * that is convicted by it; what was counted of that one is forgotten.
 */
bool suspects_crash(struct suspects *s, int tally, int64_t now_s, void (*convict)(void *arg, struct slice sandbox),
                    void *arg, struct fault *why);

#endif
