/* Owns a loaded configuration: its files, its items, and the answers about them. */
#include "base/conf.h"

#include <assert.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf_item.h"
#include "base/file.h"
#include "base/text.h"

enum { FILE_MOST = 8 << 20 };

static struct conf *conf_new(const struct conf_section *const *sections, size_t n_sections)
{
    struct conf *c = calloc(1, sizeof *c);

    if (!c || !(c->groups = calloc(n_sections ? n_sections : 1, sizeof *c->groups)))
        abort();
    c->sections = sections;
    c->n_sections = n_sections;
    return c;
}

void conf_free(struct conf *c)
{
    if (!c)
        return;
    for (size_t s = 0; s < c->n_sections; s++) {
        for (size_t i = 0; i < c->groups[s].n; i++)
            conf_item_free(c->groups[s].items[i]);
        free(c->groups[s].items);
    }
    for (size_t i = 0; i < c->n_files; i++)
        free(c->files[i]);
    free(c->files);
    free(c->groups);
    free(c);
}

/* Places borrow file names from here. */
static const char *keep_name(struct conf *c, const char *name)
{
    char **grown = realloc(c->files, (c->n_files + 1) * sizeof *grown);

    if (!grown)
        abort();
    c->files = grown;
    return c->files[c->n_files++] = text_copy(slice_of(name));
}

/* Directory of a file name, absolute (give). */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct slice dir = slash ? slice_make(path, (size_t)(slash - path)) : slice_of(".");
    char *here, *joined, *name = text_copy(dir);

    if (path[0] == '/') {
        if (dir.len)
            return name;
        free(name);
        return text_copy(SLICE("/"));
    }
    if (!(here = getcwd(NULL, 0)))
        here = text_copy(SLICE("/"));
    joined = strcmp(name, ".") == 0 ? text_copy(slice_of(here)) : file_join(here, name);
    free(here);
    free(name);
    return joined;
}

/* Read one file into c; its tree is given back for the includes, NULL when refused. */
static struct conf_node *read_file(struct conf *c, const char *path, const char *directory, struct fault *why)
{
    struct buf text = {0};
    struct conf_node *root = NULL;

    if (!file_check_guarded(path, why) || !file_read_regular(path, FILE_MOST, &text, why))
        goto out;
    root = conf_tree_parse(buf_slice(&text), keep_name(c, path), why);
    if (root && !conf_read(c, root, directory, why)) {
        conf_node_free(root);
        root = NULL;
    }
out:
    buf_free(&text);
    return root;
}

static bool read_included(struct conf *c, const char *path, struct fault *why)
{
    char *directory = directory_of(path);
    struct conf_node *root = read_file(c, path, directory, why);
    const struct conf_node *nested = root ? conf_node_child(root, "include") : NULL;
    bool ok = root != NULL;

    if (nested)
        ok = conf_fault(why, &nested->name_place, "include stands in the first file only");
    conf_node_free(root);
    free(directory);
    return ok;
}

/* All files of one pattern, in the order of their names. A pattern may match none; a plain name must be there. */
static bool read_pattern(struct conf *c, const struct conf_node *pattern, const char *directory, struct fault *why)
{
    char *full = NULL;
    glob_t found = {0};
    bool ok = true;

    if (pattern->kind != CONF_NODE_TEXT || !pattern->text[0])
        return conf_fault(why, &pattern->place, "include: expected a file name or a pattern such as services.d/*.conf");
    full = pattern->text[0] == '/' ? text_copy(slice_of(pattern->text)) : file_join(directory, pattern->text);
    if (glob(full, 0, NULL, &found) != 0 && !strpbrk(full, "*?["))
        ok = conf_fault(why, &pattern->place, "include: %.120s: no such file", full);
    for (size_t i = 0; ok && i < found.gl_pathc; i++)
        ok = read_included(c, found.gl_pathv[i], why);
    globfree(&found);
    free(full);
    return ok;
}

static bool read_includes(struct conf *c, const struct conf_node *root, const char *directory, struct fault *why)
{
    const struct conf_node *include = conf_node_child(root, "include");

    if (!include)
        return true;
    if (include->kind != CONF_NODE_LIST)
        return read_pattern(c, include, directory, why);
    for (size_t i = 0; i < include->n; i++)
        if (!read_pattern(c, include->children[i], directory, why))
            return false;
    return true;
}

struct conf *conf_load(const char *path, const struct conf_section *const *sections, size_t n_sections,
                       struct fault *why)
{
    struct conf *c = conf_new(sections, n_sections);
    char *directory = directory_of(path);
    struct conf_node *root = read_file(c, path, directory, why);
    bool ok = root && read_includes(c, root, directory, why) && conf_read_absent(c, c->files[0], directory, why);

    conf_node_free(root);
    free(directory);
    if (!ok) {
        conf_free(c);
        return NULL;
    }
    return c;
}

