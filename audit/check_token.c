/* TV: which tokens it takes. Each is good but for one thing. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/check.h"
#include "audit/probes.h"
#include "audit/renewal.h"
#include "audit/state.h"
#include "base/clock.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- for all ---- */

const struct baseline *token_place(const struct evidence *e)
{
    const char *path = target_text(e->target, "issuer.path");

    for (size_t i = 0; path && i < baseline_count(e); i++)
        if (slice_is(slice_of(path), baseline_at(e, i)->path))
            return baseline_at(e, i);
    return baseline_at(e, 0);
}

/* Without something that a good token opens and nobody else, there is nothing to judge. */
bool token_counts(struct evidence *e)
{
    const struct baseline *b = token_place(e);

    if (is_open(b))
        evidence_na(e, "it is open: no token is looked at (AN-1)");
    else if (!b->good && turn_answered(b->none) && b->none->status != 401 && b->none->status != 407)
        evidence_na(e, "it asks for no credential");
    else if (!b->good)
        evidence_missing(e, "the manifest has no good credential to compare with");
    else if (turn_alike(b->none, b->good))
        evidence_missing(e, "the good credential is answered like none");
    else
        return true;
    return false;
}

/* Three parts, of which the first is JSON. */
static bool is_jwt(const struct target *t)
{
    struct slice token = t->first.secret ? secret_slice(t->first.secret) : slice_make("", 0), part;
    struct buf text = {0};
    bool yes = slice_next(&token, '.', &part) && slice_find(token, '.') > 0 && text_unbase64url(part, &text) && slice_starts(buf_slice(&text), SLICE("{"));

    buf_free(&text);
    return yes;
}

bool token_can_be_made(struct evidence *e)
{
    if (!token_counts(e))
        return false;
    if (!forge_has_issuer(e->audit->forge) && !is_jwt(e->target))
        evidence_na(e, "its credential is no signed token with claims");
    else if (!forge_has_issuer(e->audit->forge))
        evidence_missing(e, "the manifest has no issuer.key");
    return forge_has_issuer(e->audit->forge);
}

static struct turn *show(struct evidence *e, const char *token, const char *variant, int tag)
{
    return ask(e, (struct probe){.path = token_place(e)->path, .who = WHO_TOKEN, .token = token, .variant = variant, .tag = tag});
}

struct turn *token_show(struct evidence *e, const struct mold *m, const char *variant, int tag)
{
    char *token = forge_make(e->audit->forge, m);
    struct turn *x = show(e, token, variant, tag);

    explicit_bzero(token, strlen(token));
    free(token);
    return x;
}

/* Every one of them must be refused. */
void judge_tokens(const struct evidence *e, struct finding *f)
{
    const struct baseline *b = token_place(e);

    finding_set(f, VERDICT_PASS, "refused, all %zu", e->n);
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (is_let_in(b, x))
            finding_worsen(f, VERDICT_FAIL, "accepted: %s (%d)", x->variant, x->status);
        else if (turn_answered(x) && x->status / 100 == 5)
            finding_worsen(f, VERDICT_WEAK, "%s: it breaks (%d)", x->variant, x->status);
    }
}

/* ---- TV-1 ---- */

static void send_junk(struct evidence *e)
{
    static const char *const tokens[] = {"exeat-audit-nobody-gave-this-out", "", "   "};
    static const char *const variants[] = {"a random token", "an empty token", "a token of blanks"};

    for (size_t i = 0; token_counts(e) && i < COUNT(tokens); i++)
        show(e, tokens[i], variants[i], 0);
}

/* ---- TV-2, TV-3, TV-15 ---- */

static void show_time(struct evidence *e, const char *claim, int64_t from_now_s, const char *more, const char *variant)
{
    token_show(e, &(struct mold){.claims = words(e, "{\"%s\":%lld%s}", claim, (long long)(clock_wall_s() + from_now_s), more)}, variant, (int)(from_now_s > 1000000 ? 1000000 : from_now_s));
}

