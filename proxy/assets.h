/*
 * What the supervisor owns and hands out: listening sockets, shared memory, the journal's directory, the
 * files of each role. Opened once, before any role starts; a failure is one line that says what to do.
 */
#ifndef PROXY_ASSETS_H
#define PROXY_ASSETS_H

#include <sys/types.h>

#include "authz/pins.h"
#include "authz/revocation.h"
#include "authz/spent.h"
#include "proxy/config.h"
#include "proxy/listening.h"

struct assets {
    struct listeners listening;
    struct revocations *revocations;
    struct pins *pins;
    struct spent *spent;
    char *journal_path; /* of its directory, as the configuration at the start has it */
    int journal_fd;
    int journal_end; /* a counters page: its records are the last seq on disk, for a scribe that was started again */
    int *counters; /* by worker; the last is the usher's */
    int *tallies, *tallies_to_read; /* by worker; the second kind cannot be mapped writable */
    unsigned char tally_secret[16];
    int n_workers;
};

bool assets_open(struct assets *a, const struct gateway_config *config, struct fault *why);
void assets_close(struct assets *a);
/*
 * Before a worker starts, and when all have ended: workers write in memory that they share, and one that was taken over may have
 * written where the next looks first. worker: whose pages are handed over; -1: nobody's.
 */
void assets_mend(struct assets *a, int worker);
/* Give the journal's directory to the scribe's user. */
bool assets_give_journal(const struct assets *a, uid_t uid, gid_t gid, struct fault *why);
/* Is the open directory the one that its path leads to? */
bool assets_journal_is_in_place(const struct assets *a, struct fault *why);
/* Before a scribe starts: when another directory is there now, open that one (and give it to uid, unless that is 0). */
bool assets_find_journal(struct assets *a, uid_t uid, gid_t gid, struct fault *why);

#endif
