/* Owns compiled patterns. Knows nothing of methods, services or requests. */
#include "authz/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "authz/path.h"
#include "base/text.h"

enum { PIECES_MAX = 64, PAIRS_MAX = 16, NAME_LEN_MAX = 63 };

enum piece_kind { PIECE_TEXT, PIECE_SEGMENT, PIECE_CAPTURE, PIECE_REST };

struct piece {
    enum piece_kind kind;
    char *text; /* PIECE_TEXT: canonical, starts with "/"; PIECE_SEGMENT: what stands before *; PIECE_CAPTURE: its name */
    size_t len;
    char *tail; /* PIECE_SEGMENT: what stands behind * */
    size_t tail_len;
};

struct pair {
    char *name;
    char *value; /* NULL: none written */
    bool any;
};

struct pattern {
    struct piece *pieces;
    size_t n_pieces;
    struct pair *pairs;
    size_t n_pairs;
    bool has_query;
    bool lenient; /* loosened */
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static bool refuse(struct fault *why, const char *what)
{
    return fault_set(why, FAULT_SYNTAX, "%s", what);
}

static bool add_piece(struct pattern *p, enum piece_kind kind, struct slice text, struct slice tail, struct fault *why)
{
    if (p->n_pieces == PIECES_MAX)
        return refuse(why, "the pattern has too many segments");
    p->pieces = must(reallocarray(p->pieces, p->n_pieces + 1, sizeof *p->pieces));
    p->pieces[p->n_pieces++] = (struct piece){kind, text_copy(text), text.len, text_copy(tail), tail.len};
    return true;
}

/* The text between two wildcards; each piece starts with a slash, so it is a path of its own. */
static bool add_text(struct pattern *p, struct slice raw, struct fault *why)
{
    struct buf canonical = {0};
    struct fault path_fault = {0};
    bool ok;

    if (path_canonical(raw, &canonical, &path_fault))
        ok = add_piece(p, PIECE_TEXT, buf_slice(&canonical), SLICE(""), why);
    else
        ok = refuse(why, path_fault.text);
    buf_free(&canonical);
    return ok;
}

static bool is_name(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!((s.ptr[i] >= 'a' && s.ptr[i] <= 'z') || (s.ptr[i] >= 'A' && s.ptr[i] <= 'Z') ||
              (s.ptr[i] >= '0' && s.ptr[i] <= '9') || s.ptr[i] == '-' || s.ptr[i] == '_'))
            return false;
    return s.len > 0 && s.len <= NAME_LEN_MAX;
}

static bool add_capture(struct pattern *p, struct slice name, struct fault *why)
{
    size_t n = pattern_capture_count(p);

    if (!is_name(name))
        return refuse(why, "a captured segment is written {name}: letters, digits, \"-\" and \"_\"");
    if (n == PATTERN_CAPTURES)
        return refuse(why, "the pattern captures more than 8 segments");
    for (size_t i = 0; i < n; i++)
        if (slice_is(name, pattern_capture_name(p, i)))
            return fault_set(why, FAULT_SYNTAX, "{%.*s} stands twice in the pattern", SLICE_ARG(name));
    return add_piece(p, PIECE_CAPTURE, name, SLICE(""), why);
}

static bool is_wild(struct slice segment)
{
    return slice_find(segment, '*') >= 0 || slice_find(segment, '{') >= 0 || slice_find(segment, '}') >= 0;
}

/* What may stand beside *: the same on every reading of a path. */
static bool is_plain(struct slice s)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@:+=,";

    for (size_t i = 0; i < s.len; i++)
        if (!memchr(plain, s.ptr[i], sizeof plain - 1))
            return false;
    return true;
}

static bool add_segment(struct pattern *p, struct slice segment, struct fault *why)
{
    struct slice before, behind = segment;

    slice_next(&behind, '*', &before);
    if (!is_plain(before) || !is_plain(behind))
        return refuse(why, "beside * stand only letters, digits and -._~@:+=, and no other *; write %2A for the character");
    return add_piece(p, PIECE_SEGMENT, before, behind, why);
}

static bool add_rest(struct pattern *p, struct fault *why)
{
    for (size_t i = 0; i < p->n_pieces; i++)
        if (p->pieces[i].kind == PIECE_REST)
            return refuse(why, "** stands once in a path");
    return add_piece(p, PIECE_REST, SLICE(""), SLICE(""), why);
}

static bool add_wild(struct pattern *p, struct slice segment, struct fault *why)
{
    if (slice_is(segment, "**"))
        return add_rest(p, why);
    if (slice_find(segment, '*') >= 0)
        return add_segment(p, segment, why);
    if (segment.ptr[0] != '{' || segment.ptr[segment.len - 1] != '}')
        return refuse(why, "{name} stands alone between slashes; write %7B and %7D for the characters");
    return add_capture(p, slice_cut(segment, 1, segment.len - 1), why);
}

