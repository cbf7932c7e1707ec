/* Owns the texts of the entries. Knows nothing of requests: policy decides what they cover. */
#include "authz/detail.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { ENTRIES_MAX = 32, TEXTS_MAX = 64, TEXT_MAX = 1024, HOST_MAX = 253 };

struct texts {
    char **list;
    size_t count;
};

struct entry {
    struct texts locations, methods, paths;
    struct pattern **patterns; /* of paths */
    struct detail view; /* what callers see of the three */
};

struct details {
    size_t count;
    struct entry entries[];
};

static bool is_host(struct slice s)
{
    struct slice label;

    if (slice_starts(s, SLICE("*.")))
        s = slice_from(s, 2);
    if (s.len == 0 || s.len > HOST_MAX)
        return false;
    while (slice_next(&s, '.', &label)) {
        if (label.len == 0 || label.len > 63 || label.ptr[0] == '-' || label.ptr[label.len - 1] == '-')
            return false;
        for (size_t i = 0; i < label.len; i++)
            if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", label.ptr[i]))
                return false;
    }
    return true;
}

/* A location as policy compares it: a trailing slash is dropped. */
static bool read_location(struct slice s, struct slice *out)
{
    struct slice rest;
    ptrdiff_t colon;
    uint64_t port;

    if (slice_starts(s, SLICE("https://")) || slice_starts(s, SLICE("http://"))) {
        if (slice_ends(s, SLICE("/")))
            s.len--;
        rest = slice_from(s, slice_starts(s, SLICE("https://")) ? 8 : 7);
    } else {
        rest = s;
    }
    *out = s;
    colon = slice_find(rest, ':');
    if (colon < 0)
        return is_host(rest);
    return is_host(slice_cut(rest, 0, (size_t)colon)) &&
           slice_decimal(slice_from(rest, (size_t)colon + 1), 65535, &port) && port > 0 &&
           rest.ptr[colon + 1] != '0';
}

static bool read_method(struct slice s, struct slice *out)
{
    for (size_t i = 0; i < s.len; i++)
        if (!((s.ptr[i] >= 'A' && s.ptr[i] <= 'Z') || s.ptr[i] == '-'))
            return false;
    *out = s;
    return s.len > 0 && s.len <= 32;
}

static bool read_path(struct slice s, struct slice *out)
{
    if (!slice_starts(s, SLICE("/")) || s.len > TEXT_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= 0x20 || s.ptr[i] >= 0x7f || strchr("?#\\\"", s.ptr[i]))
            return false;
    *out = s;
    return true;
}

static bool read_texts(json_t *array, const char *name, bool (*read)(struct slice, struct slice *),
                       struct texts *out, struct fault *why)
{
    size_t n = json_array_size(array);

    if (n == 0 || n > TEXTS_MAX)
        return fault_reason(why, REASON_TOKEN_CLAIMS, "authorization_details: %s is not a list of 1 to %d texts", name,
                            TEXTS_MAX);
    if (!(out->list = calloc(n, sizeof *out->list)))
        abort();
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_array_get(array, i);
        struct slice text = slice_make(json_string_value(item), json_string_length(item));

        if (!json_is_string(item) || !read(text, &text))
            return fault_reason(why, REASON_TOKEN_CLAIMS, "authorization_details: entry %zu of %s cannot be used", i,
                                name);
        out->list[out->count++] = text_copy(text);
    }
    return true;
}

static bool compile_paths(struct entry *e, struct fault *why)
{
    if (!(e->patterns = calloc(e->paths.count + 1, sizeof *e->patterns)))
        abort();
    for (size_t i = 0; i < e->paths.count; i++) {
        struct fault bad = {0};

        if (!(e->patterns[i] = pattern_parse(slice_of(e->paths.list[i]), &bad)))
            return fault_reason(why, REASON_TOKEN_CLAIMS, "authorization_details: entry %zu of paths: %s", i, bad.text);
        if (pattern_capture_count(e->patterns[i]))
            return fault_reason(why, REASON_TOKEN_CLAIMS, "authorization_details: entry %zu of paths captures", i);
    }
    return true;
}

static bool read_entry(json_t *object, struct entry *e, struct fault *why)
{
    const char *name;
    json_t *value;
    bool ok = true;

    json_object_foreach(object, name, value) {
        if (strcmp(name, "locations") == 0)
            ok = read_texts(value, name, read_location, &e->locations, why);
        else if (strcmp(name, "actions") == 0)
            ok = read_texts(value, name, read_method, &e->methods, why);
        else if (strcmp(name, "paths") == 0)
            ok = read_texts(value, name, read_path, &e->paths, why);
        else if (strcmp(name, "type") != 0)
            ok = fault_reason(why, REASON_TOKEN_CLAIMS,
                              "authorization_details: %.40s is not known, and a narrowing must not be ignored", name);
        if (!ok)
            return false;
    }
    if (!compile_paths(e, why))
        return false;
    e->view = (struct detail){.locations = (const char *const *)e->locations.list,
                              .n_locations = e->locations.count,
                              .methods = (const char *const *)e->methods.list,
                              .n_methods = e->methods.count,
                              .paths = (const char *const *)e->paths.list,
                              .patterns = e->patterns,
                              .n_paths = e->paths.count};
    return true;
}

static bool read_entries(json_t *array, struct details *d, struct fault *why)
{
    json_t *object;
    size_t i;

    json_array_foreach(array, i, object) {
        const char *type = json_string_value(json_object_get(object, "type"));

        if (!type)
            return fault_reason(why, REASON_TOKEN_CLAIMS, "authorization_details: entry %zu has no type", i);
        if (strcmp(type, "http_egress") == 0 && !read_entry(object, &d->entries[d->count++], why))
            return false;
    }
    return true;
}

struct details *details_parse(struct slice json, struct fault *why)
{
    json_t *array = json_loadb(json.ptr, json.len, JSON_REJECT_DUPLICATES, NULL);
    size_t n = json_array_size(array);
    struct details *d = NULL;
    bool ok = false;

    if (!json_is_array(array) || n > ENTRIES_MAX) {
        fault_reason(why, REASON_TOKEN_CLAIMS, "authorization_details is not a list of at most %d objects",
                     ENTRIES_MAX);
        goto out;
    }
    if (!(d = calloc(1, sizeof *d + n * sizeof d->entries[0])))
        abort();
    ok = read_entries(array, d, why);
out:
    json_decref(array);
    if (!ok) {
        details_free(d);
        d = NULL;
    }
    return d;
}

static void texts_free(struct texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->list[i]);
    free(t->list);
}

void details_free(struct details *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++) {
        texts_free(&d->entries[i].locations);
        texts_free(&d->entries[i].methods);
        for (size_t k = 0; d->entries[i].patterns && k < d->entries[i].paths.count; k++)
            pattern_free(d->entries[i].patterns[k]);
        free(d->entries[i].patterns);
        texts_free(&d->entries[i].paths);
    }
    free(d);
}

size_t details_count(const struct details *d)
{
    return d ? d->count : 0;
}

const struct detail *details_get(const struct details *d, size_t i)
{
    assert(d && i < d->count);
    return &d->entries[i].view;
}
