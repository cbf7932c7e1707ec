/* DE: what can be made of a token where tokens are exchanged (RFC 8693)? */
#include <stdlib.h>

#include "audit/check.h"
#include "audit/grant.h"
#include "audit/probes.h"
#include "audit/state.h"
#include "base/clock.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { TAG_ACTOR = 1, TAG_PLAIN /* an exchange that asks for nothing more */, TAG_MORE, TAG_NESTED };
enum { SHORT_S = 90, SLACK_S = 5 };

static const char *narrow_scope(const struct evidence *e)
{
    const char *scope = target_text(e->target, "token-endpoint.scope");

    return scope ? scope : "";
}

static const char *subject_with(struct evidence *e, const char *claims)
{
    char *made = forge_make(e->audit->forge, &(struct mold){.claims = claims});
    const char *kept = words(e, "%s", made);

    explicit_bzero(made, strlen(made));
    free(made);
    return kept;
}

/* The good credential, or one like it of the issuer's. */
static const char *plain_subject(struct evidence *e)
{
    if (forge_has_issuer(e->audit->forge))
        return subject_with(e, NULL);
    if (e->target->first.secret && e->target->first.form == CREDENTIAL_BEARER)
        return words(e, "%.*s", SLICE_ARG(secret_slice(e->target->first.secret)));
    evidence_missing(e, "there is no token to exchange: neither issuer.key nor a bearer credential");
    return NULL;
}

static const char *actor(struct evidence *e)
{
    return grant_token(e, grant_ask(e, (struct grant){.type = GRANT_CLIENT, .scope = target_text(e->target, "token-endpoint.scope"), .variant = "the client's own token", .tag = TAG_ACTOR}));
}

/* One that asks for no more than the subject has: where not even that is done, there is nothing to judge. */
static struct turn *exchange_plain(struct evidence *e, const char *subject, const char *as)
{
    struct turn *x = grant_ask(e, (struct grant){.type = GRANT_EXCHANGE, .subject = subject, .actor = as, .scope = target_text(e->target, "token-endpoint.scope"), .variant = "a plain exchange", .tag = TAG_PLAIN});

    if (turn_answered(x) && !turn_is_2xx(x) && turn_holds(x, "unsupported_grant_type"))
        evidence_na(e, "its token endpoint exchanges no tokens");
    return grant_gave(x) ? x : NULL;
}

static bool may_exchange(struct evidence *e)
{
    return grant_has_place(e) && grant_is_oauth(e);
}

/* False: what is asked for beside it cannot be judged; the finding is set. */
static bool is_judgeable(const struct evidence *e, struct finding *f)
{
    const struct turn *x;
    size_t i = 0;

    if (!(x = tagged(e, TAG_PLAIN, &i))) {
        finding_set(f, VERDICT_INCONCLUSIVE, "no exchange could be asked for");
        return false;
    }
    if (!grant_gave(x)) {
        finding_set(f, VERDICT_INCONCLUSIVE, "a plain exchange is refused (%d): is token-endpoint.client right, and may it exchange?", x->status);
        return false;
    }
    return true;
}

/* ---- DE-1 ---- */

static void send_wider(struct evidence *e)
{
    const char *wider = target_text(e->target, "token-endpoint.wider"), *subject;

    if (!may_exchange(e) || !(subject = plain_subject(e)) || !exchange_plain(e, subject, NULL))
        return;
    grant_ask(e, (struct grant){.type = GRANT_EXCHANGE, .subject = subject, .scope = words(e, "%s %s", narrow_scope(e), wider), .variant = "a wider scope", .tag = TAG_MORE});
    grant_ask(e, (struct grant){.type = GRANT_EXCHANGE, .subject = subject, .scope = target_text(e->target, "token-endpoint.scope"), .audience = "https://other.example", .variant = "another audience", .tag = TAG_MORE});
    grant_ask(e, (struct grant){.type = GRANT_EXCHANGE, .subject = subject, .scope = target_text(e->target, "token-endpoint.scope"), .resource = "https://other.example/", .variant = "another resource", .tag = TAG_MORE});
}