static bool parse_path(struct pattern *p, struct slice path, struct fault *why)
{
    struct slice rest, segment;
    size_t text = 0, at = 1; /* text: where the text begins that is not a piece yet */

    if (path.len == 0 || path.ptr[0] != '/')
        return refuse(why, "the path of a pattern starts with /");
    rest = slice_from(path, 1);
    while (slice_next(&rest, '/', &segment)) {
        if (is_wild(segment)) {
            if (!add_text(p, slice_cut(path, text, at), why) || !add_wild(p, segment, why))
                return false;
            text = at + segment.len;
        }
        at += segment.len + 1;
    }
    return text == path.len || add_text(p, slice_from(path, text), why);
}

/* Name or value of a query in canonical spelling (give), or NULL. */
static char *canonical_text(struct slice raw, struct fault *why)
{
    struct buf out = {0};
    bool bad = false;
    char unit[3];
    size_t n;

    for (size_t i = 0; i < raw.len; i++)
        if (raw.ptr[i] <= 0x20 || raw.ptr[i] >= 0x7f || strchr("#;*{}", raw.ptr[i]))
            bad = true;
    while (!bad && (n = path_unit(&raw, unit, &bad)) > 0)
        buf_append(&out, slice_make(unit, n));
    if (bad) {
        buf_free(&out);
        refuse(why, "the query of a pattern is name=value, name=* or name, joined by &; other characters are encoded");
        return NULL;
    }
    return buf_take_text(&out);
}

static bool add_pair(struct pattern *p, struct slice text, struct fault *why)
{
    struct slice name, value = text;
    struct pair pair = {0};

    slice_next(&value, '=', &name);
    if (name.len == 0)
        return refuse(why, "a name in the query of a pattern is empty");
    if (p->n_pairs == PAIRS_MAX)
        return refuse(why, "the query of a pattern has more than 16 names");
    if (!(pair.name = canonical_text(name, why)))
        return false;
    pair.any = value.ptr && slice_is(value, "*");
    if (value.ptr && !pair.any && !(pair.value = canonical_text(value, why))) {
        free(pair.name);
        return false;
    }
    p->pairs = must(reallocarray(p->pairs, p->n_pairs + 1, sizeof *p->pairs));
    p->pairs[p->n_pairs++] = pair;
    return true;
}

static bool names_are_unique(const struct pattern *p, struct fault *why)
{
    for (size_t i = 0; i < p->n_pairs; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(p->pairs[i].name, p->pairs[j].name) == 0)
                return fault_set(why, FAULT_SYNTAX, "%s stands twice in the query of the pattern", p->pairs[i].name);
    return true;
}

static bool parse_query(struct pattern *p, struct slice query, struct fault *why)
{
    struct slice pair;

    p->has_query = true;
    if (query.len == 0)
        return true;
    while (slice_next(&query, '&', &pair))
        if (!add_pair(p, pair, why))
            return false;
    return names_are_unique(p, why);
}

struct pattern *pattern_parse(struct slice text, struct fault *why)
{
    struct pattern *p = must(calloc(1, sizeof(struct pattern)));
    ptrdiff_t mark = slice_find(text, '?');
    struct slice path = mark < 0 ? text : slice_cut(text, 0, (size_t)mark);

    if (parse_path(p, path, why) && (mark < 0 || parse_query(p, slice_from(text, (size_t)mark + 1), why)))
        return p;
    pattern_free(p);
    return NULL;
}

struct pattern *pattern_loosen(const struct pattern *p)
{
    struct pattern *loose = must(calloc(1, sizeof(struct pattern)));

    loose->lenient = true;
    for (size_t i = 0; i < p->n_pieces; i++) {
        const struct piece *piece = &p->pieces[i];
        struct buf text = {0};

        if (piece->kind == PIECE_TEXT)
            path_loosen(slice_make(piece->text, piece->len), &text);
        else
            buf_text(&text, piece->text);
        add_piece(loose, piece->kind, buf_slice(&text), slice_make(piece->tail, piece->tail_len), NULL);
        buf_free(&text);
    }
    return loose;
}

void pattern_free(struct pattern *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_pieces; i++) {
        free(p->pieces[i].text);
        free(p->pieces[i].tail);
    }
    for (size_t i = 0; i < p->n_pairs; i++) {
        free(p->pairs[i].name);
        free(p->pairs[i].value);
    }
    free(p->pieces);
    free(p->pairs);
    free(p);
}

size_t pattern_capture_count(const struct pattern *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_pieces; i++)
        n += p->pieces[i].kind == PIECE_CAPTURE;
    return n;
}

const char *pattern_capture_name(const struct pattern *p, size_t i)
{
    for (size_t k = 0; k < p->n_pieces; k++)
        if (p->pieces[k].kind == PIECE_CAPTURE && i-- == 0)
            return p->pieces[k].text;
    abort();
}

/* The length of the segment at the start of s. */
static size_t segment_len(struct slice s)
{
    ptrdiff_t slash = slice_find(s, '/');

    return slash < 0 ? s.len : (size_t)slash;
}

