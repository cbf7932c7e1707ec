/*
 * A firewall in the kernel of this host: put there, held against what it should be, taken away. In the network namespace of who
 * asks; takes root.
 */
#ifndef FIREWALL_FIREWALL_H
#define FIREWALL_FIREWALL_H

#include "base/slice.h"
#include "firewall/plan.h"

/* Is there an interface of this name? False and why, as firewall_apply would have it. */
bool firewall_finds(const char *interface, struct fault *why);
/*
 * Put the plan's rules in force, in place of earlier ones of its name, with no moment without. False and why: nothing was changed,
 * earlier ones still hold.
 * FAULT_USAGE: those of its name are of another interface.
 */
bool firewall_apply(const struct plan *p, struct fault *why);

/* One thing that is not as it should be. The slices are borrowed for the call. */
struct firewall_finding {
    const char *what;   /* "missing", "added", "moved"; "interface", "earlier", "routing", "helper" */
    size_t line;        /* of the ruleset as it is printed; 0: of none */
    struct slice table; /* "inet exeat_vm1"; empty where it is about no table */
    struct slice block; /* "chain forward" */
    struct slice text;  /* the rule, or a sentence */
};

typedef void firewall_found(void *arg, const struct firewall_finding *f);

/* Look at everything the plan rests on. True: that was possible, and found was called for each thing that is off; *n of them. */
bool firewall_check(const struct plan *p, firewall_found *found, void *arg, size_t *n, struct fault *why);

/* Take away all that firewall_apply made under this name. *was: there was something. */
bool firewall_remove(const char *name, bool *was, struct fault *why);

#endif
