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

/*
 * Run a program of the operator's (words: its absolute path and arguments, ended by NULL), which prints a credential: empty
 * environment, nothing on its standard input and error, as a user of its own when we are root (PREFIX-exec, or a number that
 * no user has), no_new_privs, no core dump, in a process group of its own, killed when we die. *output is ours: the end of
 * its standard output, non-blocking. -1 and why when it cannot be started.
 */
pid_t spawn_program(char *const words[], const char *prefix, int *output, struct fault *why);

/*
 * Do some work in a copy of this process, which has no descriptor but stderr and output (borrowed), takes no signal but the kernel's last,
 * gains no rights, leaves no core, and is killed when we die. It ends with what work(arg, its output) gives. -1 and why on failure.
 */
pid_t spawn_work(int (*work)(const void *arg, int output), const void *arg, int output, struct fault *why);

/* What a role runs: the hidden command `role NAME INDEX`. apart: in a network namespace of its own. Returns the exit status. */
int role_main(const char *name, int index, bool apart, bool debug);

#endif
