/* Owns one check's trial: whether it may be sent, and what holds for it whatever its judge says. */
#include <stdio.h>
#include <time.h>

#include "audit/state.h"
#include "base/clock.h"

static bool is_named(const struct audit *a, const char *id)
{
    for (size_t i = 0; a->options.named && a->options.named[i]; i++)
        if (slice_is_nocase(slice_of(id), a->options.named[i]))
            return true;
    return false;
}

/* The option that would unlock it; NULL: nothing is in the way. */
static const char *lock_of(const struct audit *a, const struct check *c)
{
    static const struct {
        unsigned run;
        const char *option;
    } locks[] = {{RUN_WRITES, "--active"}, {RUN_TENANTS, "--tenant2"}, {RUN_ISSUER, "--issuer-key"}, {RUN_LISTENER, "--beacon"}};

    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++)
        if (c->run & locks[i].run & ~a->options.allowed)
            return locks[i].option;
    return c->run & RUN_NAMED && !is_named(a, c->id) ? "--check with its name" : NULL;
}

/* What sends the same was sent before, whole, for another check; NULL: not. */
static const struct evidence *sent_before(const struct audit *a, const struct check *c)
{
    for (size_t i = 0; i < a->n_results; i++) {
        const struct audit_result *r = &a->results[i];

        if (r->check != c && r->check->send == c->send && r->evidence.n && !evidence_outcomes(&r->evidence, OUTCOME_BUDGET))
            return &r->evidence;
    }
    return NULL;
}

void trial_send(struct audit *a, struct audit_result *r)
{
    const struct check *c = r->check;
    const char *lock = lock_of(a, c);
    const struct evidence *before;

    r->evidence.audit = a;
    r->evidence.target = a->target;
    r->evidence.audit_writes = a->options.allowed & RUN_WRITES;
    if (a->options.named && !is_named(a, c->id))
        evidence_missing(&r->evidence, "--check did not name it");
    else if (!c->send)
        evidence_missing(&r->evidence, "no fixture shows both a good and a bad answer to it");
    else if (lock)
        evidence_missing(&r->evidence, "it needs %s", lock);
    else if ((before = sent_before(a, c)))
        evidence_copy(&r->evidence, before);
    else
        c->send(&r->evidence);
}

size_t evidence_outcomes(const struct evidence *e, enum outcome o)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n; i++)
        n += e->list[i]->outcome == o;
    return n;
}

/* Of what was not sent nothing is known, bad or good. */
static void say_unasked(const struct audit *a, const struct evidence *e, struct finding *f)
{
    size_t left = evidence_outcomes(e, OUTCOME_BUDGET);

    if (a->is_dead)
        finding_set(f, VERDICT_INCONCLUSIVE, "the service stopped answering: %d time-outs in a row, then nothing more was sent", SILENT_MAX);
    else
        finding_set(f, VERDICT_INCONCLUSIVE, "the budget of %zu requests was used up: %zu of its %zu were not sent", a->budget, left, e->n);
}

/* What no judge may overlook. */
static void hold_back(const struct audit *a, struct audit_result *r)
{
    struct finding *f = &r->finding;
    const struct evidence *e = &r->evidence;

    if (e->n && evidence_outcomes(e, OUTCOME_METHOD) == e->n)
        finding_set(f, VERDICT_NOT_RUN, "the manifest allows none of its methods");
    if (evidence_outcomes(e, OUTCOME_BUDGET) && (!a->is_dead || evidence_outcomes(e, OUTCOME_BUDGET) == e->n) && !(f->verdict == VERDICT_FAIL && e->n_hits))
        say_unasked(a, e, f);
    if (f->verdict != VERDICT_PASS && f->verdict != VERDICT_NA)
        return;
    if (e->n && !turn_answered(a->baselines[0].good ? a->baselines[0].good : a->baselines[0].none))
        finding_set(f, VERDICT_INCONCLUSIVE, "nothing can be compared: the service gave no answer at all to what should be answered");
    else if (evidence_outcomes(e, OUTCOME_METHOD))
        finding_set(f, VERDICT_INCONCLUSIVE, "the manifest does not allow all of its methods: %zu of %zu were sent", e->n - evidence_outcomes(e, OUTCOME_METHOD), e->n);
    else if (evidence_outcomes(e, OUTCOME_BUDGET))
        say_unasked(a, e, f);
    else if (evidence_outcomes(e, OUTCOME_TIMEOUT))
        finding_set(f, VERDICT_INCONCLUSIVE, "%zu of %zu probes had no answer in time, which proves nothing", evidence_outcomes(e, OUTCOME_TIMEOUT), e->n);
    else if (evidence_outcomes(e, OUTCOME_NOISE))
        finding_set(f, VERDICT_INCONCLUSIVE, "%zu of %zu answers are not HTTP", evidence_outcomes(e, OUTCOME_NOISE), e->n);
    else if (evidence_outcomes(e, OUTCOME_TLS))
        finding_set(f, VERDICT_INCONCLUSIVE, "TLS failed for %zu of %zu probes", evidence_outcomes(e, OUTCOME_TLS), e->n);
}

/* Of a weakness that the check did not find there is nothing to accept. */
static void take_acceptance(const struct audit *a, struct audit_result *r)
{
    const struct acceptance *listed;

    if (!a->options.service) {
        r->is_accepted = target_accepts(a->target, r->check->id, clock_wall_s(), &r->accept_reason);
        return;
    }
    for (size_t i = 0; (listed = service_acceptance(a->options.service, i)); i++)
        if (slice_is(slice_of(listed->check), r->check->id)) {
            r->accept_reason = listed->reason;
            r->accepted_until_s = listed->until_s;
            r->is_accepted = clock_wall_s() < listed->until_s;
        }
}

void trial_judge(const struct audit *a, struct audit_result *r)
{
    struct evidence *e = &r->evidence;
    struct finding *f = &r->finding;
    size_t len;

    *f = (struct finding){0};
    evidence_collect(e);
    if (e->not_applicable[0])
        finding_set(f, VERDICT_NA, "%s", e->not_applicable);
    else if (e->n == 0 && e->missing[0])
        finding_set(f, e->has_no_upstream ? VERDICT_NA : VERDICT_NOT_RUN, "%s", e->missing);
    else if (r->check->judge)
        r->check->judge(e, f);
    hold_back(a, r);
    len = strlen(f->note);
    if (e->left[0])
        snprintf(f->note + len, sizeof f->note - len, " (left behind: %s)", e->left);
    take_acceptance(a, r);
}

void trial_settle(const struct audit *a)
{
    int64_t ms = conf_number(manifest_section(a->target->manifest, "listener"), "settle");
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    if (a->beacon)
        nanosleep(&t, NULL);
}
