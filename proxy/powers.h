/*
 * What the supervisor keeps of root's powers: those that starting roles and owning sockets and state needs, and no other
 * (capabilities(7)). It has no cell, since whatever it may not its roles could not either, so this is how tight it is.
 */
#ifndef PROXY_POWERS_H
#define PROXY_POWERS_H

#include <stddef.h>
#include <stdint.h>

/*
 * For good, for this process and all it starts: only the powers of the table, no new ones by any program that is run, no core
 * dump, memory closed to others of the same user. Who is not root has no powers to shed; the rest holds for all.
 */
void powers_shed(void);
/* The listening sockets are open: what only making them took goes too. */
void powers_shed_openers(void);

/* Those that are in force now, by name ("setuid"), one after another; NULL behind the last. */
const char *powers_next(size_t *at);

#endif
