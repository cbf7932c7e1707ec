/* Owns the decoded parts of one token while it is looked at. Must not know where it came from. */
#include "authz/claims.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { THUMBPRINT_LEN = 43, NAME_LEN = 128, WORD_LEN = 256, SCOPE_LEN = 2048, SUBJECT_LEN = 1024 };
#define TIME_MAX 253402300799 /* the last second of the year 9999 */

/* What earlier checks found, and later ones need. */
enum { HAVE_JSON = 1, HAVE_ISSUER = 2, HAVE_ALGORITHM = 4, HAVE_KEY = 8, HAVE_TIMES = 16 };

struct look {
    struct claims *c;
    struct slice token;
    const struct issuers *issuers;
    const char *audience;
    int64_t now_s;
};

static bool check_size(struct look *l, struct fault *why)
{
    if (l->token.len > TOKEN_MAX)
        return fault_reason(why, REASON_TOKEN_OVERSIZE, "the token has %zu bytes; at most %d are read", l->token.len,
                            TOKEN_MAX);
    return true;
}

static bool read_object(struct slice part, const char *name, struct buf *text, json_t **out, struct fault *why)
{
    json_error_t error;

    if (part.len == 0 || !text_unbase64url(part, text))
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the %s is not base64url without padding", name);
    *out = json_loadb(buf_slice(text).ptr, buf_len(text), JSON_REJECT_DUPLICATES, &error);
    if (!*out && json_error_code(&error) == json_error_duplicate_key)
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the %s says a member twice", name);
    if (!json_is_object(*out))
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the %s is not one JSON object", name);
    return true;
}

static bool check_form(struct look *l, struct fault *why)
{
    struct slice rest = l->token, header, payload, signature;
    struct claims *c = l->c;

    if (!slice_next(&rest, '.', &header) || !slice_next(&rest, '.', &payload) ||
        !slice_next(&rest, '.', &signature) || rest.ptr)
        return fault_reason(why, REASON_TOKEN_MALFORMED, "a token has three parts with dots between them");
    if (!read_object(header, "header", &c->header_text, &c->header, why) ||
        !read_object(payload, "payload", &c->payload_text, &c->payload, why))
        return false;
    if (signature.len == 0 || !text_unbase64url(signature, &c->signature))
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the signature is not base64url without padding");
    c->signed_part = slice_cut(l->token, 0, header.len + 1 + payload.len);
    return true;
}

static bool is_text(json_t *value, size_t max)
{
    const char *text = json_string_value(value);

    if (!text || !*text || json_string_length(value) > max)
        return false;
    for (; *text; text++)
        if (*text <= 0x20 || *text >= 0x7f)
            return false;
    return true;
}

/*
 * Only members whose meaning is known: a header that asks for more (crit, b64, zip, a key or a place to
 * fetch one from) is refused, never followed. x5t names a certificate that nobody looks for; kid chooses the key.
 */
static bool check_header(struct look *l, struct fault *why)
{
    static const char *const known[] = {"alg", "kid", "typ", "x5t", "x5t#S256"};
    const char *name;
    json_t *value;

    json_object_foreach(l->c->header, name, value) {
        size_t i = 0, n = sizeof known / sizeof known[0];

        while (i < n && strcmp(name, known[i]) != 0)
            i++;
        if (i == n)
            return fault_reason(why, REASON_TOKEN_MALFORMED, "the header has \"%.40s\", which is never accepted", name);
        if (!is_text(value, WORD_LEN))
            return fault_reason(why, REASON_TOKEN_MALFORMED, "\"%s\" in the header is not a plain text", name);
    }
    return true;
}

static bool check_issuer(struct look *l, struct fault *why)
{
    json_t *iss = json_object_get(l->c->payload, "iss");

    if (!json_is_string(iss))
        return fault_reason(why, REASON_TOKEN_CLAIMS, "iss is missing or no text");
    l->c->issuer = issuers_find(l->issuers, slice_of(json_string_value(iss)));
    if (!l->c->issuer)
        return fault_reason(why, REASON_TOKEN_ISSUER, "iss is \"%.80s\", which no issuer here uses",
                            json_string_value(iss));
    return true;
}

