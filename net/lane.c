/* Owns the turn's number, whose time it is, and the lanes where somebody waits. */
#include "net/lane.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"

enum { FORGIVEN = 1000 /* turns after which a debt is old */ };
#define EPOCH_NS (20 * 1000 * 1000)

TAILQ_HEAD(lane_list, lane);

struct lanes {
    struct loop *loop;
    int64_t (*clock)(void);
    int64_t share_ns, least_ns, alone_ns;
    int64_t quantum_ns; /* of this turn */
    uint64_t turn;
    uint64_t epoch;     /* who was at work is counted for 20 ms: who waits for an answer has not left */
    int64_t epoch_ns;   /* began */
    size_t n_busy, n_before; /* lanes at work in this one, and in the one before */
    bool asked; /* a lane was found out in this turn, and did not wait: the next one must come all the same */
    struct lane *current;
    _Atomic uint64_t *shown, hidden; /* where current's tag is told */
    int64_t since_ns;   /* current's time runs from here */
    struct lane_list waiting;
};

struct lanes *lanes_new(struct loop *l, int64_t share_ns, int64_t least_ns, int64_t alone_ns, int64_t (*clock)(void))
{
    struct lanes *ls = calloc(1, sizeof *ls);

    if (!ls)
        abort();
    *ls = (struct lanes){.loop = l, .clock = clock ? clock : clock_mono_ns, .share_ns = share_ns, .least_ns = least_ns,
                         .alone_ns = alone_ns, .quantum_ns = alone_ns, .turn = 1, .epoch = 1};
    TAILQ_INIT(&ls->waiting);
    ls->shown = &ls->hidden;
    if (l)
        loop_each_turn(l, lanes_turn, ls);
    return ls;
}

/* ---- time ---- */

/* Into this turn: a fresh quantum, less what it owes; nothing is saved up. */
static void bring_up(struct lanes *ls, struct lane *lane)
{
    uint64_t gone = ls->turn - lane->turn;

    if (gone == 0)
        return;
    lane->turn = ls->turn;
    if (lane->epoch != ls->epoch)
        ls->n_busy++;
    lane->epoch = ls->epoch;
    if (lane->credit_ns > 0 || gone > FORGIVEN)
        lane->credit_ns = 0;
    lane->credit_ns += (int64_t)gone * ls->quantum_ns;
    if (lane->credit_ns > ls->quantum_ns)
        lane->credit_ns = ls->quantum_ns;
}

static void charge(struct lanes *ls)
{
    int64_t now = ls->clock();

    if (ls->current)
        ls->current->credit_ns -= now - ls->since_ns;
    ls->since_ns = now;
}

static void switch_to(struct lanes *ls, struct lane *lane)
{
    charge(ls);
    ls->current = lane;
    atomic_store_explicit(ls->shown, lane ? lane->tag : 0, memory_order_relaxed);
}

void lanes_show(struct lanes *ls, _Atomic uint64_t *where)
{
    ls->shown = where;
    atomic_store_explicit(ls->shown, ls->current ? ls->current->tag : 0, memory_order_relaxed);
}

void lane_enter(struct lane *lane)
{
    if (!lane || lane == lane->lanes->current)
        return;
    bring_up(lane->lanes, lane);
    switch_to(lane->lanes, lane);
}

bool lane_is_out(struct lane *lane)
{
    struct lanes *ls = lane->lanes;

    if (lane == ls->current)
        charge(ls);
    bring_up(ls, lane);
    ls->asked = ls->asked || lane->credit_ns <= 0;
    return lane->credit_ns <= 0;
}

/* ---- waiting ---- */

static void nothing(void *arg)
{
    (void)arg;
}

void lane_init(struct lane *lane, struct lanes *ls)
{
    *lane = (struct lane){.lanes = ls};
    TAILQ_INIT(&lane->waits);
}

void lane_clear(struct lane *lane)
{
    assert(TAILQ_EMPTY(&lane->waits));
    if (lane->lanes->current == lane)
        switch_to(lane->lanes, NULL);
}

