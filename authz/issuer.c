/* Owns the compiled issuers and their keys. Must not know tokens. */
#include "authz/issuer.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"

enum { JWKS_MAX = 256 * 1024, KEYS_MAX = 64, LEEWAY_MAX_MS = 300 * 1000 };

static const struct conf_key keys[] = {
    {"issuer", CONF_TEXT, NULL, NULL, "the iss claim of its tokens; without it the issuer's name", 0},
    {"jwks", CONF_PATH, NULL, NULL, "file with its public keys (JWK set)", CONF_REQUIRED},
    {"key", CONF_PATH, NULL, NULL, "private key for `exeat token issue`; no role of the gateway reads it", 0},
    {"algorithms", CONF_LIST, "ES256", NULL, "what its keys may be used for: ES256, RS256, or HS256 alone", 0},
    {"type", CONF_TEXT, "at+jwt", NULL, "the typ of its tokens", 0},
    {"max-lifetime", CONF_TIME, "15m", NULL, "tokens with a longer life (exp - iat) are refused", 0},
    {"leeway", CONF_TIME, "30s", NULL, "how far clocks may differ; at most 5m", 0},
    {"pin-source", CONF_BOOL, "true", NULL,
     "a token without cnf is held to the first source address that shows it", 0},
    {"single-use", CONF_BOOL, "false", NULL,
     "each of its tokens is good for one request, or one tunnel with all that goes through it", 0},
};

const struct conf_section issuers_section = {
    .name = "issuers",
    .named = true,
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .help = "Who may issue leave tokens.",
};

struct issuer {
    char *name, *claim, *type;
    unsigned algorithms; /* bits 1u << enum algorithm */
    int64_t max_lifetime_s, leeway_s;
    bool pins_source, single_use;
    struct key **keys;
    size_t n_keys;
};

struct issuers {
    struct issuer *list;
    size_t count;
    uint64_t generation;
};

static char *blob_name(const char *issuer)
{
    struct buf name = {0};

    buf_printf(&name, "issuer.%s.jwks", issuer);
    return buf_take_text(&name);
}

static bool read_algorithms(const struct conf_item *item, unsigned *out, struct fault *why)
{
    size_t n = conf_list_count(item, "algorithms");

    *out = 0;
    for (size_t i = 0; i < n; i++) {
        enum algorithm a;

        if (!algorithm_find(slice_of(conf_list_text(item, "algorithms", i)), &a))
            return conf_refuse(item, "algorithms", (int)i, why, "expected ES256, RS256 or HS256, found \"%.20s\"",
                               conf_list_text(item, "algorithms", i));
        if (*out & 1u << a)
            return conf_refuse(item, "algorithms", (int)i, why, "%s stands here twice", algorithm_name(a));
        *out |= 1u << a;
    }
    if (*out == 0)
        return conf_refuse(item, "algorithms", -1, why, "an issuer needs an algorithm");
    if (*out & 1u << ALGORITHM_HS256 && n > 1)
        return conf_refuse(item, "algorithms", -1, why,
                           "HS256 (a shared key) cannot stand beside public keys; give it an issuer of its own");
    return true;
}

/* The fault of a key file, with the place in the configuration that names it; the kind stays. */
static bool refuse_file(const struct conf_item *item, const struct fault *inner, struct fault *why)
{
    conf_refuse(item, "jwks", -1, why, "%s", inner->text);
    if (why)
        why->kind = inner->kind;
    return false;
}

bool issuers_read_files(const struct conf *c, struct bundle *files, struct fault *why)
{
    for (size_t i = 0; i < conf_count(c, "issuers"); i++) {
        const struct conf_item *item = conf_item(c, "issuers", i);
        const char *path = conf_text(item, "jwks");
        char *name = blob_name(conf_name(item));
        struct secret *secret = NULL;
        struct buf bytes = {0};
        struct fault inner = {0};
        unsigned algorithms;
        bool ok = read_algorithms(item, &algorithms, why);

        if (ok && !file_check_guarded(path, &inner))
            ok = refuse_file(item, &inner, why);

        if (ok && algorithms & 1u << ALGORITHM_HS256)
            ok = (secret = secret_read_file(path, JWKS_MAX, &inner)) || refuse_file(item, &inner, why);
        else if (ok)
            ok = file_read_regular(path, JWKS_MAX, &bytes, &inner) || refuse_file(item, &inner, why);
        if (ok)
            bundle_add(files, name, secret ? secret_slice(secret) : buf_slice(&bytes));
        secret_free(secret);
        buf_free(&bytes);
        free(name);
        if (!ok)
            return false;
    }
    return true;
}

