/* CR: do credentials come back, or go on? */
#include <stdlib.h>

#include "audit/beacon_answer.h"
#include "audit/check.h"
#include "audit/probes.h"
#include "audit/state.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- CR-1 ---- */

/* Canaries in the places of credentials; a fresh nonce is in each. */
static void ask_with_canaries(struct evidence *e, const char *method, const char *path, const char *variant)
{
    bool is_proxy = e->target->first.form == CREDENTIAL_PROXY_BASIC || e->target->first.form == CREDENTIAL_PROXY_BEARER;
    const char *n = nonce_new(e);

    ask(e, (struct probe){.method = method, .path = path, .variant = variant, .who = is_proxy ? WHO_FIRST : WHO_NOBODY,
                          .fields = {words(e, "Authorization: Bearer exeat-audit-canary-%s", n), words(e, "Cookie: session=exeat-audit-canary-%s", n), words(e, "X-Api-Key: exeat-audit-canary-%s", n)}});
}

static void send_canaries(struct evidence *e)
{
    ask_with_canaries(e, "GET", words(e, "/%s", nonce_new(e)), "a path that is not there");
    ask_with_canaries(e, "GET", baseline_at(e, 0)->path, "a protected path");
    ask_with_canaries(e, "GET", "/%zz%", "a path that cannot be read");
    ask_with_canaries(e, "OPTIONS", "/", "OPTIONS");
    if (e->target->dialect == DIALECT_PROXY) {
        ask_with_canaries(e, "GET", words(e, "http://%s.invalid/", nonce_new(e)), "a name that is not there");
        ask_with_canaries(e, "GET", "http://127.0.0.1:1/", "nothing listens");
    }
}

static void judge_canaries(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no answer repeats a credential");
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < e->n_nonces; j++) {
            struct buf canary = {0};

            buf_printf(&canary, "canary-%s", e->nonces[j]);
            buf_char(&canary, 0);
            if (turn_holds(e->list[i], canary.ptr) && !is_ours(e->list[i]))
                finding_worsen(f, VERDICT_FAIL, "%s: the answer (%d) repeats the credential that was sent", e->list[i]->variant, e->list[i]->status);
            buf_free(&canary);
        }
}

/* ---- CR-2 ---- */

static void send_trace(struct evidence *e)
{
    const char *upstream = target_upstream(e->target), *n = nonce_new(e);
    struct probe p = {.method = "TRACE", .path = "/", .who = good_or_nobody(e), .variant = "canaries as credentials"};

    p.fields[0] = words(e, "Cookie: session=exeat-audit-canary-%s", n);
    p.fields[1] = words(e, "X-Api-Key: exeat-audit-canary-%s", n);
    p.fields[2] = "Max-Forwards: 0";
    if (e->target->first.form == CREDENTIAL_PROXY_BASIC || e->target->first.form == CREDENTIAL_PROXY_BEARER || !has_good(e))
        p.fields[3] = words(e, "Authorization: Bearer exeat-audit-canary-%s", n);
    ask(e, p);
    if (e->target->dialect != DIALECT_PROXY || !upstream)
        return;
    p.path = words(e, "http://%s/", upstream);
    ask(e, p);
}

static void judge_trace(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "TRACE repeats no credential");
    for (size_t i = 0; i < e->n; i++)
        if (turn_is_2xx(e->list[i]) && turn_holds(e->list[i], e->nonces[0]))
            finding_worsen(f, VERDICT_FAIL, "TRACE %s repeats Authorization or Cookie", e->list[i]->shown);
}

/* ---- CR-3 ---- */

static void send_mirrors(struct evidence *e)
{
    static const char *const paths[] = {"/headers", "/echo", "/dump", "/debug", "/env", "/?debug=1"};
    const char *n = nonce_new(e);

    for (size_t i = 0; i < COUNT(paths); i++)
        ask(e, (struct probe){.path = paths[i], .who = good_or_nobody(e), .fields = {words(e, "X-Exeat: exeat-audit-canary-%s", n)}});
}

static void judge_mirrors(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no page shows the request that asked for it");
    for (size_t i = 0; i < e->n; i++)
        if (turn_holds(e->list[i], e->nonces[0]) && !is_ours(e->list[i]))
            finding_worsen(f, VERDICT_FAIL, "%s shows the request's fields: %d", e->list[i]->shown, e->list[i]->status);
}

/* ---- CR-4 ---- */

struct search {
    const char *value;
    const struct turn *found;
};

static void look_for(void *arg, const char *check, const struct turn *x)
{
    struct search *s = arg;

    (void)check;
    if (!s->found && turn_holds(x, s->value))
        s->found = x;
}

/* What the service shows its upstream, if anything, must be in none of its answers. */
static void send_injected(struct evidence *e)
{
    const char *n = nonce_new(e), *path = fetched(e, n);

    if (!path)
        return;
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "fetched from the upstream"});
    upstream_acts(e, n, ACT_CHALLENGE, words(e, "http://%s/", target_upstream(e->target)));
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "the upstream refuses"});
}

static void judge_injected(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no answer shows a credential of the service's own");
    for (size_t i = 0; i < e->n_upstream_hits; i++) {
        struct search s = {0};
        struct slice value = beacon_field(buf_slice(&e->upstream_hits[i].bytes), "Authorization");
        char *text;

        if (!foreign_credential(e->target, &e->upstream_hits[i]) || value.len < 12)
            continue;
        text = text_copy(slice_from(value, (size_t)(slice_find(value, ' ') + 1)));
        s.value = text;
        audit_each_turn(e->audit, look_for, &s);
        if (s.found)
            finding_worsen(f, VERDICT_FAIL, "an answer to %s %.60s shows the credential that the service has for its upstream", s.found->method, s.found->shown);
        free(text);
    }
}