/* * stands for one character at least; what is behind it does not begin inside an escape. */
static bool segment_fits(const struct piece *piece, struct slice segment)
{
    size_t tail = segment.len - piece->tail_len;

    if (segment.len < piece->len + piece->tail_len + 1)
        return false;
    if (piece->tail_len && (segment.ptr[tail - 1] == '%' || (tail >= 2 && segment.ptr[tail - 2] == '%')))
        return false;
    return memcmp(segment.ptr, piece->text, piece->len) == 0 &&
           memcmp(segment.ptr + tail, piece->tail, piece->tail_len) == 0;
}

/* How many slashes a path has from where the pieces from i on begin to match. */
static size_t slashes_from(const struct pattern *p, size_t i, struct slice path)
{
    const struct piece *last = &p->pieces[p->n_pieces - 1];
    bool ends_open = last->kind != PIECE_TEXT || last->text[last->len - 1] != '/';
    size_t n = p->lenient && ends_open && path.len && path.ptr[path.len - 1] == '/';

    for (; i < p->n_pieces; i++)
        for (size_t k = 0; p->pieces[i].kind == PIECE_TEXT && k < p->pieces[i].len; k++)
            n += p->pieces[i].text[k] == '/';
    return n;
}

/*
 * ** before the end: as many segments as leave those that the pieces from i on have, none of them empty. What follows
 * has its number of segments, so there is one place for it. *path begins behind a slash, and then at one.
 */
static bool skip_rest(const struct pattern *p, size_t i, struct slice *path)
{
    struct slice all = slice_make(path->ptr - 1, path->len + 1);
    size_t n = slashes_from(p, i, all), at = all.len;

    while (n && at > 0)
        n -= all.ptr[--at] == '/';
    *path = slice_from(all, at);
    return n == 0 && at < all.len && slice_search(slice_cut(all, 0, at + 1), SLICE("//")) < 0;
}

bool pattern_matches_path(const struct pattern *p, struct slice path, struct slice captures[PATTERN_CAPTURES])
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_pieces; i++) {
        const struct piece *piece = &p->pieces[i];
        size_t len = piece->len;

        if (piece->kind == PIECE_REST) {
            if (i + 1 == p->n_pieces)
                return true;
            if (!skip_rest(p, i + 1, &path))
                return false;
            continue;
        }
        if (piece->kind == PIECE_TEXT) {
            if (path.len < len || path.ptr[len - 1] != piece->text[len - 1] || memcmp(path.ptr, piece->text, len) != 0)
                return false;
        } else {
            len = segment_len(path);
            if (piece->kind == PIECE_SEGMENT ? !segment_fits(piece, slice_cut(path, 0, len)) : len == 0)
                return false;
        }
        if (piece->kind == PIECE_CAPTURE && captures)
            captures[n++] = slice_cut(path, 0, len);
        path.ptr += len;
        path.len -= len;
    }
    return path.len == 0 || (p->lenient && slice_is(path, "/"));
}

/* Do the units of raw spell this canonical text? */
static bool spells(struct slice raw, const char *canonical)
{
    bool bad = false;
    char unit[3];
    size_t n;

    while ((n = path_unit(&raw, unit, &bad)) > 0) {
        if (*canonical == '\0' || strncmp(canonical, unit, n) != 0)
            return false;
        canonical += n;
    }
    return !bad && *canonical == '\0';
}

static bool pair_matches(const struct pair *pair, struct slice name, struct slice value)
{
    if (!spells(name, pair->name))
        return false;
    if (pair->any)
        return value.ptr != NULL;
    return pair->value ? value.ptr && spells(value, pair->value) : value.ptr == NULL;
}

bool pattern_matches_query(const struct pattern *p, struct slice query)
{
    unsigned seen = 0, all = (1u << p->n_pairs) - 1;
    struct slice name, value;

    if (!p->has_query)
        return true;
    /* some servers take ";" for "&" */
    if (slice_find(query, ';') >= 0)
        return false;
    if (query.len == 0)
        return p->n_pairs == 0;
    while (slice_next(&query, '&', &value)) {
        size_t i = 0;

        slice_next(&value, '=', &name);
        while (i < p->n_pairs && !pair_matches(&p->pairs[i], name, value))
            i++;
        if (i == p->n_pairs || seen & 1u << i)
            return false;
        seen |= 1u << i;
    }
    return seen == all;
}

/* More than pair_matches: "x" and "x=" are the same to many servers, and ";" is "&". */
static bool query_has(struct slice query, const struct pair *pair)
{
    struct slice group, name, value;

    while (slice_next(&query, '&', &group))
        while (slice_next(&group, ';', &value)) {
            slice_next(&value, '=', &name);
            if (spells(name, pair->name) && (pair->any || spells(value, pair->value ? pair->value : "")))
                return true;
        }
    return false;
}

bool pattern_finds_query(const struct pattern *p, struct slice query)
{
    if (!p->has_query)
        return true;
    if (p->n_pairs == 0)
        return query.len == 0;
    for (size_t i = 0; i < p->n_pairs; i++)
        if (!query_has(query, &p->pairs[i]))
            return false;
    return true;
}