static bool add_key(struct issuer *is, json_t *jwk, const char *file, size_t at, struct fault *why)
{
    const char *kid = json_string_value(json_object_get(jwk, "kid"));
    json_t *use = json_object_get(jwk, "use");
    struct key *k;

    if (json_is_string(use) && strcmp(json_string_value(use), "enc") == 0)
        return true;
    k = key_from_jwk(jwk, is->algorithms, why);
    if (!k) {
        fault_prefix(why, "%s: key %zu%s%.40s%s", file, at, kid ? " (kid " : "", kid ? kid : "", kid ? ")" : "");
        return false;
    }
    if (issuer_key(is, slice_of(key_id(k)))) {
        fault_set(why, FAULT_SYNTAX, "%s: key %zu: kid %.40s stands there twice", file, at, key_id(k));
        key_free(k);
        return false;
    }
    is->keys[is->n_keys++] = k;
    return true;
}

static bool add_keys(struct issuer *is, json_t *set, const char *file, struct fault *why)
{
    json_t *array = json_object_get(set, "keys"), *jwk;
    size_t i;

    if (!json_is_array(array))
        return fault_set(why, FAULT_SYNTAX, "%s: expected a JWK set: {\"keys\": [...]}", file);
    if (json_array_size(array) > KEYS_MAX)
        return fault_set(why, FAULT_LIMIT, "%s: more than %d keys", file, KEYS_MAX);
    if (!(is->keys = calloc(json_array_size(array) + 1, sizeof(struct key *))))
        abort();
    json_array_foreach(array, i, jwk)
        if (!add_key(is, jwk, file, i + 1, why))
            return false;
    return is->n_keys || fault_set(why, FAULT_SYNTAX, "%s: has no key to verify with", file);
}

static bool read_jwks(struct issuer *is, const struct bundle *files, const char *file, struct fault *why)
{
    char *name = blob_name(is->name);
    json_error_t error;
    json_t *set = NULL;
    struct slice text;
    bool ok = false;

    if (!bundle_get(files, name, &text))
        fault_set(why, FAULT_MISSING, "%s: was not handed over", file);
    else if (!(set = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, &error)))
        fault_set(why, FAULT_SYNTAX, "%s:%d:%d: %s", file, error.line, error.column, error.text);
    else
        ok = add_keys(is, set, file, why);
    json_decref(set);
    free(name);
    return ok;
}

static bool is_visible(struct slice s, size_t max)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= 0x20 || s.ptr[i] >= 0x7f)
            return false;
    return s.len > 0 && s.len <= max;
}

static bool read_words(struct issuer *is, const struct conf_item *item, struct fault *why)
{
    const char *claim = conf_text(item, "issuer");
    struct slice type = slice_of(conf_text(item, "type"));

    if (slice_starts_nocase(type, SLICE("application/")))
        type = slice_from(type, 12);
    if (claim && !is_visible(slice_of(claim), 512))
        return conf_refuse(item, "issuer", -1, why, "expected 1 to 512 visible characters");
    if (!is_visible(type, 64))
        return conf_refuse(item, "type", -1, why, "expected a media type such as at+jwt");
    is->name = text_copy(slice_of(conf_name(item)));
    is->claim = text_copy(slice_of(claim ? claim : conf_name(item)));
    is->type = text_copy(type);
    return true;
}

static bool read_times(struct issuer *is, const struct conf_item *item, struct fault *why)
{
    if (conf_number(item, "max-lifetime") < 1000)
        return conf_refuse(item, "max-lifetime", -1, why, "expected at least 1s");
    if (conf_number(item, "leeway") > LEEWAY_MAX_MS)
        return conf_refuse(item, "leeway", -1, why, "expected at most 5m");
    is->max_lifetime_s = conf_number(item, "max-lifetime") / 1000;
    is->leeway_s = conf_number(item, "leeway") / 1000;
    is->pins_source = conf_bool(item, "pin-source");
    is->single_use = conf_bool(item, "single-use");
    return true;
}