static void send_expired(struct evidence *e)
{
    static const int ages[] = {5, 61, 301};

    for (size_t i = 0; token_can_be_made(e) && i < COUNT(ages); i++)
        show_time(e, "exp", -ages[i], words(e, ",\"iat\":%lld,\"nbf\":%lld", (long long)(clock_wall_s() - 900), (long long)(clock_wall_s() - 900)), words(e, "expired %d s ago", ages[i]));
}

static void judge_expired(const struct evidence *e, struct finding *f)
{
    const struct baseline *b = token_place(e);
    bool in[3] = {false};

    for (size_t i = 0; i < e->n && i < 3; i++)
        in[i] = is_let_in(b, e->list[i]);
    if (in[2])
        finding_set(f, VERDICT_FAIL, "a token that expired 301 s ago is accepted");
    else if (in[1])
        finding_set(f, VERDICT_WEAK, "a token that expired 61 s ago is accepted");
    else
        finding_set(f, VERDICT_PASS, in[0] ? "expired tokens are refused, with a leeway between 5 and 61 s" : "expired tokens are refused, after 5 s already");
}

static void send_early(struct evidence *e)
{
    if (!token_can_be_made(e))
        return;
    show_time(e, "nbf", 30, "", "good in 30 s");
    show_time(e, "nbf", 300, "", "good in 300 s");
    show_time(e, "iat", 300, "", "issued in 300 s");
}

static void judge_early(const struct evidence *e, struct finding *f)
{
    const struct baseline *b = token_place(e);

    finding_set(f, VERDICT_PASS, "tokens that are not good yet are refused%s", e->n > 2 && is_let_in(b, e->list[2]) ? "; iat in the future is not looked at" : "");
    if (e->n > 1 && is_let_in(b, e->list[1]))
        finding_set(f, VERDICT_FAIL, "a token that is good only in 300 s (nbf) is accepted");
}

static void send_long(struct evidence *e)
{
    if (!token_can_be_made(e))
        return;
    show_time(e, "exp", 86400, "", "good for 24 hours");
    show_time(e, "exp", 10 * 365 * 86400LL, "", "good for ten years");
}

static void judge_long(const struct evidence *e, struct finding *f)
{
    const struct baseline *b = token_place(e);

    finding_set(f, VERDICT_PASS, "tokens that live long are refused");
    if (e->n && is_let_in(b, e->list[0]))
        finding_worsen(f, VERDICT_WEAK, "a token that is good for 24 hours is accepted");
    if (e->n > 1 && is_let_in(b, e->list[1]))
        finding_worsen(f, VERDICT_FAIL, "a token that is good for ten years is accepted");
}

/* ---- TV-4, TV-5, TV-6, TV-17 ---- */

static void send_without_end(struct evidence *e)
{
    if (token_can_be_made(e))
        token_show(e, &(struct mold){.claims = "{\"exp\":null}"}, "without exp", 0);
}

static void send_unsigned(struct evidence *e)
{
    static const char *const spellings[] = {"none", "None", "NONE", "nOnE"};

    for (size_t i = 0; token_counts(e) && i < COUNT(spellings); i++)
        token_show(e, &(struct mold){.key = FORGE_NONE, .algorithm = spellings[i]}, words(e, "alg %s, no signature", spellings[i]), 0);
}

static void send_confused(struct evidence *e)
{
    static const char *const forms[] = {"pem", "certificate", "der", "jwk"};
    struct buf key = {0};

    for (size_t i = 0; token_can_be_made(e) && i < COUNT(forms); i++) {
        buf_clear(&key);
        forge_public(e->audit->forge, forms[i], &key);
        if (buf_len(&key))
            token_show(e, &(struct mold){.key = FORGE_HMAC, .secret = buf_slice(&key)}, words(e, "HS256 with the public key (%s) as the secret", forms[i]), 0);
    }
    buf_free(&key);
}

