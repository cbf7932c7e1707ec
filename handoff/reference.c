/* Reads URI references. Knows no documents and no policy. */
#include "handoff/reference.h"

#include <ctype.h>
#include <stdio.h>

#include "net/addr.h"

enum { AUTHORITY_MOST = 1024 };

/* The text without what clients skip, one character at a time. */
struct letters {
    struct slice left;
    bool cut;
};

static bool is_skipped(char c)
{
    return c == '\t' || c == '\r' || c == '\n';
}

/* The next one, '\\' as '/'; -1 at the end. */
static int peek(struct letters *l)
{
    while (l->left.len && is_skipped(l->left.ptr[0]))
        l->left = slice_from(l->left, 1);
    if (!l->left.len)
        return -1;
    return l->left.ptr[0] == '\\' ? '/' : (unsigned char)l->left.ptr[0];
}

static void step(struct letters *l)
{
    l->left = slice_from(l->left, 1);
}

static bool is_scheme_letter(int c, bool first)
{
    return isascii(c) && (isalpha(c) || (!first && (isdigit(c) || c == '+' || c == '-' || c == '.')));
}

/* "scheme:" at the front is taken; false: there is none, and nothing is. A longer name than any we know is cut. */
static bool take_scheme(struct letters *l, char scheme[REFERENCE_SCHEME_MAX + 1])
{
    struct letters at = *l;
    size_t n = 0;
    int c;

    while ((c = peek(&at)) >= 0 && is_scheme_letter(c, n == 0)) {
        if (n < REFERENCE_SCHEME_MAX)
            scheme[n++] = (char)tolower(c);
        step(&at);
    }
    if (c != ':' || n == 0)
        return false;
    scheme[n] = '\0';
    step(&at);
    *l = at;
    return true;
}

static uint16_t default_port(const char *scheme)
{
    static const struct {
        const char *scheme;
        uint16_t port;
    } known[] = {{"https", 443}, {"http", 80}, {"wss", 443}, {"ws", 80}, {"ftp", 21}, {"ssh", 22}, {"git", 9418}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].scheme, scheme) == 0)
            return known[i].port;
    return 0;
}

/* Of these any number of slashes will do (WHATWG URL 4.4, special schemes). */
static bool is_special(const char *scheme)
{
    static const char *const special[] = {"http", "https", "ws", "wss", "ftp"};

    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strcmp(special[i], scheme) == 0)
            return true;
    return false;
}

static size_t take_slashes(struct letters *l, size_t most)
{
    size_t n = 0;

    for (; n < most && peek(l) == '/'; n++)
        step(l);
    return n;
}

/* Up to the path, query or fragment. False: it is longer than any, or not all of it is there. */
static bool take_authority(struct letters *l, char out[AUTHORITY_MOST], size_t *len)
{
    int c;

    for (*len = 0; (c = peek(l)) >= 0 && c != '/' && c != '?' && c != '#'; step(l)) {
        if (*len == AUTHORITY_MOST)
            return false;
        out[(*len)++] = (char)c;
    }
    return c >= 0 || !l->cut;
}

static void put_printable(char out[NAME_MAX_LEN + 1], struct slice text)
{
    size_t n = 0;

    for (; n < text.len && n < NAME_MAX_LEN; n++)
        out[n] = text.ptr[n] > 0x20 && text.ptr[n] < 0x7f ? text.ptr[n] : '?';
    out[n] = '\0';
}

/* An address literal stands for itself: brackets make the difference between its colons and the port's. */
static bool is_literal(struct slice host)
{
    struct addr a;

    if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        return addr_parse_ip(slice_cut(host, 1, host.len - 1), &a);
    return slice_find(host, ':') < 0 && addr_parse_ip(host, &a);
}

static bool read_host(struct slice host, struct reference *out)
{
    if (name_canonical(host, out->host, NULL))
        return true;
    put_printable(out->host, host);
    return is_literal(host);
}

static enum reference_kind read_authority(struct letters *l, struct reference *out)
{
    char text[AUTHORITY_MOST];
    struct slice authority, host = {0};
    size_t len, at;
    bool whole = take_authority(l, text, &len);

    authority = slice_make(text, len);
    for (at = len; at && text[at - 1] != '@';)
        at--;
    out->userinfo = at > 0;
    authority = slice_from(authority, at);
    if (authority.len && authority.ptr[authority.len - 1] == ':')
        authority.len--; /* an empty port (RFC 3986 3.2.3) */
    put_printable(out->host, authority);
    if (!whole || !name_split_authority(authority, default_port(out->scheme), &host, &out->port, NULL))
        return REFERENCE_UNCLEAR;
    return read_host(host, out) ? REFERENCE_PLACE : REFERENCE_UNCLEAR;
}

static struct slice query_of(struct slice rest)
{
    ptrdiff_t end = slice_find(rest, '#'), start;

    if (end >= 0)
        rest = slice_cut(rest, 0, (size_t)end);
    start = slice_find(rest, '?');
    return start < 0 ? slice_make("", 0) : slice_from(rest, (size_t)start + 1);
}

static struct letters begin(struct slice text, bool cut)
{
    while (text.len && (unsigned char)text.ptr[0] <= 0x20)
        text = slice_from(text, 1);
    while (!cut && text.len && (unsigned char)text.ptr[text.len - 1] <= 0x20)
        text.len--;
    return (struct letters){text, cut};
}

/* What is there is all letters of a scheme, or nothing: whatever was cut off may make a place of it. */
static bool may_become_scheme(struct letters l)
{
    int c;

    for (bool first = true; (c = peek(&l)) >= 0; first = false, step(&l))
        if (!is_scheme_letter(c, first))
            return false;
    return true;
}

enum reference_kind reference_read(const struct reference *base, struct slice text, bool cut, struct reference *out)
{
    struct letters l = begin(text, cut);
    enum reference_kind kind;
    size_t slashes;
    bool scheme;

    *out = (struct reference){.query = slice_make("", 0)};
    if (cut && may_become_scheme(l))
        return REFERENCE_UNCLEAR;
    scheme = take_scheme(&l, out->scheme);
    if (!scheme)
        snprintf(out->scheme, sizeof out->scheme, "%s", base->scheme);
    slashes = take_slashes(&l, scheme && !is_special(out->scheme) ? 2 : SIZE_MAX);
    if (!scheme && slashes < 2)
        return cut && peek(&l) < 0 ? REFERENCE_UNCLEAR : REFERENCE_SAME;
    if (scheme && slashes < 2 && !is_special(out->scheme))
        return strcmp(out->scheme, "file") == 0 ? REFERENCE_UNCLEAR : REFERENCE_NONE;
    kind = read_authority(&l, out);
    out->query = query_of(l.left);
    return kind;
}

bool reference_is_downgrade(const struct reference *base, const struct reference *to)
{
    static const char *const readable[] = {"http", "ws", "ftp", "git"};

    if (strcmp(base->scheme, "https") != 0)
        return false;
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
        if (strcmp(readable[i], to->scheme) == 0)
            return true;
    return false;
}
