/* Owns the dealings with libyaml. Events, not its documents: those do not show anchors and written tags. */
#include "base/conf_tree.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/table.h"
#include "base/text.h"

enum { DEEPEST = 8 };

struct reader {
    yaml_parser_t parser;
    const char *file;
    struct slice text;
    struct fault *why;
};

bool conf_vfault(struct fault *why, const struct conf_place *at, const char *format, va_list args)
{
    char text[FAULT_TEXT_SIZE];

    if (!why)
        return false;
    vsnprintf(text, sizeof text, format, args);
    return fault_set(why, FAULT_SYNTAX, "%s:%zu:%zu: %s", at->file, at->line, at->column, text);
}

bool conf_fault(struct fault *why, const struct conf_place *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    conf_vfault(why, at, format, args);
    va_end(args);
    return false;
}

void conf_node_free(struct conf_node *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->n; i++)
        conf_node_free(n->children[i]);
    free(n->children);
    free(n->text);
    free(n->name);
    free(n);
}

const struct conf_node *conf_node_child(const struct conf_node *map, const char *name)
{
    for (size_t i = 0; i < map->n; i++)
        if (strcmp(map->children[i]->name, name) == 0)
            return map->children[i];
    return NULL;
}

static struct conf_place place_of(const struct reader *r, yaml_mark_t mark)
{
    return (struct conf_place){r->file, mark.line + 1, mark.column + 1};
}

static bool refuse(const struct reader *r, const yaml_event_t *e, const char *text)
{
    struct conf_place at = place_of(r, e->start_mark);

    return conf_fault(r->why, &at, "%s", text);
}

/* The reader of bytes counts from the start; everything above it knows line and column. */
static bool syntax_fault(struct reader *r)
{
    struct conf_place at = place_of(r, r->parser.problem_mark);
    const char *problem = r->parser.problem ? r->parser.problem : "not YAML";

    if (r->parser.error == YAML_READER_ERROR) {
        at.line = at.column = 1;
        for (size_t i = 0; i < r->parser.problem_offset && i < r->text.len; i++, at.column++)
            if (r->text.ptr[i] == '\n') {
                at.line++;
                at.column = 0;
            }
    }
    return conf_fault(r->why, &at, "this is not YAML: %s", problem);
}

static bool next(struct reader *r, yaml_event_t *e)
{
    return yaml_parser_parse(&r->parser, e) ? true : syntax_fault(r);
}

static struct conf_node *node_new(enum conf_node_kind kind, struct conf_place at)
{
    struct conf_node *n = calloc(1, sizeof *n);

    if (!n)
        abort();
    n->kind = kind;
    n->place = at;
    return n;
}

static void add_child(struct conf_node *n, struct conf_node *child)
{
    if ((n->n & (n->n - 1)) == 0) {
        struct conf_node **grown = realloc(n->children, (n->n ? n->n * 2 : 1) * sizeof *grown);

        if (!grown)
            abort();
        n->children = grown;
    }
    n->children[n->n++] = child;
}

/* One line of text: no controls (C0, DEL, C1), none of Unicode's own line ends. */
static bool is_one_line(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        unsigned char then = i + 1 < s.len ? (unsigned char)s.ptr[i + 1] : 0;

        if (c < 0x20 || c == 0x7f || (c == 0xc2 && then < 0xa0))
            return false;
        if (slice_starts(slice_from(s, i), SLICE("\xe2\x80\xa8")) ||
            slice_starts(slice_from(s, i), SLICE("\xe2\x80\xa9")))
            return false;
    }
    return true;
}

static struct slice scalar(const yaml_event_t *e)
{
    return slice_make(e->data.scalar.value, e->data.scalar.length);
}

static bool check_scalar(struct reader *r, const yaml_event_t *e)
{
    if (e->data.scalar.anchor)
        return refuse(r, e, "anchors (&name) are not used here: write the value out");
    if (e->data.scalar.tag)
        return refuse(r, e, "tags (!name) are not used here: every value is plain text");
    if (!is_one_line(scalar(e)))
        return refuse(r, e, "a value is one line of text without control characters");
    return true;
}

static bool check_collection(struct reader *r, const yaml_event_t *e, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        return refuse(r, e, "anchors (&name) are not used here: write the value out");
    if (tag)
        return refuse(r, e, "tags (!name) are not used here: every value is plain text");
    return true;
}

static struct conf_node *read_node(struct reader *r, const yaml_event_t *e, int depth);

static struct conf_node *read_list(struct reader *r, const yaml_event_t *start, int depth)
{
    struct conf_node *list = node_new(CONF_NODE_LIST, place_of(r, start->start_mark)), *child;
    yaml_event_t e;

    for (;;) {
        if (!next(r, &e))
            goto fail;
        if (e.type == YAML_SEQUENCE_END_EVENT)
            break;
        child = read_node(r, &e, depth);
        yaml_event_delete(&e);
        if (!child)
            goto fail;
        add_child(list, child);
    }
    yaml_event_delete(&e);
    return list;
fail:
    conf_node_free(list);
    return NULL;
}