static void send_empty_keys(struct evidence *e)
{
    static const char zeros[32] = {0};
    static const char spaces[] = "                                ";

    if (!token_counts(e))
        return;
    token_show(e, &(struct mold){.key = FORGE_HMAC, .secret = slice_make("", 0)}, "HS256 with an empty key", 0);
    token_show(e, &(struct mold){.key = FORGE_HMAC, .secret = slice_of(spaces)}, "HS256 with a key of blanks", 0);
    token_show(e, &(struct mold){.key = FORGE_HMAC, .secret = slice_make(zeros, sizeof zeros)}, "HS256 with a key of zeros", 0);
}

/* ---- TV-7 ---- */

enum { TAG_EDITED, TAG_LAST_BITS };

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void send_tampered(struct evidence *e)
{
    struct slice good = e->target->first.secret ? secret_slice(e->target->first.secret) : slice_make("", 0), rest = good, header, claims;
    struct buf text = {0}, edited = {0};
    char *truncated, *at;

    if (!token_counts(e))
        return;
    if (!slice_next(&rest, '.', &header) || !slice_next(&rest, '.', &claims) || rest.len < 8 || !text_unbase64url(claims, &text) || buf_len(&text) < 2) {
        evidence_na(e, "its credential is no JWT: nothing is signed that could be edited");
        buf_free(&text);
        return;
    }
    buf_printf(&edited, "%.*s.", SLICE_ARG(header));
    buf_truncate(&text, buf_len(&text) - 1);
    buf_text(&text, ",\"exeat\":1}");
    text_base64url(&edited, buf_slice(&text));
    buf_printf(&edited, ".%.*s", SLICE_ARG(rest));
    truncated = buf_take_text(&edited);
    show(e, truncated, "the claims edited, the signature kept", TAG_EDITED);
    free(truncated);
    truncated = text_copy(slice_cut(good, 0, good.len - 8));
    show(e, truncated, "the signature cut short", TAG_EDITED);
    free(truncated);
    truncated = text_copy(good);
    if ((at = strchr(alphabet, truncated[good.len - 1])))
        truncated[good.len - 1] = alphabet[(at - alphabet) ^ 1];
    show(e, truncated, "the signature's last bit changed", TAG_LAST_BITS);
    free(truncated);
    buf_wipe(&text);
    buf_free(&edited);
}

/* The last character of a Base64 text can hold bits that belong to no byte: who ignores them has the same signature. */
static void judge_tampered(const struct evidence *e, struct finding *f)
{
    const struct baseline *b = token_place(e);

    finding_set(f, VERDICT_PASS, "edited tokens are refused");
    for (size_t i = 0; i < e->n; i++)
        if (is_let_in(b, e->list[i]) && e->list[i]->tag == TAG_EDITED)
            finding_worsen(f, VERDICT_FAIL, "accepted: %s", e->list[i]->variant);
        else if (is_let_in(b, e->list[i]) && f->verdict == VERDICT_PASS)
            finding_set(f, VERDICT_PASS, "edited tokens are refused; the unused last bits of the Base64 text are not looked at");
}

/* ---- TV-8, TV-9 ---- */

static void send_key_ids(struct evidence *e)
{
    static const char *const kids[] = {"unknown-key", "../../../../../../dev/null", "x' UNION SELECT 'key' --"};
    const char *host = target_listener(e->target, "outside");

    for (size_t i = 0; token_counts(e) && i < COUNT(kids); i++)
        token_show(e, &(struct mold){.key = FORGE_OWN, .header = words(e, "{\"kid\":\"%s\",\"x5c\":null,\"jwk\":null}", kids[i])}, words(e, "kid \"%s\"", kids[i]), 0);
    if (token_counts(e))
        token_show(e, &(struct mold){.key = FORGE_OWN, .header = words(e, "{\"kid\":\"http://%s/%s\",\"x5c\":null,\"jwk\":null}", host ? host : "127.0.0.1", nonce_new(e))}, "a URL as kid", 0);
}