static bool is_for_other(const json_t *claims)
{
    const json_t *aud = json_object_get(claims, "aud");
    bool other = json_is_string(aud) && strstr(json_string_value(aud), "other.example");

    for (size_t i = 0; i < json_array_size(aud); i++)
        other = other || (json_is_string(json_array_get(aud, i)) && strstr(json_string_value(json_array_get(aud, i)), "other.example"));
    return other;
}

static void judge_wider(const struct evidence *e, struct finding *f)
{
    const char *asked = target_text(e->target, "token-endpoint.wider");
    const struct turn *x;
    size_t i = 0;

    if (!is_judgeable(e, f))
        return;
    finding_set(f, VERDICT_PASS, "an exchange gives no more than the token has");
    while ((x = tagged(e, TAG_MORE, &i))) {
        json_t *claims = grant_claims(x);

        if (grant_gave(x) && (is_for_other(claims) || grant_is_wider(x, slice_is(slice_of(x->variant), "a wider scope") ? asked : NULL, narrow_scope(e))))
            finding_worsen(f, VERDICT_FAIL, "an exchange gave %s", x->variant);
        json_decref(claims);
    }
}

/* ---- DE-2 ---- */

static void send_actor(struct evidence *e)
{
    const char *subject, *as, *token;
    const struct turn *x;

    if (!may_exchange(e) || !(subject = plain_subject(e)) || !(as = actor(e)) || !(x = exchange_plain(e, subject, as)) || !(token = grant_token(e, x)))
        return;
    grant_ask(e, (struct grant){.type = GRANT_EXCHANGE, .subject = token, .actor = as, .scope = target_text(e->target, "token-endpoint.scope"), .variant = "its result exchanged again", .tag = TAG_NESTED});
}

static void judge_actor(const struct evidence *e, struct finding *f)
{
    const struct turn *x, *again;
    json_t *claims, *next;
    size_t i = 0, j = 0;

    if (!is_judgeable(e, f))
        return;
    x = tagged(e, TAG_PLAIN, &i);
    again = tagged(e, TAG_NESTED, &j);
    claims = grant_claims(x);
    next = grant_claims(again);
    if (!claims)
        finding_set(f, VERDICT_INCONCLUSIVE, "what an exchange gives is no JWT: whether it names its actor is not in it");
    else if (!json_string_length(json_object_get(json_object_get(claims, "act"), "sub")))
        finding_set(f, VERDICT_FAIL, "an exchanged token does not name its actor (act): the log will show its subject alone");
    else if (next && !json_is_object(json_object_get(json_object_get(next, "act"), "act")))
        finding_set(f, VERDICT_FAIL, "exchanged twice, a token names its last actor alone: the first is lost");
    else
        finding_set(f, VERDICT_PASS, "an exchanged token names its actor%s", next ? ", and the actor before" : "; exchanging it again is refused");
    json_decref(claims);
    json_decref(next);
}

/* ---- DE-3 ---- */

static void send_may_act(struct evidence *e)
{
    const char *as;

    if (!may_exchange(e))
        return;
    if (!forge_has_issuer(e->audit->forge)) {
        evidence_missing(e, "the manifest has no issuer.key: no token with may_act can be made");
        return;
    }
    if (!(as = actor(e)) || !exchange_plain(e, subject_with(e, NULL), as))
        return;
    grant_ask(e, (struct grant){.type = GRANT_EXCHANGE, .subject = subject_with(e, "{\"may_act\":{\"sub\":\"exeat-audit-somebody-else\"}}"), .actor = as, .scope = target_text(e->target, "token-endpoint.scope"),
                                .variant = "may_act names somebody else", .tag = TAG_MORE});
}

static void judge_may_act(const struct evidence *e, struct finding *f)
{
    const struct turn *x;
    size_t i = 0;

    if (!is_judgeable(e, f))
        return;
    x = tagged(e, TAG_MORE, &i);
    if (grant_gave(x))
        finding_set(f, VERDICT_FAIL, "a token whose may_act names somebody else is exchanged for whoever asks");
    else
        finding_set(f, VERDICT_PASS, "may_act is looked at: %d", x->status);
}

