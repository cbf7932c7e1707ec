/* Writes what could be configured: a JSON Schema for editors, a table for readers. */
#include <string.h>

#include "base/conf.h"
#include "base/text.h"

static void json(struct buf *out, const char *text)
{
    text_json(out, slice_of(text));
}

static void choices(struct buf *out, const char *all)
{
    struct slice left = slice_of(all), one;

    buf_text(out, "\"enum\":[");
    while (slice_next(&left, '|', &one)) {
        text_json(out, one);
        buf_text(out, left.ptr ? "," : "]");
    }
}

/* What YAML makes of a text without quotes: an editor must take 443 and true for texts too. */
#define ANY_TEXT "{\"type\":[\"string\",\"number\",\"boolean\"]}"
#define TEXTS "{\"anyOf\":[" ANY_TEXT ",{\"type\":\"array\",\"items\":" ANY_TEXT "}]}"

static void key_type(struct buf *out, const struct conf_key *key)
{
    static const char *const types[] = {
        [CONF_TEXT] = "\"type\":[\"string\",\"number\",\"boolean\"]",
        [CONF_NAME] = "\"type\":[\"string\",\"number\"],\"pattern\":\"^[A-Za-z0-9._-]{1,63}$\"",
        [CONF_PATH] = "\"type\":\"string\",\"minLength\":1",
        [CONF_BOOL] = "\"type\":\"boolean\"",
        [CONF_COUNT] = "\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740992",
        [CONF_SIZE] = "\"anyOf\":[{\"type\":\"integer\",\"minimum\":0},"
                      "{\"type\":\"string\",\"pattern\":\"^(0|[1-9][0-9]*)[kmg]?$\"}]",
        [CONF_TIME] = "\"anyOf\":[{\"const\":0},"
                      "{\"type\":\"string\",\"pattern\":\"^(0|[1-9][0-9]*)(ms|s|m|h|d)$\"}]",
        [CONF_LIST] = "\"anyOf\":[" ANY_TEXT ",{\"type\":\"array\",\"items\":" ANY_TEXT "}]",
        [CONF_MAP] = "\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[A-Za-z0-9._-]{1,63}$\"},"
                     "\"additionalProperties\":" TEXTS,
    };

    if (key->type == CONF_CHOICE)
        choices(out, key->choices);
    else if (key->flags & CONF_ANY_NAMES)
        buf_text(out, "\"type\":\"object\",\"additionalProperties\":" TEXTS);
    else
        buf_text(out, types[key->type]);
    buf_text(out, ",\"description\":");
    json(out, key->help);
    if (key->fallback) {
        buf_text(out, ",\"default\":");
        if (key->type == CONF_BOOL || key->type == CONF_COUNT)
            buf_text(out, key->fallback);
        else
            json(out, key->fallback);
    }
}

static size_t prefix_len(const char *name, size_t from)
{
    const char *dot = strchr(name + from, '.');

    return dot ? (size_t)(dot - name) + 1 : 0;
}

/* Names of required keys among [first, last) at this depth; a nested map is never required as a whole. */
static void required(struct buf *out, const struct conf_key *keys, size_t first, size_t last, size_t skip)
{
    bool any = false;

    for (size_t i = first; i < last; i++) {
        if (!(keys[i].flags & CONF_REQUIRED) || prefix_len(keys[i].name, skip))
            continue;
        buf_text(out, any ? "," : ",\"required\":[");
        json(out, keys[i].name + skip);
        any = true;
    }
    if (any)
        buf_char(out, ']');
}

/* The object of keys[first, last), whose names all share their first skip characters. */
static void object(struct buf *out, const struct conf_key *keys, size_t first, size_t last, size_t skip)
{
    buf_text(out, "{\"type\":[\"object\",\"null\"],\"additionalProperties\":false,\"properties\":{");
    for (size_t i = first; i < last;) {
        size_t prefix = prefix_len(keys[i].name, skip), end = i + 1;

        if (i > first)
            buf_char(out, ',');
        while (prefix && end < last && strncmp(keys[end].name, keys[i].name, prefix) == 0)
            end++;
        text_json(out, slice_make(keys[i].name + skip, prefix ? prefix - skip - 1 : strlen(keys[i].name + skip)));
        buf_char(out, ':');
        if (prefix) {
            object(out, keys, i, end, prefix);
        } else {
            buf_char(out, '{');
            key_type(out, &keys[i]);
            buf_char(out, '}');
        }
        i = end;
    }
    buf_char(out, '}');
    required(out, keys, first, last, skip);
    buf_char(out, '}');
}

static void section_schema(struct buf *out, const struct conf_section *s)
{
    if (!s->named) {
        object(out, s->keys, 0, s->n_keys, 0);
        return;
    }
    buf_text(out, "{\"type\":[\"object\",\"null\"],\"propertyNames\":{\"pattern\":\"^[A-Za-z0-9._-]{1,63}$\"},"
                  "\"additionalProperties\":");
    object(out, s->keys, 0, s->n_keys, 0);
    buf_char(out, '}');
}

void conf_schema(const struct conf_section *const *sections, size_t n_sections, struct buf *out)
{
    buf_text(out, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"Exeat proxy.conf\","
                  "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
                  "\"include\":" TEXTS);
    for (size_t i = 0; i < n_sections; i++) {
        buf_char(out, ',');
        json(out, sections[i]->name);
        buf_text(out, ":{\"description\":");
        json(out, sections[i]->help);
        buf_text(out, ",\"allOf\":[");
        section_schema(out, sections[i]);
        buf_text(out, "]}");
    }
    buf_text(out, "}}\n");
}

/* Text inside a cell of a Markdown table. */
static void cell(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            buf_char(out, '\\');
        buf_char(out, *text);
    }
}

static void key_help(struct buf *out, const struct conf_key *key)
{
    static const char *const types[] = {
        [CONF_TEXT] = "text",  [CONF_NAME] = "name",   [CONF_PATH] = "file", [CONF_BOOL] = "true or false",
        [CONF_COUNT] = "number", [CONF_SIZE] = "size", [CONF_TIME] = "time", [CONF_LIST] = "list",
        [CONF_MAP] = "lists by name",
    };

    buf_printf(out, "| `%s` | ", key->name);
    if (key->type == CONF_CHOICE) {
        struct slice left = slice_of(key->choices), one;

        while (slice_next(&left, '|', &one))
            buf_printf(out, "`%.*s`%s", SLICE_ARG(one), left.ptr ? ", " : "");
    } else {
        buf_text(out, types[key->type]);
    }
    buf_text(out, " | ");
    if (key->flags & CONF_REQUIRED)
        buf_text(out, "**required**");
    else if (key->fallback && key->fallback[0])
        buf_printf(out, "`%s`", key->fallback);
    buf_text(out, " | ");
    cell(out, key->help);
    buf_text(out, " |\n");
}

void conf_help(const struct conf_section *const *sections, size_t n_sections, struct buf *out)
{
    for (size_t i = 0; i < n_sections; i++) {
        const struct conf_section *s = sections[i];

        buf_printf(out, "%s## `%s`\n\n%s%s\n\n| key | value | default | what it does |\n|---|---|---|---|\n",
                   i ? "\n" : "", s->name, s->help, s->named ? " Named items, each with these keys." : "");
        for (size_t k = 0; k < s->n_keys; k++)
            key_help(out, &s->keys[k]);
    }
}