enum { SLOW_MS = 2000 };

static void judge_key_ids(const struct evidence *e, struct finding *f)
{
    int64_t usual_ms = token_place(e)->junk ? token_place(e)->junk->took_ms : 0;

    judge_tokens(e, f);
    for (size_t i = 0; i < e->n; i++)
        if (e->list[i]->took_ms > usual_ms + SLOW_MS)
            finding_worsen(f, VERDICT_WEAK, "%s: it takes %lld ms to refuse", e->list[i]->variant, (long long)e->list[i]->took_ms);
    if (e->n_hits)
        finding_set(f, VERDICT_FAIL, "it called the listener for a key");
}

static void send_own_keys(struct evidence *e)
{
    const char *host = token_counts(e) ? outside_host(e) : NULL;
    struct buf jwk = {0}, x5c = {0};

    if (!host)
        return;
    forge_own_jwk(e->audit->forge, &jwk);
    forge_own_x5c(e->audit->forge, &x5c);
    token_show(e, &(struct mold){.key = FORGE_OWN, .header = words(e, "{\"jwk\":%.*s,\"x5c\":null,\"kid\":null}", SLICE_ARG(buf_slice(&jwk)))}, "our own key in jwk", 0);
    token_show(e, &(struct mold){.key = FORGE_OWN, .header = words(e, "{\"x5c\":%.*s,\"jwk\":null,\"kid\":null}", SLICE_ARG(buf_slice(&x5c)))}, "our own certificate in x5c", 0);
    token_show(e, &(struct mold){.key = FORGE_OWN, .header = words(e, "{\"jku\":\"http://%s/%s\",\"x5c\":null,\"jwk\":null}", host, nonce_new(e))}, "jku at the listener", 0);
    token_show(e, &(struct mold){.key = FORGE_OWN, .header = words(e, "{\"x5u\":\"http://%s/%s\",\"x5c\":null,\"jwk\":null}", host, nonce_new(e))}, "x5u at the listener", 0);
    buf_free(&jwk);
    buf_free(&x5c);
}

static void judge_own_keys(const struct evidence *e, struct finding *f)
{
    judge_tokens(e, f);
    if (e->n_hits)
        finding_set(f, VERDICT_FAIL, "it fetched a key from where the token said");
}

/* ---- TV-10 to TV-13 ---- */

static void send_critical(struct evidence *e)
{
    if (token_can_be_made(e))
        token_show(e, &(struct mold){.header = "{\"crit\":[\"exeat-unknown\"],\"exeat-unknown\":true}"}, "crit names something unknown", 0);
}

static void send_types(struct evidence *e)
{
    static const char *const types[] = {"secevent+jwt", "logout+jwt", "dpop+jwt", "txntoken+jwt", "wit+jwt"};

    for (size_t i = 0; token_can_be_made(e) && i < COUNT(types); i++)
        token_show(e, &(struct mold){.header = words(e, "{\"typ\":\"%s\"}", types[i])}, words(e, "typ %s", types[i]), 0);
}

static void send_issuers(struct evidence *e)
{
    if (!token_can_be_made(e))
        return;
    token_show(e, &(struct mold){.claims = "{\"iss\":\"https://other.example\"}"}, "another issuer, the same key", 0);
    token_show(e, &(struct mold){.key = FORGE_OWN}, "the issuer's name, our own key", 0);
    token_show(e, &(struct mold){.key = FORGE_OWN, .claims = "{\"iss\":\"https://other.example\"}"}, "another issuer, our own key", 0);
}

enum { TAG_ODD, TAG_PAST };

