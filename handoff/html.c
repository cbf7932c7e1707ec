/* Owns the place in one HTML text. Knows no tag by name. */
#include "handoff/html.h"

#include <ctype.h>
#include <stdlib.h>

enum where {
    WHERE_TEXT,
    WHERE_TAG,        /* behind "<", in the name */
    WHERE_BETWEEN,    /* in a watched tag, between attributes */
    WHERE_NAME,       /* of an attribute */
    WHERE_AFTER_NAME, /* white space behind it */
    WHERE_EQUALS,     /* behind "=" */
    WHERE_VALUE,
};

enum { REFERENCE_MOST = 24 /* longer than any that gives ASCII */ };

struct name {
    char text[HTML_NAME_MOST];
    size_t len;
    bool cut;
};

struct html_reader {
    const struct html_handler *handler;
    void *arg;
    enum html_state state;
    enum where where;
    uint64_t total, start; /* bytes read; where the value under way begins */
    struct name tag, attribute;
    int wanted;            /* of the value under way: not 0 while it is kept */
    char quote;            /* around it; 0: none */
    bool after_lt;         /* the last byte of a watched tag was "<" */
    bool in_reference;
    size_t reference_len, len;
    char reference[REFERENCE_MOST];
    char text[HTML_VALUE_MOST];
};

struct html_reader *html_reader_new(const struct html_handler *handler, void *arg)
{
    struct html_reader *r = malloc(sizeof *r);

    if (!r)
        abort();
    memset(r, 0, offsetof(struct html_reader, reference)); /* the rest is written before it is read */
    r->handler = handler;
    r->arg = arg;
    return r;
}