static bool check_algorithm(struct look *l, struct fault *why)
{
    const char *alg = json_string_value(json_object_get(l->c->header, "alg"));

    if (!alg)
        return fault_reason(why, REASON_TOKEN_ALGORITHM, "alg is missing or no text");
    if (!algorithm_find(slice_of(alg), &l->c->algorithm) || !issuer_allows(l->c->issuer, l->c->algorithm))
        return fault_reason(why, REASON_TOKEN_ALGORITHM, "alg is \"%.20s\", which issuer %s does not use", alg,
                            issuer_name(l->c->issuer));
    return true;
}

static bool check_key(struct look *l, struct fault *why)
{
    const char *kid = json_string_value(json_object_get(l->c->header, "kid"));
    const struct key *key;

    if (!kid)
        return fault_reason(why, REASON_TOKEN_KEY_UNKNOWN, "kid is missing or no text");
    if (!issuer_has_keys(l->c->issuer, l->now_s, why))
        return false;
    key = issuer_key(l->c->issuer, slice_of(kid));
    if (!key)
        return fault_reason(why, issuer_no_key(l->c->issuer), "issuer %s has no key with kid \"%.60s\"",
                            issuer_name(l->c->issuer), kid);
    if (key_algorithm(key) != l->c->algorithm)
        return fault_reason(why, REASON_TOKEN_ALGORITHM, "alg is %s, and key \"%.60s\" serves %s",
                            algorithm_name(l->c->algorithm), kid, algorithm_name(key_algorithm(key)));
    l->c->kid = kid;
    l->c->key = key;
    return true;
}

static struct slice type_of(const struct claims *c)
{
    return slice_of(json_string_value(json_object_get(c->header, "typ")));
}

/* RFC 9068 4, RFC 8725 3.11. */
static bool check_type(struct look *l, struct fault *why)
{
    struct slice typ = type_of(l->c);

    return issuer_takes_type(l->c->issuer, typ) ||
           fault_reason(why, REASON_TOKEN_TYPE, "typ is \"%.*s\"; issuer %s uses %s", SLICE_ARG(slice_cut(typ, 0, 40)),
                        issuer_name(l->c->issuer), issuer_types(l->c->issuer));
}

static bool check_audience(struct look *l, struct fault *why)
{
    json_t *aud = json_object_get(l->c->payload, "aud"), *one;
    bool found = json_is_string(aud) && strcmp(json_string_value(aud), l->audience) == 0;
    size_t i;

    if (!json_is_string(aud) && !json_array_size(aud))
        return fault_reason(why, REASON_TOKEN_CLAIMS, "aud is missing or neither a text nor a list of texts");
    json_array_foreach(aud, i, one) {
        if (!json_is_string(one))
            return fault_reason(why, REASON_TOKEN_CLAIMS, "aud lists something that is no text");
        found = found || strcmp(json_string_value(one), l->audience) == 0;
    }
    return found || fault_reason(why, REASON_TOKEN_AUDIENCE, "aud is not %s, the name of this gateway", l->audience);
}

/* A claim that must be there as visible ASCII. */
static bool read_word(struct look *l, const char *name, size_t max, const char **out, struct fault *why)
{
    json_t *value = json_object_get(l->c->payload, name);

    if (!is_text(value, max))
        return fault_reason(why, REASON_TOKEN_CLAIMS, "%s is %s", name,
                            value ? "not a text of visible ASCII, or too long" : "missing");
    *out = json_string_value(value);
    return true;
}

/* RFC 6749 3.3: words with single spaces between them. */
static bool is_scope(json_t *value)
{
    struct slice all = slice_of(json_string_value(value)), one;

    if (!json_is_string(value) || json_string_length(value) > SCOPE_LEN)
        return false;
    while (slice_next(&all, ' ', &one))
        if (!scope_is_word(one))
            return false;
    return true;
}

