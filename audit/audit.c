/* Owns the order of an audit. */
#include "audit/audit.h"

#include <stdlib.h>

#include "audit/state.h"
#include "audit/tighter.h"
#include "base/clock.h"
#include "base/text.h"

enum { DEFAULT_RATE_MAX = 10000 };

static void make_results(struct audit *a)
{
    const struct check_group *g;
    size_t n = 0;

    a->n_results = check_count();
    if (!(a->results = calloc(a->n_results, sizeof *a->results)))
        abort();
    for (size_t i = 0; (g = check_group_at(i)); i++)
        for (size_t j = 0; j < g->n; j++)
            a->results[n++] = (struct audit_result){.check = &g->checks[j], .group = g};
}

static void set_budget(struct audit *a, const struct audit_options *o)
{
    const struct conf_item *reach = manifest_section(a->target->manifest, "reach");
    int64_t rate = o->rate ? o->rate : conf_number(reach, "rate"), requests = o->requests ? o->requests : conf_number(reach, "requests");

    if (rate < 1)
        rate = 1;
    if (rate > DEFAULT_RATE_MAX)
        rate = DEFAULT_RATE_MAX;
    a->interval_ns = 1000000000 / rate;
    a->budget = (size_t)requests;
}

static void run_some(struct audit *a, enum severity least, enum severity most, bool last)
{
    for (size_t i = 0; i < a->n_results; i++) {
        struct audit_result *r = &a->results[i];
        enum severity s = r->check->severity;

        if (((r->check->run & RUN_LAST) != 0) != last || s < least || s > most)
            continue;
        trial_send(a, r);
        trial_judge(a, r);
        if (a->options.on_finding)
            a->options.on_finding(a->options.arg, r->check, &r->finding, ++a->n_done, a->n_results);
    }
}

/* By weight, so that what a small budget leaves unasked is what weighs least. */
static void run_by_weight(struct audit *a, bool last)
{
    run_some(a, SEVERITY_CRITICAL, SEVERITY_CRITICAL, last);
    run_some(a, SEVERITY_HIGH, SEVERITY_HIGH, last);
    run_some(a, SEVERITY_INFO, SEVERITY_MEDIUM, last);
}

static void run_checks(struct audit *a)
{
    bool holds;

    a->kept_back = a->beacon && a->budget > 2 * KEPT_BACK ? KEPT_BACK : 0;
    run_by_weight(a, false);
    a->kept_back = 0;
    holds = baselines_hold(a);
    run_by_weight(a, true);
    trial_settle(a);
    for (size_t i = 0; i < a->n_results; i++) {
        trial_judge(a, &a->results[i]);
        if (!holds && a->results[i].finding.verdict == VERDICT_PASS)
            finding_set(&a->results[i].finding, VERDICT_INCONCLUSIVE, "the service answers differently now than when the audit began");
    }
}

static void name_run(struct audit *a, struct buf *agent)
{
    buf_printf(agent, "exeat-audit/%s (%s)", EXEAT_VERSION, nonce_new(&a->own));
}

/* Without a credential of its own a service with an issuer's key is asked with a token of that. */
static void mint_credential(struct audit *a, struct target *t)
{
    char *token;

    if (t->first.secret || !forge_has_issuer(a->forge) || !(a->options.allowed & RUN_ISSUER))
        return;
    token = forge_make(a->forge, &(struct mold){0});
    t->first = (struct credential){.form = CREDENTIAL_BEARER, .secret = secret_new(slice_of(token))};
    explicit_bzero(token, strlen(token));
    free(token);
}

struct audit *audit_open(struct target *t, const struct audit_options *o, struct fault *why)
{
    struct audit *a = calloc(1, sizeof *a);
    struct buf agent = {0};
    char *name;

    if (!a)
        abort();
    a->target = t;
    a->options = *o;
    a->own.audit = a;
    a->own.target = t;
    a->began_s = clock_wall_s();
    a->began_ms = clock_mono_ms();
    set_budget(a, o);
    make_results(a);
    name_run(a, &agent);
    name = buf_take_text(&agent);
    if (!(a->forge = forge_new(t, why)) || !(a->transport = transport_new(t, name, why)) ||
        (o->allowed & RUN_LISTENER && t->n_places && !(a->beacon = beacon_start(t, why)))) {
        audit_free(a);
        a = NULL;
    }
    free(name);
    return a;
}

struct audit *audit_run(struct target *t, const struct audit_options *o, struct fault *why)
{
    struct audit *a = audit_open(t, o, why);

    if (!a)
        return NULL;
    mint_credential(a, t);
    if (!baselines_take(a, why)) {
        audit_free(a);
        return NULL;
    }
    baselines_version(a);
    run_checks(a);
    cover_weak(a);
    a->tighter = tighter_make(a);
    a->took_ms = clock_mono_ms() - a->began_ms;
    return a;
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
    tighter_free(a->tighter);
    for (size_t i = 0; i < a->n_results; i++)
        evidence_clear(&a->results[i].through);
    for (size_t i = 0; i < a->n_results; i++)
        evidence_clear(&a->results[i].evidence);
    free(a->results);
    for (size_t i = 0; i < a->n_baselines; i++)
        free(a->baselines[i].path);
    evidence_clear(&a->own);
    buf_free(&a->shut_out);
    free(a->route_path);
    beacon_free(a->beacon);
    transport_free(a->transport);
    forge_free(a->forge);
    free(a);
}
