/* Owns the list of canaries: what may stand in it, its file form, and the end of the values. */
#include "canary/registry.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/secret.h"
#include "base/table.h"
#include "base/text.h"

#define SCHEMA "exeat.canaries/1"
#define NAME_MAX_LEN 63
#define SANDBOX_MAX 255
#define DISTINCT_MIN 6

struct registry {
    struct canary **items;
    size_t count, cap;
    struct table *ids;
    struct table *digests; /* SHA-256 of each value: told twice without a second copy of it */
};

struct registry *registry_new(void)
{
    struct registry *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    r->ids = table_new();
    r->digests = table_new();
    return r;
}

static void canary_free(struct canary *c)
{
    secret_wipe((char *)c->value, c->value_len);
    free((char *)c->id);
    free((char *)c->kind);
    free((char *)c->sandbox);
    free((char *)c->value);
    free((char *)c->created);
    free(c);
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        canary_free(r->items[i]);
    free(r->items);
    table_free(r->ids);
    table_free(r->digests);
    free(r);
}

size_t registry_count(const struct registry *r)
{
    return r->count;
}

const struct canary *registry_get(const struct registry *r, size_t i)
{
    return i < r->count ? r->items[i] : NULL;
}

bool registry_has(const struct registry *r, const char *id)
{
    return table_get(r->ids, slice_of(id)) != NULL;
}

/* What may be said of a text's characters, in hundredths of a bit each. */
static unsigned bits_per_character(struct slice s)
{
    static const unsigned by_classes[8] = {0, 332, 470, 517, 470, 517, 570, 595};
    bool lower_hex = true, upper_hex = true;
    unsigned classes = 0;

    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';

        if (!digit && !lower && !upper)
            return 600;
        classes |= digit ? 1 : lower ? 2 : 4;
        lower_hex = lower_hex && (digit || (c >= 'a' && c <= 'f'));
        upper_hex = upper_hex && (digit || (c >= 'A' && c <= 'F'));
    }
    return classes != 1 && (lower_hex || upper_hex) ? 400 : by_classes[classes];
}

unsigned canary_bits(struct slice random)
{
    bool seen[256] = {false};
    unsigned distinct = 0;

    for (size_t i = 0; i < random.len; i++) {
        distinct += !seen[(unsigned char)random.ptr[i]];
        seen[(unsigned char)random.ptr[i]] = true;
    }
    return distinct < DISTINCT_MIN ? 0 : (unsigned)random.len * bits_per_character(random) / 100;
}

static bool is_name(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return len > 0 && len <= NAME_MAX_LEN && text[len] == '\0';
}

static bool is_sandbox(const char *text)
{
    size_t len = 0;

    for (; text[len]; len++)
        if ((unsigned char)text[len] <= 0x20 || text[len] == 0x7f)
            return false;
    return len <= SANDBOX_MAX;
}

static bool check_value(const struct canary *c, struct fault *why)
{
    unsigned bits;

    if (c->value_len == 0)
        return fault_set(why, FAULT_SYNTAX, "value is empty");
    if (c->value_len > CANARY_VALUE_MAX)
        return fault_set(why, FAULT_SYNTAX, "value has %zu bytes; at most %d are allowed", c->value_len,
                         CANARY_VALUE_MAX);
    if (c->random_from > c->value_len || c->random_len > c->value_len - c->random_from)
        return fault_set(why, FAULT_SYNTAX, "random_from %zu and random_len %zu reach beyond the value's %zu bytes",
                         c->random_from, c->random_len, c->value_len);
    bits = canary_bits(slice_make(c->value + c->random_from, c->random_len));
    if (bits < CANARY_BITS_MIN)
        return fault_set(why, FAULT_SYNTAX, "the random part has %u bits; at least %d are needed, or it would be "
                         "found where it is not", bits, CANARY_BITS_MIN);
    return true;
}

