/* Owns the second asking: what is weak, again through the gateway, as a sandbox would. */
#include "audit/remedy.h"
#include "audit/state.h"
#include "audit/tighter.h"

/* How the protected paths answer who shows nothing but a leave token. */
static void take_baselines(struct audit *a)
{
    for (size_t i = 0; i < a->n_baselines; i++)
        a->baselines[i].through = ask(&a->own, (struct probe){.path = a->baselines[i].path, .who = WHO_NOBODY, .variant = "through the gateway", .tag = WHO_NOBODY});
}

/* Does the gateway let a request to the service through at all? Else it would cover everything. */
static bool gateway_opens(struct audit *a)
{
    const struct turn *x = a->baselines[0].through;
    struct slice value, head = buf_slice(&x->head), line;

    if (turn_answered(x) && x->status != 407 && !turn_field(x, "Proxy-Status", 0, &value))
        return true;
    if (slice_next(&head, '\r', &line) && line.len)
        buf_append(&a->shut_out, line);
    else
        turn_describe(x, &a->shut_out);
    return false;
}

/* Why the gateway refused x, "403 exeat path_not_allowed 7f3a9c"; REASON_NONE: it did not, or does not say. */
static enum reason refusal_of(const struct turn *x)
{
    struct slice head = buf_slice(&x->head), line, word;
    enum reason found = REASON_NONE;

    if (!slice_next(&head, '\r', &line) || !slice_next(&line, ' ', &word) || !slice_next(&line, ' ', &word) || !slice_next(&line, ' ', &word) || !slice_is(word, "exeat") ||
        !slice_next(&line, ' ', &word) || !reason_find(word, &found))
        return REASON_NONE;
    return found;
}

/* Did the gateway refuse who asks, whatever it is that is asked? That covers nothing. */
static bool is_shut_out(const struct turn *x)
{
    enum reason why = refusal_of(x);
    bool says_nothing = why == REASON_NONE && buf_len(&x->head) == 0; /* of a tunnel only the status is known */

    return why == REASON_TOKEN_EXPIRED || why == REASON_TOKEN_REVOKED || why == REASON_TOKEN_SPENT || why == REASON_TOKEN_FAILURES || why == REASON_SANDBOX_QUARANTINED || why == REASON_HANDOFF_UNATTESTED ||
           why == REASON_IDENTITY_SHARED || (why != REASON_NONE && (x->status == 429 || x->status == 503)) || (says_nothing && turn_answered(x) && (x->status == 407 || x->status == 429 || x->status == 503));
}

static const struct turn *find_shut_out(const struct evidence *e)
{
    for (size_t i = 0; i < e->n; i++)
        if (is_shut_out(e->list[i]))
            return e->list[i];
    return NULL;
}

/* Did the gateway refuse all of it? Then nothing that the check asks for gets anywhere, whatever its judge makes of so little. */
static bool was_refused(const struct evidence *e)
{
    for (size_t i = 0; i < e->n; i++)
        if (refusal_of(e->list[i]) == REASON_NONE)
            return false;
    return true;
}

/* Of the judge's word. */
static bool is_good(struct audit_result *again)
{
    const struct turn *shut = find_shut_out(&again->evidence);
    enum verdict v = again->finding.verdict;

    if (shut)
        finding_set(&again->finding, VERDICT_INCONCLUSIVE, "the gateway refused who asked, not what was asked: %d %s", shut->status, reason_code(refusal_of(shut)));
    return !shut && again->evidence.n > 0 && (v == VERDICT_PASS || ((v == VERDICT_NA || v == VERDICT_INCONCLUSIVE) && was_refused(&again->evidence)));
}

/*
 * The same probes as a sandbox would send them: with the credentials, should it have them, and without, when the gateway puts its
 * own in. Covered is what is good both times.
 */
static bool is_good_through(struct audit *a, struct audit_result *r, bool is_bare)
{
    struct audit_result again = {.check = r->check, .group = r->group};
    bool good;

    again.evidence.audit = a;
    again.evidence.target = a->target;
    again.evidence.is_through = true;
    again.evidence.audit_writes = r->evidence.audit_writes;
    transport_through(a->transport, a->options.gateway, a->options.leave_token, a->options.gateway_ca, is_bare);
    r->check->send(&again.evidence);
    if (r->evidence.n_hits || r->evidence.n_upstream_hits) /* who came at first may come again, and late */
        trial_settle(a);
    trial_judge(a, &again);
    good = is_good(&again);
    evidence_clear(&r->through);
    r->through = again.evidence;
    r->through_finding = again.finding;
    return good;
}

static void ask_again(struct audit *a, struct audit_result *r)
{
    bool is_bare_good = r->check->run & RUN_SHOWS || is_good_through(a, r, true);

    r->is_covered = is_bare_good && (!a->target->first.secret || is_good_through(a, r, false));
}

/* FU-9 and CR-5 send nothing of their own: they are covered when all that they stand on is. */
static void follow(struct audit *a, struct audit_result *r)
{
    size_t n = 0, covered = 0;

    for (size_t i = 0; i < a->n_results; i++)
        if (tighter_is_followed(a, &a->results[i])) {
            n++;
            covered += a->results[i].is_covered;
        }
    r->is_covered = n && covered == n;
}

static void again_all(struct audit *a)
{
    for (int followers = 0; followers < 2; followers++)
        for (size_t i = 0; i < a->n_results; i++) {
            struct audit_result *r = &a->results[i];

            if (!tighter_is_weak(r) || (remedy_of(r->check->id)->how == REMEDY_FOLLOWS) != followers)
                continue;
            if (followers)
                follow(a, r);
            else
                ask_again(a, r);
        }
}

void cover_weak(struct audit *a)
{
    if (!a->options.gateway || a->is_dead)
        return;
    transport_through(a->transport, a->options.gateway, a->options.leave_token, a->options.gateway_ca, true);
    take_baselines(a);
    if (gateway_opens(a))
        again_all(a);
    transport_through(a->transport, NULL, NULL, NULL, false);
}
