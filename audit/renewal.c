/* Owns TV-16 and TV-18. Revoked: shown until it is refused, at most for the window. Renewed: the good way once, then by who and for what should not. */
#include "audit/renewal.h"

#include <stdio.h>
#include <time.h>

#include "audit/grant.h"
#include "audit/probes.h"
#include "audit/state.h"
#include "base/clock.h"

enum { TAG_GRANT = 1, TAG_BEFORE, TAG_REVOKE, TAG_AFTER };
enum { POLL_MS = 250, POLLS_MAX = 20 };

static const char *scope_of(const struct evidence *e)
{
    return target_text(e->target, "token-endpoint.scope");
}

static struct turn *first_grant(struct evidence *e)
{
    return grant_ask(e, (struct grant){.type = GRANT_CLIENT, .scope = scope_of(e), .variant = "the client asks for a token", .tag = TAG_GRANT});
}

/* ---- TV-16 ---- */

static struct turn *show(struct evidence *e, const char *token, const char *variant, int tag)
{
    return ask(e, (struct probe){.path = token_place(e)->path, .who = WHO_TOKEN, .token = token, .variant = variant, .tag = tag});
}

void send_revoked(struct evidence *e)
{
    const char *where = target_text(e->target, "token-endpoint.revoke"), *token;
    int64_t until_ms;

    if (!token_counts(e) || !grant_has_place(e))
        return;
    if (!where) {
        evidence_missing(e, "the manifest names no place where tokens are revoked (token-endpoint.revoke)");
        return;
    }
    if (!(token = grant_token(e, first_grant(e))) || !is_let_in(token_place(e), show(e, token, "a fresh token", TAG_BEFORE)))
        return;
    if (!turn_is_2xx(grant_post(e, where, words(e, "token=%s&token_type_hint=access_token", token), "it is revoked", TAG_REVOKE)))
        return;
    until_ms = clock_mono_ms() + conf_number(e->target->item, "token-endpoint.window");
    for (size_t i = 0; i < POLLS_MAX && is_let_in(token_place(e), show(e, token, "the revoked token", TAG_AFTER)) && clock_mono_ms() < until_ms; i++)
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
}

void judge_revoked(const struct evidence *e, struct finding *f)
{
    const struct turn *grant, *before, *revoke, *after = NULL, *x;
    size_t i = 0, j = 0, k = 0, l = 0;

    grant = tagged(e, TAG_GRANT, &i);
    before = tagged(e, TAG_BEFORE, &j);
    revoke = tagged(e, TAG_REVOKE, &k);
    while ((x = tagged(e, TAG_AFTER, &l)))
        after = x;
    if (!before)
        finding_set(f, VERDICT_INCONCLUSIVE, "the token endpoint gave no token: %d", grant ? grant->status : 0);
    else if (!revoke)
        finding_set(f, VERDICT_INCONCLUSIVE, "a fresh token of the endpoint's is not accepted (%d): token-endpoint.scope?", before->status);
    else if (!after)
        finding_set(f, VERDICT_INCONCLUSIVE, "revoking is refused: %d", revoke->status);
    else if (is_let_in(token_place(e), after))
        finding_set(f, VERDICT_FAIL, "a revoked token is still accepted, %lld ms after it was revoked", (long long)conf_number(e->target->item, "token-endpoint.window"));
    else
        finding_set(f, VERDICT_PASS, "a revoked token is refused%s", e->n > 4 ? ", after a moment" : " at once");
}

/* ---- TV-18 ---- */

enum { TAG_RENEW = 10, TAG_EDITED, TAG_NOBODYS, TAG_WIDER, TAG_FOREIGN, TAG_AGAIN };

/* The refresh token to go on with: what came, or the one that was used. */
static const char *latest(struct evidence *e, const struct turn *x, const char *used)
{
    const char *next = grant_member(e, x, "refresh_token");

    return next ? next : used;
}

static const char *edited(struct evidence *e, const char *token)
{
    size_t at = strlen(token) / 2;

    return words(e, "%.*s%c%s", (int)at, token, token[at] == 'A' ? 'B' : 'A', token + at + 1);
}

static const char *refresh_token(struct evidence *e, const char **access)
{
    const char *manifest = target_text(e->target, "token-endpoint.refresh"), *came = NULL;
    const struct turn *x;

    if (e->target->refresh)
        return words(e, "%.*s", SLICE_ARG(secret_slice(e->target->refresh)));
    x = first_grant(e);
    *access = grant_token(e, x);
    came = grant_member(e, x, "refresh_token");
    if (!came && manifest)
        evidence_na(e, "the manifest says that it gives no refresh tokens (token-endpoint.refresh: none)");
    else if (!came && grant_gave(x))
        e->number = 1;
    return came;
}

