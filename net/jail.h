/*
 * A jail: what a process may ask of the kernel from here on (seccomp). It holds for good, for every thread and child. A call
 * that is not on the list never happens: the kernel stops the caller and asks the parent, who holds the jail's ear. So a
 * refusal is counted and told by a process that the prisoner has no hand on, and the parent may end the prisoner before it
 * hears the answer. When nobody listens any more the kernel refuses by itself; there is no answer that lets a call pass.
 */
#ifndef NET_JAIL_H
#define NET_JAIL_H

#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

/* An argument that must be value in the bits of mask. */
struct jail_test {
    unsigned argument;
    uint64_t mask, value;
};

#define JAIL_ALL_BITS 0xffffffffffffffffU
#define JAIL_IS(n, wanted) {n, 0xffffffffU, (uint64_t)(uint32_t)(wanted)} /* an int */
#define JAIL_NULL(n) {n, JAIL_ALL_BITS, 0}
#define JAIL_WITHOUT(n, bits) {n, (bits), 0}
#define JAIL_ONLY(n, bits) {n, JAIL_ALL_BITS & ~(uint64_t)(bits), 0}

/* A call that is allowed when all tests hold. One that this machine does not have is left out. */
struct jail_call {
    const char *name; /* NULL ends a list */
    struct jail_test tests[3];
    size_t n_tests;
};

enum jail_wall { JAIL_OPEN, JAIL_DEAF /* it ends who breaks it, unheard */, JAIL_HEARD };

/*
 * Allow these lists of calls (borrowed; NULL ends them), and nothing else. *wall tells what the kernel gave: JAIL_OPEN when it
 * has no seccomp. *ear (give; -1 unless JAIL_HEARD) belongs in the parent and must not stay here: send it and close it before
 * the first byte of a stranger is read. Needs no_new_privs. False and why when the kernel has seccomp and refuses.
 */
bool jail_close(const struct jail_call *const *lists, enum jail_wall *wall, int *ear, struct fault *why);

/* ---- the parent's side ---- */

struct jail_refusal {
    uint64_t id;
    char call[32];      /* its name, or its number */
    bool is_hostile;    /* nobody honest does this here: open, socket, execve, ptrace and such */
};

/* One refusal that waits on the ear: 1. 0: none. -1: the prisoner is gone, the ear may be closed. Never waits. */
int jail_hear(int ear, struct jail_refusal *out);
/* Let the prisoner have its EPERM. Not for one that is being ended. */
void jail_answer(int ear, const struct jail_refusal *refusal);

#endif
