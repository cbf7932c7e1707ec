/* The list of sandboxes in quarantine, with who put each there and why. Pure; the file and what workers see are revocation.h's. */
#ifndef AUTHZ_QUARANTINE_H
#define AUTHZ_QUARANTINE_H

#include "base/slice.h"

/* Texts are borrowed. */
struct quarantine {
    struct slice sandbox;
    struct slice by;  /* "admin", "gateway" (it was there at three crashes), "file" (no gateway ran) */
    struct slice why; /* for people; may be empty */
    int64_t uid;      /* of the admin; -1: not known */
    struct slice at;  /* since when, RFC 3339 */
};

struct quarantines;

struct quarantines *quarantines_new(void);
void quarantines_free(struct quarantines *q);
/* Copies; what the list had of this sandbox is replaced. */
void quarantines_put(struct quarantines *q, const struct quarantine *one);
/* False when it was not there. */
bool quarantines_remove(struct quarantines *q, struct slice sandbox);
bool quarantines_has(const struct quarantines *q, struct slice sandbox);
/* By name. visit must not change the list. */
void quarantines_each(const struct quarantines *q, void (*visit)(void *arg, const struct quarantine *one), void *arg);

#endif
