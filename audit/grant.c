/* Owns how tokens are asked for at the service's token endpoint. Must not judge. */
#include "audit/grant.h"

#include <stdlib.h>

#include "audit/state.h"
#include "base/clock.h"
#include "base/text.h"

#define ACCESS_TOKEN "urn:ietf:params:oauth:token-type:access_token"

/* ---- is there one? ---- */

/* A challenge that names where tokens are given, or who says so (RFC 9728 5.1). */
static bool is_in_challenge(const struct turn *x)
{
    struct slice value;

    if (!x || !turn_field(x, "WWW-Authenticate", 0, &value) || !slice_starts_nocase(value, SLICE("Bearer")))
        return false;
    return slice_search(value, SLICE("realm=\"http")) >= 0 || slice_search(value, SLICE("resource_metadata=\"")) >= 0 || slice_search(value, SLICE("authorization_uri=\"")) >= 0;
}

static bool has_member(const struct turn *x, const char *name)
{
    json_t *json = json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL);
    const json_t *value = json_object_get(json, name);
    bool has = turn_is_2xx(x) && (json_string_length(value) > 0 || json_array_size(value) > 0);

    json_decref(json);
    return has;
}

/* Does the service name one itself? Asked once an audit. */
static bool is_shown(struct audit *a)
{
    bool shown = false;

    if (a->shows_tokens != SHOWN_UNKNOWN)
        return a->shows_tokens == SHOWN_YES;
    for (size_t i = 0; i < a->n_baselines; i++)
        shown = shown || is_in_challenge(a->baselines[i].none);
    shown = shown || has_member(ask(&a->own, (struct probe){.path = "/.well-known/oauth-authorization-server", .variant = "does it name a token endpoint?"}), "token_endpoint");
    shown = shown || has_member(ask(&a->own, (struct probe){.path = "/.well-known/oauth-protected-resource", .variant = "does it name a token endpoint?"}), "authorization_servers");
    a->shows_tokens = shown ? SHOWN_YES : SHOWN_NO;
    return shown;
}

bool grant_has_place(struct evidence *e)
{
    if (target_text(e->target, "token-endpoint.url"))
        return true;
    if (e->target->dialect != DIALECT_PROXY && is_shown(e->audit))
        evidence_missing(e, "the service names a token endpoint, and the manifest does not (token-endpoint.url)");
    else
        evidence_na(e, "neither the manifest nor the service names a token endpoint");
    return false;
}

static bool is_docker(const struct evidence *e)
{
    return slice_is(slice_of(target_text(e->target, "token-endpoint.form")), "docker");
}

bool grant_is_oauth(struct evidence *e)
{
    if (is_docker(e))
        evidence_na(e, "registries' token endpoints do not do this (token-endpoint.form: docker)");
    return !is_docker(e);
}

/* ---- asking ---- */

