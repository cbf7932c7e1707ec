/* Owns the compiled issuers and their keys. Must not know tokens. */
#include "authz/issuer.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"

enum { JWKS_MAX = 256 * 1024, LEEWAY_MAX_MS = 300 * 1000 };

static const struct conf_key keys[] = {
    {"issuer", CONF_TEXT, NULL, NULL, "the iss claim of its tokens; without it the issuer's name", 0},
    {"jwks", CONF_PATH, NULL, NULL, "file with its public keys (JWK set); or else jwks-uri", 0},
    {"jwks-uri", CONF_TEXT, NULL, NULL, "https URL of its public keys, as CI systems publish them", 0},
    {"jwks-ca-file", CONF_PATH, NULL, NULL, "PEM file of the only CAs to trust there; else the system's", 0},
    {"jwks-addresses", CONF_LIST, "", NULL, "fixed destinations IP:PORT for jwks-uri; no look-up is made", 0},
    {"jwks-allow-private", CONF_BOOL, "false", NULL, "jwks-uri may be at a private address", 0},
    {"jwks-refresh", CONF_TIME, "15m", NULL, "how often its keys are fetched; sooner when the answer's max-age says so", 0},
    {"jwks-max-age", CONF_TIME, "24h", NULL,
     "how old fetched keys may get when they cannot be fetched again; then its tokens are refused", 0},
    {"key", CONF_PATH, NULL, NULL, "private key for `exeat token issue`; no role of the gateway reads it", 0},
    {"algorithms", CONF_LIST, "ES256", NULL, "what its keys may be used for: ES256, RS256, or HS256 alone", 0},
    {"type", CONF_TEXT, NULL, NULL, "the typ of its tokens; at+jwt", 0},
    {"types", CONF_LIST, NULL, NULL, "the same, when there are several: [at+jwt, JWT]", 0},
    {"map", CONF_MAP, NULL, NULL,
     "scopes for claims: {\"project_path:acme/x & ref_protected:true\": npm:read}; who is not in it has no leave", CONF_ANY_NAMES},
    {"scope-claim", CONF_CHOICE, "ignored", "ignored|narrows", "with map: what the token's own scope is for", 0},
    {"sandbox", CONF_TEXT, NULL, NULL,
     "which claims name the sandbox: \"{project_id}:{job_id}\"; the issuer's name and a colon come before it", 0},
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
    char *name, *claim, *types; /* types: for people */
    char **type_list;
    size_t n_types;
    unsigned algorithms; /* bits 1u << enum algorithm */
    int64_t max_lifetime_s, leeway_s;
    bool pins_source, single_use, narrows_by_scope;
    struct mapping *mapping;
    struct naming *naming;
    struct keyset *keys; /* NULL: none yet */
    char *uri;           /* NULL: from a file */
    int64_t max_age_s, fetched_s;
};

struct issuers {
    struct issuer *list;
    size_t count;
    uint64_t generation;
};

