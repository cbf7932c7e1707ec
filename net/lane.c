/* Owns the turn's number and whose time it is. */
#include "net/lane.h"

#include <stdlib.h>

#include "base/clock.h"

struct lanes {
    int64_t (*clock)(void);
    int64_t share_ns, least_ns;
    int64_t quantum_ns; /* of this turn */
    uint64_t turn;
    size_t n_busy;      /* lanes that were entered in this turn */
    struct lane *current;
    int64_t since_ns;   /* current's time runs from here */
};

struct lanes *lanes_new(struct loop *l, int64_t share_ns, int64_t least_ns, int64_t (*clock)(void))
{
    struct lanes *ls = calloc(1, sizeof *ls);

    if (!ls)
        abort();
    *ls = (struct lanes){.clock = clock ? clock : clock_mono_ns, .share_ns = share_ns, .least_ns = least_ns,
                         .quantum_ns = share_ns, .turn = 1};
    if (l)
        loop_each_turn(l, lanes_turn, ls);
    return ls;
}

void lanes_free(struct lanes *ls)
{
    free(ls);
}

/* Into this turn: a fresh quantum, less what it owes; nothing is saved up. Being idle for long forgives a debt. */
static void bring_up(struct lanes *ls, struct lane *lane)
{
    uint64_t gone = ls->turn - lane->turn;

    if (gone == 0)
        return;
    lane->turn = ls->turn;
    ls->n_busy++;
    if (lane->credit_ns > 0)
        lane->credit_ns = 0;
    lane->credit_ns = gone > 1000 ? ls->quantum_ns : lane->credit_ns + (int64_t)gone * ls->quantum_ns;
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

void lane_enter(struct lanes *ls, struct lane *lane)
{
    if (lane == ls->current)
        return;
    charge(ls);
    if (lane)
        bring_up(ls, lane);
    ls->current = lane;
}

bool lane_is_out(struct lanes *ls, struct lane *lane)
{
    if (lane == ls->current)
        charge(ls);
    bring_up(ls, lane);
    return lane->credit_ns <= 0;
}

struct lane *lane_current(const struct lanes *ls)
{
    return ls->current;
}

void lane_leave(struct lanes *ls, const struct lane *lane)
{
    if (lane == ls->current)
        lane_enter(ls, NULL);
}

void lanes_turn(void *arg)
{
    struct lanes *ls = arg;

    lane_enter(ls, NULL);
    ls->quantum_ns = ls->n_busy ? ls->share_ns / (int64_t)ls->n_busy : ls->share_ns;
    if (ls->quantum_ns < ls->least_ns)
        ls->quantum_ns = ls->least_ns;
    ls->n_busy = 0;
    ls->turn++;
}