/* ---- CR-5, FU-9 ---- */

static void send_nothing(struct evidence *e)
{
    if (!e->audit->beacon)
        evidence_missing(e, "it needs the listener (--beacon, and listener.addresses in the manifest)");
}

/* The upstream's redirects are RD-5's and FU-6's: a client may follow those, if without its credential. */
bool check_counts_calls(const struct check *c)
{
    return slice_starts(slice_of(c->id), SLICE("RL-")) || (slice_starts(slice_of(c->id), SLICE("FU-")) && !slice_is(slice_of(c->id), "FU-6"));
}

void judge_credentials_at_listener(const struct evidence *e, struct finding *f)
{
    size_t n = 0, with = 0;
    char who[120] = "";
    const char *field = NULL;

    for (size_t i = 0; i < e->audit->n_results; i++) {
        const struct audit_result *r = &e->audit->results[i];

        for (size_t j = 0; check_counts_calls(r->check) && j < r->evidence.n_hits; j++, n++) {
            const char *one = foreign_credential(e->target, &r->evidence.hits[j]);

            if (!one || with++)
                continue;
            field = one;
            describe_hit(&r->evidence.hits[j], who);
        }
    }
    if (with)
        finding_set(f, VERDICT_FAIL, "the service sent a credential of its own (%s) to the listener, %s, %zu times", field, who, with);
    else if (n)
        finding_set(f, VERDICT_PASS, "the listener was called %zu times, without a credential of the service's", n);
    else
        finding_set(f, VERDICT_NA, "the listener was never called");
}

/* ---- CR-6 ---- */

static void send_inner_proxy(struct evidence *e)
{
    const char *n = nonce_new(e), *field = words(e, "Proxy-Authorization: Basic exeat-audit-canary-%s", n);

    if (e->target->dialect == DIALECT_PROXY) {
        evidence_na(e, "a proxy takes Proxy-Authorization: that is its own");
        return;
    }
    ask(e, (struct probe){.path = baseline_at(e, 0)->path, .fields = {field}, .variant = "Proxy-Authorization"});
    ask(e, (struct probe){.path = words(e, "/%s", nonce_new(e)), .fields = {field}, .variant = "Proxy-Authorization"});
    if (has_good(e) && (e->target->first.form == CREDENTIAL_BASIC || e->target->first.form == CREDENTIAL_BEARER)) {
        struct buf value = {0};

        buf_text(&value, "Proxy-");
        credential_field(&e->target->first, &value);
        ask(e, (struct probe){.path = baseline_at(e, 0)->path, .fields = {words(e, "%.*s", SLICE_ARG(buf_slice(&value)))}, .variant = "the good credential in Proxy-Authorization"});
        buf_wipe(&value);
    }
}

static void judge_inner_proxy(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "Proxy-Authorization is ignored");
    for (size_t i = 0; i < e->n; i++)
        if (turn_holds(e->list[i], e->nonces[0]))
            finding_worsen(f, VERDICT_FAIL, "an answer repeats Proxy-Authorization");
    if (e->list[0]->status == 407 && !e->is_through) /* to the gateway it is the gateway's */
        finding_worsen(f, VERDICT_WEAK, "it acts on Proxy-Authorization: 407");
    for (size_t i = 0; i < e->n; i++)
        if (i != 1 && is_let_in(baseline_at(e, 0), e->list[i]))
            finding_worsen(f, VERDICT_FAIL, "%s opens it", e->list[i]->variant);
}

#define HIDE "The gateway looks for its own credential in answers and stops them (credential_reflected)."

static const struct check checks[] = {
    {"CR-1", SEVERITY_HIGH, 0, send_canaries, judge_canaries, "Do error pages repeat credentials?", "CVE-2025-62168", "Leave request fields out of error pages (squid: email_err_data off).", HIDE},
    {"CR-2", SEVERITY_MEDIUM, 0, send_trace, judge_trace, "Does TRACE repeat credentials?", "RFC 9110 9.3.8", "Switch TRACE off.", "The gateway refuses TRACE."},
    {"CR-3", SEVERITY_MEDIUM, 0, send_mirrors, judge_mirrors, "Is there a page that shows the request?", "", "Remove pages that show the request's fields.", "allow: the paths that clients need."},
    {"CR-4", SEVERITY_CRITICAL, 0, send_injected, judge_injected, "Does an answer show the service's own credential?", "", "Never put the upstream's credential into an answer.", HIDE},
    {"CR-5", SEVERITY_CRITICAL, RUN_LISTENER, send_nothing, judge_credentials_at_listener, "Does its own credential reach a third host?", "CVE-2026-33540, CVE-2026-48978",
     "Bind the upstream's credential to the upstream's host; update (registry 3.1.0, verdaccio 6.10).", "Give the service no upstream credential; let the gateway inject it on the way out."},
    {"CR-6", SEVERITY_MEDIUM, 0, send_inner_proxy, judge_inner_proxy, "What does it do with Proxy-Authorization?", "RFC 9110 11.7.2", "Ignore it.", "The gateway never forwards it."},
};

const struct check_group check_reflection = {"CR", "credential reflection", checks, COUNT(checks)};
