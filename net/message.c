/*
 * The incremental machine: collects a head, lets it be read, then reads content by its framing. Owns the bytes of head and trailers
 * of one message; content is only looked at.
 */
#include <stdlib.h>
#include <string.h>

#include "base/spare.h"
#include "net/line.h"

enum { EXTENSION_MAX = 1024, SIZE_DIGITS = 16 };

enum place {
    AT_START, /* nothing of the message yet */
    IN_HEAD,
    IN_LENGTH,
    IN_CLOSE,
    IN_SIZE, /* chunk-size digits */
    IN_EXTENSION,
    AT_SIZE_LF,
    IN_CHUNK,
    AT_CHUNK_CR,
    AT_CHUNK_LF,
    IN_TRAILERS,
    AT_END, /* END is due */
    DONE,
    BROKEN,
};

struct message {
    enum message_kind kind;
    const struct message_limits *limits;
    enum place place;
    bool head_request; /* a response to HEAD */
    bool last_cr;      /* the byte before was CR */
    bool blank_seen;   /* the one empty line allowed before a request */
    uint8_t digits;
    uint16_t extension;
    size_t start_line; /* bytes of the start line, once it is whole */
    size_t line_start; /* in raw: where the current line began */
    size_t n_lines;
    uint64_t left; /* of the length or the chunk */
    struct buf raw, trailer_raw;
    struct field *fields, *trailers;
    size_t fields_size;
    size_t n_trailers;
    struct head head;
    struct slice body;
};

struct message *message_new(enum message_kind kind, const struct message_limits *limits)
{
    struct message *m = calloc(1, sizeof *m);

    if (!m)
        abort();
    m->kind = kind;
    m->limits = limits;
    return m;
}

void message_reset(struct message *m)
{
    buf_free(&m->raw);
    buf_free(&m->trailer_raw);
    spare_put(m->fields, m->fields_size);
    free(m->trailers);
    *m = (struct message){.kind = m->kind, .limits = m->limits};
}

void message_free(struct message *m)
{
    if (!m)
        return;
    message_reset(m);
    free(m);
}

void message_expect(struct message *m, bool head_request)
{
    m->head_request = head_request;
}

const struct head *message_head(const struct message *m)
{
    return &m->head;
}

struct slice message_body(const struct message *m)
{
    return m->body;
}

uint64_t message_announced(const struct message *m)
{
    return m->left;
}

const struct field *message_trailers(const struct message *m, size_t *n)
{
    *n = m->n_trailers;
    return m->trailers;
}

bool message_is_open(const struct message *m)
{
    return m->place != AT_START && m->place != DONE;
}

bool message_is_whole(const struct message *m)
{
    return m->place == AT_END;
}

static enum message_event broken(struct message *m, struct fault *why)
{
    m->place = BROKEN;
    if (why && m->kind == MESSAGE_RESPONSE)
        why->reason = REASON_UPSTREAM_MALFORMED;
    return MESSAGE_BAD;
}

static enum message_event bad(struct message *m, struct fault *why, const char *text)
{
    fault_reason(why, REASON_REQUEST_MALFORMED, "%s", text);
    return broken(m, why);
}

/* ---- collecting lines up to the empty one ---- */

enum line_look { LOOK_MORE, LOOK_DONE, LOOK_BAD };

/*
 * Look at new bytes of a head or trailer section: controls, bare CR, bare LF are told at once, before the whole is there.
 * *used is the count of bytes up to and including the end of the empty line.
 */
static enum line_look look(struct message *m, struct slice bytes, size_t base, size_t *used)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (!m->last_cr && (i = line_control(bytes, i)) == bytes.len)
            break;
        char c = bytes.ptr[i];

        if (m->last_cr != (c == '\n'))
            return LOOK_BAD; /* CR without LF, or LF without CR */
        m->last_cr = c == '\r';
        if (c == '\n') {
            bool empty = base + i == m->line_start + 1;

            m->line_start = base + i + 1;
            if (m->n_lines++ == 0)
                m->start_line = m->line_start;
            if (empty) {
                *used = i + 1;
                return LOOK_DONE;
            }
        } else if (c != '\t' && c != '\r') {
            return LOOK_BAD;
        }
    }
    *used = bytes.len;
    return LOOK_MORE;
}

static bool is_too_large(struct message *m, struct fault *why)
{
    size_t len = buf_len(&m->raw), start_line = m->n_lines ? m->start_line : len;

    if (m->kind == MESSAGE_REQUEST && start_line > m->limits->target + 64)
        return !fault_reason(why, REASON_TARGET_TOO_LONG, "the target is longer than %zu bytes", m->limits->target);
    if (m->n_lines > m->limits->n_fields + 2) /* the start line and the empty one */
        return !fault_reason(why, REASON_HEAD_TOO_LARGE, "more than %zu fields", m->limits->n_fields);
    return len > m->limits->head &&
           !fault_reason(why, REASON_HEAD_TOO_LARGE, "the head is larger than %zu bytes", m->limits->head);
}

