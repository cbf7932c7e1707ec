/*
 * The rules of one service: what it allows, what it denies, and what their captures are bound to. Where the service
 * writes no allow rules, those of its preset stand; the preset's deny rules always do. Internal to authz.
 */
#ifndef AUTHZ_RULESET_H
#define AUTHZ_RULESET_H

#include "authz/preset.h"
#include "authz/rule.h"
#include "base/conf.h"

struct rules {
    struct rule *list;
    size_t count;
};

struct ruleset {
    struct methods methods; /* that any rule speaks of */
    struct rules allow, deny;
    struct bind *binds;
    size_t n_binds;
};

/*
 * Read allow, deny, bind and preset-path of a service into r, which is empty. preset may be NULL and is borrowed. False
 * and why with its place when anything is refused: a rule that is none, a bind that no rule captures, no rules at all
 * (but with observe). r is to be cleared in either case.
 */
bool ruleset_read(struct ruleset *r, const struct conf_item *item, const struct preset *preset, struct fault *why);
/* Are there rules, and none that allows anything but GET and HEAD? */
bool ruleset_only_reads(const struct ruleset *r);
void ruleset_clear(struct ruleset *r);

#endif