static bool check_canary(const struct canary *c, struct fault *why)
{
    struct slice created = slice_of(c->created);
    int64_t ns;

    if (!is_name(c->id))
        return fault_set(why, FAULT_SYNTAX, "id: expected 1 to %d of A-Z a-z 0-9 . _ -", NAME_MAX_LEN);
    if (strcmp(c->id, "leave-token") == 0)
        return fault_set(why, FAULT_SYNTAX, "id: \"leave-token\" is what the scanner calls a token it finds");
    if (!is_name(c->kind))
        return fault_set(why, FAULT_SYNTAX, "kind: expected 1 to %d of A-Z a-z 0-9 . _ -", NAME_MAX_LEN);
    if (!is_sandbox(c->sandbox))
        return fault_set(why, FAULT_SYNTAX, "sandbox: expected at most %d bytes, no spaces or controls", SANDBOX_MAX);
    if (!clock_parse(created, &ns))
        return fault_set(why, FAULT_SYNTAX, "created: expected a time such as 2026-01-02T03:04:05Z");
    return check_value(c, why);
}

static struct slice digest_of(const struct canary *c, unsigned char into[EVP_MAX_MD_SIZE])
{
    unsigned len = 0;

    if (EVP_Digest(c->value, c->value_len, into, &len, EVP_sha256(), NULL) != 1)
        abort();
    return slice_make(into, len);
}

static struct canary *canary_copy(const struct canary *c)
{
    struct canary *copy = malloc(sizeof *copy);

    if (!copy)
        abort();
    *copy = (struct canary){
        .id = text_copy(slice_of(c->id)),
        .kind = text_copy(slice_of(c->kind)),
        .sandbox = text_copy(slice_of(c->sandbox)),
        .value = text_copy(slice_make(c->value, c->value_len)),
        .created = text_copy(slice_of(c->created)),
        .plain = c->plain,
        .value_len = c->value_len,
        .random_from = c->random_from,
        .random_len = c->random_len,
    };
    return copy;
}

static const struct canary *put(struct registry *r, const struct canary *c, struct slice digest)
{
    struct canary *copy = canary_copy(c);

    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 16;
        if (!(r->items = reallocarray(r->items, r->cap, sizeof(struct canary *))))
            abort();
    }
    r->items[r->count++] = copy;
    table_put(r->ids, slice_of(copy->id), copy);
    table_put(r->digests, digest, copy);
    return copy;
}

bool registry_remove(struct registry *r, const char *id)
{
    struct canary *c = table_remove(r->ids, slice_of(id));
    unsigned char bytes[EVP_MAX_MD_SIZE];
    size_t at = 0;

    if (!c)
        return false;
    table_remove(r->digests, digest_of(c, bytes));
    while (r->items[at] != c)
        at++;
    memmove(r->items + at, r->items + at + 1, (r->count - at - 1) * sizeof *r->items);
    r->count--;
    canary_free(c);
    return true;
}

const struct canary *registry_add(struct registry *r, const struct canary *c, struct fault *why)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    struct canary *twin;
    struct slice digest;

    if (!check_canary(c, why))
        return NULL;
    if (r->count >= CANARY_COUNT_MAX)
        return fault_set(why, FAULT_LIMIT, "more than %d canaries", CANARY_COUNT_MAX), NULL;
    if (registry_has(r, c->id))
        return fault_set(why, FAULT_SYNTAX, "id stands twice"), NULL;
    digest = digest_of(c, bytes);
    if ((twin = table_get(r->digests, digest)))
        return fault_set(why, FAULT_SYNTAX, "value is the same as that of %s", twin->id), NULL;
    return put(r, c, digest);
}

static void add_last(struct registry *r, const char *id, struct slice value, bool plain)
{
    struct slice last = slice_from(value, value.len > CANARY_VALUE_MAX ? value.len - CANARY_VALUE_MAX : 0);
    struct canary c = {.id = id, .kind = "secret", .sandbox = "", .created = "", .value = last.ptr, .plain = plain, .value_len = last.len};
    unsigned char bytes[EVP_MAX_MD_SIZE];

    put(r, &c, digest_of(&c, bytes));
}

void registry_add_secret(struct registry *r, const char *id, struct slice value)
{
    add_last(r, id, value, false);
}

void registry_add_spelling(struct registry *r, const char *id, struct slice value)
{
    add_last(r, id, value, true);
}

static bool check_members(const json_t *object, const char *const *names, struct fault *why)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value) {
        size_t i = 0;

        while (names[i] && strcmp(names[i], key) != 0)
            i++;
        if (!names[i])
            return fault_set(why, FAULT_SYNTAX, "unknown member \"%.40s\"", key);
    }
    for (size_t i = 0; names[i]; i++)
        if (!json_object_get(object, names[i]))
            return fault_set(why, FAULT_SYNTAX, "member \"%s\" is missing", names[i]);
    return true;
}