static bool is_empty_status(int status)
{
    return status < 200 || status == 204 || status == 304;
}

static void begin_content(struct message *m)
{
    struct head *h = &m->head;

    if (m->kind == MESSAGE_RESPONSE && (m->head_request || is_empty_status(h->status)))
        h->framing = FRAMING_NONE;
    m->left = h->length;
    switch (h->framing) {
    case FRAMING_NONE:
        m->place = AT_END;
        break;
    case FRAMING_LENGTH:
        m->place = h->length ? IN_LENGTH : AT_END;
        break;
    case FRAMING_CHUNKED:
        m->place = IN_SIZE;
        break;
    case FRAMING_CLOSE:
        m->place = IN_CLOSE;
        break;
    }
}

static enum message_event head_complete(struct message *m, struct fault *why)
{
    struct slice raw = buf_slice(&m->raw);

    m->fields_size = (m->n_lines + 1) * sizeof *m->fields;
    m->fields = spare_get(m->fields_size); /* each is written before it is counted */
    if (!head_parse(m->kind, raw, m->limits, m->fields, &m->head, why) ||
        (!m->head.plain && !head_second_opinion(m->kind, raw, &m->head, why)))
        return broken(m, why);
    begin_content(m);
    return MESSAGE_HEAD;
}

/* RFC 9112 2.2: one empty line before a request line is passed over. */
static bool skip_blank(struct message *m)
{
    if (m->kind != MESSAGE_REQUEST || m->blank_seen || m->n_lines != 1)
        return false;
    message_reset(m);
    m->blank_seen = true;
    return true;
}

/* A start line that is none is refused when it is there: who speaks another protocol may never send an empty line. */
static bool start_line_is_sound(struct message *m, size_t lines_before, struct fault *why)
{
    struct slice line = slice_cut(buf_slice(&m->raw), 0, m->start_line - 2);

    return lines_before || m->n_lines == 0 || head_start_line(m->kind, line, m->limits, &m->head, why);
}

static enum message_event feed_head(struct message *m, struct slice input, size_t *used, struct fault *why)
{
    size_t n = 0, lines = m->n_lines;
    enum line_look seen;

    if (input.len == 0)
        return MESSAGE_MORE;
    m->place = IN_HEAD;
    seen = look(m, input, buf_len(&m->raw), &n);
    *used = n;
    if (seen == LOOK_BAD)
        return bad(m, why, "a control character or a line that does not end with CRLF in the head");
    buf_append(&m->raw, slice_cut(input, 0, n));
    if (is_too_large(m, why))
        return broken(m, why);
    if (seen == LOOK_MORE)
        return start_line_is_sound(m, lines, why) ? MESSAGE_MORE : broken(m, why);
    if (m->n_lines == 1) {
        if (!skip_blank(m))
            return bad(m, why, "empty lines before the start line");
        size_t more = 0;
        enum message_event event = feed_head(m, slice_from(input, n), &more, why);

        *used = n + more;
        return event;
    }
    return head_complete(m, why);
}

/* ---- content ---- */

static enum message_event give_body(struct message *m, struct slice input, size_t *used, uint64_t most)
{
    if (input.len == 0)
        return MESSAGE_MORE;
    m->body = slice_cut(input, 0, most < input.len ? (size_t)most : input.len);
    *used += m->body.len;
    return MESSAGE_BODY;
}

static enum message_event feed_length(struct message *m, struct slice input, size_t *used)
{
    enum message_event event = give_body(m, input, used, m->left);

