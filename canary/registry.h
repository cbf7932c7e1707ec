/* The registry's inside, for registry.c and mint.c. */
#ifndef CANARY_REGISTRY_H
#define CANARY_REGISTRY_H

#include "canary/canary.h"

/*
 * Check c as registry_parse does and put a copy of it in r. Returns the entry
 * (borrowed), or NULL and why: the text says what is off and not where.
 */
const struct canary *registry_add(struct registry *r, const struct canary *c, struct fault *why);
bool registry_has(const struct registry *r, const char *id);

#endif
