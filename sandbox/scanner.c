/* Owns the place in a client's stream of requests; holds no byte of it but the word it is reading. */
#include "sandbox/scanner.h"

#include <string.h>

enum state {
    METHOD, /* first: the state of a new scanner, and between requests */
    TARGET,
    VERSION,
    LINE_END, /* LF of the request line */
    FIELD,    /* the first byte of a line */
    HEAD_CR,  /* the CR that ends the head; the token goes before it */
    HEAD_LF,
    NAME,
    VALUE,
    VALUE_END, /* LF of a field */
    CONTENT,
    CHUNK_SIZE, /* its first digit */
    CHUNK_DIGITS,
    CHUNK_EXTENSION,
    CHUNK_LF,
    CHUNK,
    CHUNK_END_CR,
    CHUNK_END_LF,
    TRAILER, /* the first byte of a line behind the last chunk */
    TRAILER_TEXT,
    TRAILER_LF,
    END_LF,
    SWITCH,
    BLIND,
    BAD,
    LARGE,
};

enum field { OTHER, LENGTH, CODING };

enum { CHUNK_LINE_MAX = 256 };

void scanner_init(struct scanner *s)
{
    *s = (struct scanner){.state = METHOD, .first = true};
}

static bool is_word(unsigned char c) /* tchar of RFC 9110 */
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_text(unsigned char c) /* of a field value */
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