    if (event == MESSAGE_BODY && (m->left -= m->body.len) == 0)
        m->place = AT_END;
    return event;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool take_size(struct message *m, char c)
{
    int value = digit(c);

    if (value >= 0 && m->digits < SIZE_DIGITS - 1) {
        m->left = m->left << 4 | (uint64_t)value;
        m->digits++;
        return true;
    }
    if (m->digits == 0 || value >= 0)
        return false;
    if (c == ';')
        m->place = IN_EXTENSION;
    else if (c == '\r')
        m->place = AT_SIZE_LF;
    else
        return false;
    return true;
}

static bool take_extension(struct message *m, char c)
{
    if (c == '\r') {
        m->place = AT_SIZE_LF;
        return true;
    }
    return ++m->extension <= EXTENSION_MAX && ((unsigned char)c >= 0x20 || c == '\t') && c != 0x7f;
}

static void size_complete(struct message *m)
{
    m->place = m->left ? IN_CHUNK : IN_TRAILERS;
    m->digits = 0;
    if (m->left == 0) {
        m->line_start = 0;
        m->n_lines = 0;
        m->last_cr = false;
    }
}

/* One byte of a chunk's line; false when it does not belong there (RFC 9112 7.1). */
static bool take_chunk_byte(struct message *m, char c)
{
    switch (m->place) {
    case IN_SIZE:
        return take_size(m, c);
    case IN_EXTENSION:
        return take_extension(m, c);
    case AT_SIZE_LF:
        if (c == '\n')
            size_complete(m);
        return c == '\n';
    case AT_CHUNK_CR:
        m->place = AT_CHUNK_LF;
        return c == '\r';
    default: /* AT_CHUNK_LF */
        m->place = IN_SIZE;
        return c == '\n';
    }
}

static bool is_forbidden_trailer(struct slice name)
{
    static const char *const names[] = {
        "content-length", "transfer-encoding", "host", "connection", "trailer", "te", "upgrade", "expect",
        "authorization", "proxy-authorization", "cookie", "set-cookie", "content-encoding", "content-type",
        "content-range", "cache-control", "max-forwards", "range", "via", "proxy-authenticate", "www-authenticate",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_is_nocase(name, names[i]))
            return true;
    return false;
}

static enum message_event trailers_complete(struct message *m, struct fault *why)
{
    struct slice raw = buf_slice(&m->trailer_raw), line;

    m->place = AT_END;
    if (m->n_lines == 1)
        return MESSAGE_MORE; /* none: END is next */
    m->trailers = calloc(m->n_lines, sizeof *m->trailers);
    if (!m->trailers)
        abort();
    while (line_next(&raw, &line) && line.len) {
        if (!line_field(line, &m->trailers[m->n_trailers], why))
            return broken(m, why);
        if (is_forbidden_trailer(m->trailers[m->n_trailers].name))
            return bad(m, why, "a trailer field that frames, routes or authenticates");
        m->n_trailers++;
    }
    return MESSAGE_TRAILERS;
}

static enum message_event feed_trailers(struct message *m, struct slice input, size_t *used, struct fault *why)
{
    size_t n = 0;
    enum line_look seen = look(m, input, buf_len(&m->trailer_raw), &n);

    *used += n;
    if (seen == LOOK_BAD)
        return bad(m, why, "a control character or a line that does not end with CRLF in the trailers");
    buf_append(&m->trailer_raw, slice_cut(input, 0, n));
    if (buf_len(&m->trailer_raw) > m->limits->head || m->n_lines > m->limits->n_fields + 1) {
        fault_reason(why, REASON_HEAD_TOO_LARGE, "the trailers are too large");
        return broken(m, why);
    }
    return seen == LOOK_DONE ? trailers_complete(m, why) : MESSAGE_MORE;
}

static enum message_event feed_chunked(struct message *m, struct slice input, size_t *used, struct fault *why)
{
    while (*used < input.len) {
        if (m->place == IN_CHUNK) {
            enum message_event event = give_body(m, slice_from(input, *used), used, m->left);

            if ((m->left -= m->body.len) == 0)
                m->place = AT_CHUNK_CR;
            return event;
        }
        if (m->place == IN_TRAILERS)
            return feed_trailers(m, slice_from(input, *used), used, why);
        if (!take_chunk_byte(m, input.ptr[(*used)++]))
            return bad(m, why, "a chunk that is not framed as RFC 9112 7.1 says");
    }
    return MESSAGE_MORE;
}

static enum message_event feed_once(struct message *m, struct slice input, size_t *used, struct fault *why)
{
    switch (m->place) {
    case AT_START:
    case IN_HEAD:
        return feed_head(m, input, used, why);
    case IN_LENGTH:
        return feed_length(m, input, used);
    case IN_CLOSE:
        return give_body(m, input, used, UINT64_MAX);
    case AT_END:
        m->place = DONE;
        return MESSAGE_END;
    case DONE:
        return MESSAGE_MORE;
    case BROKEN:
        return MESSAGE_BAD;
    default:
        return feed_chunked(m, input, used, why);
    }
}

enum message_event message_feed(struct message *m, struct slice input, size_t *used, struct fault *why)
{
    enum message_event event;

    *used = 0;
    event = feed_once(m, input, used, why);
    if (event == MESSAGE_MORE && m->place == AT_END) { /* the last chunk had no trailers */
        m->place = DONE;
        return MESSAGE_END;
    }
    return event;
}

enum message_event message_finish(struct message *m, struct fault *why)
{
    if (m->place == AT_START || m->place == DONE)
        return MESSAGE_MORE;
    if (m->place == IN_CLOSE) {
        m->place = DONE;
        return MESSAGE_END;
    }
    return bad(m, why, "the connection ended inside a message");
}
