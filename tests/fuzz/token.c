/*
 * Everything that reads a token under libFuzzer. The first byte picks what the rest is: a token as it comes, header
 * and payload that get a good signature, a credential field, authorization_details, a key set as it is published, a condition
 * of a map with claims, or a key set from a file. What is accepted must be what its header promises.
 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/token.h"
#include "base/text.h"
#include "tests/unit/forge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHARED "0123456789abcdef0123456789abcdef"
#define NOW 1000000

static struct conf *read_conf(void)
{
    static const struct conf_section *const sections[] = {&issuers_section};
    static const char text[] = "issuers: { hs: { jwks: hs, algorithms: [HS256], type: JWT }, ci: { jwks: ci }, "
                               "mp: { jwks: hs, algorithms: [HS256], types: [JWT, at+jwt], sandbox: '{a}:{b}', scope-claim: narrows, "
                               "map: { 'a:x/*': 'p q', 'sub:**': q, 'a:x/y & b:true': r } } }";

    return conf_parse(slice_of(text), "proxy.conf", "/", sections, 1, NULL);
}

static struct issuers *compile(const struct conf *c, struct slice ci)
{
    struct bundle *files = bundle_new();
    struct buf set = {0};
    struct issuers *all;

    buf_text(&set, "{\"keys\":[{\"kid\":\"s1\",\"kty\":\"oct\",\"k\":\"");
    text_base64url(&set, SLICE(SHARED));
    buf_text(&set, "\"}]}");
    bundle_add(files, "issuer.hs.jwks", buf_slice(&set));
    bundle_add(files, "issuer.mp.jwks", buf_slice(&set));
    bundle_add(files, "issuer.ci.jwks", ci);
    all = issuers_compile(c, files, NULL);
    bundle_free(files);
    buf_free(&set);
    return all;
}

static struct issuers *known_issuers(const struct conf *c)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    struct buf set = {0};
    struct issuers *all;

    buf_text(&set, "{\"keys\":[");
    forge_jwk(&set, key, "e1");
    buf_text(&set, "]}");
    all = compile(c, buf_slice(&set));
    EVP_PKEY_free(key);
    buf_free(&set);
    assert(all);
    return all;
}

static void is_visible(const char *text, size_t max)
{
    assert(text && *text && strlen(text) <= max);
    for (; *text; text++)
        assert(*text > 0x20 && *text < 0x7f);
}

/* Nobody can sign for ci here: what is accepted is of hs, and says so. */
static void check_accepted(const struct claims *c)
{
    is_visible(c->sandbox, 128);
    is_visible(c->jti, 256);
    assert(c->algorithm == ALGORITHM_HS256);
    if (strcmp(issuer_name(c->issuer), "mp") == 0)
        assert(strncmp(c->sandbox, "mp:", 3) == 0 && strchr(c->sandbox + 3, ':') && c->scope);
    else
        assert(strcmp(issuer_name(c->issuer), "hs") == 0 && strncmp(c->sandbox, "mp:", 3) != 0);
    assert(c->issued_s < c->expires_s && c->expires_s - c->issued_s <= 900);
    assert(NOW < c->expires_s + 30 && c->issued_s - 30 <= NOW && c->not_before_s - 30 <= NOW);
}

static void feed_token(const struct issuers *issuers, struct slice token, bool is_signed)
{
    struct claims c = {0};
    struct identity *i;

    if (claims_check(&c, token, issuers, "gw", NOW, NULL, NULL)) {
        assert(is_signed && token.len <= TOKEN_MAX && token_looks_like(token));
        check_accepted(&c);
        i = claims_identity(&c, NULL, NULL);
        assert(i);
        identity_unref(i);
    }
    claims_clear(&c);
}

static void quiet(void *arg, const char *check, enum claims_outcome outcome, const struct fault *why)
{
    (void)arg;
    assert(*check && (outcome == CLAIMS_FAILED) == (why->kind != FAULT_NONE));
}

/* As inspect does: every check that can be made, on words nobody vouches for. */
static void feed_inspect(const struct issuers *issuers, struct slice token)
{
    struct claims_trace trace = {quiet, NULL};
    struct claims c = {0};

    claims_check(&c, token, issuers, "gw", NOW, &trace, NULL);
    claims_clear(&c);
}

