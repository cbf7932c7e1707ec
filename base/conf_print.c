/* Writes what was read as YAML again: every key, in the order of the tables. */
#include <string.h>

#include "base/conf_item.h"
#include "base/text.h"

/* Unquoted only where no reader of YAML could take it for anything else than this text. */
static bool is_plain(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len == strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/+-") &&
           text[0] != '.' && text[0] != '-' && text[0] != '+';
}

static void scalar(struct buf *out, const char *text)
{
    if (is_plain(text))
        buf_text(out, text);
    else
        text_json(out, slice_of(text));
}

static void list(struct buf *out, const struct conf_list *l)
{
    buf_char(out, '[');
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            buf_text(out, ", ");
        scalar(out, l->at[i].text);
    }
    buf_char(out, ']');
}

static void map(struct buf *out, const struct conf_value *v)
{
    buf_char(out, '{');
    for (size_t i = 0; i < v->n_map; i++) {
        if (i)
            buf_text(out, ", ");
        scalar(out, v->map[i].name.text);
        buf_text(out, ": ");
        list(out, &v->map[i].list);
    }
    buf_char(out, '}');
}

static void value(struct buf *out, const struct conf_key *key, const struct conf_value *v)
{
    if (key->type == CONF_LIST)
        list(out, &v->list);
    else if (key->type == CONF_MAP)
        map(out, v);
    else
        scalar(out, v->text);
}

/*
 * "tls.cert" stands under "tls:". Opens the maps on the way to name that the key printed before is not in
 * already, and returns what is left of name with its depth in *indent.
 */
static const char *descend(struct buf *out, const char *name, const char *before, int *indent)
{
    const char *dot;

    while ((dot = strchr(name, '.'))) {
        size_t len = (size_t)(dot - name) + 1;

        if (before && strncmp(before, name, len) == 0) {
            before += len;
        } else {
            buf_printf(out, "%*s%.*s:\n", *indent, "", (int)len - 1, name);
            before = NULL;
        }
        name += len;
        *indent += 2;
    }
    return name;
}

static void item(struct buf *out, const struct conf_item *it, int depth, bool comments)
{
    const struct conf_section *s = it->section;
    const char *before = NULL;

    for (size_t i = 0; i < s->n_keys; i++) {
        const struct conf_value *v = &it->values[i];
        int indent = depth;
        const char *name;

        if (!v->present)
            continue;
        name = descend(out, s->keys[i].name, before, &indent);
        before = s->keys[i].name;
        buf_printf(out, "%*s%s: ", indent, "", name);
        value(out, &s->keys[i], v);
        buf_text(out, comments && !v->written ? "  # default\n" : "\n");
    }
}

static void section(struct buf *out, const struct conf_section *s, const struct conf_group *g, bool comments)
{
    if (comments)
        buf_printf(out, "# %s\n", s->help);
    buf_printf(out, "%s:\n", s->name);
    for (size_t i = 0; i < g->n; i++) {
        if (!s->named) {
            item(out, g->items[i], 2, comments);
            continue;
        }
        buf_text(out, "  ");
        scalar(out, g->items[i]->name);
        buf_text(out, ":\n");
        item(out, g->items[i], 4, comments);
    }
}

void conf_print_item(const struct conf_item *it, struct buf *out)
{
    item(out, it, 0, false);
}

/* A default that was handed on in writing is one still. */
static bool is_default(const struct conf_key *key, const struct conf_value *v)
{
    if (!key->fallback)
        return false;
    if (key->type == CONF_LIST || key->type == CONF_MAP)
        return !key->fallback[0] && !v->list.n && !v->n_map;
    return strcmp(v->text, key->fallback) == 0;
}

static bool is_among(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

static const char *without_directory(const struct conf_key *key, const char *text)
{
    const char *slash = strrchr(text, '/');
    bool is_file = key->type == CONF_PATH || (key->flags & CONF_SOURCE && strncmp(text, "file:", 5) == 0);

    return is_file && slash ? slash + 1 : text;
}

void conf_print_written(const struct conf_item *it, const char *const *except, struct buf *out)
{
    for (size_t i = 0; i < it->section->n_keys; i++) {
        const struct conf_key *key = &it->section->keys[i];
        const struct conf_value *v = &it->values[i];

        if (!v->present || is_default(key, v) || is_among(key->name, except))
            continue;
        buf_printf(out, "%s: ", key->name);
        if (key->type == CONF_LIST || key->type == CONF_MAP)
            value(out, key, v);
        else
            scalar(out, without_directory(key, v->text));
        buf_char(out, '\n');
    }
}

void conf_print(const struct conf *c, bool comments, struct buf *out)
{
    for (size_t s = 0; s < c->n_sections; s++) {
        if (s)
            buf_char(out, '\n');
        section(out, c->sections[s], &c->groups[s], comments);
    }
}
