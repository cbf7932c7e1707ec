/*
 * What a gateway's rules can do about each weakness: one row for each check of the catalogue, data alone. audit/tighter.h makes a policy of it.
 */
#ifndef AUDIT_REMEDY_H
#define AUDIT_REMEDY_H

#include <stddef.h>

/* How sandboxes are kept from what a check found: by what it takes that none of its probes does its work. */
enum remedy_how {
    REMEDY_NONE,     /* no rule can: only the service */
    REMEDY_REQUESTS, /* none of the requests that got an answer reaches it */
    REMEDY_WRITES,   /* none of those that are no GET or HEAD does; what was not written, nobody reads */
    REMEDY_SIZES,    /* none of the requests reaches it, not even those that it refuses: it has read them by then */
    REMEDY_VARIANTS, /* none but the first does, which is what the others are held against */
    REMEDY_PAGES,    /* the pages that show what somebody else sent do not come back */
    REMEDY_FIELDS,   /* the fields do not reach it */
    REMEDY_EDGES,    /* answers that lead elsewhere do not come back */
    REMEDY_FOLLOWS,  /* it is made of what other checks of RL and FU found: closed with them */
};

struct remedy {
    const char *check;
    enum remedy_how how;
    const char *why_not; /* of REMEDY_NONE: why no rule can, a clause without a full stop */
};

/* The row of a check; every check has one. */
const struct remedy *remedy_of(const char *check);

#endif
