/* Owns the order of an audit, and what holds for every check whatever its judge says. */
#include "audit/audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "audit/state.h"
#include "base/clock.h"
#include "base/text.h"

enum { DEFAULT_RATE_MAX = 10000 };

/* ---- baselines ---- */

static struct turn *ask_as(struct audit *a, const char *path, enum who who, const char *variant)
{
    return ask(&a->own, (struct probe){.path = path, .who = who, .variant = variant, .tag = who});
}

static void take(struct audit *a, const char *path)
{
    struct baseline *b = &a->baselines[a->n_baselines++];

    b->path = text_copy(slice_of(path));
    b->none = ask_as(a, path, WHO_NOBODY, "baseline B0");
    if (a->target->first.secret) {
        b->good = ask_as(a, path, WHO_FIRST, "baseline B1");
        b->junk = ask_as(a, path, WHO_JUNK, "baseline Bx");
    }
    if (a->target->second.secret)
        b->second = ask_as(a, path, WHO_SECOND, "baseline B2");
}

bool baselines_take(struct audit *a, struct fault *why)
{
    size_t n = target_count(a->target, "protected");
    const char *path = target_text(a->target, "fetch");

    for (size_t i = 0; i < n && i < BASELINES_MAX; i++)
        take(a, target_text_at(a->target, "protected", i));
    if (n == 0 && path && a->beacon)
        take(a, fill(&a->own, path, nonce_new(&a->own)));
    else if (n == 0)
        take(a, a->target->dialect == DIALECT_OCI ? "/v2/" : "/");
    if (a->baselines[0].none->outcome == OUTCOME_REFUSED)
        return fault_set(why, FAULT_IO, "nothing listens at %s port %u", a->target->base[0].host, a->target->base[0].at.port);
    a->nowhere = ask_as(a, words(&a->own, "/%s", nonce_new(&a->own)), WHO_NOBODY, "a path that nobody has");
    return true;
}

bool baselines_hold(struct audit *a)
{
    const struct baseline *b = &a->baselines[0];
    const struct turn *again;

    if (!turn_answered(b->none) || a->is_dead || a->sent >= a->budget)
        return true; /* said elsewhere */
    again = ask_as(a, b->path, WHO_NOBODY, "baseline B0 again");
    return turn_alike(b->none, again);
}

static void read_version(struct audit *a)
{
    const struct turn *x = a->baselines[0].none;
    struct slice value;
    size_t n = 0;

    if (!turn_field(x, "Server", 0, &value) && !turn_field(x, "X-Powered-By", 0, &value))
        return;
    for (size_t i = 0; i < value.len && n + 1 < sizeof a->version; i++)
        if (value.ptr[i] >= ' ' && value.ptr[i] <= '~')
            a->version[n++] = value.ptr[i];
}

/* ---- one check ---- */

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

static void send_check(struct audit *a, struct audit_result *r)
{
    const struct check *c = r->check;
    const char *lock = lock_of(a, c);

    r->evidence.audit = a;
    r->evidence.target = a->target;
    r->evidence.audit_writes = a->options.allowed & RUN_WRITES;
    if (a->options.named && !is_named(a, c->id))
        evidence_missing(&r->evidence, "--check did not name it");
    else if (!c->send)
        evidence_missing(&r->evidence, "no fixture shows both a good and a bad answer to it");
    else if (lock)
        evidence_missing(&r->evidence, "it needs %s", lock);
    else
        c->send(&r->evidence);
}

static size_t count(const struct evidence *e, enum outcome o)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n; i++)
        n += e->list[i]->outcome == o;
    return n;
}