static void put_value(struct buf *out, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (; *text; text++)
        if (strchr(plain, *text))
            buf_char(out, *text);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

static void put_member(struct buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    buf_printf(out, "%s%s=", buf_len(out) ? "&" : "", name);
    put_value(out, value);
}

static const char *client_field(struct evidence *e)
{
    struct buf coded = {0};
    const char *field = NULL;

    if (e->target->client.secret) {
        text_base64(&coded, secret_slice(e->target->client.secret));
        field = words(e, "Authorization: Basic %.*s", SLICE_ARG(buf_slice(&coded)));
    }
    buf_wipe(&coded);
    buf_free(&coded);
    return field;
}

static struct turn *post(struct evidence *e, const char *where, const char *form, bool is_nobodys, const char *variant, int tag)
{
    struct slice path;
    unsigned base;

    if (!target_finds(e->target, slice_of(where), &base, &path)) {
        evidence_missing(e, "%.80s is not below url or also", where);
        return NULL;
    }
    return ask(e, (struct probe){.method = "POST", .base = base, .path = words(e, "%.*s", SLICE_ARG(path)), .body = slice_of(form), .body_type = "application/x-www-form-urlencoded",
                                 .fields = {is_nobodys ? NULL : client_field(e)}, .variant = variant, .tag = tag});
}

struct turn *grant_post(struct evidence *e, const char *where, const char *form, const char *variant, int tag)
{
    return post(e, where, form, false, variant, tag);
}

/* GET ?service=&scope=, and for a refresh token a form: what container registries know. */
static struct turn *ask_docker(struct evidence *e, const struct grant *g, struct buf *form)
{
    const char *where = target_text(e->target, "token-endpoint.url"), *query;
    struct slice path;
    unsigned base;

    put_member(form, "service", g->resource ? g->resource : target_text(e->target, "token-endpoint.resource"));
    put_member(form, "scope", g->scope);
    put_member(form, "client_id", "exeat-audit");
    if (g->refresh) {
        put_member(form, "grant_type", GRANT_REFRESH);
        put_member(form, "refresh_token", g->refresh);
        return post(e, where, words(e, "%.*s", SLICE_ARG(buf_slice(form))), true, g->variant, g->tag);
    }
    put_member(form, "offline_token", "true");
    if (!target_finds(e->target, slice_of(where), &base, &path)) {
        evidence_missing(e, "token-endpoint.url is not below url or also");
        return NULL;
    }
    query = words(e, "%.*s%c%.*s", SLICE_ARG(path), slice_find(path, '?') < 0 ? '?' : '&', SLICE_ARG(buf_slice(form)));
    return ask(e, (struct probe){.base = base, .path = query, .fields = {g->is_nobodys ? NULL : client_field(e)}, .variant = g->variant, .tag = g->tag});
}

struct turn *grant_ask(struct evidence *e, struct grant g)
{
    struct buf form = {0};
    struct turn *x;

    if (is_docker(e)) {
        x = ask_docker(e, &g, &form);
    } else {
        put_member(&form, "grant_type", g.type);
        put_member(&form, "scope", g.scope);
        put_member(&form, "resource", g.resource);
        put_member(&form, "audience", g.audience);
        put_member(&form, "refresh_token", g.refresh);
        put_member(&form, "access_token", g.access);
        put_member(&form, "subject_token", g.subject);
        put_member(&form, "subject_token_type", g.subject ? ACCESS_TOKEN : NULL);
        put_member(&form, "actor_token", g.actor);
        put_member(&form, "actor_token_type", g.actor ? ACCESS_TOKEN : NULL);
        x = post(e, target_text(e->target, "token-endpoint.url"), words(e, "%.*s", SLICE_ARG(buf_slice(&form))), g.is_nobodys, g.variant, g.tag);
    }
    buf_wipe(&form);
    buf_free(&form);
    return x;
}

/* ---- reading ---- */

static json_t *answer_of(const struct turn *x)
{
    json_t *json = x && turn_is_2xx(x) ? json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL) : NULL;

    if (json_is_object(json))
        return json;
    json_decref(json);
    return NULL;
}

/* A text with something in it; NULL otherwise. */
static const char *text_in(const json_t *answer, const char *name)
{
    const json_t *value = json_object_get(answer, name);

    return json_string_length(value) ? json_string_value(value) : NULL;
}

static const char *token_in(const json_t *answer)
{
    const char *token = text_in(answer, "access_token");

    return token ? token : text_in(answer, "token");
}

bool grant_gave(const struct turn *x)
{
    json_t *answer = answer_of(x);
    bool gave = token_in(answer) != NULL;

    json_decref(answer);
    return gave;
}

const char *grant_token(struct evidence *e, const struct turn *x)
{
    json_t *answer = answer_of(x);
    const char *token = token_in(answer), *kept = token ? words(e, "%s", token) : NULL;

    json_decref(answer);
    return kept;
}

