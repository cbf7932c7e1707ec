/*
 * A list of names that something is withheld from until it is given back: sandboxes in quarantine, services closed by hand, with
 * who ordered each and why. Pure; the file and what workers see are revocation.h's.
 */
#ifndef AUTHZ_SUSPENSION_H
#define AUTHZ_SUSPENSION_H

#include "base/slice.h"

/* Texts are borrowed. */
struct suspension {
    struct slice name; /* of the sandbox or the service */
    struct slice by;   /* "admin", "gateway" (it did so by itself), "file" (no gateway ran) */
    struct slice why;  /* for people; may be empty */
    int64_t uid;       /* of the admin; -1: not known */
    struct slice at;   /* since when, RFC 3339 */
};

struct suspensions;

struct suspensions *suspensions_new(void);
void suspensions_free(struct suspensions *l);
/* Copies. Who is in the list stays as it came: since when, by whom, and why, to which another reason is added (while there is room). */
void suspensions_put(struct suspensions *l, const struct suspension *one);
/* False when it was not there. */
bool suspensions_remove(struct suspensions *l, struct slice name);
bool suspensions_has(const struct suspensions *l, struct slice name);
/* By name. visit must not change the list. */
void suspensions_each(const struct suspensions *l, void (*visit)(void *arg, const struct suspension *one), void *arg);

#endif
