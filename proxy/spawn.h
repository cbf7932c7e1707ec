/*
 * Starting a role: fork, least privilege, re-execution of this program.
 */
#ifndef PROXY_SPAWN_H
#define PROXY_SPAWN_H

#include <sys/types.h>

#include "base/fault.h"
#include "proxy/role.h"

#define ROLE_CONTROL_FD 3 /* a role finds its channel to the supervisor here */

/* Sanitizers must read their own process: the one named switch that relaxes hardening. */
#ifdef EXEAT_SANITIZE
#define ROLE_DUMPABLE 1
#else
#define ROLE_DUMPABLE 0
#endif

struct spawn_plan {
    enum role role;
    int index;
    uid_t uid; /* 0: stay who we are */
    gid_t gid;
    bool apart; /* in a network namespace of its own, where the machine lets us */
    bool debug;
};

/*
 * Start the role with an empty environment, no_new_privs, its own uid, no core dumps, killed when we die, every
 * descriptor closed but stderr and the control channel; it closes the rest of its cell itself (proxy/cell.h). *control is ours (close-on-exec). -1 and why on failure.
 */
pid_t spawn_role(const struct spawn_plan *plan, int *control, struct fault *why);

/*
 * The user of a role: PREFIX-ROLE when it exists; else, for root, a number that no user has, so that roles
 * are kept apart on a machine nobody prepared. *named says which of the two.
 */
bool spawn_user(const char *prefix, enum role role, uid_t *uid, gid_t *gid, bool *named);

/* What a role runs: the hidden command `role NAME INDEX`. apart: in a network namespace of its own. Returns the exit status. */
int role_main(const char *name, int index, bool apart, bool debug);

#endif
