/* Turns trees into items by the tables: names known, values of their type, nothing required missing. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf_item.h"
#include "base/guess.h"
#include "base/text.h"

struct reading {
    struct conf_item *item;
    const char *directory;
    struct fault *why;
};

static void *zeroed(size_t n, size_t each)
{
    void *p = calloc(n ? n : 1, each);

    if (!p)
        abort();
    return p;
}

static void list_free(struct conf_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->at[i].text);
    free(l->at);
}

void conf_item_free(struct conf_item *item)
{
    if (!item)
        return;
    for (size_t i = 0; i < item->section->n_keys; i++) {
        struct conf_value *v = &item->values[i];

        for (size_t j = 0; j < v->n_map; j++) {
            free(v->map[j].name.text);
            list_free(&v->map[j].list);
        }
        free(v->map);
        list_free(&v->list);
        free(v->text);
    }
    free(item->values);
    free(item->name);
    free(item);
}

static bool is_name(const char *text)
{
    size_t len = strlen(text);

    return len >= 1 && len <= 63 &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

static bool is_line(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return len >= 1 && len <= 512;
}

/* "one of a, b, c" from "a|b|c" */
static void choices_text(char *out, size_t size, const char *choices)
{
    struct slice left = slice_of(choices), one;
    struct buf b = {0};

    while (slice_next(&left, '|', &one))
        buf_printf(&b, "%s%.*s", buf_len(&b) ? ", " : "one of ", SLICE_ARG(one));
    snprintf(out, size, "%.*s", SLICE_ARG(buf_slice(&b)));
    buf_free(&b);
}

static bool unexpected(const struct reading *r, const struct conf_key *key, const struct conf_node *node)
{
    static const char *const wanted[] = {
        [CONF_TEXT] = "a text",
        [CONF_NAME] = "a name (letters, digits and . _ -, at most 63)",
        [CONF_PATH] = "a file name",
        [CONF_BOOL] = "true or false",
        [CONF_COUNT] = "a whole number",
        [CONF_SIZE] = "a size such as 64k",
        [CONF_TIME] = "a time such as 15m",
        [CONF_LIST] = "a list of texts",
        [CONF_MAP] = "names with lists, such as {repo: [team-a, team-b]}",
    };
    char choices[120];
    const char *want = wanted[key->type];

    if (key->type == CONF_CHOICE) {
        choices_text(choices, sizeof choices, key->choices);
        want = choices;
    }
    if (node->kind == CONF_NODE_TEXT && !node->nothing)
        return conf_fault(r->why, &node->place, "%s: expected %s, found \"%.60s\"", key->name, want, node->text);
    return conf_fault(r->why, &node->place, "%s: expected %s, found %s", key->name, want,
                      node->kind == CONF_NODE_TEXT   ? "nothing"
                      : node->kind == CONF_NODE_LIST ? "a list"
                                                     : "a map");
}

/*
 * A file name against the directory. With CONF_SOURCE a scheme may stand in front: file: and unix: keep it and name
 * a file, other texts ("exec:...", "env:...") are no file names.
 */
static char *absolute(const struct conf_key *key, const char *text, const char *directory)
{
    bool is_file = key->type == CONF_PATH;
    const char *scheme = "";
    struct buf out = {0};

    if (key->flags & CONF_SOURCE) {
        scheme = strncmp(text, "file:", 5) == 0 ? "file:" : strncmp(text, "unix:", 5) == 0 ? "unix:" : "";
        is_file = (is_file && strncmp(text, "exec:", 5) != 0 && strncmp(text, "env:", 4) != 0) || scheme[0];
        text += strlen(scheme);
    }
    if (!is_file)
        return text_copy(slice_of(text));
    while (strncmp(text, "./", 2) == 0)
        text += 2;
    buf_text(&out, scheme);
    if (text[0] != '/')
        buf_printf(&out, "%s%s", directory, directory[strlen(directory) - 1] == '/' ? "" : "/");
    buf_text(&out, strcmp(text, ".") == 0 ? "" : text);
    while (buf_len(&out) > strlen(scheme) + 1 && slice_ends(buf_slice(&out), SLICE("/")))
        buf_truncate(&out, buf_len(&out) - 1);
    return buf_take_text(&out);
}