void html_reader_free(struct html_reader *r)
{
    free(r);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_alnum(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9');
}

/* ---- names ---- */

static void name_clear(struct name *n)
{
    n->len = 0;
    n->cut = false;
}

static void name_add(struct name *n, char c)
{
    if (c == ':') {
        name_clear(n); /* that was a prefix */
        return;
    }
    if (n->len == sizeof n->text)
        n->cut = true;
    else
        n->text[n->len++] = (char)tolower((unsigned char)c);
}

static struct slice name_slice(const struct name *n)
{
    return n->cut ? slice_make("", 0) : slice_make(n->text, n->len);
}

/* ---- values ---- */

static void give_value(struct html_reader *r, bool cut)
{
    int wanted = r->wanted;

    r->wanted = 0;
    if (!r->handler->value(r->arg, wanted, slice_make(r->text, r->len), cut)) {
        r->state = HTML_STOPPED;
        r->wanted = wanted; /* what is safe ends before it */
    }
}

/* A value that is too long to keep is judged by its beginning, at once: nothing waits for its end. */
static void keep(struct html_reader *r, char c)
{
    if (!r->wanted || r->state != HTML_FINE)
        return;
    if (r->len == sizeof r->text)
        give_value(r, true);
    else
        r->text[r->len++] = c;
}

static void keep_all(struct html_reader *r, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        keep(r, bytes[i]);
}

/* Every named character reference that gives ASCII (HTML 13.5). */
static const struct {
    const char *name, *text;
} entities[] = {
    {"Tab", "\t"}, {"NewLine", "\n"}, {"excl", "!"}, {"quot", "\""}, {"QUOT", "\""}, {"num", "#"}, {"dollar", "$"},
    {"percnt", "%"}, {"amp", "&"}, {"AMP", "&"}, {"apos", "'"}, {"lpar", "("}, {"rpar", ")"}, {"ast", "*"},
    {"midast", "*"}, {"plus", "+"}, {"comma", ","}, {"period", "."}, {"sol", "/"}, {"colon", ":"}, {"semi", ";"},
    {"lt", "<"}, {"LT", "<"}, {"equals", "="}, {"gt", ">"}, {"GT", ">"}, {"quest", "?"}, {"commat", "@"}, {"lsqb", "["},
    {"lbrack", "["}, {"bsol", "\\"}, {"rsqb", "]"}, {"rbrack", "]"}, {"Hat", "^"}, {"lowbar", "_"}, {"UnderBar", "_"},
    {"grave", "`"}, {"DiacriticalGrave", "`"}, {"lcub", "{"}, {"lbrace", "{"}, {"verbar", "|"}, {"vert", "|"},
    {"VerticalLine", "|"}, {"rcub", "}"}, {"rbrace", "}"}, {"fjlig", "fj"},
};

/* "#58", "#x3a" -> the character, which counts only while it is ASCII; -1: no number. */
static long number_of(struct slice reference)
{
    bool hex = reference.len > 1 && (reference.ptr[1] | 0x20) == 'x';
    long n = 0;

    if (reference.len < (hex ? 3u : 2u) || reference.ptr[0] != '#')
        return -1;
    for (size_t i = hex ? 2 : 1; i < reference.len; i++) {
        char c = reference.ptr[i];

        n = n * (hex ? 16 : 10) + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        if (n > 0x110000)
            n = 0x110000;
    }
    return n;
}

static const char *text_of(struct slice name)
{
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        if (slice_is(name, entities[i].name))
            return entities[i].text;
    return NULL;
}

/* Python has nothing for these, browsers what leads nowhere: what is left without them decides. */
static bool is_dropped(long n)
{
    return (n > 0 && n < 0x20 && !is_space((char)n)) || n == 0x7f || (n >= 0xfdd0 && n <= 0xfdef) ||
           (n <= 0x10ffff && (n & 0xfffe) == 0xfffe);
}

/* The reference ended, by a semicolon or by what is no part of it. What it is not stays as it was written. */
static void end_reference(struct html_reader *r, bool semicolon)
{
    struct slice reference = slice_make(r->reference, r->reference_len);
    long number = number_of(reference);
    const char *text = semicolon ? text_of(reference) : NULL;

    r->in_reference = false;
    if (number >= 0 && is_dropped(number))
        return;
    if (number >= 0 && number < 0x80) {
        keep(r, (char)number);
    } else if (number >= 0) {
        keep_all(r, "\xef\xbf\xbd", 3); /* no ASCII, so nothing that decides where it leads but to nowhere we know */
    } else if (text) {
        keep_all(r, text, strlen(text));
    } else {
        keep(r, '&');
        keep_all(r, reference.ptr, reference.len);
        if (semicolon)
            keep(r, ';');
    }
}

static bool is_digit_of(const struct html_reader *r, char c)
{
    bool hex = r->reference_len > 1 && (r->reference[1] | 0x20) == 'x';

    return (c >= '0' && c <= '9') || (hex && (c | 0x20) >= 'a' && (c | 0x20) <= 'f') ||
           (r->reference_len == 1 && (c | 0x20) == 'x');
}

/* Of a number's leading zeros one is kept; of its further digits, so many that it is none of ASCII. */
static void add_digit(struct html_reader *r, char c)
{
    size_t at = r->reference_len;

    if (c == '0' && at && r->reference[at - 1] == '0' && (at == 2 || (at == 3 && (r->reference[1] | 0x20) == 'x')))
        return;
    if (at < sizeof r->reference)
        r->reference[r->reference_len++] = c;
}

/* A byte behind "&". False: it is no part of the reference and still to be read. */
static bool read_reference(struct html_reader *r, char c)
{
    bool is_number = r->reference_len && r->reference[0] == '#';

    if (c == ';') {
        end_reference(r, true);
        return true;
    }
    if (is_number ? is_digit_of(r, c) : (is_alnum(c) || (r->reference_len == 0 && c == '#'))) {
        if (is_number)
            add_digit(r, c);
        else if (r->reference_len < sizeof r->reference)
            r->reference[r->reference_len++] = c;
        if (is_number || r->reference_len < sizeof r->reference)
            return true;
        end_reference(r, false); /* longer than any name */
        return true;
    }
    end_reference(r, false);
    return false;
}

static void begin_value(struct html_reader *r, char quote, uint64_t at)
{
    r->where = WHERE_VALUE;
    r->quote = quote;
    r->start = at;
    r->len = 0;
    r->in_reference = false;
    r->wanted = r->handler->wants(r->arg, name_slice(&r->tag), name_slice(&r->attribute));
}

static void end_value(struct html_reader *r)
{
    if (r->in_reference)
        end_reference(r, false);
    r->where = WHERE_BETWEEN;
    if (r->wanted && r->state == HTML_FINE)
        give_value(r, false);
}

static void end_tag(struct html_reader *r)
{
    r->where = WHERE_TEXT;
}

static void read_value(struct html_reader *r, char c)
{
    if (r->quote ? c == r->quote : is_space(c) || c == '>') {
        end_value(r);
        if (c == '>' && !r->quote && r->state == HTML_FINE)
            end_tag(r);
        return;
    }
    if (r->in_reference && read_reference(r, c))
        return;
    if (c == '&') {
        r->in_reference = true;
        r->reference_len = 0;
    } else {
        keep(r, c);
    }
}

/* ---- tags ---- */

static void begin_attribute(struct html_reader *r, char c)
{
    r->where = WHERE_NAME;
    name_clear(&r->attribute);
    name_add(&r->attribute, c);
}

/* Between attributes, and behind a name: '=' is what makes the difference. */
static void read_between(struct html_reader *r, char c)
{
    if (c == '>')
        end_tag(r);
    else if (c == '=' && r->where == WHERE_AFTER_NAME)
        r->where = WHERE_EQUALS;
    else if (c == '/')
        r->where = WHERE_BETWEEN;
    else if (!is_space(c))
        begin_attribute(r, c);
}

static void read_name(struct html_reader *r, char c)
{
    if (is_space(c) || c == '/' || c == '>' || c == '=') {
        r->where = WHERE_AFTER_NAME;
        read_between(r, c);
    } else {
        name_add(&r->attribute, c);
    }
}

static void read_equals(struct html_reader *r, char c, uint64_t at)
{
    if (is_space(c) || c == '=')
        return;
    if (c == '>') {
        end_tag(r);
    } else if (c == '"' || c == '\'') {
        begin_value(r, c, at + 1);
    } else {
        begin_value(r, '\0', at);
        read_value(r, c);
    }
}

static void begin_tag(struct html_reader *r)
{
    r->where = WHERE_TAG;
    r->after_lt = false;
    name_clear(&r->tag);
}

static bool tell_ambiguous(struct html_reader *r)
{
    bool on = r->handler->ambiguous(r->arg);

    if (!on)
        r->state = HTML_STOPPED;
    return on;
}

static void read_tag(struct html_reader *r, char c)
{
    if (c == '\0') {
        r->state = HTML_LOST;
    } else if (c == '<') {
        begin_tag(r);
    } else if (!is_space(c) && c != '/' && c != '>') {
        name_add(&r->tag, c);
    } else if (c != '>' && slice_is(name_slice(&r->tag), "!entity")) {
        r->where = WHERE_TEXT;
        tell_ambiguous(r);
    } else if (c != '>' && r->handler->watches(r->arg, name_slice(&r->tag))) {
        r->where = WHERE_BETWEEN;
    } else {
        r->where = WHERE_TEXT;
    }
}

/* "<" and a letter, "/" or "!" inside a watched tag. True: this byte belongs to another tag. */
static bool begins_another(struct html_reader *r, char c)
{
    bool begins = r->after_lt && (is_letter(c) || c == '/' || c == '!');

    r->after_lt = c == '<';
    if (!begins)
        return false;
    if (!tell_ambiguous(r))
        return true;
    r->wanted = 0;
    begin_tag(r);
    read_tag(r, c);
    return true;
}

/* Outside of quotes: white space to Python, another "=" that it takes for the same; not to browsers. */
static bool is_odd(const struct html_reader *r, char c)
{
    if (r->where == WHERE_VALUE && r->quote)
        return false;
    return ((unsigned char)c < 0x20 && !is_space(c)) || (unsigned char)c >= 0x7f || (c == '=' && r->where == WHERE_EQUALS);
}

static void read_inside(struct html_reader *r, char c, uint64_t at)
{
    if (begins_another(r, c) || (is_odd(r, c) && !tell_ambiguous(r)))
        return;
    switch (r->where) {
    case WHERE_NAME:
        read_name(r, c);
        break;
    case WHERE_EQUALS:
        read_equals(r, c, at);
        break;
    case WHERE_VALUE:
        read_value(r, c);
        break;
    default:
        read_between(r, c);
        break;
    }
}

/* Up to and with the next "<". */
static size_t read_text(struct html_reader *r, struct slice bytes)
{
    const char *at = memchr(bytes.ptr, '<', bytes.len);

    if (!at)
        return bytes.len;
    begin_tag(r);
    return (size_t)(at - bytes.ptr) + 1;
}

enum html_state html_read(struct html_reader *r, struct slice bytes, uint64_t *safe)
{
    for (size_t i = 0; i < bytes.len && r->state == HTML_FINE; r->total++) {
        if (r->where == WHERE_TEXT) {
            size_t n = read_text(r, slice_from(bytes, i));

            i += n;
            r->total += n - 1;
        } else if (r->where == WHERE_TAG) {
            read_tag(r, bytes.ptr[i++]);
        } else {
            read_inside(r, bytes.ptr[i++], r->total);
        }
    }
    *safe = r->wanted ? r->start : r->total;
    return r->state;
}

bool html_end(struct html_reader *r)
{
    if (r->state == HTML_FINE && r->wanted)
        give_value(r, true);
    return r->state != HTML_STOPPED;
}
