/*
 * Lanes: turns are shared out in time. Every stream belongs to the lane of whoever it works for; in each turn of the loop a
 * lane may use a quantum of this thread's time, and what is ready beyond that stays ready for the next turn. So a lane with
 * a thousand busy streams gets as much of the thread as one with ten, as long as both have work; nobody waits while
 * nobody else has any. Deficit round robin: who went over its quantum (one handshake takes more than one) has less in the
 * next turns.
 *
 * The time of the thread is charged by lane_enter: from each call to the next it belongs to the lane that was named. One
 * look at the clock for each, tens of nanoseconds; nothing is searched or allocated.
 */
#ifndef NET_LANE_H
#define NET_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"

struct lane {
    int64_t credit_ns; /* what it may still use in this turn; below 0: owed */
    uint64_t turn;     /* that credit_ns is of */
};

struct lanes;

/*
 * share_ns: what one turn shares out among the lanes that were at work in the turn before; least_ns: what each gets at
 * least. clock: for tests; NULL: CLOCK_MONOTONIC.
 */
struct lanes *lanes_new(struct loop *l, int64_t share_ns, int64_t least_ns, int64_t (*clock)(void));
void lanes_free(struct lanes *ls);

/* From now on the time is lane's; NULL: nobody's. lane must be as zeroed at first, and must be left before it is freed. */
void lane_enter(struct lanes *ls, struct lane *lane);
/* Has lane used up this turn's time? */
bool lane_is_out(struct lanes *ls, struct lane *lane);
/* The lane entered last; NULL: none. */
struct lane *lane_current(const struct lanes *ls);
/* lane is about to be freed. */
void lane_leave(struct lanes *ls, const struct lane *lane);
/* The end of a turn; called by the loop itself. */
void lanes_turn(void *lanes);

#endif