static char lower(unsigned char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static void add(struct scanner *s, char c)
{
    if (s->n_word < sizeof s->word)
        s->word[s->n_word] = c;
    if (s->n_word < UINT8_MAX)
        s->n_word++;
}

static bool word_is(const struct scanner *s, const char *text)
{
    return s->n_word == strlen(text) && s->n_word <= sizeof s->word && memcmp(s->word, text, s->n_word) == 0;
}

static bool word_starts(const struct scanner *s, const char *text)
{
    size_t n = strlen(text);

    return s->n_word >= n && memcmp(s->word, text, n) == 0;
}

static enum state next_word(struct scanner *s, enum state next)
{
    s->n_word = 0;
    return next;
}

/* ---- the request line ---- */

static enum state on_method(struct scanner *s, unsigned char c)
{
    if (s->n_word == 0) {
        bool first = s->first;

        *s = (struct scanner){.first = first, .head = s->head};
    }
    if (is_word(c) && s->n_word < sizeof s->word) {
        add(s, (char)c);
        return METHOD;
    }
    if (c != ' ' || s->n_word == 0)
        return BAD;
    s->connect = word_is(s, "CONNECT");
    return next_word(s, TARGET);
}

static enum state on_target(struct scanner *s, unsigned char c)
{
    if (c > ' ' && c < 0x7f) {
        add(s, lower(c));
        return TARGET;
    }
    if (c != ' ' || s->n_word == 0)
        return BAD;
    s->absolute = word_starts(s, "http://") || word_starts(s, "https://");
    return next_word(s, VERSION);
}

static enum state on_version(struct scanner *s, unsigned char c)
{
    if (c != '\r') {
        add(s, (char)c);
        return s->n_word <= strlen("HTTP/1.1") ? VERSION : BAD;
    }
    s->old = word_is(s, "HTTP/1.0");
    return s->old || word_is(s, "HTTP/1.1") ? LINE_END : BAD;
}

/* ---- fields ---- */

static enum state on_field(struct scanner *s, unsigned char c)
{
    s->n_word = 0;
    if (!is_word(c)) /* a folded line is one of these */
        return BAD;
    add(s, lower(c));
    return NAME;
}

static enum state on_name(struct scanner *s, unsigned char c)
{
    if (is_word(c)) {
        add(s, lower(c));
        return NAME;
    }
    if (c != ':')
        return BAD;
    s->field = word_is(s, "content-length") ? LENGTH : word_is(s, "transfer-encoding") ? CODING : OTHER;
    s->has_token = s->has_token || word_is(s, "proxy-authorization");
    s->upgrade = s->upgrade || word_is(s, "upgrade");
    return next_word(s, VALUE);
}

/* Digits alone, and so few that they cannot overflow; one field, and no coding beside it. */
static bool take_length(struct scanner *s)
{
    if (s->has_length || s->chunked || s->n_word == 0 || s->n_word > 18)
        return false;
    s->has_length = true;
    for (size_t i = 0; i < s->n_word; i++) {
        if (s->word[i] < '0' || s->word[i] > '9')
            return false;
        s->left = s->left * 10 + (uint64_t)(s->word[i] - '0');
    }
    return true;
}

static enum state end_value(struct scanner *s)
{
    bool ok = true;

    while (s->n_word && s->n_word <= sizeof s->word && (s->word[s->n_word - 1] == ' ' || s->word[s->n_word - 1] == '\t'))
        s->n_word--;
    if (s->field == LENGTH)
        ok = take_length(s);
    else if (s->field == CODING)
        ok = !s->old && !s->chunked && !s->has_length && (s->chunked = word_is(s, "chunked"));
    return ok ? VALUE_END : BAD;
}

static enum state on_value(struct scanner *s, unsigned char c)
{
    if (c == '\r')
        return end_value(s);
    if (!is_text(c))
        return BAD;
    if (s->field != OTHER && (s->n_word || (c != ' ' && c != '\t')))
        add(s, lower(c));
    return VALUE;
}

/* The head is over: what follows it? CONNECT and upgrades only where the answer to them can be told from others. */
static enum state end_head(struct scanner *s)
{
    bool was_first = s->first;

    s->head = 0;
    s->first = false;
    s->n_word = 0;
    if (s->connect || s->upgrade)
        return was_first && !s->chunked && s->left == 0 ? SWITCH : BAD;
    if (s->chunked)
        return CHUNK_SIZE;
    return s->left ? CONTENT : METHOD;
}

/* ---- content in chunks ---- */

static int digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (unsigned char)lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum state on_chunk_size(struct scanner *s, unsigned char c)
{
    if (s->state == CHUNK_SIZE) {
        s->left = 0;
        s->n_word = 0;
    }
    if (digit(c) >= 0 && s->n_word < 15) {
        s->n_word++;
        s->left = s->left * 16 + (uint64_t)digit(c);
        return CHUNK_DIGITS;
    }
    if (s->n_word == 0)
        return BAD;
    return c == '\r' ? CHUNK_LF : c == ';' || c == ' ' || c == '\t' ? CHUNK_EXTENSION : BAD;
}

static enum state on_extension(unsigned char c)
{
    return c == '\r' ? CHUNK_LF : is_text(c) ? CHUNK_EXTENSION : BAD;
}

static enum state end_chunk_line(struct scanner *s)
{
    s->head = 0;
    return s->left ? CHUNK : TRAILER;
}

static enum state end_message(struct scanner *s)
{
    s->head = 0;
    s->n_word = 0;
    return METHOD;
}

static enum state if_is(unsigned char c, unsigned char wanted, enum state next)
{
    return c == wanted ? next : BAD;
}

/* ---- one byte ---- */

static enum state step(struct scanner *s, unsigned char c)
{
    switch ((enum state)s->state) {
    case METHOD:
        return on_method(s, c);
    case TARGET:
        return on_target(s, c);
    case VERSION:
        return on_version(s, c);
    case LINE_END:
    case VALUE_END:
        return if_is(c, '\n', FIELD);
    case FIELD:
        return on_field(s, c);
    case HEAD_CR:
        return if_is(c, '\r', HEAD_LF);
    case HEAD_LF:
        return c == '\n' ? end_head(s) : BAD;
    case NAME:
        return on_name(s, c);
    case VALUE:
        return on_value(s, c);
    case CHUNK_SIZE:
    case CHUNK_DIGITS:
        return on_chunk_size(s, c);
    case CHUNK_EXTENSION:
        return on_extension(c);
    case CHUNK_LF:
        return c == '\n' ? end_chunk_line(s) : BAD;
    case CHUNK_END_CR:
        return if_is(c, '\r', CHUNK_END_LF);
    case CHUNK_END_LF:
        return if_is(c, '\n', CHUNK_SIZE);
    case TRAILER:
        return c == '\r' ? END_LF : is_word(c) ? TRAILER_TEXT : BAD;
    case TRAILER_TEXT:
        return c == '\r' ? TRAILER_LF : is_text(c) ? TRAILER_TEXT : BAD;
    case TRAILER_LF:
        return if_is(c, '\n', TRAILER);
    case END_LF:
        return c == '\n' ? end_message(s) : BAD;
    default:
        return BAD;
    }
}

/* Lines that a client can make as long as it likes have an end. */
static bool is_too_long(struct scanner *s)
{
    bool chunk_line = s->state >= CHUNK_SIZE && s->state <= CHUNK_LF;

    return ++s->head > (chunk_line ? CHUNK_LINE_MAX : SCAN_HEAD_MAX);
}

static bool is_content(const struct scanner *s)
{
    return s->state == CONTENT || s->state == CHUNK;
}

/* Content passes in one piece. */
static size_t pass_content(struct scanner *s, size_t n)
{
    size_t piece = n < s->left ? n : (size_t)s->left;

    s->left -= piece;
    if (s->left == 0)
        s->state = s->state == CHUNK ? CHUNK_END_CR : METHOD;
    return piece;
}

static enum scan_event event_of(const struct scanner *s)
{
    switch ((enum state)s->state) {
    case SWITCH:
        return SCAN_SWITCH;
    case BAD:
        return SCAN_BAD;
    case LARGE:
        return SCAN_LARGE;
    default:
        return SCAN_MORE;
    }
}

size_t scanner_feed(struct scanner *s, const unsigned char *bytes, size_t n, enum scan_event *event)
{
    size_t at = 0;

    if (s->state == BLIND)
        at = n;
    while (at < n && event_of(s) == SCAN_MORE) {
        if (is_content(s)) {
            at += pass_content(s, n - at);
            continue;
        }
        if (s->state == FIELD && bytes[at] == '\r') {
            s->state = HEAD_CR;
            if ((s->connect || s->absolute) && !s->has_token) {
                *event = SCAN_TOKEN;
                return at;
            }
        }
        s->state = (uint8_t)(is_too_long(s) ? LARGE : step(s, bytes[at]));
        if (s->state != BAD && s->state != LARGE)
            at++;
    }
    *event = event_of(s);
    return at;
}

void scanner_switch(struct scanner *s, bool yes)
{
    if (s->state == SWITCH)
        s->state = yes ? BLIND : METHOD;
}
