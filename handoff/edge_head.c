/* Edges in response heads: knows the fields that send a client on, and their syntax. */
#include <ctype.h>
#include <stdlib.h>

#include "handoff/edge.h"
#include "handoff/json.h"

/* ---- pieces of field values ---- */

static struct slice skip_space(struct slice s)
{
    while (s.len && isspace((unsigned char)s.ptr[0]))
        s = slice_from(s, 1);
    return s;
}

/*
 * A token or quoted string (RFC 9110 5.6) from the front of *s; of the second what is inside, its escapes as they are
 * written. Empty when neither stands there.
 */
static struct slice take_word(struct slice *s)
{
    size_t n = 0;

    *s = skip_space(*s);
    if (s->len && s->ptr[0] == '"') {
        for (n = 1; n < s->len && s->ptr[n] != '"'; n++)
            n += s->ptr[n] == '\\';
        struct slice inside = slice_cut(*s, 1, n);

        *s = slice_from(*s, n + 1);
        return inside;
    }
    while (n < s->len && !isspace((unsigned char)s->ptr[n]) && !memchr(",;=<>\"", s->ptr[n], 6))
        n++;
    struct slice token = slice_cut(*s, 0, n);

    *s = slice_from(*s, n);
    return token;
}

static bool take_char(struct slice *s, char c)
{
    *s = skip_space(*s);
    if (!s->len || s->ptr[0] != c)
        return false;
    *s = slice_from(*s, 1);
    return true;
}

/* ---- fields ---- */

/* The kind of edge that stands in a field of this name; by its length first. */
static enum edge_kind edge_kind_of(struct slice name)
{
    static const struct {
        size_t len;
        const char *name;
        enum edge_kind kind;
    } fields[] = {
        {4, "link", EDGE_LINK},      {7, "refresh", EDGE_REFRESH},           {7, "alt-svc", EDGE_ALT_SVC},
        {8, "location", EDGE_LOCATION}, {9, "report-to", EDGE_REPORT},       {16, "content-location", EDGE_CONTENT_LOCATION},
        {16, "www-authenticate", EDGE_AUTHENTICATE}, {19, "reporting-endpoints", EDGE_REPORT},
    };
    static unsigned lengths; /* those that are above, a bit each */

    if (!lengths)
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            lengths |= 1u << fields[i].len;
    if (name.len > 31 || !(lengths >> name.len & 1)) /* as most names */
        return EDGE_NONE;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].len == name.len && slice_folds_alike(fields[i].name, name.ptr, name.len))
            return fields[i].kind;
    return EDGE_NONE;
}

/* Whatever stands between < and >, wherever it stands: quotes do not hide a link from every reader. */
static bool read_link(const struct edge_sink *sink, struct slice value)
{
    ptrdiff_t at;

    while ((at = slice_find(value, '<')) >= 0) {
        struct slice rest = slice_from(value, (size_t)at + 1);
        ptrdiff_t end = slice_find(rest, '>');

        if (!edge_give(sink, EDGE_LINK, end < 0 ? rest : slice_cut(rest, 0, (size_t)end), end < 0))
            return false;
        value = end < 0 ? slice_make("", 0) : slice_from(rest, (size_t)end);
    }
    return true;
}

/* h3=":443"; ma=3600, h2="alt.example:443": an alternative without a host is where it came from. */
static bool read_alt_svc(const struct edge_sink *sink, struct slice value)
{
    while (value.len) {
        struct slice word = take_word(&value), authority;
        char text[NAME_MAX_LEN + 16];

        if (!word.len || !take_char(&value, '=')) {
            value = slice_from(value, 1);
            continue;
        }
        authority = take_word(&value);
        if (slice_is_nocase(word, "ma") || slice_is_nocase(word, "persist") || !authority.len || authority.ptr[0] == ':')
            continue;
        if (authority.len > sizeof text - 8)
            authority.len = sizeof text - 8;
        memcpy(text, "https://", 8);
        memcpy(text + 8, authority.ptr, authority.len);
        if (!edge_give(sink, EDGE_ALT_SVC, slice_make(text, 8 + authority.len), false))
            return false;
    }
    return true;
}

static bool is_url_parameter(struct slice name)
{
    static const char *const names[] = {"realm", "authorization_uri", "resource_metadata", "as_uri", "service_uri"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_is_nocase(name, names[i]))
            return true;
    return false;
}