/* The wrong ways first, as long as the good one is still there; what was used up is shown last, for that may end all of them. */
void send_renewal(struct evidence *e)
{
    const char *token, *access = NULL, *used;
    const struct turn *x;

    if (!grant_has_place(e) || !(token = refresh_token(e, &access)))
        return;
    x = grant_ask(e, (struct grant){.type = GRANT_REFRESH, .refresh = token, .scope = scope_of(e), .variant = "renewed as it should be", .tag = TAG_RENEW});
    if (!grant_gave(x))
        return;
    used = token;
    token = latest(e, x, token);
    access = grant_token(e, x);
    x = grant_ask(e, (struct grant){.type = GRANT_REFRESH, .refresh = token, .scope = words(e, "%s %s", scope_of(e) ? scope_of(e) : "", target_text(e->target, "token-endpoint.wider")), .variant = "a wider scope", .tag = TAG_WIDER});
    token = latest(e, x, token);
    if (access) {
        x = grant_ask(e, (struct grant){.type = GRANT_REFRESH, .refresh = token, .access = edited(e, access), .scope = scope_of(e), .variant = "an edited access token beside it", .tag = TAG_FOREIGN});
        token = latest(e, x, token);
    }
    if (e->target->client.secret && slice_is(slice_of(target_text(e->target, "token-endpoint.form")), "oauth")) {
        x = grant_ask(e, (struct grant){.type = GRANT_REFRESH, .refresh = token, .scope = scope_of(e), .is_nobodys = true, .variant = "without the client's credential", .tag = TAG_NOBODYS});
        token = latest(e, x, token);
    }
    grant_ask(e, (struct grant){.type = GRANT_REFRESH, .refresh = edited(e, token), .scope = scope_of(e), .variant = "an edited refresh token", .tag = TAG_EDITED});
    if (strcmp(used, token) != 0)
        grant_ask(e, (struct grant){.type = GRANT_REFRESH, .refresh = used, .scope = scope_of(e), .variant = "a refresh token that was used up", .tag = TAG_AGAIN});
}

static bool gave(const struct evidence *e, int tag)
{
    size_t i = 0;
    const struct turn *x = tagged(e, tag, &i);

    return x && grant_gave(x);
}

/* Another's claims in what came, when an edited access token stood beside the refresh token. */
static bool differs(const struct evidence *e)
{
    size_t i = 0, j = 0;
    json_t *first = grant_claims(tagged(e, TAG_RENEW, &i)), *second = grant_claims(tagged(e, TAG_FOREIGN, &j));
    bool other = first && second && !(json_equal(json_object_get(first, "sub"), json_object_get(second, "sub")) && json_equal(json_object_get(first, "scope"), json_object_get(second, "scope")));

    json_decref(first);
    json_decref(second);
    return other;
}

void judge_renewal(const struct evidence *e, struct finding *f)
{
    const char *narrow = scope_of(e) ? scope_of(e) : "", *wider = target_text(e->target, "token-endpoint.wider");
    const struct turn *x;
    size_t i = 0, j = 0;

    if (!(x = tagged(e, TAG_RENEW, &i))) {
        if (e->number)
            finding_set(f, VERDICT_NOT_RUN, "the endpoint gave its client no refresh token, and the manifest has none (token-endpoint.refresh, or none)");
        else
            finding_set(f, VERDICT_INCONCLUSIVE, "the token endpoint gave no token: %d; is token-endpoint.client right?", e->n ? e->list[0]->status : 0);
        return;
    }
    if (!grant_gave(x)) {
        finding_set(f, VERDICT_INCONCLUSIVE, "a good refresh token is refused: %d", x->status);
        return;
    }
    finding_set(f, VERDICT_PASS, "a refresh token renews what it is for, for its client%s", gave(e, TAG_NOBODYS) ? "" : " alone");
    if (gave(e, TAG_EDITED))
        finding_worsen(f, VERDICT_FAIL, "an edited refresh token is accepted");
    if (gave(e, TAG_NOBODYS))
        finding_worsen(f, VERDICT_FAIL, "a refresh token is accepted without its client's credential: whoever finds it can use it");
    if ((x = tagged(e, TAG_WIDER, &j)) && grant_gave(x) && grant_is_wider(x, wider, narrow))
        finding_worsen(f, VERDICT_FAIL, "a refresh token gives a wider scope than it is for");
    if (differs(e))
        finding_worsen(f, VERDICT_FAIL, "what a refresh token gives follows an access token that was edited");
    if (gave(e, TAG_AGAIN))
        finding_worsen(f, VERDICT_FAIL, "a refresh token that was used up is accepted again");
}