struct conf *conf_parse(struct slice text, const char *name, const char *directory,
                        const struct conf_section *const *sections, size_t n_sections, struct fault *why)
{
    struct conf *c = conf_new(sections, n_sections);
    const char *file = keep_name(c, name);
    struct conf_node *root = conf_tree_parse(text, file, why);
    const struct conf_node *include = NULL;
    bool ok = root && conf_read(c, root, directory, why) && conf_read_absent(c, file, directory, why);

    if (ok && (include = conf_node_child(root, "include")))
        ok = conf_fault(why, &include->name_place, "include is not used here");
    conf_node_free(root);
    if (!ok) {
        conf_free(c);
        return NULL;
    }
    return c;
}

static const struct conf_group *group(const struct conf *c, const char *section, bool named)
{
    for (size_t s = 0; s < c->n_sections; s++)
        if (strcmp(c->sections[s]->name, section) == 0) {
            assert(c->sections[s]->named == named);
            return &c->groups[s];
        }
    assert(!"no such section");
    return NULL;
}

const struct conf_item *conf_section(const struct conf *c, const char *section)
{
    return group(c, section, false)->items[0];
}

size_t conf_count(const struct conf *c, const char *section)
{
    return group(c, section, true)->n;
}

const struct conf_item *conf_item(const struct conf *c, const char *section, size_t i)
{
    const struct conf_group *g = group(c, section, true);

    assert(i < g->n);
    return g->items[i];
}

const struct conf_item *conf_find(const struct conf *c, const char *section, const char *name)
{
    const struct conf_group *g = group(c, section, true);

    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->items[i]->name, name) == 0)
            return g->items[i];
    return NULL;
}

const char *conf_name(const struct conf_item *item)
{
    return item->name ? item->name : item->section->name;
}

/* The value of a key, which must be of one of the types (bits of 1 << type). */
static const struct conf_value *value(const struct conf_item *item, const char *key, unsigned types)
{
    for (size_t i = 0; i < item->section->n_keys; i++)
        if (strcmp(item->section->keys[i].name, key) == 0) {
            assert(types & 1u << item->section->keys[i].type);
            return &item->values[i];
        }
    assert(!"no such key");
    return NULL;
}

enum {
    ANY = ~0,
    TEXTS = 1 << CONF_TEXT | 1 << CONF_NAME | 1 << CONF_PATH | 1 << CONF_CHOICE,
    NUMBERS = 1 << CONF_COUNT | 1 << CONF_SIZE | 1 << CONF_TIME,
};

bool conf_has(const struct conf_item *item, const char *key)
{
    return value(item, key, (unsigned)ANY)->present;
}

bool conf_is_written(const struct conf_item *item, const char *key)
{
    return value(item, key, (unsigned)ANY)->written;
}

const char *conf_text(const struct conf_item *item, const char *key)
{
    return value(item, key, TEXTS)->text;
}

int64_t conf_number(const struct conf_item *item, const char *key)
{
    return value(item, key, NUMBERS)->number;
}

bool conf_bool(const struct conf_item *item, const char *key)
{
    return value(item, key, 1u << CONF_BOOL)->number != 0;
}

size_t conf_list_count(const struct conf_item *item, const char *key)
{
    return value(item, key, 1u << CONF_LIST)->list.n;
}

const char *conf_list_text(const struct conf_item *item, const char *key, size_t i)
{
    const struct conf_list *l = &value(item, key, 1u << CONF_LIST)->list;

    assert(i < l->n);
    return l->at[i].text;
}

size_t conf_map_count(const struct conf_item *item, const char *key)
{
    return value(item, key, 1u << CONF_MAP)->n_map;
}

static const struct conf_entry *entry(const struct conf_item *item, const char *key, size_t i)
{
    const struct conf_value *v = value(item, key, 1u << CONF_MAP);

    assert(i < v->n_map);
    return &v->map[i];
}

const char *conf_map_name(const struct conf_item *item, const char *key, size_t i)
{
    return entry(item, key, i)->name.text;
}

size_t conf_map_list_count(const struct conf_item *item, const char *key, size_t i)
{
    return entry(item, key, i)->list.n;
}

const char *conf_map_list_text(const struct conf_item *item, const char *key, size_t i, size_t j)
{
    const struct conf_list *l = &entry(item, key, i)->list;

    assert(j < l->n);
    return l->at[j].text;
}

bool conf_refuse(const struct conf_item *item, const char *key, int i, struct fault *why, const char *format, ...)
{
    const struct conf_value *v = value(item, key, (unsigned)ANY);
    const struct conf_place *at = &v->place;
    va_list args;

    if (i >= 0 && v->written && (size_t)i < v->list.n)
        at = &v->list.at[i].place;
    else if (i >= 0 && v->written && (size_t)i < v->n_map)
        at = &v->map[i].name.place;
    va_start(args, format);
    conf_vfault(why, at, format, args);
    va_end(args);
    return false;
}

void conf_place(const struct conf_item *item, const char *key, struct buf *out)
{
    const struct conf_place *at = &value(item, key, (unsigned)ANY)->place;

    buf_printf(out, "%s:%zu:%zu", at->file, at->line, at->column);
}