static void send_odd(struct evidence *e)
{
    long long now = (long long)clock_wall_s();
    struct buf deep = {0};

    if (!token_can_be_made(e))
        return;
    token_show(e, &(struct mold){.claims = words(e, "{\"exp\":%lld}", now - 900), .append = words(e, ",\"exp\":%lld", now + 300)}, "two exp, the second good", TAG_ODD);
    token_show(e, &(struct mold){.claims = words(e, "{\"exp\":\"%lld\"}", now + 300)}, "exp as a text", TAG_ODD);
    token_show(e, &(struct mold){.claims = "{\"exp\":1e30}"}, "exp 1e30", TAG_ODD);
    token_show(e, &(struct mold){.claims = "{\"exp\":-1}"}, "exp -1", TAG_PAST);
    for (int i = 0; i < 1000; i++)
        buf_char(&deep, '[');
    for (int i = 0; i < 1000; i++)
        buf_char(&deep, ']');
    token_show(e, &(struct mold){.claims = words(e, "{\"exeat\":%.*s}", SLICE_ARG(buf_slice(&deep)))}, "1000 levels deep", TAG_ODD + 10);
    buf_clear(&deep);
    for (int i = 0; i < 48 * 1024; i++)
        buf_char(&deep, 'a');
    token_show(e, &(struct mold){.claims = words(e, "{\"exeat\":\"%.*s\"}", SLICE_ARG(buf_slice(&deep)))}, "64 KiB long", TAG_ODD + 10);
    buf_free(&deep);
}

static void judge_odd(const struct evidence *e, struct finding *f)
{
    const struct baseline *b = token_place(e);

    finding_set(f, VERDICT_PASS, "odd claims are refused, and nothing breaks");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (turn_answered(x) && x->status / 100 == 5)
            finding_worsen(f, VERDICT_FAIL, "%s: it breaks (%d)", x->variant, x->status);
        else if (is_let_in(b, x) && x->tag == TAG_PAST)
            finding_worsen(f, VERDICT_FAIL, "accepted: %s", x->variant);
        else if (is_let_in(b, x) && x->tag == TAG_ODD)
            finding_worsen(f, VERDICT_WEAK, "accepted: %s", x->variant);
    }
}

/* ---- TV-14 ---- */

static void send_carriers(struct evidence *e)
{
    const char *path = token_place(e)->path, *token;
    char join = strchr(path, '?') ? '&' : '?';

    if (!token_counts(e))
        return;
    if (e->target->first.form != CREDENTIAL_BEARER) {
        evidence_na(e, "its credential is no bearer token");
        return;
    }
    token = words(e, "%.*s", SLICE_ARG(secret_slice(e->target->first.secret)));
    ask(e, (struct probe){.path = words(e, "%s%caccess_token=%s", path, join, token), .has_secret = true, .variant = "in the query"});
    ask(e, (struct probe){.path = words(e, "%s%ctoken=%s", path, join, token), .has_secret = true, .variant = "in the query as token"});
    ask(e, (struct probe){.method = "POST", .path = path, .body = slice_of(words(e, "access_token=%s", token)), .body_type = "application/x-www-form-urlencoded", .variant = "in a form"});
    ask(e, (struct probe){.path = path, .fields = {words(e, "Cookie: access_token=%s; token=%s", token, token)}, .variant = "in a cookie"});
}

#define SHORT "Have the gateway make or exchange the token (assert, exchange): it is good for one service and 60 s, and sandboxes never hold it."

