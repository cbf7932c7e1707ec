/* Owns the second asking: what is weak, again through the gateway, as a sandbox would. */
#include "audit/state.h"
#include "audit/tighter.h"

/* Does the gateway let a request to the service through at all? Else it would cover everything. */
static bool gateway_opens(struct audit *a)
{
    const struct turn *x = ask(&a->own, (struct probe){.path = a->baselines[0].path, .who = WHO_NOBODY, .variant = "through the gateway", .tag = WHO_NOBODY});
    struct slice value, head = buf_slice(&x->head), line;

    if (turn_answered(x) && x->status != 407 && !turn_field(x, "Proxy-Status", 0, &value))
        return true;
    if (slice_next(&head, '\r', &line) && line.len)
        buf_append(&a->shut_out, line);
    else
        turn_describe(x, &a->shut_out);
    return false;
}

/*
 * The same probes as a sandbox would send them: with the credentials, should it have them, and without, when the gateway puts its
 * own in. Covered is what is good both times.
 */
static bool is_good_through(struct audit *a, struct audit_result *r, bool is_bare)
{
    struct audit_result again = {.check = r->check, .group = r->group};

    again.evidence.audit = a;
    again.evidence.target = a->target;
    again.evidence.audit_writes = r->evidence.audit_writes;
    transport_through(a->transport, a->options.gateway, a->options.leave_token, a->options.gateway_ca, is_bare);
    r->check->send(&again.evidence);
    trial_settle(a);
    trial_judge(a, &again);
    evidence_clear(&r->through);
    r->through = again.evidence;
    r->through_finding = again.finding;
    return r->through.n > 0 && again.finding.verdict == VERDICT_PASS;
}

static void ask_again(struct audit *a, struct audit_result *r)
{
    r->is_covered = is_good_through(a, r, true) && (!a->target->first.secret || is_good_through(a, r, false));
}

void cover_weak(struct audit *a)
{
    if (!a->options.gateway || a->is_dead)
        return;
    transport_through(a->transport, a->options.gateway, a->options.leave_token, a->options.gateway_ca, true);
    if (gateway_opens(a))
        for (size_t i = 0; i < a->n_results; i++)
            if (tighter_is_weak(&a->results[i]))
                ask_again(a, &a->results[i]);
    transport_through(a->transport, NULL, NULL, NULL, false);
}
