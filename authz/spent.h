/*
 * Spent tokens: jti of issuers that say single-use, each good once. A file of the state directory that all workers map and
 * write, so that the first use on any worker is the only one; it outlives workers, the gateway and its crash. Losing power may
 * lose what the kernel had not written yet, as with journal.durability: process. What is kept is a hash of issuer and jti.
 */
#ifndef AUTHZ_SPENT_H
#define AUTHZ_SPENT_H

#include "authz/identity.h"
#include "base/fault.h"

struct spent;

/* Supervisor: open the file, or make it, with all its room on disk. A file that is none of ours is refused. */
struct spent *spent_open(const char *path, struct fault *why);
/* Worker: map the descriptor that was handed over (borrowed, not needed any more after). */
struct spent *spent_map(int fd, struct fault *why);
void spent_free(struct spent *s);
/* Supervisor, before a worker maps it and when all are gone: its head and its length as they were made, whatever another worker has made of them. */
void spent_mend(struct spent *s);
int spent_fd(const struct spent *s); /* of spent_open; borrowed */

enum spent_use { SPENT_NOW, SPENT_BEFORE, SPENT_NO_ROOM };

/*
 * Use the token of i up. It is remembered until forget_s (seconds since 1970): after that the token must be refused before this
 * is asked. Of several at once at most one gets SPENT_NOW. SPENT_NO_ROOM takes tens of thousands of live tokens.
 */
enum spent_use spent_use(struct spent *s, const struct identity *i, int64_t forget_s, int64_t now_s);

#endif