/* sub as it is, or the name that the issuer's claims make; each kept out of the other's names. */
static bool read_sandbox(struct look *l, struct fault *why)
{
    const struct naming *naming = l->c->issuer ? issuer_naming(l->c->issuer) : NULL;
    json_t *sub = json_object_get(l->c->payload, "sub");
    struct buf name = {0};
    bool ok;

    if (!naming) {
        if (!read_word(l, "sub", SANDBOX_NAME_MAX, &l->c->sandbox, why))
            return false;
        return !issuers_reserve(l->issuers, slice_of(l->c->sandbox)) ||
               fault_reason(why, REASON_TOKEN_CLAIMS, "sub begins as only sandboxes of another issuer are called");
    }
    if (json_string_length(sub) == 0 || json_string_length(sub) > SUBJECT_LEN)
        return fault_reason(why, REASON_TOKEN_CLAIMS, "sub is %s", sub ? "not a text, or too long" : "missing");
    l->c->subject = json_string_value(sub);
    ok = naming_make(naming, l->c->payload, &name, why);
    free(l->c->own_sandbox);
    l->c->sandbox = l->c->own_sandbox = buf_take_text(&name);
    return ok;
}

static bool check_words(struct look *l, struct fault *why)
{
    json_t *client = json_object_get(l->c->payload, "client_id"), *scope = json_object_get(l->c->payload, "scope");
    struct slice typ = type_of(l->c);
    bool needs_client = slice_is_nocase(typ, "at+jwt") || slice_is_nocase(typ, "application/at+jwt");

    if (!read_sandbox(l, why) || !read_word(l, "jti", WORD_LEN, &l->c->jti, why))
        return false;
    if ((client || needs_client) && !read_word(l, "client_id", WORD_LEN, &l->c->client_id, why))
        return false;
    if (l->c->issuer && issuer_mapping(l->c->issuer) && !issuer_narrows_by_scope(l->c->issuer))
        return true; /* what it says of scopes is not asked for */
    if (scope && !is_scope(scope))
        return fault_reason(why, REASON_TOKEN_CLAIMS, "scope is not a list of words with single spaces");
    l->c->scope = json_string_value(scope);
    return true;
}

static bool read_time(struct look *l, const char *name, bool required, int64_t *out, struct fault *why)
{
    json_t *value = json_object_get(l->c->payload, name);

    if (!value && !required)
        return true;
    if (!json_is_integer(value) || json_integer_value(value) <= 0 || json_integer_value(value) > TIME_MAX)
        return fault_reason(why, REASON_TOKEN_CLAIMS, "%s is %s", name,
                            value ? "not a whole number of seconds since 1970" : "missing");
    *out = json_integer_value(value);
    return true;
}

static bool check_times(struct look *l, struct fault *why)
{
    struct claims *c = l->c;

    if (!read_time(l, "iat", true, &c->issued_s, why) || !read_time(l, "exp", true, &c->expires_s, why) ||
        !read_time(l, "nbf", false, &c->not_before_s, why))
        return false;
    if (c->expires_s <= c->issued_s)
        return fault_reason(why, REASON_TOKEN_CLAIMS, "exp is not after iat");
    return true;
}

bool claims_is_expired(int64_t expires_s, int64_t leeway_s, int64_t now_s)
{
    return now_s >= expires_s + leeway_s;
}

static bool check_lifetime(struct look *l, struct fault *why)
{
    int64_t life = l->c->expires_s - l->c->issued_s;

    if (life > issuer_max_lifetime_s(l->c->issuer))
        return fault_reason(why, REASON_TOKEN_LIFETIME, "it lives %lld s; issuer %s may give %lld", (long long)life,
                            issuer_name(l->c->issuer), (long long)issuer_max_lifetime_s(l->c->issuer));
    return true;
}

