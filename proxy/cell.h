/*
 * The cell of each role: the one table of what it may do once it is closed in. What a role has is handed to it
 * before; here is what it may still ask the kernel for.
 */
#ifndef PROXY_CELL_H
#define PROXY_CELL_H

#include "proxy/role.h"

/* The walls that stand around a role; a bit each. */
enum cell_wall {
    CELL_CALLS = 1,   /* only the calls of its table (seccomp) */
    CELL_HEARD = 2,   /* and the supervisor hears of every other one */
    CELL_FILES = 4,   /* no files by name, or those of one directory (Landlock) */
    CELL_NETWORK = 8, /* in a network namespace of its own, with nothing in it */
};

/* Is this a sanitizer's build? Sanitizers must read their own process and start others: the one switch that opens cells. */
bool cell_is_relaxed(void);
/* The walls that a role has where the machine gives all. */
unsigned cell_walls(enum role r);
/* What it may do, and what it may not: half a sentence each, for people. NULL for the supervisor, which has no cell. */
const char *cell_grants(enum role r);
const char *cell_denies(enum role r);

/* One line each for the walls that are missing somewhere: what is off, and what still holds. */
void cell_explain(unsigned missing, struct buf *out);

/* Load what libraries read from files when they are first used, while files can still be opened. */
void cell_prepare(void);
/*
 * Close this process in. journal (borrowed, -1: none) is the directory the scribe writes in. *walls: those that stand, but for
 * CELL_NETWORK, which is spawn.c's. *ear (give) is for the supervisor alone. False and why: the process must end.
 */
bool cell_close(enum role r, int journal, unsigned *walls, int *ear, struct fault *why);

#endif
