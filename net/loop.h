/*
 * The event loop: descriptors, timers, signals, and work put off to the end of the turn. One per
 * process. libevent shows nowhere outside net/.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct watch;
struct timer;

struct loop *loop_new(void);
void loop_free(struct loop *l);
/* Runs until loop_stop; a turn is: wait, call what is ready, then all that was put off. May be run again. */
void loop_run(struct loop *l);
void loop_stop(struct loop *l);

/* The clock as of this turn: monotonic ms, wall seconds, wall ns. Cheap. */
int64_t loop_now_ms(const struct loop *l);
int64_t loop_wall_s(const struct loop *l);
int64_t loop_wall_ns(const struct loop *l);

/* Call run(arg) once at the end of this turn (also when nothing else is ready); work added by such a call runs in the next turn's end. */
void loop_defer(struct loop *l, void (*run)(void *arg), void *arg);
/* Call run(arg) at the end of every turn, after the deferred work: batches are flushed here. */
void loop_each_turn(struct loop *l, void (*run)(void *arg), void *arg);

/* Was any descriptor ready in this turn? Then others may be by now, and who gathers a batch can wait for a look at them. */
bool loop_is_busy(const struct loop *l);

#define WATCH_READ 1u
#define WATCH_WRITE 2u
#define WATCH_EDGE 4u   /* wanted: call only when something new came since the last call (or since this was asked for) */
#define WATCH_CLOSED 8u /* told with WATCH_EDGE: the peer's end is there, behind what is still unread */

/* Watch fd (not owned); call on(arg, ready) while it is ready for what is wanted (level-triggered without WATCH_EDGE). */
struct watch *watch_new(struct loop *l, int fd, unsigned want, void (*on)(void *arg, unsigned ready), void *arg);
void watch_want(struct watch *w, unsigned want); /* cheap when unchanged */
/*
 * Did the kernel say, when it was asked for this turn and that was only a moment ago, that there is nothing to read, and
 * nothing was told since? False: it is not known. Costs no system call. Of WATCH_EDGE: nothing new. Where more is ready at once
 * than ever before (32 at first), a turn's answer may be without some of it, which the next one then has.
 */
bool watch_is_silent(const struct watch *w);
void watch_free(struct watch *w);

/*
 * One-shot timer; timer_set replaces what was set. Setting it later than before costs nothing (the old
 * moment comes, sees that it is too early and goes on waiting).
 */
struct timer *timer_new(struct loop *l, void (*on)(void *arg), void *arg);
void timer_set(struct timer *t, int64_t ms_from_now);
void timer_stop(struct timer *t);
void timer_free(struct timer *t);

void loop_on_signal(struct loop *l, int signal, void (*on)(void *arg, int signal), void *arg);

#endif