static bool is_choice(const char *choices, const char *text)
{
    struct slice left = slice_of(choices), one;

    while (slice_next(&left, '|', &one))
        if (slice_is(one, text))
            return true;
    return false;
}

static bool read_scalar(const struct conf_key *key, const char *text, int64_t *number)
{
    uint64_t n;

    switch (key->type) {
    case CONF_NAME:
        return is_name(text);
    case CONF_PATH:
        return text[0] != '\0';
    case CONF_BOOL:
        *number = strcmp(text, "true") == 0;
        return *number || strcmp(text, "false") == 0;
    case CONF_CHOICE:
        return is_choice(key->choices, text);
    case CONF_COUNT:
        if (!slice_decimal(slice_of(text), (uint64_t)1 << 53, &n))
            return false;
        *number = (int64_t)n;
        return true;
    case CONF_SIZE:
        return conf_parse_size(slice_of(text), number);
    case CONF_TIME:
        return conf_parse_time(slice_of(text), number);
    default:
        return true;
    }
}

static bool set_scalar(const struct reading *r, const struct conf_key *key, struct conf_value *v,
                       const struct conf_node *node)
{
    if (node->kind != CONF_NODE_TEXT || node->nothing || !read_scalar(key, node->text, &v->number))
        return unexpected(r, key, node);
    v->text = absolute(key, node->text, r->directory);
    return true;
}

static bool set_list(const struct reading *r, const struct conf_key *key, struct conf_list *list,
                     const struct conf_node *node)
{
    const struct conf_node *const *entries = (const struct conf_node *const *)node->children;
    size_t n = node->n;

    if (node->kind == CONF_NODE_TEXT && !node->nothing) {
        entries = &node;
        n = 1;
    } else if (node->kind != CONF_NODE_LIST) {
        return unexpected(r, key, node);
    }
    list->at = zeroed(n, sizeof *list->at);
    for (size_t i = 0; i < n; i++) {
        if (entries[i]->kind != CONF_NODE_TEXT || entries[i]->nothing)
            return unexpected(r, key, entries[i]);
        list->at[list->n++] = (struct conf_word){text_copy(slice_of(entries[i]->text)), entries[i]->place};
    }
    return true;
}

static bool set_map(const struct reading *r, const struct conf_key *key, struct conf_value *v,
                    const struct conf_node *node)
{
    if (node->kind != CONF_NODE_MAP)
        return unexpected(r, key, node);
    v->map = zeroed(node->n, sizeof *v->map);
    for (size_t i = 0; i < node->n; i++) {
        const struct conf_node *child = node->children[i];
        struct conf_entry *e = &v->map[v->n_map++];

        e->name = (struct conf_word){text_copy(slice_of(child->name)), child->name_place};
        if (!(key->flags & CONF_ANY_NAMES ? is_line(child->name) : is_name(child->name)))
            return conf_fault(r->why, &child->name_place, "%s: \"%.60s\" is no name", key->name, child->name);
        if (!set_list(r, key, &e->list, child))
            return false;
    }
    return true;
}

static bool set_value(const struct reading *r, const struct conf_key *key, struct conf_value *v,
                      const struct conf_node *node)
{
    v->place = node->place;
    v->present = true;
    switch (key->type) {
    case CONF_LIST:
        return set_list(r, key, &v->list, node);
    case CONF_MAP:
        return set_map(r, key, v, node);
    default:
        return set_scalar(r, key, v, node);
    }
}

