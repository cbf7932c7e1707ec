/*
 * YAML text as a tree of texts, lists and maps, each with its place. The strict
 * part of YAML: what could make one file mean two things is refused here
 * (anchors, aliases, tags, merge keys, duplicate names, a second document,
 * texts of several lines), whatever the tables say. Private to base/conf*.
 */
#ifndef BASE_CONF_TREE_H
#define BASE_CONF_TREE_H

#include "base/fault.h"
#include "base/slice.h"

struct conf_place {
    const char *file; /* borrowed: lives as long as the conf */
    size_t line, column;
};

enum conf_node_kind { CONF_NODE_TEXT, CONF_NODE_LIST, CONF_NODE_MAP };

struct conf_node {
    enum conf_node_kind kind;
    struct conf_place place;
    char *text;   /* TEXT */
    bool nothing; /* TEXT: nothing was written, as in "key:" */
    struct conf_node **children;
    size_t n;
    char *name; /* for the child of a map, under which name, and where that stands */
    struct conf_place name_place;
};

/* The root; a file without content is an empty map. file names it in errors and is kept. */
struct conf_node *conf_tree_parse(struct slice text, const char *file, struct fault *why);
void conf_node_free(struct conf_node *n);
/* The child of a map with this name, or NULL. */
const struct conf_node *conf_node_child(const struct conf_node *map, const char *name);

/* Fill why (FAULT_SYNTAX) with "file:line:col: text"; returns false. */
bool conf_fault(struct fault *why, const struct conf_place *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool conf_vfault(struct fault *why, const struct conf_place *at, const char *format, va_list args);

#endif
