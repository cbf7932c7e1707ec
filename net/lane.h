/*
 * Lanes: turns of the loop are shared out in time. Every stream works for somebody, and belongs to that somebody's lane. In
 * each turn a lane may use a quantum of this thread's time; what is ready beyond that waits in the lane, in order, for
 * the next turn. So a lane with a thousand busy streams gets as much of the thread as one with ten, while both have
 * work; and nobody waits for longer than a turn while nobody else has any. Deficit round robin: who went over its quantum (one
 * TLS handshake takes more than one) has less in the next turns, which are over at once while nobody is at work.
 *
 * The thread's time is charged by lane_enter: from each call to the next it belongs to the lane that was named. That is one
 * look at the clock for each event, tens of nanoseconds; nothing is searched or allocated.
 */
#ifndef NET_LANE_H
#define NET_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "net/loop.h"

struct lanes;

/*
 * Embedded in what takes turns: zero it and set go and arg. go comes once for each time that it had to wait, from the end
 * of a turn, its lane entered; ready is what lane_admit was told meanwhile.
 */
struct lane_seat {
    void (*go)(void *arg, unsigned ready);
    void *arg;
    /* the lane's own */
    struct lane *lane; /* NULL: its time is nobody's, and it never waits */
    bool waits;
    unsigned owed;
    TAILQ_ENTRY(lane_seat) link;
};

/* Embedded in whose time it is. */
struct lane {
    struct lanes *lanes;
    uint64_t tag;      /* set by its owner: what lanes_show shows of it; 0: nothing */
    int64_t credit_ns; /* what it may still use in this turn; below 0: owed */
    uint64_t turn;     /* that credit_ns is of */
    uint64_t epoch;    /* when it was at work last */
    TAILQ_HEAD(lane_seats, lane_seat) waits;
    TAILQ_ENTRY(lane) link; /* among the lanes where somebody waits */
};

/*
 * share_ns: what one turn shares out among the lanes that were at work lately (in 20 ms), each at least least_ns; one
 * that was alone gets alone_ns. clock: for tests; NULL: CLOCK_MONOTONIC. l is kept, and calls lanes_turn at each turn's end.
 */
struct lanes *lanes_new(struct loop *l, int64_t share_ns, int64_t least_ns, int64_t alone_ns, int64_t (*clock)(void));

/* From now on *where (kept) holds the tag of the lane whose time it is; of a turn that is over, 0. For a post-mortem. */
void lanes_show(struct lanes *ls, _Atomic uint64_t *where);

void lane_init(struct lane *lane, struct lanes *ls);
/* Nobody sits in it. */
void lane_clear(struct lane *lane);

/* From now on, until the next call or the end of the turn, the time is lane's; NULL is fine: nothing changes. */
void lane_enter(struct lane *lane);
/* Has lane used up this turn's time? */
bool lane_is_out(struct lane *lane);
/* Into a lane, from another or from none; who waits goes on waiting there. Not back to none. */
void lane_sit(struct lane_seat *s, struct lane *lane);
/* Out of its lane, without being called. */
void lane_rise(struct lane_seat *s);
/*
 * True: now, and its lane is entered. False: the lane is out, or others wait in it already; go comes in its turn.
 */
bool lane_admit(struct lane_seat *s, unsigned ready);

/* The end of a turn, called by the loop: who waits goes on, as far as the new quantum goes. */
void lanes_turn(void *lanes);

#endif