/* The default, read as if it were written; a bad one is our mistake. */
static void set_fallback(const struct reading *r, const struct conf_key *key, struct conf_value *v)
{
    struct conf_node empty = {.kind = CONF_NODE_TEXT, .text = (char[]){""}}, *tree = NULL, *node = &empty;
    struct fault why = {0};
    struct reading own = {r->item, r->directory, &why};
    bool is_plain = key->type != CONF_LIST && key->type != CONF_MAP;
    bool ok;

    if (!key->fallback[0] && !is_plain) {
        v->present = true;
        return;
    }
    if (is_plain)
        node->text = text_copy(slice_of(key->fallback));
    else
        node = tree = conf_tree_parse(slice_of(key->fallback), "default", &why);
    assert(node);
    ok = set_value(&own, key, v, node);
    assert(ok);
    (void)ok;
    if (is_plain)
        free(node->text);
    conf_node_free(tree);
}

static const char *manual_of(const struct conf_section *s)
{
    return s->manual ? s->manual : "`exeat config help`";
}

static bool unknown_key(const struct reading *r, const struct conf_node *node, const char *full)
{
    const struct conf_section *s = r->item->section;
    struct guess g = {.word = full};

    for (size_t i = 0; i < s->n_keys; i++)
        guess_try(&g, s->keys[i].name);
    if (g.best)
        return conf_fault(r->why, &node->name_place, "no key \"%.60s\" in %s; did you mean \"%s\"?", full, s->name,
                          g.best);
    return conf_fault(r->why, &node->name_place, "no key \"%.60s\" in %s; %s lists them", full, s->name, manual_of(s));
}

static bool is_prefix(const struct conf_section *s, const char *full)
{
    size_t len = strlen(full);

    for (size_t i = 0; i < s->n_keys; i++)
        if (strncmp(s->keys[i].name, full, len) == 0 && s->keys[i].name[len] == '.')
            return true;
    return false;
}

static bool read_keys(const struct reading *r, const struct conf_node *map, const char *prefix);

static bool read_key(const struct reading *r, const struct conf_node *node, const char *full)
{
    const struct conf_section *s = r->item->section;

    for (size_t i = 0; i < s->n_keys; i++)
        if (strcmp(s->keys[i].name, full) == 0) {
            r->item->values[i].written = true;
            return set_value(r, &s->keys[i], &r->item->values[i], node);
        }
    if (!is_prefix(s, full))
        return unknown_key(r, node, full);
    if (node->kind == CONF_NODE_TEXT && node->nothing)
        return true;
    if (node->kind != CONF_NODE_MAP)
        return conf_fault(r->why, &node->place, "%s: expected a map of keys", full);
    return read_keys(r, node, full);
}

static bool read_keys(const struct reading *r, const struct conf_node *map, const char *prefix)
{
    for (size_t i = 0; i < map->n; i++) {
        const struct conf_node *child = map->children[i];
        struct buf full = {0};
        char *name;
        bool ok;

        buf_printf(&full, "%s%s%s", prefix, prefix[0] ? "." : "", child->name);
        name = buf_take_text(&full);
        /* a dot in a written name is not the way into a nested map */
        ok = strchr(child->name, '.') ? unknown_key(r, child, name) : read_key(r, child, name);
        free(name);
        if (!ok)
            return false;
    }
    return true;
}

static bool complete(const struct reading *r)
{
    const struct conf_section *s = r->item->section;
    const char *name = r->item->name;

    for (size_t i = 0; i < s->n_keys; i++) {
        const struct conf_key *key = &s->keys[i];
        struct conf_value *v = &r->item->values[i];

        if (v->written)
            continue;
        if (key->flags & CONF_REQUIRED)
            return conf_fault(r->why, &r->item->place, "%s%s%s needs \"%s\": %s", s->name, name ? "." : "",
                              name ? name : "", key->name, key->help);
        if (key->fallback)
            set_fallback(r, key, v);
        v->place = r->item->place;
    }
    return true;
}