static void feed_words(const struct issuers *issuers, struct slice words)
{
    struct buf token = {0};
    ptrdiff_t cut = slice_find(words, '\n');
    char *header = text_copy(slice_cut(words, 0, cut < 0 ? words.len : (size_t)cut));
    char *payload = text_copy(cut < 0 ? SLICE("") : slice_from(words, (size_t)cut + 1));

    forge_mac_token(&token, header, payload, SHARED);
    feed_token(issuers, buf_slice(&token), true);
    feed_inspect(issuers, buf_slice(&token));
    buf_free(&token);
    free(header);
    free(payload);
}

static void feed_credential(struct slice value)
{
    struct buf scratch = {0};
    struct slice token = {0};

    if (token_from_credentials(value, &scratch, &token, NULL)) {
        assert(token.len > 0 && token.len < value.len);
        for (size_t i = 0; i < token.len; i++)
            assert((unsigned char)token.ptr[i] >= 0x20 && token.ptr[i] != 0x7f);
    }
    buf_free(&scratch);
}

static void feed_details(struct slice json)
{
    struct details *d = details_parse(json, NULL);

    for (size_t i = 0; i < details_count(d); i++) {
        const struct detail *one = details_get(d, i);

        for (size_t n = 0; n < one->n_locations; n++)
            is_visible(one->locations[n], 300);
        for (size_t n = 0; n < one->n_methods; n++)
            is_visible(one->methods[n], 32);
        for (size_t n = 0; n < one->n_paths; n++)
            assert(one->paths[n][0] == '/');
    }
    details_free(d);
}

/* As it is published: what stays of it is a set again, and the same keys. */
static void feed_published(struct slice json)
{
    const unsigned all = 1u << ALGORITHM_ES256 | 1u << ALGORITHM_RS256;
    struct keyset *s = keyset_parse(json, "set", all, KEYSET_PUBLISHED, NULL), *again;
    struct buf out = {0};

    if (!s)
        return;
    keyset_print(s, &out);
    again = keyset_parse(buf_slice(&out), "again", all, KEYSET_FILE, NULL);
    assert(again && keyset_count(again) == keyset_count(s) && keyset_count(s) > 0);
    for (size_t i = 0; i < keyset_count(s); i++)
        assert(key_mark(keyset_key(s, i)) == key_mark(keyset_find(again, slice_of(key_id(keyset_key(s, i))))));
    keyset_free(again);
    keyset_free(s);
    buf_free(&out);
}

/* A condition, and claims behind a newline. */
static void feed_condition(struct slice words)
{
    static const struct conf_section *const sections[] = {&issuers_section};
    ptrdiff_t cut = slice_find(words, '\n');
    struct buf text = {0}, scopes = {0};
    struct mapping *m = NULL;
    struct conf *c;
    json_t *claims = json_loadb(words.ptr + cut + 1, words.len - (size_t)(cut + 1), 0, NULL);

    buf_text(&text, "issuers: { x: { jwks: x, map: { ");
    text_json(&text, slice_cut(words, 0, cut < 0 ? 0 : (size_t)cut));
    buf_text(&text, ": s } } }");
    c = conf_parse(buf_slice(&text), "proxy.conf", "/", sections, 1, NULL);
    if (c && claims && mapping_compile(conf_item(c, "issuers", 0), &m, NULL))
        assert(mapping_scopes(m, claims, &scopes) == mapping_holds(m, 0, claims) && (buf_len(&scopes) > 0) == mapping_holds(m, 0, claims));
    mapping_free(m);
    conf_free(c);
    json_decref(claims);
    buf_free(&text);
    buf_free(&scopes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct conf *conf;
    static struct issuers *issuers;
    struct slice rest;

    if (!conf) {
        json_object_seed(1);
        conf = read_conf();
        issuers = known_issuers(conf);
    }
    if (size == 0)
        return 0;
    rest = slice_make(data + 1, size - 1);
    switch (data[0] % 7) {
    case 0:
        feed_token(issuers, rest, false);
        feed_inspect(issuers, rest);
        break;
    case 1:
        feed_words(issuers, rest);
        break;
    case 2:
        feed_credential(rest);
        break;
    case 3:
        feed_details(rest);
        break;
    case 4:
        feed_published(rest);
        break;
    case 5:
        feed_condition(rest);
        break;
    default:
        issuers_free(compile(conf, rest));
    }
    return 0;
}
