/*
 * What the errands of one configuration share: listed set, bounds, resolver. During a reload there are two; an office
 * lives as long as an errand works by it.
 */
#ifndef PROXY_OFFICE_H
#define PROXY_OFFICE_H

#include "authz/keysource.h"
#include "authz/policy.h"
#include "net/resolve.h"
#include "proxy/allowance.h"
#include "proxy/bounds.h"
#include "proxy/recorder.h"

struct names; /* a resolver, and who holds it */
struct quests;

struct office {
    struct loop *loop;
    struct recorder *recorder;
    const struct policy *policy; /* kept by the role until its settle; NULL from then on */
    struct keysources *sources; /* where issuers publish keys; borrows of the conf, and so is NULL when policy is */
    const struct bounds *bounds; /* kept by the role; what is under way is held against it as it is now */
    struct allowance *allowance; /* the role's: new names below listed suffixes */
    struct names *names;
    int64_t timeout_ms; /* for look-up and dial together */
    int64_t stagger_ms; /* net/dial.h */
    unsigned holds;
};

/* What the offices of one role have in common; all kept. */
struct office_ground {
    struct loop *loop;
    struct recorder *recorder;
    const struct bounds *bounds;
    struct allowance *allowance;
};

/*
 * An office with one hold. What ground names, and the policy, are kept; the resolver is that of before (may be NULL) when
 * nothing about it changed. NULL and why when the configuration of the resolver is refused.
 */
struct office *office_new(const struct office_ground *ground, const struct conf *conf, const struct policy *policy,
                          const struct office *before, struct fault *why);
/* The policy, and what else is borrowed of its configuration, is about to go. */
void office_forget(struct office *o);
/* Nobody waits for anything any more: its name servers are left alone, and what went to them is recorded. NULL is fine. */
void office_rest(struct office *o);
struct office *office_hold(struct office *o);
/* The last one frees it, at the end of the turn: a resolver may be on the stack. NULL is fine. */
void office_release(struct office *o);
struct resolver *office_resolver(const struct office *o);
/* Those of DNS clients that are under way at its resolver. */
struct quests *office_quests(const struct office *o);
/*
 * Is it a question of our own resolver's that came from there, led back here by who rewrites addresses? Then true and why,
 * loop_detected; said to the operator once.
 */
bool office_asked_itself(struct office *o, const struct addr *from, struct fault *why);

#endif
