/* AS: whose token, for what. */
#include <jansson.h>
#include <stdlib.h>

#include "audit/check.h"
#include "audit/grant.h"
#include "audit/probes.h"
#include "audit/state.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- audience ---- */

static void send_other_audience(struct evidence *e)
{
    if (token_can_be_made(e))
        token_show(e, &(struct mold){.claims = "{\"aud\":\"https://other.example\"}"}, "aud of another service", 0);
}

static void send_audiences(struct evidence *e)
{
    const char *audience = target_text(e->target, "issuer.audience");

    if (!token_can_be_made(e))
        return;
    if (audience)
        token_show(e, &(struct mold){.claims = words(e, "{\"aud\":[\"%s\",\"https://other.example\"]}", audience)}, "aud of this service and another", 0);
    else
        evidence_missing(e, "the manifest has no issuer.audience");
}

static void judge_audiences(const struct evidence *e, struct finding *f)
{
    if (is_let_in(token_place(e), e->list[0]))
        finding_set(f, VERDICT_WEAK, "a token for this service and another is accepted: the other one can use it here");
    else
        finding_set(f, VERDICT_PASS, "a token for several services is refused");
}

static void send_no_audience(struct evidence *e)
{
    if (token_can_be_made(e))
        token_show(e, &(struct mold){.claims = "{\"aud\":null}"}, "no aud", 0);
}

/* ---- AS-4 ---- */

enum { TAG_OWN_RESOURCE = 20, TAG_OTHER_RESOURCE, TAG_SHOWN };

static void show_granted(struct evidence *e, const struct turn *x, const char *variant)
{
    const char *token = grant_token(e, x);

    if (token)
        ask(e, (struct probe){.path = token_place(e)->path, .who = WHO_TOKEN, .token = token, .variant = variant, .tag = TAG_SHOWN + x->tag});
}

static void send_resource(struct evidence *e)
{
    const char *own = target_text(e->target, "token-endpoint.resource"), *scope = target_text(e->target, "token-endpoint.scope");

    if (!token_counts(e) || !grant_has_place(e))
        return;
    show_granted(e, grant_ask(e, (struct grant){.type = GRANT_CLIENT, .scope = scope, .resource = own, .variant = "a token for this service", .tag = TAG_OWN_RESOURCE}), "the token for this service");
    show_granted(e, grant_ask(e, (struct grant){.type = GRANT_CLIENT, .scope = scope, .resource = "https://other.example/", .variant = "a token for another service", .tag = TAG_OTHER_RESOURCE}),
                 "the token for another service");
}

static void judge_resource(const struct evidence *e, struct finding *f)
{
    size_t i = 0, j = 0, k = 0;
    const struct turn *own = tagged(e, TAG_SHOWN + TAG_OWN_RESOURCE, &i), *other = tagged(e, TAG_SHOWN + TAG_OTHER_RESOURCE, &j), *asked = tagged(e, TAG_OTHER_RESOURCE, &k);

    if (!own || !is_let_in(token_place(e), own))
        finding_set(f, VERDICT_INCONCLUSIVE, own ? "a token for this service is not accepted here: token-endpoint.scope, token-endpoint.resource?" : "the endpoint gave no token for this service: token-endpoint.client?");
    else if (other && is_let_in(token_place(e), other))
        finding_set(f, VERDICT_FAIL, "a token that was asked for another service is accepted here: resource is not looked at");
    else if (other)
        finding_set(f, VERDICT_PASS, "a token for another service is given, and refused here: %d", other->status);
    else
        finding_set(f, VERDICT_PASS, "a token for an unknown resource is not given: %d", asked ? asked->status : 0);
}

/* ---- AS-5 ---- */

enum { TAG_OPTIONS = 1, TAG_TRY };

static void send_write_with_read(struct evidence *e)
{
    struct written w = {0};

    if (!token_counts(e))
        return;
    ask(e, (struct probe){.method = "OPTIONS", .path = token_place(e)->path, .who = WHO_FIRST, .tag = TAG_OPTIONS});
    if (e->audit_writes && write_begin(e, "write", WHO_FIRST, &w))
        write_undo(e, &w);
}

static void judge_write_with_read(const struct evidence *e, struct finding *f)
{
    size_t i = 0;

    if (tagged(e, TAG_WRITE, &i))
        judge_write(e, f, "a write with the reader's credential");
    else
        finding_set(f, VERDICT_INCONCLUSIVE, "OPTIONS alone does not say whether it would let a reader write: --active, and write in the manifest");
}

/* ---- AS-6 ---- */