/* A quoted pair is one character to some readers and two to others, so that a place with one in it is not clear. */
static bool give_escaped(const struct edge_sink *sink, struct slice text)
{
    struct buf plain = {0};
    struct edge e;
    bool on = true;

    for (size_t i = 0; i < text.len; i++) {
        i += text.ptr[i] == '\\' && i + 1 < text.len;
        buf_char(&plain, text.ptr[i]);
    }
    if (slice_search(buf_slice(&plain), SLICE("//")) >= 0 &&
        edge_make(EDGE_AUTHENTICATE, sink->from, buf_slice(&plain), false, sink->now_s, &e)) {
        e.unclear = true;
        on = sink->found(sink->arg, &e);
    }
    buf_free(&plain);
    return on;
}

/* A realm is any text (RFC 9110 11.5): one that is a URL is where a token is to be had (container registries). */
static bool give_parameter(const struct edge_sink *sink, struct slice text)
{
    if (slice_find(text, '\\') >= 0)
        return give_escaped(sink, text);
    return slice_search(text, SLICE("//")) < 0 || edge_give(sink, EDGE_AUTHENTICATE, text, false);
}

static bool read_challenge(const struct edge_sink *sink, struct slice value)
{
    while (value.len) {
        struct slice word = take_word(&value);

        if (!word.len) {
            value = slice_from(value, 1);
            continue;
        }
        if (take_char(&value, '=') && is_url_parameter(word) && !give_parameter(sink, take_word(&value)))
            return false;
    }
    return true;
}

/* name="url", other="url" (W3C Reporting API) */
static bool read_endpoints(const struct edge_sink *sink, struct slice value)
{
    while (value.len) {
        struct slice word = take_word(&value);

        if (!word.len || !take_char(&value, '=')) {
            value = slice_from(value, 1);
            continue;
        }
        if (!edge_give(sink, EDGE_REPORT, take_word(&value), false))
            return false;
    }
    return true;
}

static int wants_report_url(void *arg, const struct json_reader *r)
{
    (void)arg;
    return slice_is(json_name(r, 0), "url") ? EDGE_REPORT : EDGE_NONE;
}

static bool take_report_url(void *arg, int kind, struct slice value, bool cut)
{
    return edge_give(arg, (enum edge_kind)kind, value, cut);
}

static bool read_report_to(const struct edge_sink *sink, struct slice value)
{
    struct json_reader *r = json_reader_new(wants_report_url, take_report_url, (void *)(uintptr_t)sink);
    uint64_t safe;
    bool on = json_read(r, value, &safe) != JSON_STOPPED;

    json_reader_free(r);
    return on;
}

bool edge_give_refresh(const struct edge_sink *sink, struct slice content, bool cut)
{
    struct slice rest = content;
    ptrdiff_t end;

    while (rest.len && !memchr(";,", rest.ptr[0], 2) && !isspace((unsigned char)rest.ptr[0]))
        rest = slice_from(rest, 1);
    rest = skip_space(rest);
    if (rest.len && memchr(";,", rest.ptr[0], 2))
        rest = slice_from(rest, 1);
    rest = skip_space(rest);
    if (slice_starts_nocase(rest, SLICE("url"))) {
        struct slice behind = skip_space(slice_from(rest, 3));

        if (behind.len && behind.ptr[0] == '=')
            rest = skip_space(slice_from(behind, 1));
    }
    if (rest.len && memchr("\"'", rest.ptr[0], 2)) {
        char quote = rest.ptr[0];

        rest = slice_from(rest, 1);
        if ((end = slice_find(rest, quote)) >= 0)
            return edge_give(sink, EDGE_REFRESH, slice_cut(rest, 0, (size_t)end), false);
    }
    return edge_give(sink, EDGE_REFRESH, rest, cut);
}

/* ---- heads ---- */

static bool give_location(const struct edge_sink *sink, const struct head *h, struct slice value)
{
    return edge_give(sink, h->status == 202 ? EDGE_UPLOAD : EDGE_LOCATION, value, false);
}