const char *grant_member(struct evidence *e, const struct turn *x, const char *name)
{
    json_t *answer = answer_of(x);
    const char *value = text_in(answer, name), *kept = value ? words(e, "%s", value) : NULL;

    json_decref(answer);
    return kept;
}

json_t *grant_claims(const struct turn *x)
{
    json_t *answer = answer_of(x), *claims = NULL;
    const char *token = token_in(answer);
    struct slice rest = slice_of(token ? token : ""), part;
    struct buf text = {0};

    if (slice_next(&rest, '.', &part) && slice_next(&rest, '.', &part) && text_unbase64url(part, &text))
        claims = json_loadb(buf_slice(&text).ptr, buf_len(&text), 0, NULL);
    buf_free(&text);
    json_decref(answer);
    if (json_is_object(claims))
        return claims;
    json_decref(claims);
    return NULL;
}

int64_t grant_life_s(const struct turn *x)
{
    json_t *answer = answer_of(x), *claims = grant_claims(x);
    const json_t *exp = json_object_get(claims, "exp"), *in = json_object_get(answer, "expires_in");
    int64_t life_s = json_is_integer(exp) ? json_integer_value(exp) - clock_wall_s() : json_is_integer(in) ? json_integer_value(in) : -1;

    json_decref(answer);
    json_decref(claims);
    return life_s;
}

/* ---- scopes ---- */

/* "repository:a/b:pull,push" has pull on repository:a/b; a plain word has itself. */
static bool has_word(const char *most, struct slice name, struct slice action)
{
    struct slice rest = slice_of(most), word, item;

    while (slice_next(&rest, ' ', &word)) {
        ptrdiff_t colon = -1;

        for (size_t i = 0; i < word.len; i++)
            if (word.ptr[i] == ':')
                colon = (ptrdiff_t)i;
        if (action.len == 0 && slice_equals(word, name))
            return true;
        if (action.len == 0 || colon < 0 || !slice_equals(slice_cut(word, 0, (size_t)colon), name))
            continue;
        for (struct slice actions = slice_from(word, (size_t)colon + 1); slice_next(&actions, ',', &item);)
            if (slice_equals(item, action))
                return true;
    }
    return false;
}

static bool is_scope_wider(struct slice scope, const char *most)
{
    struct slice word;

    while (slice_next(&scope, ' ', &word))
        if (word.len && !has_word(most, word, slice_make("", 0)))
            return true;
    return false;
}

static bool is_access_wider(const json_t *access, const char *most)
{
    bool wider = false;

    for (size_t i = 0; i < json_array_size(access); i++) {
        const json_t *one = json_array_get(access, i), *actions = json_object_get(one, "actions");
        const char *type = json_string_value(json_object_get(one, "type")), *name = json_string_value(json_object_get(one, "name"));
        struct buf whole = {0};

        buf_printf(&whole, "%s:%s", type ? type : "", name ? name : "");
        for (size_t j = 0; j < json_array_size(actions); j++)
            wider = wider || !has_word(most, buf_slice(&whole), slice_of(json_string_value(json_array_get(actions, j)) ? json_string_value(json_array_get(actions, j)) : "?"));
        buf_free(&whole);
    }
    return wider;
}

bool grant_is_wider(const struct turn *x, const char *asked, const char *most)
{
    json_t *answer = answer_of(x), *claims = grant_claims(x);
    const char *told = json_string_value(json_object_get(answer, "scope")), *claimed = json_string_value(json_object_get(claims, "scope"));
    const json_t *access = json_object_get(claims, "access");
    bool wider = false;

    if (told)
        wider = is_scope_wider(slice_of(told), most);
    if (claimed)
        wider = wider || is_scope_wider(slice_of(claimed), most);
    if (json_is_array(access))
        wider = wider || is_access_wider(access, most);
    if (!told && !claimed && !json_is_array(access) && answer && asked)
        wider = is_scope_wider(slice_of(asked), most);
    json_decref(answer);
    json_decref(claims);
    return wider;
}