static void send_elsewhere(struct evidence *e)
{
    size_t n = target_count(e->target, "issuer.others");

    if (!token_counts(e))
        return;
    if (n == 0)
        evidence_missing(e, "the manifest names no paths that the credential must not open (issuer.others)");
    for (size_t i = 0; i < n; i++) {
        ask(e, (struct probe){.path = target_text_at(e->target, "issuer.others", i), .variant = "nobody", .tag = 0});
        ask(e, (struct probe){.path = target_text_at(e->target, "issuer.others", i), .who = WHO_FIRST, .variant = "the credential of another object", .tag = 1});
    }
}

static void judge_elsewhere(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "the credential opens nothing else of %zu tried", e->n / 2);
    for (size_t i = 1; i < e->n; i += 2) {
        const struct turn *x = e->list[i];

        if (turn_is_2xx(x) || (is_let_in(token_place(e), x) && !turn_is_refusal(x)))
            finding_worsen(f, VERDICT_FAIL, "%.100s is opened too: %d", x->shown, x->status);
        else if (x->status == 404 && turn_alike(x, token_place(e)->good))
            finding_worsen(f, VERDICT_FAIL, "%.100s is answered as what the credential is for: %d", x->shown, x->status);
    }
}

/* ---- AS-7 ---- */

static const char *in_capitals(struct evidence *e, const char *text)
{
    struct buf out = {0};
    const char *kept;

    for (const char *c = text; *c; c++)
        buf_char(&out, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
    kept = words(e, "%.*s", SLICE_ARG(buf_slice(&out)));
    buf_free(&out);
    return kept;
}

/* How the good name may be spelt by who has no right to it: everything, a part of it, other letters, lists in the wrong form. */
static const char *spelling(struct evidence *e, const char *good, size_t i)
{
    switch (i) {
    case 0: return "*";
    case 1: return "";
    case 2: return in_capitals(e, good);
    case 3: return "admin";
    case 4: return words(e, "%.*s", (int)(strlen(good) / 2), good);
    case 5: return words(e, "other,%s", good);
    case 6: return words(e, "%s.other", good);
    default: return NULL;
    }
}

/* The claims of a good token, with the first name in scope or access replaced. */
static void send_spellings(struct evidence *e)
{
    json_t *claims = token_can_be_made(e) ? json_loads(target_text(e->target, "issuer.claims"), 0, NULL) : NULL;
    json_t *first = json_array_get(json_object_get(claims, "access"), 0);
    const char *scope = json_string_value(json_object_get(claims, "scope")), *name = json_string_value(json_object_get(first, "name")), *one;

    if (!e->missing[0] && !e->not_applicable[0] && !scope && !name)
        evidence_na(e, "its tokens have neither scope nor access");
    scope = scope ? words(e, "%.*s", (int)strcspn(scope, " "), scope) : NULL;
    name = name ? words(e, "%s", name) : NULL;
    for (size_t i = 0; (scope || name) && (one = spelling(e, scope ? scope : name, i)); i++) {
        char *text;

        json_object_set_new(scope ? claims : first, scope ? "scope" : "name", json_string(one));
        text = json_dumps(claims, JSON_COMPACT);
        token_show(e, &(struct mold){.claims = text}, words(e, "%s \"%s\"", scope ? "scope" : "access to", one), 0);
        free(text);
    }
    json_decref(claims);
}

/* ---- AS-8 ---- */

static void send_details(struct evidence *e)
{
    json_t *claims = token_can_be_made(e) ? json_loads(target_text(e->target, "issuer.claims"), 0, NULL) : NULL;

    if (!e->missing[0] && !e->not_applicable[0] && !json_is_array(json_object_get(claims, "authorization_details")))
        evidence_na(e, "its tokens have no authorization_details");
    else if (claims) {
        token_show(e, &(struct mold){.claims = "{\"scope\":null,\"authorization_details\":[{\"type\":\"exeat-unknown\"}]}"}, "details of an unknown type", 0);
        token_show(e, &(struct mold){.claims = "{\"scope\":null,\"authorization_details\":[]}"}, "no details", 0);
    }
    json_decref(claims);
}

/* ---- AS-9, AS-10 ---- */

static void send_gateway_token(struct evidence *e)
{
    char *token;

    if (!token_counts(e))
        return;
    if (e->target->gateway.secret) {
        ask(e, (struct probe){.path = token_place(e)->path, .who = WHO_TOKEN, .token = words(e, "%.*s", SLICE_ARG(secret_slice(e->target->gateway.secret))), .variant = "the sandbox's leave token"});
        return;
    }
    token = forge_make(e->audit->forge, &(struct mold){.key = FORGE_OWN, .header = "{\"typ\":\"at+jwt\",\"kid\":\"exeat\",\"x5c\":null,\"jwk\":null}",
                                                        .claims = "{\"iss\":\"exeat\",\"aud\":\"gw.example\",\"sub\":\"vm1\",\"client_id\":\"exeat\",\"scope\":\"npm:read\",\"access\":null}"});
    ask(e, (struct probe){.path = token_place(e)->path, .who = WHO_TOKEN, .token = words(e, "%s", token), .variant = "a token in the form of a leave token"});
    free(token);
}

/* Neither does the manifest name a credential, nor does any path demand one. */
static bool has_no_credentials(const struct evidence *e)
{
    bool has_none = !has_good(e) && !has_second(e);

    for (size_t i = 0; i < baseline_count(e); i++) {
        const struct turn *x = baseline_at(e, i)->none;

        has_none = has_none && turn_answered(x) && x->status != 401 && x->status != 407;
    }
    return has_none;
}

static void send_second(struct evidence *e)
{
    if (has_no_credentials(e)) {
        evidence_na(e, "it has no credentials, so none of another tenant's");
        return;
    }
    if (!has_second(e)) {
        evidence_missing(e, "the manifest has no tenant2");
        return;
    }
    if (token_counts(e))
        for (size_t i = 0; i < baseline_count(e); i++)
            ask_once(e, baseline_at(e, i)->second, (struct probe){.path = baseline_at(e, i)->path, .who = WHO_SECOND, .variant = "the second tenant's credential", .tag = (int)i});
}

static void judge_second(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "the second tenant's credential does not open the first one's paths");
    for (size_t i = 0; i < e->n; i++)
        if (is_let_in(baseline_at(e, (size_t)e->list[i]->tag), e->list[i]))
            finding_worsen(f, VERDICT_FAIL, "the second tenant's credential opens %s: %d", e->list[i]->shown, e->list[i]->status);
}

