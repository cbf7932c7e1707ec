/* Owns the keys of one set. Knows no issuer. */
#include "authz/keyset.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 64 };

struct keyset {
    struct key **keys;
    size_t n, left_out;
    json_t *members; /* of each key, those that make it */
};

static json_t *members_of(const json_t *jwk)
{
    static const char *const members[] = {"kty", "kid", "crv", "x", "y", "n", "e"};
    json_t *out = json_object();

    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (json_object_get(jwk, members[i]))
            json_object_set(out, members[i], json_object_get(jwk, members[i]));
    return out;
}

static bool keep(struct keyset *s, json_t *jwk, struct key *k, struct fault *why)
{
    if (keyset_find(s, slice_of(key_id(k)))) {
        fault_set(why, FAULT_SYNTAX, "kid %.40s stands there twice", key_id(k));
        key_free(k);
        return false;
    }
    s->keys[s->n++] = k;
    json_array_append_new(s->members, members_of(jwk));
    return true;
}

struct reading {
    const char *name;
    unsigned algorithms;
    enum keyset_kind kind;
};

static bool add_key(struct keyset *s, const struct reading *r, json_t *jwk, size_t at, struct fault *why)
{
    const char *kid = json_string_value(json_object_get(jwk, "kid"));
    const char *use = json_string_value(json_object_get(jwk, "use"));
    struct key *k;

    if (use && strcmp(use, "enc") == 0)
        return true;
    if ((k = key_from_jwk(jwk, r->algorithms, why))) {
        if (keep(s, jwk, k, why))
            return true;
        fault_prefix(why, "%s: key %zu", r->name, at);
        return false;
    }
    if (r->kind == KEYSET_PUBLISHED) {
        s->left_out++;
        return true;
    }
    fault_prefix(why, "%s: key %zu%s%.40s%s", r->name, at, kid ? " (kid " : "", kid ? kid : "", kid ? ")" : "");
    return false;
}

static bool add_keys(struct keyset *s, const struct reading *r, json_t *root, struct fault *why)
{
    json_t *array = json_object_get(root, "keys"), *jwk;
    size_t i;

    if (!json_is_array(array))
        return fault_set(why, FAULT_SYNTAX, "%s: expected a JWK set: {\"keys\": [...]}", r->name);
    if (json_array_size(array) > KEYS_MAX)
        return fault_set(why, FAULT_LIMIT, "%s: more than %d keys", r->name, KEYS_MAX);
    if (!(s->keys = calloc(json_array_size(array) + 1, sizeof(struct key *))))
        abort();
    json_array_foreach(array, i, jwk)
        if (!add_key(s, r, jwk, i + 1, why))
            return false;
    if (s->n == 0 && s->left_out)
        return fault_set(why, FAULT_SYNTAX, "%s: none of its %zu keys can be used: see the issuer's algorithms", r->name,
                         s->left_out);
    fault_clear(why);
    return s->n || fault_set(why, FAULT_SYNTAX, "%s: has no key to verify with", r->name);
}

struct keyset *keyset_parse(struct slice json, const char *name, unsigned algorithms, enum keyset_kind kind, struct fault *why)
{
    const struct reading r = {name, algorithms, kind};
    struct keyset *s = calloc(1, sizeof *s);
    json_error_t error;
    json_t *root;
    bool ok = false;

    if (!s || !(s->members = json_array()))
        abort();
    if (!(root = json_loadb(json.ptr, json.len, JSON_REJECT_DUPLICATES, &error)))
        fault_set(why, FAULT_SYNTAX, "%s:%d:%d: %s", name, error.line, error.column, error.text);
    else
        ok = add_keys(s, &r, root, why);
    json_decref(root);
    if (ok)
        return s;
    keyset_free(s);
    return NULL;
}

void keyset_free(struct keyset *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        key_free(s->keys[i]);
    free(s->keys);
    json_decref(s->members);
    free(s);
}

const struct key *keyset_find(const struct keyset *s, struct slice kid)
{
    for (size_t i = 0; s && i < s->n; i++)
        if (slice_is(kid, key_id(s->keys[i])))
            return s->keys[i];
    return NULL;
}

size_t keyset_count(const struct keyset *s)
{
    return s ? s->n : 0;
}

const struct key *keyset_key(const struct keyset *s, size_t i)
{
    return s->keys[i];
}

size_t keyset_left_out(const struct keyset *s)
{
    return s->left_out;
}

void keyset_print(const struct keyset *s, struct buf *out)
{
    char *text;

    for (size_t i = 0; i < s->n; i++)
        assert(key_algorithm(s->keys[i]) != ALGORITHM_HS256);
    text = json_dumps(s->members, JSON_COMPACT);
    if (!text)
        abort();
    buf_printf(out, "{\"keys\":%s}", text);
    free(text);
}