static bool check_valid_now(struct look *l, struct fault *why)
{
    int64_t leeway = issuer_leeway_s(l->c->issuer), from = l->c->issued_s;

    if (l->c->not_before_s > from)
        from = l->c->not_before_s;
    if (claims_is_expired(l->c->expires_s, leeway, l->now_s))
        return fault_reason(why, REASON_TOKEN_EXPIRED, "it expired %lld s ago",
                            (long long)(l->now_s - l->c->expires_s));
    if (l->now_s < from - leeway)
        return fault_reason(why, REASON_TOKEN_NOT_YET_VALID, "it is valid in %lld s", (long long)(from - l->now_s));
    return true;
}

static bool check_details(struct look *l, struct fault *why)
{
    json_t *value = json_object_get(l->c->payload, "authorization_details");
    struct details *d;

    if (!value)
        return true;
    if (!json_is_array(value) || !(l->c->details = json_dumps(value, JSON_COMPACT)))
        return fault_reason(why, REASON_TOKEN_CLAIMS, "authorization_details is not a list");
    d = details_parse(slice_of(l->c->details), why);
    details_free(d);
    return d != NULL;
}

/* RFC 7800, RFC 8705 3.1. A confirmation that cannot be checked here must not be ignored. */
static bool check_confirmation(struct look *l, struct fault *why)
{
    json_t *cnf = json_object_get(l->c->payload, "cnf"), *value;
    const char *name;

    if (!cnf)
        return true;
    if (!json_is_object(cnf) || json_object_size(cnf) == 0)
        return fault_reason(why, REASON_TOKEN_CLAIMS, "cnf is not an object with a member");
    json_object_foreach(cnf, name, value) {
        bool listener = strcmp(name, "exeat-listener") == 0;

        if (!listener && strcmp(name, "x5t#S256") != 0)
            return fault_reason(why, REASON_TOKEN_BINDING, "cnf binds it by \"%.40s\", which cannot be checked here",
                                name);
        if (listener && !is_text(value, NAME_LEN))
            return fault_reason(why, REASON_TOKEN_CLAIMS, "cnf: exeat-listener is not a listener's name");
        if (!listener && json_string_length(value) != THUMBPRINT_LEN)
            return fault_reason(why, REASON_TOKEN_CLAIMS, "cnf: x5t#S256 is not a SHA-256 in base64url");
        *(listener ? &l->c->listener : &l->c->certificate) = json_string_value(value);
    }
    return true;
}

static bool check_signature(struct look *l, struct fault *why)
{
    if (!key_verify(l->c->key, l->c->signed_part, buf_slice(&l->c->signature)))
        return fault_reason(why, REASON_TOKEN_SIGNATURE, "the signature is not one of key \"%.60s\"", l->c->kid);
    return true;
}

static bool has_word(struct slice all, struct slice word)
{
    struct slice one;

    while (slice_next(&all, ' ', &one))
        if (slice_equals(one, word))
            return true;
    return false;
}

/* The words of given that allowed has too. */
static void narrow(struct slice given, struct slice allowed, struct buf *out)
{
    struct slice one;

    while (slice_next(&given, ' ', &one)) {
        if (!has_word(allowed, one))
            continue;
        if (buf_len(out))
            buf_char(out, ' ');
        buf_append(out, one);
    }
}

static void say_entries(const struct mapping *m, const json_t *payload, struct fault *note)
{
    struct buf text = {0};

    for (size_t i = 0; i < mapping_count(m); i++)
        if (mapping_holds(m, i, payload))
            buf_printf(&text, "%s\"%s\"", buf_len(&text) ? ", " : "", mapping_text(m, i));
    snprintf(note->text, sizeof note->text, "by %.*s", SLICE_ARG(slice_cut(buf_slice(&text), 0, sizeof note->text - 4)));
    buf_free(&text);
}

