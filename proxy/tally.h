/*
 * The tally: who holds how much of what, counted for the gateway as a whole over several workers.
 *
 * Each worker has one page set of shared memory that it alone maps writable; the others map it read-only and add up. So
 * no worker, not even one that hostile input has taken over, can change what another has counted; the worst it can do is to
 * count wrongly for itself, and numbers read from others are capped so that they cannot wrap. (Shared counters that all
 * write, as pins are, would let it give anybody room without end.)
 *
 * A principal (a sandbox, or a source address that has not shown a token) has a place in a page by a keyed hash of its
 * name, so that it is found in the pages of others without a search, among 16 neighbouring keys (two cache lines). A seat
 * remembers where its principal sits in each page and looks for new places 10 times a second at most; a look-up
 * costs one load for each other worker. What a worker counts is seen by the others at once; that a principal has come to
 * another worker, within 100 ms. Two workers that admit at the same instant may go over a limit by one each.
 */
#ifndef PROXY_TALLY_H
#define PROXY_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/slice.h"

/* What is held now and given back. */
enum tally_hold {
    HOLD_CONNECTIONS,
    HOLD_EXCHANGES,
    HOLD_DIALS,
    HOLD_LOOKUPS,
    HOLD_HANDSHAKES,
    N_HOLDS
};

/* What goes by, counted over a window of time. */
enum tally_pace {
    PACE_RECORDS,
    PACE_DENIALS,
    PACE_HANDSHAKES,
    PACE_FAILED_HANDSHAKES,
    PACE_JUNK_TOKENS,
    PACE_BYTES,
    PACE_URLS,
    PACE_NAMES,
    N_PACES
};

enum tally_kind { TALLY_SANDBOX, TALLY_SOURCE, N_TALLY_KINDS };

#define TALLY_WORKERS_MAX 256

struct tally;
struct tally_seat;

/*
 * A sealed memfd for one worker's pages; -1 and why. secret: 16 bytes that all pages of this gateway share, so that
 * nobody outside can choose names that collide.
 */
int tally_create(const unsigned char secret[16], struct fault *why);
/* Before another worker takes them over: their head as it was made, whatever the one before wrote there. False: the system does not let us. */
bool tally_mend(int fd, const unsigned char secret[16]);
struct tally *tally_new(void);
void tally_free(struct tally *t);
/* The page set this worker writes; what a worker before it held is given back, what it counted over time stays. */
bool tally_own(struct tally *t, int fd, struct fault *why);
/* Another worker's, read-only; before the first seat is taken. fds stay the caller's. */
bool tally_add(struct tally *t, int fd, struct fault *why);

size_t tally_workers(const struct tally *t); /* with this one */

/* A seat for a principal; when this worker's pages are full it counts here only. Give back by tally_leave. */
struct tally_seat *tally_sit(struct tally *t, enum tally_kind kind, struct slice name);
/* What the principal is called, for tally_visit: cut to TALLY_NAME - 1 bytes. Without it, it has no name there. */
void tally_name(struct tally_seat *s, struct slice name);
#define TALLY_NAME 136
/* Not 0: what stands for the seat's principal in lanes_show(tally_at_work()). */
uint64_t tally_tag(const struct tally_seat *s);
/* Where the worker tells whose work it does, in its own pages; kept as long as the tally. */
_Atomic uint64_t *tally_at_work(struct tally *t);
/* Everything it held was given back before. */
void tally_leave(struct tally_seat *s);

void tally_hold(struct tally_seat *s, enum tally_hold h, int by);
uint64_t tally_held(struct tally_seat *s, enum tally_hold h, int64_t now_ms);
uint64_t tally_held_here(const struct tally_seat *s, enum tally_hold h); /* by this worker */
void tally_add_pace(struct tally_seat *s, enum tally_pace p, int64_t now_ms, uint64_t n);
uint64_t tally_paced(struct tally_seat *s, enum tally_pace p, int64_t now_ms);
int64_t tally_window_ms(enum tally_pace p);
/* Does it hold nothing here, and has everything it did gone by? */
bool tally_is_idle(const struct tally_seat *s, int64_t now_ms);

/*
 * Has any worker noted these words (host, target) of this principal in the window of p (URLs, names)? At most
 * TALLY_SEEN_MAX are remembered for each worker; what was forgotten is new again.
 */
bool tally_has_seen(struct tally_seat *s, enum tally_pace p, struct slice host, struct slice target, int64_t now_ms);
void tally_note_seen(struct tally_seat *s, enum tally_pace p, struct slice host, struct slice target, int64_t now_ms);
#define TALLY_SEEN_MAX (1u << 18)

/*
 * For the supervisor, when the worker of these pages has ended: each named principal that had an exchange in flight, or for
 * whom it was at work when it ended (at_work). What stands there is the word of a process that may have been taken over:
 * the name is borrowed and may be any bytes. False and why when fd is no tally.
 */
bool tally_visit(int fd, void (*visit)(void *arg, struct slice name, bool at_work), void *arg, struct fault *why);

/* Once a second: count afresh who is active on other workers. */
void tally_refresh(struct tally *t, int64_t now_ms);
/* How many principals hold something anywhere; what this worker sits counts at once. At least 1. */
size_t tally_active(const struct tally *t, enum tally_kind kind);

#endif
