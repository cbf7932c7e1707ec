/* Owns what real clients need. Must not know checks. */
#include "audit/clients.h"

#include <string.h>

#include "base/text.h"

#define NONCE "{nonce}"

const struct preset *clients_preset(const struct target *t)
{
    const char *named = conf_text(t->item, "clients.preset");

    if (named && !slice_is(slice_of(named), "none"))
        return preset_find(named);
    if (named || conf_list_count(t->item, "clients.allow"))
        return NULL;
    if (t->dialect == DIALECT_NPM)
        return preset_find("npm-read");
    return t->dialect == DIALECT_OCI ? preset_find("oci-pull") : NULL;
}

const char *clients_preset_path(const struct target *t)
{
    const char *named = conf_text(t->item, "clients.preset-path");

    return named ? named : t->base[0].path;
}

/* ---- guessing from the paths that the manifest names ---- */

static const char *path_at(const struct target *t, size_t i)
{
    size_t n = target_count(t, "protected");

    return i < n ? target_text_at(t, "protected", i) : i == n ? target_text(t, "fetch") : NULL;
}

static bool can_be_guessed(const char *path)
{
    return path[0] == '/' && !strpbrk(path, "*\\ ") && (!strchr(path, '{') || strstr(path, NONCE));
}

/* One segment: what is in the manifest's nonce is of the client's choice. The last one stands for those beside it, unless it is at the root. */
static void put_segment(struct slice segment, bool is_last, bool is_alone, struct buf *out)
{
    bool is_free = slice_search(segment, SLICE(NONCE)) >= 0 || (is_last && !is_alone);

    buf_char(out, '/');
    if (is_free)
        buf_char(out, '*');
    else
        buf_append(out, segment);
}

/* Its names, with any value; a query without names stays open. */
static void put_query(struct slice query, struct buf *out)
{
    struct slice one;
    size_t mark = buf_len(out);

    buf_char(out, '?');
    for (size_t i = 0; slice_next(&query, '&', &one); i++) {
        ptrdiff_t equals = slice_find(one, '=');

        if (equals <= 0) {
            buf_truncate(out, mark);
            return;
        }
        buf_printf(out, "%s%.*s=*", i ? "&" : "", SLICE_ARG(slice_cut(one, 0, (size_t)equals)));
    }
}

static void guess(const struct target *t, const char *path, struct buf *out)
{
    ptrdiff_t mark = slice_find(slice_of(path), '?');
    struct slice whole = slice_cut(slice_of(path), 0, mark < 0 ? strlen(path) : (size_t)mark), rest = slice_from(whole, 1), segment;
    bool is_folder = slice_ends(whole, SLICE("/"));

    buf_printf(out, "GET,HEAD %s", t->base[0].path);
    for (size_t i = 0; rest.len && slice_next(&rest, '/', &segment); i++)
        put_segment(segment, rest.len == 0 && !is_folder, i == 0, out);
    if (is_folder)
        buf_char(out, '/');
    if (mark < 0)
        buf_char(out, '?');
    else
        put_query(slice_from(slice_of(path), (size_t)mark + 1), out);
}

bool clients_are_guessed(const struct target *t)
{
    return !clients_preset(t) && conf_list_count(t->item, "clients.allow") == 0;
}

size_t clients_rule_count(const struct target *t)
{
    size_t n = 0;

    if (clients_preset(t))
        return 0;
    if (!clients_are_guessed(t))
        return conf_list_count(t->item, "clients.allow");
    for (size_t i = 0; i < CLIENTS_RULES_MAX && path_at(t, i); i++)
        n += can_be_guessed(path_at(t, i));
    return n ? n : 1;
}

void clients_rule(const struct target *t, size_t i, struct buf *out)
{
    if (!clients_are_guessed(t)) {
        buf_text(out, conf_list_text(t->item, "clients.allow", i));
        return;
    }
    for (size_t j = 0; j < CLIENTS_RULES_MAX && path_at(t, j); j++)
        if (can_be_guessed(path_at(t, j)) && i-- == 0) {
            guess(t, path_at(t, j), out);
            return;
        }
    buf_printf(out, "GET,HEAD %s/**?", t->base[0].path); /* nothing is named: whatever only reads */
}