/* The last of all: who hears that no entry fits has a token that is sound. */
static bool check_map(struct look *l, struct fault *why)
{
    const struct mapping *m = issuer_mapping(l->c->issuer);
    struct buf given = {0}, scope = {0};

    if (!m)
        return true;
    if (!mapping_scopes(m, l->c->payload, &given)) {
        l->c->scope = NULL;
        return fault_reason(why, REASON_TOKEN_UNMAPPED, "no entry of map of issuer %s fits its claims", issuer_name(l->c->issuer));
    }
    if (issuer_narrows_by_scope(l->c->issuer) && l->c->scope)
        narrow(buf_slice(&given), slice_of(l->c->scope), &scope);
    else
        buf_append(&scope, buf_slice(&given));
    free(l->c->own_scope);
    l->c->scope = l->c->own_scope = buf_take_text(&scope);
    say_entries(m, l->c->payload, why);
    buf_free(&given);
    return true;
}

static const struct {
    const char *name;
    bool (*check)(struct look *l, struct fault *why);
    unsigned needs, gives;
} checks[] = {
    {"size", check_size, 0, 0},
    {"form", check_form, 0, HAVE_JSON},
    {"header", check_header, HAVE_JSON, 0},
    {"issuer", check_issuer, HAVE_JSON, HAVE_ISSUER},
    {"algorithm", check_algorithm, HAVE_ISSUER, HAVE_ALGORITHM},
    {"key", check_key, HAVE_ALGORITHM, HAVE_KEY},
    {"type", check_type, HAVE_ISSUER, 0},
    {"audience", check_audience, HAVE_JSON, 0},
    {"claims", check_words, HAVE_JSON, 0},
    {"times", check_times, HAVE_JSON, HAVE_TIMES},
    {"lifetime", check_lifetime, HAVE_ISSUER | HAVE_TIMES, 0},
    {"valid-now", check_valid_now, HAVE_ISSUER | HAVE_TIMES, 0},
    {"details", check_details, HAVE_JSON, 0},
    {"confirmation", check_confirmation, HAVE_JSON, 0},
    {"signature", check_signature, HAVE_KEY, 0},
    {"map", check_map, HAVE_ISSUER, 0},
};

static void tell(const struct claims_trace *trace, const char *check, enum claims_outcome outcome,
                 const struct fault *why)
{
    if (trace)
        trace->step(trace->arg, check, outcome, why);
}

bool claims_check(struct claims *c, struct slice token, const struct issuers *issuers, const char *audience,
                  int64_t now_s, const struct claims_trace *trace, struct fault *why)
{
    struct look l = {.c = c, .token = token, .issuers = issuers, .audience = audience, .now_s = now_s};
    unsigned have = 0;
    bool all = true;

    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        struct fault fault = {0};

        if ((checks[i].needs & have) != checks[i].needs) {
            tell(trace, checks[i].name, CLAIMS_NOT_MADE, &fault);
            continue;
        }
        if (checks[i].check(&l, &fault)) {
            have |= checks[i].gives;
            tell(trace, checks[i].name, CLAIMS_PASSED, &fault);
            continue;
        }
        if (all && why)
            *why = fault;
        all = false;
        tell(trace, checks[i].name, CLAIMS_FAILED, &fault);
        if (!trace)
            return false;
    }
    return all;
}

void claims_clear(struct claims *c)
{
    buf_free(&c->header_text);
    buf_free(&c->payload_text);
    buf_free(&c->signature);
    json_decref(c->header);
    json_decref(c->payload);
    free(c->details);
    free(c->own_sandbox);
    free(c->own_scope);
    *c = (struct claims){0};
}

struct identity *claims_identity(const struct claims *c, const unsigned char *fingerprint, struct fault *why)
{
    return identity_make(&(struct identity_claims){
                             .sandbox = c->sandbox,
                             .subject = c->subject,
                             .issuer = issuer_claim(c->issuer),
                             .issuer_name = issuer_name(c->issuer),
                             .jti = c->jti,
                             .kid = c->kid,
                             .client_id = c->client_id,
                             .scope = c->scope,
                             .listener = c->listener,
                             .certificate = c->certificate,
                             .details = c->details,
                             .issued_s = c->issued_s,
                             .expires_s = c->expires_s,
                             .key_mark = key_mark(c->key),
                             .fingerprint = fingerprint,
                         },
                         why);
}
