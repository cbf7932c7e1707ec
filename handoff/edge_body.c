/* Edges in contents: knows the members of JSON and the attributes of HTML that clients follow. */
#include <ctype.h>
#include <stdlib.h>

#include "handoff/edge.h"
#include "handoff/html.h"
#include "handoff/json.h"

_Static_assert(JSON_NAME_MOST < 32, "may_be_member has a bit for each length");

struct edge_reader {
    struct edge_sink sink;
    struct json_reader *json;
    struct html_reader *html;
    uint64_t total, safe;
    bool guessed, stopped, over; /* over: nothing further is read of it */
};

/* ---- JSON ---- */

/* A member that clients follow, the one it is in ("": any, "/": it is outermost), the one around that, and what it is. */
#define MEMBERS(MEMBER) \
    MEMBER("tarball", "dist", "", TARBALL) \
    MEMBER("url", "dist", "", DIST) \
    MEMBER("url", "files", "", FILES) \
    MEMBER("url", "urls", "", FILES) \
    MEMBER("url", "releases", "", FILES) \
    MEMBER("url", "", "releases", FILES) \
    MEMBER("dl", "/", "", CARGO) \
    MEMBER("api", "/", "", CARGO) \
    MEMBER("href", "", "actions", LFS) \
    MEMBER("href", "", "_links", LFS) \
    MEMBER("urls", "layers", "", MANIFEST) \
    MEMBER("urls", "manifests", "", MANIFEST) \
    MEMBER("urls", "config", "", MANIFEST) \
    MEMBER("urls", "blobs", "", MANIFEST) \
    MEMBER("issuer", "/", "", METADATA) \
    MEMBER("authorization_endpoint", "/", "", METADATA) \
    MEMBER("token_endpoint", "/", "", METADATA) \
    MEMBER("device_authorization_endpoint", "/", "", METADATA) \
    MEMBER("registration_endpoint", "/", "", METADATA) \
    MEMBER("introspection_endpoint", "/", "", METADATA) \
    MEMBER("revocation_endpoint", "/", "", METADATA) \
    MEMBER("userinfo_endpoint", "/", "", METADATA) \
    MEMBER("jwks_uri", "/", "", METADATA) \
    MEMBER("authorization_servers", "/", "", METADATA)

static const struct {
    const char *name, *in, *around;
    enum edge_kind kind;
} members[] = {
#define MEMBER(name, in, around, kind) {name, in, around, EDGE_##kind},
    MEMBERS(MEMBER)
#undef MEMBER
};

/* Most names have a length or a first letter that none of them has. */
static bool may_be_member(struct slice name)
{
#define MEMBER(name, in, around, kind) | UINT32_C(1) << (sizeof(name) - 1)
    const uint32_t lengths = 0 MEMBERS(MEMBER);
#undef MEMBER
#define MEMBER(name, in, around, kind) | UINT32_C(1) << (name[0] - 'a')
    const uint32_t letters = 0 MEMBERS(MEMBER);
#undef MEMBER

    return name.len && isalpha((unsigned char)name.ptr[0]) && letters >> ((name.ptr[0] | 0x20) - 'a') & 1 &&
           (lengths >> name.len & 1 || memchr(name.ptr, 0xc5, name.len) || memchr(name.ptr, 0xe2, name.len));
}

/* As Go's encoding/json takes names: whatever their case, with the two letters beyond ASCII that fold into it. */
static bool is_named(struct slice name, const char *word)
{
    static const struct slice long_s = {"\xc5\xbf", 2}, kelvin = {"\xe2\x84\xaa", 3};

    for (; *word; word++) {
        size_t n = 1;

        if (*word == 's' && slice_starts(name, long_s))
            n = long_s.len;
        else if (*word == 'k' && slice_starts(name, kelvin))
            n = kelvin.len;
        else if (!name.len || tolower((unsigned char)name.ptr[0]) != *word)
            return false;
        name = slice_from(name, n);
    }
    return name.len == 0;
}

static bool is_in(const struct json_reader *r, size_t up, const char *name)
{
    if (!*name)
        return true;
    if (*name == '/')
        return json_depth(r) == up;
    return is_named(json_name(r, up), name);
}

static int wants_member(void *arg, const struct json_reader *r)
{
    struct slice name = json_name(r, 0);

    (void)arg;
    if (!may_be_member(name))
        return EDGE_NONE;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (is_named(name, members[i].name) && is_in(r, 1, members[i].in) && is_in(r, 2, members[i].around))
            return (int)members[i].kind;
    return EDGE_NONE;
}

