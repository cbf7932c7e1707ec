/*
 * What the supervisor owns and hands out: listening sockets, shared memory, the journal's directory, the
 * files of each role. Opened once, before any role starts; a failure is one line that says what to do.
 */
#ifndef PROXY_ASSETS_H
#define PROXY_ASSETS_H

#include "authz/pins.h"
#include "authz/revocation.h"
#include "net/addr.h"
#include "proxy/config.h"
#include "proxy/role.h"

struct listening {
    char *name;
    char *address;  /* as text, with the port the kernel gave */
    int *fds;       /* one a worker for TCP; one for publish and admin */
    size_t n_fds;
    bool is_publish; /* publish and admin: the clerk's */
};

struct assets {
    struct gateway_config *config;
    struct listening *listening;
    size_t n_listening;
    struct revocations *revocations;
    struct pins *pins;
    int journal_fd;
    int journal_end; /* a counters page: its records are the last seq on disk, for a scribe that was started again */
    int *counters; /* by worker */
    int *tallies, *tallies_to_read; /* by worker; the second kind cannot be mapped writable */
    int n_workers;
};

bool assets_open(struct assets *a, struct gateway_config *config, struct fault *why);
void assets_close(struct assets *a);
/* Give the journal's directory to the scribe's user. */
bool assets_give_journal(const struct assets *a, uid_t uid, gid_t gid, struct fault *why);
/* Is the open directory the one that its path leads to? */
bool assets_journal_is_in_place(const struct assets *a, struct fault *why);
/* Before a scribe starts: when another directory is there now, open that one (and give it to uid, unless that is 0). */
bool assets_find_journal(struct assets *a, uid_t uid, gid_t gid, struct fault *why);

#endif