static char *blob_name(const char *issuer, const char *suffix)
{
    struct buf name = {0};

    buf_printf(&name, "issuer.%s.%s", issuer, suffix);
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

/* The fault of a file, with the place in the configuration that names it; the kind stays. */
static bool refuse_file(const struct conf_item *item, const char *key, const struct fault *inner, struct fault *why)
{
    conf_refuse(item, key, -1, why, "%s", inner->text);
    if (why)
        why->kind = inner->kind;
    return false;
}

static bool read_file(const struct conf_item *item, const char *key, const char *suffix, bool secret, struct bundle *files,
                      struct fault *why)
{
    const char *path = conf_text(item, key);
    char *name = blob_name(conf_name(item), suffix);
    struct secret *kept = NULL;
    struct buf bytes = {0};
    struct fault inner = {0};
    bool ok = file_check_guarded(path, &inner);

    if (ok && secret)
        ok = (kept = secret_read_file(path, JWKS_MAX, &inner)) != NULL;
    else if (ok)
        ok = file_read_regular(path, JWKS_MAX, &bytes, &inner);
    if (ok)
        bundle_add(files, name, kept ? secret_slice(kept) : buf_slice(&bytes));
    else
        refuse_file(item, key, &inner, why);
    secret_free(kept);
    buf_free(&bytes);
    free(name);
    return ok;
}

bool issuers_read_files(const struct conf *c, struct bundle *files, struct fault *why)
{
    for (size_t i = 0; i < conf_count(c, "issuers"); i++) {
        const struct conf_item *item = conf_item(c, "issuers", i);
        unsigned algorithms;

        if (!read_algorithms(item, &algorithms, why))
            return false;
        if (conf_has(item, "jwks") && !read_file(item, "jwks", "jwks", algorithms & 1u << ALGORITHM_HS256, files, why))
            return false;
        if (conf_has(item, "jwks-ca-file") && !read_file(item, "jwks-ca-file", "ca", false, files, why))
            return false;
    }
    return true;
}

static bool read_jwks(struct issuer *is, const struct bundle *files, const char *file, struct fault *why)
{
    char *name = blob_name(is->name, "jwks");
    struct slice text;
    bool ok;

    if (bundle_get(files, name, &text))
        ok = (is->keys = keyset_parse(text, file, is->algorithms, KEYSET_FILE, why)) != NULL;
    else
        ok = fault_set(why, FAULT_MISSING, "%s: was not handed over", file);
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

static bool add_type(struct issuer *is, const struct conf_item *item, const char *key, int at, const char *text,
                     struct fault *why)
{
    struct slice type = slice_of(text);

    if (slice_starts_nocase(type, SLICE("application/")))
        type = slice_from(type, 12);
    if (!is_visible(type, 64))
        return conf_refuse(item, key, at, why, "expected a media type such as at+jwt");
    for (size_t i = 0; i < is->n_types; i++)
        if (slice_is_nocase(type, is->type_list[i]))
            return conf_refuse(item, key, at, why, "%s stands here twice", is->type_list[i]);
    if (!(is->type_list = reallocarray(is->type_list, is->n_types + 1, sizeof *is->type_list)))
        abort();
    is->type_list[is->n_types++] = text_copy(type);
    return true;
}

static bool read_types(struct issuer *is, const struct conf_item *item, struct fault *why)
{
    size_t n = conf_list_count(item, "types");
    struct buf all = {0};

    if (conf_has(item, "types") && conf_has(item, "type"))
        return conf_refuse(item, "type", -1, why, "type and types: write one of them");
    if (conf_has(item, "types") && n == 0)
        return conf_refuse(item, "types", -1, why, "expected media types such as [at+jwt, JWT]");
    for (size_t i = 0; i < n; i++)
        if (!add_type(is, item, "types", (int)i, conf_list_text(item, "types", i), why))
            return false;
    if (n == 0 && !add_type(is, item, "type", -1, conf_has(item, "type") ? conf_text(item, "type") : "at+jwt", why))
        return false;
    for (size_t i = 0; i < is->n_types; i++)
        buf_printf(&all, "%s%s", i ? ", " : "", is->type_list[i]);
    is->types = buf_take_text(&all);
    return true;
}

static bool read_words(struct issuer *is, const struct conf_item *item, struct fault *why)
{
    const char *claim = conf_text(item, "issuer");

    if (claim && !is_visible(slice_of(claim), 512))
        return conf_refuse(item, "issuer", -1, why, "expected 1 to 512 visible characters");
    is->name = text_copy(slice_of(conf_name(item)));
    is->claim = text_copy(slice_of(claim ? claim : conf_name(item)));
    return read_types(is, item, why);
}

/* Whose keys somebody else publishes, or whose tokens say nothing of scopes, names its sandboxes apart from others'. */
static bool read_meaning(struct issuer *is, const struct conf_item *item, struct fault *why)
{
    is->narrows_by_scope = strcmp(conf_text(item, "scope-claim"), "narrows") == 0;
    return mapping_compile(item, &is->mapping, why) &&
           naming_compile(item, is->mapping || conf_has(item, "jwks-uri"), &is->naming, why);
}

static bool read_source(struct issuer *is, const struct conf_item *item, struct fault *why)
{
    struct keysource source;

    if (conf_has(item, "jwks") == conf_has(item, "jwks-uri"))
        return conf_refuse(item, conf_has(item, "jwks") ? "jwks-uri" : "jwks", -1, why,
                           "issuers.%s needs either jwks, a file, or jwks-uri, a URL", is->name);
    if (conf_has(item, "jwks"))
        return true;
    if (is->algorithms & 1u << ALGORITHM_HS256)
        return conf_refuse(item, "algorithms", -1, why, "HS256: a shared key is not published");
    if (!conf_has(item, "issuer"))
        return conf_refuse(item, "jwks-uri", -1, why, "issuers.%s needs issuer: the iss that its tokens have", is->name);
    if (!keysource_read(item, &source, why))
        return false;
    is->uri = text_copy(slice_of(source.uri));
    is->max_age_s = source.max_age_s;
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
    for (size_t i = 0; i < is->n_types; i++)
        free(is->type_list[i]);
    free(is->type_list);
    keyset_free(is->keys);
    mapping_free(is->mapping);
    naming_free(is->naming);
    free(is->name);
    free(is->claim);
    free(is->types);
    free(is->uri);
}

static bool compile_one(struct issuers *all, const struct conf_item *item, const struct bundle *files,
                        struct fault *why)
{
    struct issuer *is = &all->list[all->count];
    const struct issuer *same;

    all->count++; /* freed with the rest, however far it comes */
    if (!read_algorithms(item, &is->algorithms, why) || !read_words(is, item, why) || !read_times(is, item, why) ||
        !read_meaning(is, item, why) || !read_source(is, item, why))
        return false;
    same = issuers_find(all, slice_of(is->claim));
    if (same != is)
        return conf_refuse(item, "issuer", -1, why, "%s has the same iss claim, \"%.80s\"", same->name, is->claim);
    return is->uri || read_jwks(is, files, conf_text(item, "jwks"), why);
}

static void set_generation(struct issuers *all)
{
    unsigned char digest[32];
    struct buf text = {0};

    for (size_t i = 0; i < all->count; i++) {
        const struct issuer *is = &all->list[i];

        buf_printf(&text, "%s\n%s\n%s\n%u %lld %lld %d %d %d\n", is->name, is->claim, is->types, is->algorithms,
                   (long long)is->max_lifetime_s, (long long)is->leeway_s, is->pins_source,
                   is->single_use, is->narrows_by_scope);
        mapping_print(is->mapping, &text);
        naming_print(is->naming, &text);
        for (size_t k = 0; k < keyset_count(is->keys); k++)
            buf_printf(&text, "%s %llx\n", key_id(keyset_key(is->keys, k)),
                       (unsigned long long)key_mark(keyset_key(is->keys, k)));
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

bool issuer_takes_type(const struct issuer *i, struct slice typ)
{
    if (slice_starts_nocase(typ, SLICE("application/")))
        typ = slice_from(typ, 12);
    for (size_t n = 0; n < i->n_types; n++)
        if (slice_is_nocase(typ, i->type_list[n]))
            return true;
    return false;
}

const char *issuer_types(const struct issuer *i)
{
    return i->types;
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
    return keyset_find(i->keys, kid);
}

enum reason issuer_no_key(const struct issuer *i)
{
    return i->uri ? REASON_TOKEN_KEY_UNPUBLISHED : REASON_TOKEN_KEY_UNKNOWN;
}

bool issuer_is_single_use(const struct issuer *i)
{
    return i->single_use;
}

const struct mapping *issuer_mapping(const struct issuer *i)
{
    return i->mapping;
}

bool issuer_narrows_by_scope(const struct issuer *i)
{
    return i->narrows_by_scope;
}

const struct naming *issuer_naming(const struct issuer *i)
{
    return i->naming;
}

bool issuers_reserve(const struct issuers *i, struct slice sub)
{
    for (size_t n = 0; n < i->count; n++)
        if (i->list[n].naming && slice_starts(sub, slice_of(naming_prefix(i->list[n].naming))))
            return true;
    return false;
}

/* ---- published keys ---- */

const char *issuer_keys_uri(const struct issuer *i)
{
    return i->uri;
}

static struct issuer *find_published(struct issuers *i, struct slice name, struct slice uri)
{
    for (size_t n = 0; n < i->count; n++)
        if (i->list[n].uri && slice_is(name, i->list[n].name) && slice_is(uri, i->list[n].uri))
            return &i->list[n];
    return NULL;
}

bool issuers_set_keys(struct issuers *i, struct slice name, struct slice uri, struct slice json, int64_t fetched_s,
                      struct fault *why)
{
    struct issuer *is = find_published(i, name, uri);
    struct keyset *set;

    if (!is)
        return true;
    if (!(set = keyset_parse(json, is->uri, is->algorithms, KEYSET_PUBLISHED, why)))
        return false;
    keyset_free(is->keys);
    is->keys = set;
    is->fetched_s = fetched_s;
    set_generation(i);
    return true;
}

int64_t issuer_keys_until_s(const struct issuer *i)
{
    return i->uri && i->keys ? i->fetched_s + i->max_age_s : 0;
}

bool issuer_has_keys(const struct issuer *i, int64_t now_s, struct fault *why)
{
    if (!i->uri)
        return true;
    if (!i->keys)
        return fault_reason(why, REASON_ISSUER_UNAVAILABLE, "the keys of issuer %s were not fetched yet", i->name);
    return now_s < issuer_keys_until_s(i) ||
           fault_reason(why, REASON_ISSUER_UNAVAILABLE, "the keys of issuer %s were fetched %lld s ago, which is too long", i->name,
                        (long long)(now_s - i->fetched_s));
}