static bool take_value(void *arg, int kind, struct slice value, bool cut)
{
    const struct edge_reader *r = arg;

    return edge_give(&r->sink, (enum edge_kind)kind, value, cut);
}

/* ---- HTML ---- */

static const struct {
    const char *tag, *attribute;
    enum edge_kind kind;
} attributes[] = {
    {"a", "href", EDGE_ANCHOR},         {"a", "ping", EDGE_ANCHOR},       {"area", "href", EDGE_ANCHOR},
    {"link", "href", EDGE_HTML_LINK},   {"base", "href", EDGE_BASE},      {"meta", "content", EDGE_REFRESH},
    {"script", "src", EDGE_SOURCE},     {"img", "src", EDGE_SOURCE},      {"iframe", "src", EDGE_SOURCE},
    {"frame", "src", EDGE_SOURCE},      {"embed", "src", EDGE_SOURCE},    {"object", "data", EDGE_SOURCE},
    {"form", "action", EDGE_FORM},      {"button", "formaction", EDGE_FORM}, {"input", "formaction", EDGE_FORM},
    {"input", "src", EDGE_SOURCE},      {"video", "src", EDGE_SOURCE},    {"audio", "src", EDGE_SOURCE},
    {"source", "src", EDGE_SOURCE},     {"track", "src", EDGE_SOURCE},    {"video", "poster", EDGE_SOURCE},
    {"img", "srcset", EDGE_SOURCE},     {"source", "srcset", EDGE_SOURCE}, {"link", "imagesrcset", EDGE_SOURCE},
    {"image", "href", EDGE_SOURCE},     {"script", "href", EDGE_SOURCE}, /* SVG */
};

enum { SEVERAL = 0x100 }; /* with a kind: several of them stand in one attribute */

static bool has_several(struct slice attribute)
{
    return slice_is(attribute, "ping") || slice_ends(attribute, SLICE("srcset"));
}

enum { N_ATTRIBUTES = sizeof attributes / sizeof *attributes };

static bool watches_tag(void *arg, struct slice tag)
{
    (void)arg;
    for (size_t i = 0; i < N_ATTRIBUTES; i++)
        if (slice_is(tag, attributes[i].tag))
            return true;
    return false;
}

static int wants_attribute(void *arg, struct slice tag, struct slice attribute)
{
    (void)arg;
    if (slice_starts(attribute, SLICE("data-")))
        return EDGE_DATA;
    for (size_t i = 0; i < N_ATTRIBUTES; i++)
        if (slice_is(attribute, attributes[i].attribute) && slice_is(tag, attributes[i].tag))
            return (int)attributes[i].kind | (has_several(attribute) ? SEVERAL : 0);
    return EDGE_NONE;
}

static struct slice trim(struct slice s)
{
    while (s.len && isspace((unsigned char)s.ptr[0]))
        s = slice_from(s, 1);
    return s;
}

/* "5; url=...", "5 url=..." of a meta element, whatever its http-equiv says, which may come later (HTML 4.2.5.3). */
static bool is_refresh(struct slice content)
{
    size_t n = 0;

    content = trim(content);
    while (n < content.len && (isdigit((unsigned char)content.ptr[n]) || content.ptr[n] == '.'))
        n++;
    content = slice_from(content, n);
    return n && content.len && (isspace((unsigned char)content.ptr[0]) || content.ptr[0] == ';' || content.ptr[0] == ',');
}

static struct slice next_word(struct slice *text)
{
    struct slice word = trim(*text);
    size_t n = 0;

    while (n < word.len && !isspace((unsigned char)word.ptr[n]))
        n++;
    *text = slice_from(word, n);
    return slice_cut(word, 0, n);
}

/* "example.org/mod git https://host/mod": go-import, whatever the name of the element, which may come later. */
static bool find_import(struct slice content, struct slice *repository)
{
    static const char *const systems[] = {"git", "hg", "svn", "bzr", "fossil", "mod"};
    struct slice rest = content, system;

    next_word(&rest);
    system = next_word(&rest);
    *repository = next_word(&rest);
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        if (slice_is(system, systems[i]))
            return repository->len > 0;
    return false;
}