static void issuer_clear(struct issuer *is)
{
    for (size_t i = 0; i < is->n_keys; i++)
        key_free(is->keys[i]);
    free(is->keys);
    free(is->name);
    free(is->claim);
    free(is->type);
}

static bool compile_one(struct issuers *all, const struct conf_item *item, const struct bundle *files,
                        struct fault *why)
{
    struct issuer *is = &all->list[all->count];
    const struct issuer *same;

    all->count++; /* freed with the rest, however far it comes */
    if (!read_algorithms(item, &is->algorithms, why) || !read_words(is, item, why) || !read_times(is, item, why))
        return false;
    same = issuers_find(all, slice_of(is->claim));
    if (same != is)
        return conf_refuse(item, "issuer", -1, why, "%s has the same iss claim, \"%.80s\"", same->name, is->claim);
    return read_jwks(is, files, conf_text(item, "jwks"), why);
}

static void set_generation(struct issuers *all)
{
    unsigned char digest[32];
    struct buf text = {0};

    for (size_t i = 0; i < all->count; i++) {
        const struct issuer *is = &all->list[i];

        buf_printf(&text, "%s\n%s\n%s\n%u %lld %lld %d %d\n", is->name, is->claim, is->type, is->algorithms,
                   (long long)is->max_lifetime_s, (long long)is->leeway_s, is->pins_source,
                   is->single_use);
        for (size_t k = 0; k < is->n_keys; k++)
            buf_printf(&text, "%s %llx\n", key_id(is->keys[k]), (unsigned long long)key_mark(is->keys[k]));
    }
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    memcpy(&all->generation, digest, sizeof all->generation);
    buf_free(&text);
}

struct issuers *issuers_compile(const struct conf *c, const struct bundle *files, struct fault *why)
{
    size_t n = conf_count(c, "issuers");
    struct issuers *all = calloc(1, sizeof *all);

    if (!all || !(all->list = calloc(n + 1, sizeof *all->list)))
        abort();
    for (size_t i = 0; i < n; i++)
        if (!compile_one(all, conf_item(c, "issuers", i), files, why)) {
            issuers_free(all);
            return NULL;
        }
    set_generation(all);
    return all;
}

void issuers_free(struct issuers *i)
{
    if (!i)
        return;
    for (size_t n = 0; n < i->count; n++)
        issuer_clear(&i->list[n]);
    free(i->list);
    free(i);
}

uint64_t issuers_generation(const struct issuers *i)
{
    return i->generation;
}

const struct issuer *issuers_find(const struct issuers *i, struct slice iss)
{
    for (size_t n = 0; n < i->count; n++)
        if (slice_is(iss, i->list[n].claim))
            return &i->list[n];
    return NULL;
}

const struct issuer *issuers_named(const struct issuers *i, const char *name)
{
    for (size_t n = 0; n < i->count; n++)
        if (strcmp(i->list[n].name, name) == 0)
            return &i->list[n];
    return NULL;
}

int64_t issuers_longest_s(const struct issuers *i)
{
    int64_t longest = 0;

    for (size_t n = 0; n < i->count; n++)
        if (i->list[n].max_lifetime_s + i->list[n].leeway_s > longest)
            longest = i->list[n].max_lifetime_s + i->list[n].leeway_s;
    return longest;
}

const char *issuer_name(const struct issuer *i)
{
    return i->name;
}

const char *issuer_claim(const struct issuer *i)
{
    return i->claim;
}

const char *issuer_type(const struct issuer *i)
{
    return i->type;
}

bool issuer_allows(const struct issuer *i, enum algorithm a)
{
    return i->algorithms & 1u << a;
}

int64_t issuer_max_lifetime_s(const struct issuer *i)
{
    return i->max_lifetime_s;
}

int64_t issuer_leeway_s(const struct issuer *i)
{
    return i->leeway_s;
}

bool issuer_pins_source(const struct issuer *i)
{
    return i->pins_source;
}

const struct key *issuer_key(const struct issuer *i, struct slice kid)
{
    for (size_t n = 0; n < i->n_keys; n++)
        if (slice_is(kid, key_id(i->keys[n])))
            return i->keys[n];
    return NULL;
}

bool issuer_is_single_use(const struct issuer *i)
{
    return i->single_use;
}