static const struct check checks[] = {
    {"TV-1", SEVERITY_CRITICAL, 0, send_junk, judge_tokens, "Is any token good enough?", "RFC 6750 3.1", "Verify every token; answer 401 invalid_token.", SHORT},
    {"TV-2", SEVERITY_HIGH, RUN_ISSUER, send_expired, judge_expired, "Are expired tokens refused?", "RFC 7519 4.1.4, RFC 9068 4", "Check exp, with at most 60 s of leeway.", SHORT},
    {"TV-3", SEVERITY_MEDIUM, RUN_ISSUER, send_early, judge_early, "Are tokens refused that are not good yet?", "RFC 7519 4.1.5", "Check nbf, with at most 60 s of leeway.", SHORT},
    {"TV-4", SEVERITY_HIGH, RUN_ISSUER, send_without_end, judge_tokens, "Must a token end?", "RFC 9068 2.2", "Demand exp.", SHORT},
    {"TV-5", SEVERITY_CRITICAL, 0, send_unsigned, judge_tokens, "Are unsigned tokens refused?", "RFC 8725 3.1", "Allow algorithms by a list; none is in no list.", SHORT},
    {"TV-6", SEVERITY_CRITICAL, RUN_ISSUER, send_confused, judge_tokens, "Is a public key taken for a secret?", "RFC 8725 2.1, 3.1", "One algorithm for each key.", SHORT},
    {"TV-7", SEVERITY_CRITICAL, 0, send_tampered, judge_tampered, "Are edited tokens refused?", "RFC 7515 5.2", "Verify the signature over what is used.", SHORT},
    {"TV-8", SEVERITY_HIGH, 0, send_key_ids, judge_key_ids, "What does it do with an unknown kid?", "RFC 8725 3.10", "Look kid up in a list; never in files, databases or at URLs.", SHORT},
    {"TV-9", SEVERITY_CRITICAL, RUN_LISTENER, send_own_keys, judge_own_keys, "Does a token bring its own key?", "RFC 8725 3.10", "Never follow jku, x5u; never trust jwk, x5c without a chain to a root of yours.", SHORT},
    {"TV-10", SEVERITY_MEDIUM, RUN_ISSUER, send_critical, judge_tokens, "Is an unknown crit refused?", "RFC 7515 4.1.11, CVE-2025-59420", "Refuse tokens whose crit names what it does not know.", SHORT},
    {"TV-11", SEVERITY_HIGH, RUN_ISSUER, send_types, judge_tokens, "Are tokens of another kind refused?", "RFC 8725 3.11, RFC 9068 4", "Demand one typ.", SHORT},
    {"TV-12", SEVERITY_CRITICAL, RUN_ISSUER, send_issuers, judge_tokens, "Are other issuers refused?", "RFC 8725 3.8", "Check iss, and take keys of that issuer alone.", SHORT},
    {"TV-13", SEVERITY_MEDIUM, RUN_ISSUER, send_odd, judge_odd, "What does it do with odd claims?", "RFC 7519 4, RFC 8259", "Refuse duplicate names, wrong types and oversize before anything is used.", SHORT},
    {"TV-14", SEVERITY_MEDIUM, 0, send_carriers, judge_tokens, "Is a token taken from other places?", "RFC 9700 4.3.2, RFC 6750 2.2", "Take tokens from Authorization alone.", "The gateway finds tokens elsewhere in a request and refuses it (leak)."},
    {"TV-15", SEVERITY_MEDIUM, RUN_ISSUER, send_long, judge_long, "May a token live for years?", "RFC 9700 4.10", "Refuse tokens that live longer than your longest job.", SHORT},
    {"TV-16", SEVERITY_HIGH, RUN_ISSUER, send_revoked, judge_revoked, "How long do retired keys and revoked tokens work?", "RFC 9700 2", "Drop retired keys from the key set; look revocations up.", SHORT},
    {"TV-17", SEVERITY_CRITICAL, 0, send_empty_keys, judge_tokens, "Are empty keys refused?", "CVE-2026-82329", "Refuse to start with an empty key.", SHORT},
    {"TV-18", SEVERITY_CRITICAL, RUN_ISSUER, send_renewal, judge_renewal, "Can a token be renewed into more?", "RFC 9700 2.2.2, CVE-2026-65616", "Bind a refresh token to its client and its access token; use it once.", SHORT},
};

const struct check_group check_token = {"TV", "token validation", checks, COUNT(checks)};