/* ---- DE-4 ---- */

static void send_lifetime(struct evidence *e)
{
    if (!may_exchange(e))
        return;
    if (!forge_has_issuer(e->audit->forge)) {
        evidence_missing(e, "the manifest has no issuer.key: no token with a short life can be made");
        return;
    }
    if (!exchange_plain(e, subject_with(e, words(e, "{\"exp\":%lld,\"jti\":\"exeat-audit-%s\"}", (long long)(clock_wall_s() + SHORT_S), nonce_new(e))), NULL))
        return;
    grant_ask(e, (struct grant){.type = GRANT_EXCHANGE, .subject = subject_with(e, "{\"cnf\":{\"x5t#S256\":\"bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2\"}}"), .scope = target_text(e->target, "token-endpoint.scope"),
                                .variant = "the subject is bound to a certificate", .tag = TAG_MORE});
}

static void judge_lifetime(const struct evidence *e, struct finding *f)
{
    const struct turn *x, *bound;
    json_t *claims, *bound_claims;
    int64_t life_s;
    size_t i = 0, j = 0;

    if (!is_judgeable(e, f))
        return;
    x = tagged(e, TAG_PLAIN, &i);
    bound = tagged(e, TAG_MORE, &j);
    claims = grant_claims(x);
    bound_claims = grant_claims(bound);
    life_s = grant_life_s(x);
    if (life_s > SHORT_S + SLACK_S)
        finding_set(f, VERDICT_FAIL, "exchanged, a token that was good for %d s is good for %lld s", SHORT_S, (long long)life_s);
    else if (bound_claims && !json_object_get(bound_claims, "cnf"))
        finding_set(f, VERDICT_FAIL, "a token that is bound to a certificate is exchanged for one that is not");
    else if (json_string_length(json_object_get(claims, "jti")) && strncmp(json_string_value(json_object_get(claims, "jti")), "exeat-audit-", 12) == 0)
        finding_set(f, VERDICT_WEAK, "an exchanged token has its subject's jti: they cannot be told apart, nor revoked by themselves");
    else if (life_s < 0)
        finding_set(f, VERDICT_INCONCLUSIVE, "it does not say how long an exchanged token is good");
    else
        finding_set(f, VERDICT_PASS, "exchanged, a token lives no longer%s", grant_gave(bound) ? ", and what was bound stays so" : "; one that is bound is not exchanged");
    json_decref(claims);
    json_decref(bound_claims);
}

static const struct check checks[] = {
    {"DE-1", SEVERITY_CRITICAL, RUN_ISSUER, send_wider, judge_wider, "Can an exchange widen a token?", "RFC 8693 2.2.2", "Grant at most what the subject token has.", "exchange.scope, exchange.audience: what is asked for stands in the configuration, whoever asks."},
    {"DE-2", SEVERITY_MEDIUM, RUN_ISSUER, send_actor, judge_actor, "Does an exchanged token name its actor?", "RFC 8693 4.1", "Put act into it.", ""},
    {"DE-3", SEVERITY_MEDIUM, RUN_ISSUER, send_may_act, judge_may_act, "Is may_act honoured?", "RFC 8693 4.4", "Refuse actors that may_act does not name.", ""},
    {"DE-4", SEVERITY_MEDIUM, RUN_ISSUER, send_lifetime, judge_lifetime, "Does an exchanged token live longer?", "RFC 8693, RFC 9700", "At most the subject's life, bound again.", "exchange: the token stays in the gateway and goes to this service alone."},
    {"DE-5", SEVERITY_HIGH, RUN_ISSUER, NULL, NULL, "Are transaction tokens kept apart?", "draft-ietf-oauth-transaction-tokens", "Take Txn-Token in its own field alone, from your trust domain.", ""},
};

const struct check_group check_delegation = {"DE", "delegation", checks, COUNT(checks)};