/* The name in e and the value that follows it. */
static struct conf_node *read_pair(struct reader *r, const yaml_event_t *name, struct table *seen, int depth)
{
    struct conf_place at = place_of(r, name->start_mark);
    const struct conf_node *twin;
    struct conf_node *value;
    yaml_event_t e;

    if (name->type != YAML_SCALAR_EVENT) {
        refuse(r, name, "expected a name before the colon");
        return NULL;
    }
    if (!check_scalar(r, name))
        return NULL;
    if (slice_is(scalar(name), "<<")) {
        refuse(r, name, "merge keys (<<) are not used here: write the values out");
        return NULL;
    }
    if ((twin = table_get(seen, scalar(name)))) {
        conf_fault(r->why, &at, "\"%.*s\" stands here twice, first in line %zu; keep one", SLICE_ARG(scalar(name)),
                   twin->name_place.line);
        return NULL;
    }
    if (!next(r, &e))
        return NULL;
    value = read_node(r, &e, depth);
    yaml_event_delete(&e);
    if (!value)
        return NULL;
    value->name = text_copy(scalar(name));
    value->name_place = at;
    table_put(seen, scalar(name), value);
    return value;
}

static struct conf_node *read_map(struct reader *r, const yaml_event_t *start, int depth)
{
    struct conf_node *map = node_new(CONF_NODE_MAP, place_of(r, start->start_mark)), *child;
    struct table *seen = table_new();
    bool ok = false;
    yaml_event_t e;

    for (;;) {
        if (!next(r, &e))
            goto out;
        if (e.type == YAML_MAPPING_END_EVENT)
            break;
        child = read_pair(r, &e, seen, depth);
        yaml_event_delete(&e);
        if (!child)
            goto out;
        add_child(map, child);
    }
    yaml_event_delete(&e);
    ok = true;
out:
    table_free(seen);
    if (!ok) {
        conf_node_free(map);
        map = NULL;
    }
    return map;
}

static struct conf_node *read_text(struct reader *r, const yaml_event_t *e)
{
    struct conf_node *n;

    if (!check_scalar(r, e))
        return NULL;
    n = node_new(CONF_NODE_TEXT, place_of(r, e->start_mark));
    n->text = text_copy(scalar(e));
    n->nothing = e->data.scalar.length == 0 && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return n;
}

static struct conf_node *read_node(struct reader *r, const yaml_event_t *e, int depth)
{
    bool ok = true;

    if (depth == DEEPEST) {
        refuse(r, e, "too deep: nothing here is nested like that");
        return NULL;
    }
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return read_text(r, e);
    case YAML_SEQUENCE_START_EVENT:
        ok = check_collection(r, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
        return ok ? read_list(r, e, depth + 1) : NULL;
    case YAML_MAPPING_START_EVENT:
        ok = check_collection(r, e, e->data.mapping_start.anchor, e->data.mapping_start.tag);
        return ok ? read_map(r, e, depth + 1) : NULL;
    default:
        refuse(r, e, "aliases (*name) are not used here: write the value out");
        return NULL;
    }
}

/* The content of the one document, after its start; ends with the end of the stream. */
static struct conf_node *read_document(struct reader *r)
{
    struct conf_node *root = NULL;
    yaml_event_t e;

    if (!next(r, &e))
        return NULL;
    root = read_node(r, &e, 0);
    yaml_event_delete(&e);
    if (!root || !next(r, &e)) /* the document's end */
        goto fail;
    yaml_event_delete(&e);
    if (!next(r, &e))
        goto fail;
    if (e.type != YAML_STREAM_END_EVENT) {
        refuse(r, &e, "a second document (---) begins here; a configuration is one");
        yaml_event_delete(&e);
        goto fail;
    }
    yaml_event_delete(&e);
    return root;
fail:
    conf_node_free(root);
    return NULL;
}

static struct conf_node *read_stream(struct reader *r)
{
    struct conf_node *root = NULL;
    yaml_event_t e;

    if (!next(r, &e)) /* the stream's start */
        return NULL;
    yaml_event_delete(&e);
    if (!next(r, &e))
        return NULL;
    if (e.type == YAML_STREAM_END_EVENT)
        root = node_new(CONF_NODE_MAP, (struct conf_place){r->file, 1, 1});
    else if (e.data.document_start.version_directive ||
             e.data.document_start.tag_directives.start != e.data.document_start.tag_directives.end)
        refuse(r, &e, "directives (%YAML, %TAG) are not used here");
    else
        root = read_document(r);
    yaml_event_delete(&e);
    return root;
}

struct conf_node *conf_tree_parse(struct slice text, const char *file, struct fault *why)
{
    struct reader r = {.file = file, .text = text, .why = why};
    struct conf_node *root;

    if (!yaml_parser_initialize(&r.parser))
        abort();
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.ptr, text.len);
    root = read_stream(&r);
    yaml_parser_delete(&r.parser);
    return root;
}