#define OWN "credential or assert: the gateway's own for this one service; the sandbox's is refused."

static const struct check scope_checks[] = {
    {"AS-1", SEVERITY_CRITICAL, RUN_ISSUER, send_other_audience, judge_tokens, "Is a token for another service refused?", "RFC 9068 4, RFC 8725 3.9", "Check aud.", OWN},
    {"AS-2", SEVERITY_MEDIUM, RUN_ISSUER, send_audiences, judge_audiences, "Is a token for several services taken?", "JWT-SVID 7.2", "Refuse an aud that names others too, or note it.", OWN},
    {"AS-3", SEVERITY_HIGH, RUN_ISSUER, send_no_audience, judge_tokens, "Must a token name its service?", "RFC 9068 2.2", "Demand aud.", OWN},
    {"AS-4", SEVERITY_HIGH, RUN_ISSUER, send_resource, judge_resource, "Is a token held to the resource it was asked for?", "RFC 8707 2", "Check the resource; refuse unknown ones (invalid_target).", OWN},
    {"AS-5", SEVERITY_HIGH, 0, send_write_with_read, judge_write_with_read, "Can a reader write?", "RFC 6750 3.1", "Demand a scope of its own for writing.", "allow: GET and HEAD alone."},
    {"AS-6", SEVERITY_HIGH, RUN_TENANTS, send_elsewhere, judge_elsewhere, "Does a credential for one thing open another?", "RFC 9396", "Compare the scope with the very object.", "bind: the paths by name."},
    {"AS-7", SEVERITY_HIGH, RUN_ISSUER, send_spellings, judge_tokens, "Can a scope be widened by how it is spelt?", "CVE-2026-42016, CVE-2026-66015", "Compare scopes exactly.", OWN},
    {"AS-8", SEVERITY_MEDIUM, RUN_ISSUER, send_details, judge_tokens, "Are authorization_details looked at?", "RFC 9396 3, 5", "Refuse details of unknown types.", OWN},
    {"AS-9", SEVERITY_CRITICAL, 0, send_gateway_token, judge_tokens, "Does it take the gateway's leave token?", "RFC 9700 4.10.2", "Take tokens of your issuer for your audience alone.", "The gateway strips its token from every request."},
    {"AS-10", SEVERITY_CRITICAL, RUN_TENANTS | RUN_SHOWS, send_second, judge_second, "Does another tenant's credential open it?", "", "Bind objects to their tenant.", "client-credentials: refuse; then no foreign account can be used."},
};

const struct check_group check_scope = {"AS", "audience and scope", scope_checks, COUNT(scope_checks)};
