/* Owns the compiled entries. Knows no token: claims are JSON. */
#include "authz/mapping.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { CONDITIONS_MAX = 8, CLAIM_MAX = 64, SCOPES_MAX = 2048 };

struct condition {
    char *claim, *value;
};

struct entry {
    char *text;
    struct condition conditions[CONDITIONS_MAX];
    size_t n_conditions;
    char **scopes;
    size_t n_scopes;
};

struct mapping {
    struct entry *entries;
    size_t n;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- words ---- */

bool claim_is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!name.ptr[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", name.ptr[i]))
            return false;
    return name.len > 0 && name.len <= CLAIM_MAX;
}

bool scope_is_word(struct slice word)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] <= 0x20 || word.ptr[i] >= 0x7f || word.ptr[i] == '"' || word.ptr[i] == '\\')
            return false;
    return word.len > 0;
}

bool claim_text(const struct json_t *claims, const char *name, struct buf *out)
{
    const json_t *value = json_object_get(claims, name);

    if (json_is_string(value))
        buf_append(out, slice_make(json_string_value(value), json_string_length(value)));
    else if (json_is_boolean(value))
        buf_text(out, json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        buf_printf(out, "%lld", (long long)json_integer_value(value));
    else
        return false;
    return true;
}

/* ---- values ---- */

static bool is_border(char c)
{
    return c == '/' || c == ':';
}

/* "*" only as a whole segment, "**" only as the last one. */
static bool wildcards_are_sound(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        size_t n = 0;

        if (value.ptr[i] != '*')
            continue;
        while (i + n < value.len && value.ptr[i + n] == '*')
            n++;
        if (n > 2 || (i > 0 && !is_border(value.ptr[i - 1])) || (i + n < value.len && (n == 2 || !is_border(value.ptr[i + n]))))
            return false;
        i += n - 1;
    }
    return true;
}

static size_t segment_len(struct slice s)
{
    size_t n = 0;

    while (n < s.len && !is_border(s.ptr[n]))
        n++;
    return n;
}

/* One or more segments that are not empty, with "/" between them, and nothing else. */
static bool are_segments(struct slice s)
{
    for (;;) {
        size_t n = segment_len(s);

        if (n == 0)
            return false;
        if (n == s.len)
            return true;
        if (s.ptr[n] != '/')
            return false;
        s = slice_from(s, n + 1);
    }
}

static bool value_fits(struct slice pattern, struct slice text)
{
    while (pattern.len) {
        size_t n;

        if (slice_is(pattern, "**"))
            return are_segments(text);
        if (pattern.ptr[0] != '*') {
            if (text.len == 0 || text.ptr[0] != pattern.ptr[0])
                return false;
            n = 1;
        } else if ((n = segment_len(text)) == 0) {
            return false;
        }
        pattern = slice_from(pattern, 1);
        text = slice_from(text, n);
    }
    return text.len == 0;
}

static bool condition_holds(const struct condition *c, const struct json_t *claims)
{
    struct buf text = {0};
    bool holds = claim_text(claims, c->claim, &text) && value_fits(slice_of(c->value), buf_slice(&text));

    buf_free(&text);
    return holds;
}

/* ---- compiling ---- */

static bool refuse(const struct conf_item *item, size_t i, struct fault *why, const char *what)
{
    return conf_refuse(item, "map", (int)i, why, "map: \"%.80s\": %s", conf_map_name(item, "map", i), what);
}

static bool read_condition(const struct conf_item *item, size_t i, struct entry *e, struct slice text, struct fault *why)
{
    ptrdiff_t colon = slice_find(text, ':');
    struct slice claim = slice_cut(text, 0, colon > 0 ? (size_t)colon : 0), value = slice_from(text, (size_t)(colon + 1));

    if (colon <= 0 || !claim_is_name(claim) || value.len == 0)
        return refuse(item, i, why, "expected CLAIM:VALUE such as project_path:acme/x, more of them with \" & \" between them");
    if (slice_starts(value, SLICE("//")))
        return refuse(item, i, why, "a claim whose name has a colon cannot be named here");
    if (!wildcards_are_sound(value))
        return refuse(item, i, why, "* stands for one whole segment between / or :, and ** for the last ones");
    if (e->n_conditions == CONDITIONS_MAX)
        return refuse(item, i, why, "more than 8 conditions");
    e->conditions[e->n_conditions++] = (struct condition){text_copy(claim), text_copy(value)};
    return true;
}

static bool read_conditions(const struct conf_item *item, size_t i, struct entry *e, struct fault *why)
{
    struct slice rest = slice_of(e->text);
    ptrdiff_t at;

    while ((at = slice_search(rest, SLICE(" & "))) >= 0) {
        if (!read_condition(item, i, e, slice_trim(slice_cut(rest, 0, (size_t)at)), why))
            return false;
        rest = slice_from(rest, (size_t)at + 3);
    }
    return read_condition(item, i, e, slice_trim(rest), why);
}

