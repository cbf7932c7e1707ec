/*
 * What a gateway makes of a probe: found out without sending it, by the function that decides every request (authz/policy.h). Pure.
 */
#ifndef AUDIT_FATE_H
#define AUDIT_FATE_H

#include "audit/target.h"
#include "audit/turn.h"
#include "authz/policy.h"

enum fate_kind {
    FATE_REFUSED, /* it does not reach the service */
    FATE_PLAIN,   /* it does, without the fields that were special about it */
    FATE_PASSES,  /* it does, as it was sent */
};

struct fate {
    enum fate_kind kind;
    enum reason reason; /* of FATE_REFUSED: as the gateway would record it */
};

/*
 * p lists the target's service and nothing else; whoever asks has the scope that it wants, and no credential of the manifest's but one that
 * the probe made for itself. x is a turn of the target's audit.
 */
struct fate fate_of(const struct policy *p, const struct target *t, const struct turn *x);

#endif