/* Of what was not sent nothing is known, bad or good. */
static void say_unasked(const struct audit *a, const struct evidence *e, struct finding *f)
{
    size_t left = count(e, OUTCOME_BUDGET);

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

    if (e->n && count(e, OUTCOME_METHOD) == e->n)
        finding_set(f, VERDICT_NOT_RUN, "the manifest allows none of its methods");
    if (count(e, OUTCOME_BUDGET) && (!a->is_dead || count(e, OUTCOME_BUDGET) == e->n) && !(f->verdict == VERDICT_FAIL && e->n_hits))
        say_unasked(a, e, f);
    if (f->verdict != VERDICT_PASS && f->verdict != VERDICT_NA)
        return;
    if (e->n && !turn_answered(a->baselines[0].good ? a->baselines[0].good : a->baselines[0].none))
        finding_set(f, VERDICT_INCONCLUSIVE, "nothing can be compared: the service gave no answer at all to what should be answered");
    else if (count(e, OUTCOME_METHOD))
        finding_set(f, VERDICT_INCONCLUSIVE, "the manifest does not allow all of its methods: %zu of %zu were sent", e->n - count(e, OUTCOME_METHOD), e->n);
    else if (count(e, OUTCOME_BUDGET))
        say_unasked(a, e, f);
    else if (count(e, OUTCOME_TIMEOUT))
        finding_set(f, VERDICT_INCONCLUSIVE, "%zu of %zu probes had no answer in time, which proves nothing", count(e, OUTCOME_TIMEOUT), e->n);
    else if (count(e, OUTCOME_NOISE))
        finding_set(f, VERDICT_INCONCLUSIVE, "%zu of %zu answers are not HTTP", count(e, OUTCOME_NOISE), e->n);
    else if (count(e, OUTCOME_TLS))
        finding_set(f, VERDICT_INCONCLUSIVE, "TLS with the service failed: is ca-file right?");
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

static void judge(const struct audit *a, struct audit_result *r)
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

/* ---- all of it ---- */

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

static void settle(struct audit *a)
{
    int64_t ms = conf_number(manifest_section(a->target->manifest, "listener"), "settle");
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    if (a->beacon)
        nanosleep(&t, NULL);
}

static void run_some(struct audit *a, enum severity least, enum severity most, bool last)
{
    for (size_t i = 0; i < a->n_results; i++) {
        struct audit_result *r = &a->results[i];
        enum severity s = r->check->severity;

        if (((r->check->run & RUN_LAST) != 0) != last || s < least || s > most)
            continue;
        send_check(a, r);
        judge(a, r);
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
    settle(a);
    for (size_t i = 0; i < a->n_results; i++) {
        judge(a, &a->results[i]);
        if (!holds && a->results[i].finding.verdict == VERDICT_PASS)
            finding_set(&a->results[i].finding, VERDICT_INCONCLUSIVE, "the service answers differently now than when the audit began");
    }
}

/* ---- again, through the gateway ---- */

/* Does the gateway let a request to the service through at all? Else it would cover everything. */
static bool gateway_opens(struct audit *a)
{
    const struct turn *x = ask_as(a, a->baselines[0].path, WHO_NOBODY, "through the gateway");
    struct slice value, head = buf_slice(&x->head), line;

    if (turn_answered(x) && x->status != 407 && x->status / 100 != 5 && !turn_field(x, "Proxy-Status", 0, &value))
        return true;
    if (slice_next(&head, '\r', &line) && line.len)
        buf_append(&a->shut_out, line);
    else
        turn_describe(x, &a->shut_out);
    return false;
}

static bool is_weak(const struct audit_result *r)
{
    enum verdict v = r->finding.verdict;

    return r->check->send && (v == VERDICT_FAIL || v == VERDICT_WEAK || v == VERDICT_OPEN || v == VERDICT_INCONCLUSIVE);
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
    settle(a);
    judge(a, &again);
    evidence_clear(&r->through);
    r->through = again.evidence;
    r->through_finding = again.finding;
    return r->through.n > 0 && again.finding.verdict == VERDICT_PASS;
}

static void ask_again(struct audit *a, struct audit_result *r)
{
    r->is_covered = is_good_through(a, r, true) && (!a->target->first.secret || is_good_through(a, r, false));
}

static void run_through(struct audit *a)
{
    if (!a->options.gateway || a->is_dead)
        return;
    transport_through(a->transport, a->options.gateway, a->options.leave_token, a->options.gateway_ca, true);
    if (gateway_opens(a))
        for (size_t i = 0; i < a->n_results; i++)
            if (is_weak(&a->results[i]))
                ask_again(a, &a->results[i]);
    transport_through(a->transport, NULL, NULL, NULL, false);
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

struct audit *audit_run(struct target *t, const struct audit_options *o, struct fault *why)
{
    struct audit *a = calloc(1, sizeof *a);
    struct buf agent = {0};
    bool ok = false;
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
    if (!(a->forge = forge_new(t, why)) || !(a->transport = transport_new(t, name, why)))
        goto out;
    if (o->allowed & RUN_LISTENER && t->n_places && !(a->beacon = beacon_start(t, why)))
        goto out;
    mint_credential(a, t);
    if (!baselines_take(a, why))
        goto out;
    read_version(a);
    run_checks(a);
    run_through(a);
    ok = true;
out:
    a->took_ms = clock_mono_ms() - a->began_ms;
    free(name);
    if (ok)
        return a;
    audit_free(a);
    return NULL;
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
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

/* ---- what came of it ---- */

struct slice audit_shut_out(const struct audit *a)
{
    return buf_slice(&a->shut_out);
}

size_t audit_count(const struct audit *a)
{
    return a->n_results;
}

const struct audit_result *audit_result(const struct audit *a, size_t i)
{
    return &a->results[i];
}

const struct target *audit_target(const struct audit *a)
{
    return a->target;
}

/* Would it keep the service from passing, if nobody accepted it? */
static bool stands_against(const struct audit_result *r)
{
    enum verdict v = r->finding.verdict;

    if (r->check->severity < SEVERITY_HIGH)
        return false;
    if (v == VERDICT_NOT_RUN)
        return r->check->severity == SEVERITY_CRITICAL;
    return v == VERDICT_FAIL || v == VERDICT_WEAK || v == VERDICT_OPEN || v == VERDICT_INCONCLUSIVE;
}

bool audit_keeps_from_passing(const struct audit_result *r)
{
    return !r->is_accepted && !r->is_covered && stands_against(r);
}

bool audit_is_passing(const struct audit *a)
{
    for (size_t i = 0; i < a->n_results; i++)
        if (audit_keeps_from_passing(&a->results[i]))
            return false;
    return true;
}

int64_t audit_accepted_until_s(const struct audit *a)
{
    int64_t first = 0;

    for (size_t i = 0; i < a->n_results; i++) {
        const struct audit_result *r = &a->results[i];

        if (r->is_accepted && stands_against(r) && r->accepted_until_s && (!first || r->accepted_until_s < first))
            first = r->accepted_until_s;
    }
    return first;
}

size_t audit_requests(const struct audit *a)
{
    return a->sent;
}

bool audit_left_unasked(const struct audit *a, const struct audit_result *r)
{
    return !a->is_dead && count(&r->evidence, OUTCOME_BUDGET) > 0;
}

/* What was left, and a quarter of all for what would have followed from the answers. */
size_t audit_would_do(const struct audit *a)
{
    enum { STEP = 50 };
    size_t left = 0;

    for (size_t i = 0; !a->is_dead && i < a->n_results; i++)
        left += count(&a->results[i].evidence, OUTCOME_BUDGET);
    return left ? ((a->sent + left) * 5 / 4 + STEP - 1) / STEP * STEP : 0;
}

size_t audit_budget(const struct audit *a)
{
    return a->budget;
}

int64_t audit_began_s(const struct audit *a)
{
    return a->began_s;
}

int64_t audit_took_ms(const struct audit *a)
{
    return a->took_ms;
}

const char *audit_version(const struct audit *a)
{
    return a->version;
}

void audit_each_turn(const struct audit *a, void (*visit)(void *arg, const char *check, const struct turn *x), void *arg)
{
    for (size_t i = 0; i < a->own.n; i++)
        visit(arg, "", a->own.list[i]);
    for (size_t i = 0; i < a->n_results; i++)
        for (size_t j = 0; j < a->results[i].evidence.n; j++)
            visit(arg, a->results[i].check->id, a->results[i].evidence.list[j]);
}