static bool read_field(const struct edge_sink *sink, const struct head *h, const struct field *f)
{
    switch (edge_kind_of(f->name)) {
    case EDGE_LOCATION:
        return give_location(sink, h, f->value);
    case EDGE_CONTENT_LOCATION:
        return edge_give(sink, EDGE_CONTENT_LOCATION, f->value, false);
    case EDGE_LINK:
        return read_link(sink, f->value);
    case EDGE_REFRESH:
        return edge_give_refresh(sink, f->value, false);
    case EDGE_ALT_SVC:
        return read_alt_svc(sink, f->value);
    case EDGE_AUTHENTICATE:
        return read_challenge(sink, f->value);
    case EDGE_REPORT:
        return f->name.len == 9 ? read_report_to(sink, f->value) : read_endpoints(sink, f->value);
    default:
        return true;
    }
}

bool edge_read_head(const struct head *h, const struct edge_sink *sink)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (!read_field(sink, h, &h->fields[i]))
            return false;
    return true;
}

/* ---- the content's type ---- */

/* The word that says it, wherever it stands: pip looks at how a type begins, others at how it ends. HTML before JSON. */
static enum edge_format format_said(struct slice type)
{
    enum edge_format found = EDGE_FORMAT_NONE;

    for (size_t i = 0; i < type.len; i++) {
        char letter = type.ptr[i] | 0x20;

        if (letter == 'h' && slice_starts_nocase(slice_from(type, i), SLICE("html")))
            return EDGE_FORMAT_HTML;
        if ((letter == 'j' && slice_starts_nocase(slice_from(type, i), SLICE("json"))) ||
            (letter == 'p' && slice_starts_nocase(slice_from(type, i), SLICE("prettyjws"))))
            found = EDGE_FORMAT_JSON;
    }
    return found;
}

static enum edge_format format_named(struct slice type)
{
    static const char *const unknown[] = {"*/*", "unknown/unknown", "application/unknown"}; /* WHATWG MIME sniffing 7 */
    enum edge_format said = format_said(type);

    if (said != EDGE_FORMAT_NONE)
        return said;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (slice_is_nocase(type, unknown[i]))
            return EDGE_FORMAT_SNIFF;
    return slice_find(type, '/') > 0 ? EDGE_FORMAT_GUESS : EDGE_FORMAT_SNIFF;
}

/* Of these, bytes below 128 are ASCII wherever they stand, or near enough that no quote or bracket is another's half. */
static bool is_narrow(struct slice charset)
{
    static const char *const names[] = {"utf-8", "utf8", "us-ascii", "ascii", "latin1", "windows-1252", "binary"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_is_nocase(charset, names[i]))
            return true;
    return slice_starts_nocase(charset, SLICE("iso-8859-"));
}

/* A charset in pieces, or with a language, is read by some (RFC 2231). */
static bool is_wide(struct slice type)
{
    if (slice_find(type, '=') < 0) /* as of most types */
        return false;
    while (type.len) {
        struct slice name = take_word(&type);

        if (!name.len) {
            type = slice_from(type, 1);
            continue;
        }
        if (take_char(&type, '=') && slice_starts_nocase(name, SLICE("charset")) && (!is_narrow(take_word(&type)) || name.len != 7))
            return true;
    }
    return false;
}

static bool is_read(enum edge_format f)
{
    return f == EDGE_FORMAT_JSON || f == EDGE_FORMAT_HTML;
}

/* Of several types, in one field or in more, one that is read counts. */
static void read_type(struct slice value, struct edge_glance *g, bool first)
{
    struct slice rest = value, one, type;

    g->wide = g->wide || is_wide(value);
    for (; slice_next(&rest, ',', &one); first = false) {
        enum edge_format format;

        slice_next(&one, ';', &type);
        format = format_named(slice_trim(type));
        g->wide = g->wide || (!first && is_read(g->format) && is_read(format) && g->format != format);
        if (first || format > g->format)
            g->format = format;
    }
}

struct edge_glance edge_glance(const struct head *h)
{
    struct edge_glance g = {.format = EDGE_FORMAT_SNIFF};
    bool first = true;

    for (size_t i = 0; i < h->n_fields; i++) {
        const struct field *f = &h->fields[i];

        if (f->name.len == 12 && slice_is_nocase(f->name, "content-type")) {
            read_type(f->value, &g, first);
            first = false;
        } else if (!g.sends) {
            g.sends = edge_kind_of(f->name) != EDGE_NONE;
        }
    }
    return g;
}