/* One item (name NULL: a section's own keys) from its map; node NULL: nothing is written. */
static bool read_item(struct conf_group *g, const struct conf_section *s, const char *name, struct conf_place at,
                      const struct conf_node *node, const char *directory, struct fault *why)
{
    struct conf_item *item = zeroed(1, sizeof *item);
    struct reading r = {item, directory, why};
    struct conf_item **grown;

    *item = (struct conf_item){.section = s, .place = at, .values = zeroed(s->n_keys, sizeof *item->values)};
    item->name = name ? text_copy(slice_of(name)) : NULL;
    grown = realloc(g->items, (g->n + 1) * sizeof *grown);
    if (!grown)
        abort();
    g->items = grown;
    g->items[g->n++] = item;
    if (node && node->kind != CONF_NODE_MAP && !node->nothing)
        return conf_fault(why, &node->place, "%s%s%s: expected a map of keys", s->name, name ? "." : "",
                          name ? name : "");
    return (!node || read_keys(&r, node, "")) && complete(&r);
}

/* The same item in another file; inside one file the tree has refused it already. */
static bool is_free(const struct conf_group *g, const struct conf_section *s, const struct conf_node *node,
                    struct fault *why)
{
    for (size_t i = 0; i < g->n; i++) {
        const struct conf_item *there = g->items[i];

        if (there->name && strcmp(there->name, node->name) != 0)
            continue;
        return conf_fault(why, &node->name_place, "%s%s%s stands already in %s:%zu", s->name, there->name ? "." : "",
                          there->name ? there->name : "", there->place.file, there->place.line);
    }
    return true;
}

static bool read_section(struct conf_group *g, const struct conf_section *s, const struct conf_node *node,
                         const char *directory, struct fault *why)
{
    if (!s->named)
        return is_free(g, s, node, why) && read_item(g, s, NULL, node->name_place, node, directory, why);
    if (node->kind == CONF_NODE_TEXT && node->nothing)
        return true;
    if (node->kind != CONF_NODE_MAP)
        return conf_fault(why, &node->place, "%s: expected names, each with its keys", s->name);
    for (size_t i = 0; i < node->n; i++) {
        const struct conf_node *child = node->children[i];

        if (!is_name(child->name))
            return conf_fault(why, &child->name_place, "\"%.80s\" is no name (letters, digits and . _ -, at most 63)",
                              child->name);
        if (!is_free(g, s, child, why) ||
            !read_item(g, s, child->name, child->name_place, child, directory, why))
            return false;
    }
    return true;
}

static bool unknown_section(const struct conf *c, const struct conf_node *node, struct fault *why)
{
    struct guess g = {.word = node->name};

    for (size_t i = 0; i < c->n_sections; i++)
        guess_try(&g, c->sections[i]->name);
    if (g.best)
        return conf_fault(why, &node->name_place, "no section \"%.60s\"; did you mean \"%s\"?", node->name, g.best);
    return conf_fault(why, &node->name_place, "no section \"%.60s\"; %s lists them", node->name, manual_of(c->sections[0]));
}

bool conf_read(struct conf *c, const struct conf_node *root, const char *directory, struct fault *why)
{
    if (root->kind != CONF_NODE_MAP && !root->nothing)
        return conf_fault(why, &root->place, "expected sections, such as \"gateway:\"");
    for (size_t i = 0; i < root->n; i++) {
        const struct conf_node *node = root->children[i];
        size_t s = 0;

        if (strcmp(node->name, "include") == 0)
            continue;
        while (s < c->n_sections && strcmp(c->sections[s]->name, node->name) != 0)
            s++;
        if (s == c->n_sections)
            return unknown_section(c, node, why);
        if (!read_section(&c->groups[s], c->sections[s], node, directory, why))
            return false;
    }
    return true;
}

bool conf_read_absent(struct conf *c, const char *file, const char *directory, struct fault *why)
{
    const struct conf_place top = {file, 1, 1};

    for (size_t s = 0; s < c->n_sections; s++)
        if (!c->sections[s]->named && c->groups[s].n == 0 &&
            !read_item(&c->groups[s], c->sections[s], NULL, top, NULL, directory, why))
            return false;
    return true;
}
