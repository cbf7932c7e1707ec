/*
 * Pins: a token without a binding of its own (cnf) belongs to the first source address that shows it, until it
 * expires. Shared memory that all workers map and write, so the first source on any worker is the
 * first; without it each verifier has a private one. What is kept is a keyed hash of token and source, no more.
 * Pins do not survive a restart of the gateway: a token is then pinned anew.
 */
#ifndef AUTHZ_PINS_H
#define AUTHZ_PINS_H

#include "base/fault.h"
#include "base/slice.h"

struct pins;

/* Shared memory for at least entries live tokens (1.5 MiB for 32,768); pins_fd() is borrowed, for pins_map(). */
struct pins *pins_create(size_t entries, struct fault *why);
struct pins *pins_map(int fd, struct fault *why);
/*
 * Supervisor, every few seconds: a place that somebody still fills since the last look is one that a worker died in, and would keep
 * all who meet it waiting, and refused. It is free again: nobody was told that its token is good there.
 */
void pins_look(struct pins *p);
/* Supervisor, before a worker maps it: by what it was made with, whatever another worker has written over that. */
void pins_mend(struct pins *p);
void pins_free(struct pins *p);
int pins_fd(const struct pins *p);

/*
 * Is source the one that the token (its 32-byte fingerprint) is pinned to? A token not seen before is pinned to it.
 * Forgotten forget_s seconds after 1970: after that the token must be refused before this is asked.
 * False as well when there is no room, which takes more live tokens than the table was made for, and when another process
 * that was filling a place on the way has not finished: it is waited for, up to 200 ms.
 */
bool pins_hold(struct pins *p, const unsigned char *fingerprint, struct slice source, int64_t forget_s,
               int64_t now_s);

#endif
