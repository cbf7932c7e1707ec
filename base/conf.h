/*
 * Configuration: YAML by libyaml, checked against tables of keys that each room
 * registers. Every scalar is text of one line; the tables say what it means,
 * so YAML's own typing never applies. Refused: anchors, aliases, tags, merge
 * keys, duplicate keys, unknown keys, a second document, a missing required key.
 * Errors read "proxy.conf:12:8: expected a time such as 15m, found \"soon\"".
 *
 * From the same tables come the parser, conf_print(), conf_schema() and
 * conf_help(), and the check that proxy.conf.example names every key.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/buf.h"
#include "base/fault.h"

enum conf_type {
    CONF_TEXT,   /* any text */
    CONF_NAME,   /* [A-Za-z0-9._-]{1,63} */
    CONF_PATH,   /* a file name; made absolute against the file it is written in */
    CONF_BOOL,   /* true or false */
    CONF_CHOICE, /* one of choices ("a|b|c") */
    CONF_COUNT,  /* 0 .. 2^53 */
    CONF_SIZE,   /* bytes: 512, 64k, 256m, 1g (powers of 1024) */
    CONF_TIME,   /* milliseconds: 250ms, 2s, 15m, 4h, 7d; a bare 0 is none */
    CONF_LIST,   /* a list of texts (a lone scalar is a list of one) */
    CONF_MAP,    /* names to lists of texts: {repo: [team-a, team-b]} */
};

#define CONF_REQUIRED 1u
/*
 * A PATH that may also be "exec:...", "env:..." or "file:..."; a TEXT that may be "file:..." or "unix:...". The
 * scheme is kept; what file: and unix: name is made absolute.
 */
#define CONF_SOURCE 2u
/* A MAP whose names are texts of 1 to 512 bytes without controls: {"project_path:acme/x": [npm:read]}. */
#define CONF_ANY_NAMES 4u

struct conf_key {
    const char *name; /* "max-lifetime"; "tls.cert" for a key of a nested map */
    enum conf_type type;
    const char *fallback; /* the default as it would be written ("[a, b]"); "" is an empty text or list; NULL: absent */
    const char *choices;  /* CONF_CHOICE */
    const char *help;     /* one line, for print, schema and docs */
    unsigned flags;
};

struct conf_section {
    const char *name; /* "services" */
    bool named;       /* a map of named items, each with these keys; else the keys themselves */
    const struct conf_key *keys;
    size_t n_keys;
    const char *help;
    const char *manual; /* where its file's sections and keys are listed; NULL: `exeat config help` */
};

struct conf;
struct conf_item; /* one section (not named) or one named item; borrowed from its conf */

/*
 * Read path (and its includes: `include:` at the top level, a pattern or a list
 * of them, relative to the file; included files hold the same sections; a
 * named item may stand in only one file). sections is kept for the life of the conf.
 * NULL with why filled (FAULT_SYNTAX, FAULT_MISSING) when any of it is refused.
 */
struct conf *conf_load(const char *path, const struct conf_section *const *sections, size_t n_sections,
                       struct fault *why);
/* The same from text; name stands for the file in errors, directory anchors relative paths. No includes. */
struct conf *conf_parse(struct slice text, const char *name, const char *directory,
                        const struct conf_section *const *sections, size_t n_sections, struct fault *why);
void conf_free(struct conf *c);

/* The one item of a section that is not named; present even when the file does not write it. */
const struct conf_item *conf_section(const struct conf *c, const char *section);
size_t conf_count(const struct conf *c, const char *section);
const struct conf_item *conf_item(const struct conf *c, const char *section, size_t i);
/* NULL when there is none. */
const struct conf_item *conf_find(const struct conf *c, const char *section, const char *name);
const char *conf_name(const struct conf_item *item);

/*
 * Values. Asking for a key that is not in the table, or for another type, is our
 * mistake (assert). An absent key without fallback gives NULL, 0, false or an empty list.
 */
bool conf_has(const struct conf_item *item, const char *key); /* written, or has a fallback */
bool conf_is_written(const struct conf_item *item, const char *key);
const char *conf_text(const struct conf_item *item, const char *key); /* TEXT NAME PATH CHOICE */
int64_t conf_number(const struct conf_item *item, const char *key);   /* COUNT SIZE TIME */
bool conf_bool(const struct conf_item *item, const char *key);
size_t conf_list_count(const struct conf_item *item, const char *key);
const char *conf_list_text(const struct conf_item *item, const char *key, size_t i);
size_t conf_map_count(const struct conf_item *item, const char *key);
const char *conf_map_name(const struct conf_item *item, const char *key, size_t i);
size_t conf_map_list_count(const struct conf_item *item, const char *key, size_t i);
const char *conf_map_list_text(const struct conf_item *item, const char *key, size_t i, size_t j);

/*
 * Refuse a value that the table could not judge: fills why (FAULT_SYNTAX) with
 * "file:line:col: text" of the key's value (of entry i of a list or map when i >= 0; of the
 * item itself when the key is not written) and returns false.
 */
bool conf_refuse(const struct conf_item *item, const char *key, int i, struct fault *why, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same for warnings: only the place, "proxy.conf:12:8". */
void conf_place(const struct conf_item *item, const char *key, struct buf *out);

/*
 * The effective configuration as YAML: every key with its value, defaults
 * included and marked by a comment when comments is set, paths absolute. Reading
 * what it prints gives the same again; roles are handed exactly this text.
 */
void conf_print(const struct conf *c, bool comments, struct buf *out);
/* One item of it the same way: whatever is set differs in the text. */
void conf_print_item(const struct conf_item *item, struct buf *out);
/*
 * What of it is written and is not its default, but for the keys in except (NULL-ended): a text that is the same wherever the
 * same is decided. Of files only the last part of their names.
 */
void conf_print_written(const struct conf_item *item, const char *const *except, struct buf *out);
/* A JSON Schema (draft 2020-12) for editors. */
void conf_schema(const struct conf_section *const *sections, size_t n_sections, struct buf *out);
/* A Markdown table of all keys, for docs/configuration.md. */
void conf_help(const struct conf_section *const *sections, size_t n_sections, struct buf *out);

/* "15m" and the like, as the tables read them; for command options too. */
bool conf_parse_time(struct slice text, int64_t *ms);
bool conf_parse_size(struct slice text, int64_t *bytes);

#endif
