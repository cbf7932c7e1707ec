/*
 * What a service's real clients need, in the words of proxy.conf, from what the manifest says of it (clients, kind, protected, fetch): no
 * tighter policy may close that.
 */
#ifndef AUDIT_CLIENTS_H
#define AUDIT_CLIENTS_H

#include "audit/target.h"
#include "authz/preset.h"

enum { CLIENTS_RULES_MAX = 32 };

/* clients.preset, or the one of its kind (npm, oci); NULL: its clients are none of those. */
const struct preset *clients_preset(const struct target *t);
/* The folder that the preset's rules are for, "" at the root; borrowed. */
const char *clients_preset_path(const struct target *t);
/*
 * The allow rules where there is no preset, one after the other, NULL behind the last: clients.allow as it is written, else reading what
 * protected and fetch name and what lies beside it. Give: buf_free(out).
 */
void clients_rule(const struct target *t, size_t i, struct buf *out);
size_t clients_rule_count(const struct target *t);
/* Are the rules only guessed from the paths, since nothing says what clients need? */
bool clients_are_guessed(const struct target *t);

#endif