static void wait_in_lane(struct lane_seat *s)
{
    struct lane *lane = s->lane;
    struct lanes *ls = lane->lanes;

    if (s->waits)
        return;
    if (TAILQ_EMPTY(&ls->waiting) && ls->loop)
        loop_defer(ls->loop, nothing, NULL); /* the loop must not sleep */
    if (TAILQ_EMPTY(&lane->waits))
        TAILQ_INSERT_TAIL(&ls->waiting, lane, link);
    TAILQ_INSERT_TAIL(&lane->waits, s, link);
    s->waits = true;
}

static void stop_waiting(struct lane_seat *s)
{
    struct lane *lane = s->lane;

    if (!s->waits)
        return;
    s->waits = false;
    TAILQ_REMOVE(&lane->waits, s, link);
    if (TAILQ_EMPTY(&lane->waits))
        TAILQ_REMOVE(&lane->lanes->waiting, lane, link);
}

void lane_rise(struct lane_seat *s)
{
    stop_waiting(s);
    s->lane = NULL;
}

void lane_sit(struct lane_seat *s, struct lane *lane)
{
    bool waits = s->waits;

    if (s->lane == lane)
        return;
    stop_waiting(s);
    s->lane = lane;
    if (waits)
        wait_in_lane(s);
}

bool lane_admit(struct lane_seat *s, unsigned ready)
{
    if (!s->lane)
        return true;
    if (s->waits || !TAILQ_EMPTY(&s->lane->waits) || lane_is_out(s->lane)) {
        s->owed |= ready;
        wait_in_lane(s);
        return false;
    }
    lane_enter(s->lane);
    return true;
}

/* One that waits in lane goes on. Lanes and seats may come and go in it. */
static void let_go(struct lane *lane)
{
    struct lane_seat *s = TAILQ_FIRST(&lane->waits);
    unsigned ready = s->owed;

    stop_waiting(s);
    s->owed = 0;
    lane_enter(lane);
    s->go(s->arg, ready);
}

static struct lane *next_with_credit(struct lanes *ls)
{
    struct lane *lane;

    TAILQ_FOREACH(lane, &ls->waiting, link) {
        if (lane == ls->current)
            charge(ls);
        bring_up(ls, lane);
        if (lane->credit_ns > 0)
            return lane;
    }
    return NULL;
}

static int64_t next_quantum(const struct lanes *ls)
{
    size_t n = ls->n_busy > ls->n_before ? ls->n_busy : ls->n_before;
    int64_t each;

    if (n <= 1)
        return ls->alone_ns;
    each = ls->share_ns / (int64_t)n;
    return each > ls->least_ns ? each : ls->least_ns;
}

static void next_epoch(struct lanes *ls)
{
    if (ls->since_ns - ls->epoch_ns < EPOCH_NS)
        return;
    ls->epoch++;
    ls->epoch_ns = ls->since_ns;
    ls->n_before = ls->n_busy;
    ls->n_busy = 0;
}

/* While nobody is at work, the turns up to the first that gives one of those who wait some time are over at once. */
static void skip_turns(struct lanes *ls)
{
    uint64_t least = UINT64_MAX;
    struct lane *lane;

    TAILQ_FOREACH(lane, &ls->waiting, link) {
        uint64_t more;

        bring_up(ls, lane);
        if (lane->credit_ns > 0)
            return;
        more = (uint64_t)(-lane->credit_ns / ls->quantum_ns) + 1;
        least = more < least ? more : least;
    }
    if (least < UINT64_MAX)
        ls->turn += least;
}

void lanes_turn(void *arg)
{
    struct lanes *ls = arg;
    bool worked = ls->current != NULL;
    struct lane *lane;

    if (!ls->current && !ls->asked && TAILQ_EMPTY(&ls->waiting))
        return; /* nobody was at work */
    ls->asked = false;
    switch_to(ls, NULL);
    ls->quantum_ns = next_quantum(ls);
    next_epoch(ls);
    ls->turn++;
    if (!worked)
        skip_turns(ls);
    while ((lane = next_with_credit(ls)))
        let_go(lane);
    if (!TAILQ_EMPTY(&ls->waiting) && ls->loop)
        loop_defer(ls->loop, nothing, NULL);
}