/* A list, or one text with blanks between them. */
static bool read_scopes(const struct conf_item *item, size_t i, struct entry *e, struct fault *why)
{
    size_t len = 0;

    for (size_t j = 0; j < conf_map_list_count(item, "map", i); j++) {
        struct slice rest = slice_of(conf_map_list_text(item, "map", i, j)), word;

        while (slice_next(&rest, ' ', &word)) {
            if (!scope_is_word(word))
                return refuse(item, i, why, "expected scopes such as npm:read, with single blanks between them");
            len += word.len + 1;
            e->scopes = must(reallocarray(e->scopes, e->n_scopes + 1, sizeof *e->scopes));
            e->scopes[e->n_scopes++] = text_copy(word);
        }
    }
    if (e->n_scopes == 0)
        return refuse(item, i, why, "gives no scope; leave the entry out");
    return len <= SCOPES_MAX || refuse(item, i, why, "too many scopes");
}

bool mapping_compile(const struct conf_item *item, struct mapping **out, struct fault *why)
{
    size_t n = conf_map_count(item, "map");
    struct mapping *m;

    *out = NULL;
    if (!conf_is_written(item, "map"))
        return true;
    if (n == 0)
        return conf_refuse(item, "map", -1, why, "map: nobody is in it, so no token is good; list who is, or leave it out");
    m = *out = must(calloc(1, sizeof *m));
    m->entries = must(calloc(n, sizeof *m->entries));
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &m->entries[m->n++];

        e->text = text_copy(slice_of(conf_map_name(item, "map", i)));
        if (!read_conditions(item, i, e, why) || !read_scopes(item, i, e, why)) {
            mapping_free(m);
            *out = NULL;
            return false;
        }
    }
    return true;
}

void mapping_free(struct mapping *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++) {
        struct entry *e = &m->entries[i];

        for (size_t k = 0; k < e->n_conditions; k++) {
            free(e->conditions[k].claim);
            free(e->conditions[k].value);
        }
        for (size_t k = 0; k < e->n_scopes; k++)
            free(e->scopes[k]);
        free(e->scopes);
        free(e->text);
    }
    free(m->entries);
    free(m);
}

/* ---- asking ---- */

size_t mapping_count(const struct mapping *m)
{
    return m ? m->n : 0;
}

const char *mapping_text(const struct mapping *m, size_t i)
{
    return m->entries[i].text;
}

bool mapping_holds(const struct mapping *m, size_t i, const struct json_t *claims)
{
    const struct entry *e = &m->entries[i];

    for (size_t k = 0; k < e->n_conditions; k++)
        if (!condition_holds(&e->conditions[k], claims))
            return false;
    return true;
}

/* Of a path the first segment says whose it is; a claim of these names none, whatever its value. */
static bool names_an_owner(const struct condition *c)
{
    static const char *const common[] = {"ref", "ref_type", "ref_path", "ref_protected", "environment",
                                         "environment_protected", "deployment_tier", "pipeline_source", "event_name",
                                         "runner_environment", "repository_visibility", "base_ref", "head_ref",
                                         "workflow", "aud", "iss", "enterprise"};
    struct slice value = slice_of(c->value);

    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (strcmp(c->claim, common[i]) == 0)
            return false;
    if (strcmp(c->claim, "sub") == 0 && slice_find(value, ':') >= 0)
        value = slice_from(value, (size_t)slice_find(value, ':') + 1);
    return value.len > 0 && value.ptr[0] != '*';
}

bool mapping_is_wide(const struct mapping *m, size_t i)
{
    const struct entry *e = &m->entries[i];

    for (size_t k = 0; k < e->n_conditions; k++)
        if (names_an_owner(&e->conditions[k]))
            return false;
    return true;
}

static bool has_word(struct slice all, const char *word)
{
    struct slice one;

    while (slice_next(&all, ' ', &one))
        if (slice_is(one, word))
            return true;
    return false;
}

bool mapping_scopes(const struct mapping *m, const struct json_t *claims, struct buf *out)
{
    bool any = false;

    for (size_t i = 0; i < m->n; i++) {
        if (!mapping_holds(m, i, claims))
            continue;
        any = true;
        for (size_t k = 0; k < m->entries[i].n_scopes; k++) {
            if (has_word(buf_slice(out), m->entries[i].scopes[k]))
                continue;
            if (buf_len(out))
                buf_char(out, ' ');
            buf_text(out, m->entries[i].scopes[k]);
        }
    }
    return any;
}

void mapping_print(const struct mapping *m, struct buf *out)
{
    for (size_t i = 0; m && i < m->n; i++) {
        text_json(out, slice_of(m->entries[i].text));
        for (size_t k = 0; k < m->entries[i].n_scopes; k++)
            buf_printf(out, " %s", m->entries[i].scopes[k]);
        buf_char(out, '\n');
    }
}
