/* How a conf holds what it read. Private to base/conf*. */
#ifndef BASE_CONF_ITEM_H
#define BASE_CONF_ITEM_H

#include "base/conf.h"
#include "base/conf_tree.h"

struct conf_word {
    char *text;
    struct conf_place place;
};

struct conf_list {
    struct conf_word *at;
    size_t n;
};

struct conf_entry { /* of a CONF_MAP */
    struct conf_word name;
    struct conf_list list;
};

struct conf_value {
    bool present; /* written, or from the fallback */
    bool written;
    struct conf_place place; /* when written */
    char *text;              /* scalars, as written; paths absolute */
    int64_t number;          /* COUNT SIZE TIME; BOOL: 0 or 1 */
    struct conf_list list;
    struct conf_entry *map;
    size_t n_map;
};

struct conf_item {
    const struct conf_section *section;
    char *name; /* NULL when the section is not named */
    struct conf_place place;
    struct conf_value *values; /* one for each key of the section */
};

struct conf_group { /* the items of one section, as written */
    struct conf_item **items;
    size_t n;
};

struct conf {
    const struct conf_section *const *sections;
    size_t n_sections;
    struct conf_group *groups; /* one for each section */
    char **files;              /* names that places borrow */
    size_t n_files;
};

/*
 * Read every section of a file's tree into c; directory anchors its relative paths. "include" at the top level
 * is left to the caller.
 */
bool conf_read(struct conf *c, const struct conf_node *root, const char *directory, struct fault *why);
/* When every file was read: sections that none of them writes, with their defaults. */
bool conf_read_absent(struct conf *c, const char *file, const char *directory, struct fault *why);
void conf_item_free(struct conf_item *item);

#endif