static bool get_text(const json_t *object, const char *name, const char **out, size_t *len, struct fault *why)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_string(value))
        return fault_set(why, FAULT_SYNTAX, "%s: expected a string", name);
    *out = json_string_value(value);
    if (len)
        *len = json_string_length(value);
    return true;
}

static bool get_size(const json_t *object, const char *name, size_t *out, struct fault *why)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return fault_set(why, FAULT_SYNTAX, "%s: expected a whole number, 0 or more", name);
    *out = (size_t)json_integer_value(value);
    return true;
}

static bool read_canary(const json_t *object, struct canary *c, struct fault *why)
{
    static const char *const members[] = {"id",          "kind",       "sandbox", "value",
                                          "random_from", "random_len", "created", NULL};

    if (!json_is_object(object))
        return fault_set(why, FAULT_SYNTAX, "expected an object");
    return check_members(object, members, why) && get_text(object, "id", &c->id, NULL, why) &&
           get_text(object, "kind", &c->kind, NULL, why) && get_text(object, "sandbox", &c->sandbox, NULL, why) &&
           get_text(object, "value", &c->value, &c->value_len, why) &&
           get_size(object, "random_from", &c->random_from, why) &&
           get_size(object, "random_len", &c->random_len, why) &&
           get_text(object, "created", &c->created, NULL, why);
}

static bool read_list(const json_t *root, struct registry *r, struct fault *why)
{
    static const char *const members[] = {"schema", "canaries", NULL};
    const char *schema = NULL;
    json_t *list, *item;
    size_t i;

    if (!json_is_object(root))
        return fault_set(why, FAULT_SYNTAX, "expected an object");
    if (!check_members(root, members, why) || !get_text(root, "schema", &schema, NULL, why))
        return false;
    if (strcmp(schema, SCHEMA) != 0)
        return fault_set(why, FAULT_SYNTAX, "schema: expected \"%s\", found \"%.40s\"", SCHEMA, schema);
    if (!json_is_array(list = json_object_get(root, "canaries")))
        return fault_set(why, FAULT_SYNTAX, "canaries: expected a list");
    json_array_foreach(list, i, item) {
        struct canary c = {0};

        if (read_canary(item, &c, why) && registry_add(r, &c, why))
            continue;
        if (c.id && is_name(c.id))
            fault_prefix(why, "canaries[%zu] (%s)", i, c.id);
        else
            fault_prefix(why, "canaries[%zu]", i);
        return false;
    }
    return true;
}

struct registry *registry_parse(struct slice json, const char *name, struct fault *why)
{
    struct registry *r = registry_new();
    json_error_t error;
    json_t *root = json_loadb(json.ptr, json.len, JSON_REJECT_DUPLICATES, &error);
    bool ok = false;

    if (!root) {
        char *quoted = strstr(error.text, " near '");

        if (quoted) /* what follows may be a value */
            *quoted = '\0';
        fault_set(why, FAULT_SYNTAX, "%s:%d:%d: not JSON: %s", name, error.line, error.column, error.text);
        goto out;
    }
    if (!(ok = read_list(root, r, why)))
        fault_prefix(why, "%s", name);
out:
    json_decref(root);
    if (!ok) {
        registry_free(r);
        r = NULL;
    }
    return r;
}

static void put_member(struct buf *out, const char *name, struct slice value)
{
    buf_printf(out, ",\"%s\":", name);
    text_json(out, value);
}

void registry_json(const struct registry *r, struct buf *out)
{
    buf_text(out, "{\"schema\":\"" SCHEMA "\",\"canaries\":[");
    for (size_t i = 0; i < r->count; i++) {
        const struct canary *c = r->items[i];

        buf_text(out, i ? ",\n{\"id\":" : "\n{\"id\":");
        text_json(out, slice_of(c->id));
        put_member(out, "kind", slice_of(c->kind));
        put_member(out, "sandbox", slice_of(c->sandbox));
        put_member(out, "value", slice_make(c->value, c->value_len));
        buf_printf(out, ",\"random_from\":%zu,\"random_len\":%zu", c->random_from, c->random_len);
        put_member(out, "created", slice_of(c->created));
        buf_char(out, '}');
    }
    buf_text(out, "\n]}\n");
}