static bool take_content(const struct edge_reader *r, struct slice content, bool cut)
{
    struct slice repository;

    if (is_refresh(content) && !edge_give_refresh(&r->sink, content, cut))
        return false;
    return !find_import(content, &repository) || edge_give(&r->sink, EDGE_GO_IMPORT, repository, cut);
}

/* References with white space or commas between them, and words that are none: "1x" */
static bool take_several(const struct edge_reader *r, enum edge_kind kind, struct slice value, bool cut)
{
    struct slice words, word;

    while (slice_next(&value, ',', &words))
        for (word = next_word(&words); word.len; word = next_word(&words))
            if (!edge_give(&r->sink, kind, word, cut && !words.len && !value.ptr))
                return false;
    return true;
}

static bool take_attribute(void *arg, int kind, struct slice value, bool cut)
{
    const struct edge_reader *r = arg;

    if (kind & SEVERAL)
        return take_several(r, (enum edge_kind)(kind & ~SEVERAL), value, cut);
    if (kind == EDGE_REFRESH)
        return take_content(r, value, cut);
    /* Most data-* attributes hold no URL: only what is absolute counts. */
    if (kind == EDGE_DATA && slice_search(value, SLICE("//")) < 0)
        return true;
    return edge_give(&r->sink, (enum edge_kind)kind, value, cut);
}

static bool on_ambiguous(void *arg)
{
    const struct edge_reader *r = arg;
    struct edge e = edge_unread("HTML that readers take for different things: a tag inside another one, two equals signs, "
                                "an entity of its own");

    return r->sink.found(r->sink.arg, &e);
}

/* ---- contents ---- */

enum edge_format edge_guess(enum edge_format format, struct slice piece)
{
    for (size_t i = 0; i < piece.len; i++) {
        char c = piece.ptr[i];

        if (c == '{' || c == '[')
            return EDGE_FORMAT_JSON;
        if (c == '<' && format == EDGE_FORMAT_SNIFF)
            return EDGE_FORMAT_HTML;
        if (!isspace((unsigned char)c) && c != '\xef' && c != '\xbb' && c != '\xbf') /* the last three: a byte order mark */
            return EDGE_FORMAT_NONE;
    }
    return format;
}

struct edge_reader *edge_reader_new(enum edge_format format, bool guessed, const struct edge_sink *sink)
{
    static const struct html_handler handler = {watches_tag, wants_attribute, take_attribute, on_ambiguous};
    struct edge_reader *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    r->sink = *sink;
    r->guessed = guessed;
    if (format == EDGE_FORMAT_JSON)
        r->json = json_reader_new(wants_member, take_value, r);
    else
        r->html = html_reader_new(&handler, r);
    return r;
}

void edge_reader_free(struct edge_reader *r)
{
    if (!r)
        return;
    json_reader_free(r->json);
    html_reader_free(r->html);
    free(r);
}

/* The thread is lost: no edge can be told from anything else. */
static bool lose(struct edge_reader *r, const char *why)
{
    struct edge e = edge_unread(why);

    r->over = true;
    return r->sink.found(r->sink.arg, &e);
}

static bool read_on(struct edge_reader *r, struct slice bytes, uint64_t *safe)
{
    enum json_state j = JSON_FINE;
    enum html_state h = HTML_FINE;

    if (r->json)
        j = json_read(r->json, bytes, safe);
    else
        h = html_read(r->html, bytes, safe);
    if (j == JSON_BROKEN && r->guessed)
        return r->over = true;
    if (j == JSON_BROKEN)
        return lose(r, "JSON whose brackets do not match");
    if (j == JSON_LOST)
        return lose(r, "JSON that lies too deep, or is in an encoding that is not read");
    if (h == HTML_LOST)
        return lose(r, "HTML in an encoding that is not read");
    return j == JSON_FINE && h == HTML_FINE;
}

bool edge_reader_feed(struct edge_reader *r, struct slice bytes, uint64_t *safe)
{
    r->total += bytes.len;
    if (!r->stopped && !r->over)
        r->stopped = !read_on(r, bytes, &r->safe);
    if (!r->stopped && r->over)
        r->safe = r->total;
    *safe = r->safe;
    return !r->stopped;
}

bool edge_reader_end(struct edge_reader *r)
{
    if (!r->stopped && !r->over)
        r->stopped = !(r->json ? json_end(r->json) : html_end(r->html));
    return !r->stopped;
}
