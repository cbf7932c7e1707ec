/*
 * Heads: start line, fields and what they say of the framing. We read them ourselves, strictly, and ask llhttp for
 * a second opinion; where the two differ, the message has two meanings and is refused. Of a plain head it is not asked:
 * what it would say is known (tests/unit/head.c, and the fuzz target of that name, ask it all the same).
 */
#include <llhttp.h>
#include <string.h>

#include "net/line.h"

static bool bad(struct fault *why, const char *text)
{
    return fault_reason(why, REASON_REQUEST_MALFORMED, "%s", text);
}

/* ---- start lines ---- */

static bool read_version(struct slice s, struct head *h, struct fault *why)
{
    if (s.len != 8 || !slice_starts(s, SLICE("HTTP/")) || s.ptr[6] != '.' || s.ptr[5] < '0' || s.ptr[5] > '9' ||
        s.ptr[7] < '0' || s.ptr[7] > '9')
        return bad(why, "no HTTP version in the start line");
    if (s.ptr[5] != '1' || s.ptr[7] > '1')
        return fault_reason(why, REASON_VERSION_NOT_SUPPORTED, "%.*s", SLICE_ARG(s));
    h->minor = s.ptr[7] - '0';
    return true;
}

static bool is_target(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] <= 0x20 || (unsigned char)s.ptr[i] >= 0x7f)
            return false;
    return s.len > 0;
}

static bool read_request_line(struct slice line, const struct message_limits *limits, struct head *h,
                              struct fault *why)
{
    struct slice version, more;

    if (!slice_next(&line, ' ', &h->method) || !slice_next(&line, ' ', &h->target) ||
        !slice_next(&line, ' ', &version) || slice_next(&line, ' ', &more))
        return bad(why, "the request line is not method, one space, target, one space, version");
    if (!line_is_token(h->method) || !is_target(h->target))
        return bad(why, "a method or target with characters that do not belong there");
    if (h->target.len > limits->target)
        return fault_reason(why, REASON_TARGET_TOO_LONG, "the target is longer than %zu bytes", limits->target);
    return read_version(version, h, why);
}

static bool read_status_line(struct slice line, struct head *h, struct fault *why)
{
    uint64_t status;

    if (line.len < 12 || line.ptr[8] != ' ' || (line.len > 12 && line.ptr[12] != ' ') ||
        !slice_decimal(slice_cut(line, 9, 12), 599, &status) || status < 100)
        return bad(why, "the status line is not version, space, three digits");
    h->status = (int)status;
    h->reason = slice_from(line, 13);
    return read_version(slice_cut(line, 0, 8), h, why);
}

/* ---- what the fields say ---- */

/* More names in Connection than this are no use to anybody but to make every look at them dear. */
enum { OPTIONS_MAX = 32 };

/* The fields that decide, found in one pass. */
struct deciding {
    const struct field *length, *coding, *expect;
    size_t n_length, n_coding, n_host, n_expect, n_options;
    bool close, keep_alive, upgrade, has_upgrade, forbidden;
    bool strange; /* something of the connection beyond close and keep-alive */
};

/* Fields that a Connection field may not take away from the next hop (RFC 9110 7.6.1). */
static bool is_end_to_end(struct slice option)
{
    static const struct slice names[] = {
        {"host", 4}, {"content-length", 14}, {"transfer-encoding", 17}, {"expect", 6}, {"via", 3},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_equals_nocase(option, names[i]))
            return true;
    return false;
}

static void note_connection(struct deciding *d, struct slice list)
{
    struct slice piece;

    while (slice_next(&list, ',', &piece) && ++d->n_options <= OPTIONS_MAX) {
        struct slice option = slice_trim(piece);

        if (slice_equals_nocase(option, SLICE("close"))) {
            d->close = true;
        } else if (slice_equals_nocase(option, SLICE("keep-alive"))) {
            d->keep_alive = true;
        } else if (slice_equals_nocase(option, SLICE("upgrade"))) {
            d->upgrade = d->strange = true;
        } else {
            d->strange = true;
            d->forbidden = d->forbidden || is_end_to_end(option);
        }
    }
}

static void note(struct deciding *d, const struct field *f)
{
    struct slice n = f->name;

    if (slice_equals_nocase(n, SLICE("content-length"))) {
        d->length = f;
        d->n_length++;
    } else if (slice_equals_nocase(n, SLICE("transfer-encoding"))) {
        d->coding = f;
        d->n_coding++;
    } else if (slice_equals_nocase(n, SLICE("host"))) {
        d->n_host++;
    } else if (slice_equals_nocase(n, SLICE("expect"))) {
        d->expect = f;
        d->n_expect++;
    } else if (slice_equals_nocase(n, SLICE("upgrade"))) {
        d->has_upgrade = d->strange = true;
    } else if (slice_equals_nocase(n, SLICE("proxy-connection"))) {
        d->strange = true;
    } else if (slice_equals_nocase(n, SLICE("connection"))) {
        note_connection(d, f->value);
    }
}

/* RFC 9112 6: one framing, said once, in one way. */
static bool read_framing(const struct deciding *d, struct head *h, struct fault *why)
{
    if (d->n_length > 1 || d->n_coding > 1)
        return bad(why, "the framing is said twice");
    if (d->n_length && d->n_coding)
        return bad(why, "Content-Length together with Transfer-Encoding");
    if (d->n_coding) {
        if (h->minor == 0)
            return bad(why, "Transfer-Encoding in HTTP/1.0");
        if (!slice_is_nocase(d->coding->value, "chunked"))
            return bad(why, "a transfer coding other than chunked");
        h->framing = FRAMING_CHUNKED;
    } else if (d->n_length) {
        if (!slice_decimal(d->length->value, INT64_MAX, &h->length))
            return bad(why, "a Content-Length that is not plain digits");
        h->framing = FRAMING_LENGTH;
    }
    return true;
}

static bool judge_request(const struct deciding *d, struct head *h, struct fault *why)
{
    if (d->n_host > 1 || (d->n_host == 0 && h->minor == 1))
        return d->n_host ? bad(why, "two Host fields") : fault_reason(why, REASON_HOST_MISSING, "no Host field");
    if (d->n_expect) {
        h->expect_continue = d->n_expect == 1 && h->minor == 1 && slice_is_nocase(d->expect->value, "100-continue");
        h->expect_other = !h->expect_continue && h->minor == 1;
    }
    if (slice_is(h->method, "CONNECT")) {
        if (d->n_coding || (d->n_length && h->length))
            return bad(why, "CONNECT with content");
        h->framing = FRAMING_NONE;
    }
    return true;
}

/* RFC 9112 6.1, RFC 9110 8.6: a status without content must not announce any; somebody would read it. */
static bool judge_response(const struct deciding *d, struct head *h, struct fault *why)
{
    if ((h->status < 200 || h->status == 204) && (d->n_coding || h->length))
        return bad(why, "content announced by a status that has none");
    if (h->framing == FRAMING_NONE)
        h->framing = FRAMING_CLOSE;
    return true;
}

static bool judge(enum message_kind kind, const struct deciding *d, struct head *h, struct fault *why)
{
    if (!read_framing(d, h, why))
        return false;
    if (d->forbidden)
        return bad(why, "Connection names a field that is not the connection's");
    if (d->n_options > OPTIONS_MAX)
        return bad(why, "Connection names too many options");
    h->keep_alive = !d->close && (h->minor == 1 || d->keep_alive);
    h->no_options = d->n_options == 0;
    h->upgrade = d->upgrade && d->has_upgrade;
    return kind == MESSAGE_REQUEST ? judge_request(d, h, why) : judge_response(d, h, why);
}

/* ---- plain heads: most of them, of which llhttp need not be asked ---- */

/* A method that everybody knows, and a path and query of what RFC 3986 has for them. */
static bool is_plain_request(const struct head *h)
{
    static const bool bytes[256] = {
        ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['-'] = true, ['.'] = true, ['_'] = true,
        ['~'] = true,         ['/'] = true,         ['?'] = true,         ['&'] = true, ['='] = true, ['%'] = true,
        ['+'] = true,         ['@'] = true,         [':'] = true,         [','] = true, [';'] = true, ['!'] = true,
        ['$'] = true,         ['*'] = true,
    };
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
    bool known = false;

    for (size_t i = 0; i < sizeof methods / sizeof *methods && !known; i++)
        known = slice_is(h->method, methods[i]);
    for (size_t i = 0; known && i < h->target.len; i++)
        known = bytes[(unsigned char)h->target.ptr[i]];
    return known && h->target.ptr[0] == '/';
}

/*
 * Version 1.1, framed by a length or not at all, no word on the connection but close and keep-alive, no tab; and the start line
 * as above, or that of a final response. Every other reader takes the rest as we do: names are tokens, lines end with CRLF.
 */
static bool is_plain(enum message_kind kind, struct slice raw, const struct deciding *d, const struct head *h)
{
    if (h->minor != 1 || d->n_coding || d->strange || slice_find(raw, '\t') >= 0)
        return false;
    return kind == MESSAGE_REQUEST ? is_plain_request(h) : h->status >= 200;
}

bool head_start_line(enum message_kind kind, struct slice line, const struct message_limits *limits, struct head *h,
                     struct fault *why)
{
    *h = (struct head){0};
    return kind == MESSAGE_REQUEST ? read_request_line(line, limits, h, why) : read_status_line(line, h, why);
}

bool head_parse(enum message_kind kind, struct slice raw, const struct message_limits *limits, struct field *fields,
                struct head *h, struct fault *why)
{
    struct deciding d = {0};
    struct slice whole = raw, line;

    if (!line_next(&raw, &line))
        return bad(why, "no start line");
    if (!head_start_line(kind, line, limits, h, why))
        return false;
    h->fields = fields;
    while (line_next(&raw, &line) && line.len) {
        if (h->n_fields >= limits->n_fields)
            return fault_reason(why, REASON_HEAD_TOO_LARGE, "more than %zu fields", limits->n_fields);
        if (!line_field(line, &fields[h->n_fields], why))
            return false;
        h->n_fields++;
        note(&d, &fields[h->n_fields - 1]);
    }
    h->plain = is_plain(kind, whole, &d, h);
    return judge(kind, &d, h, why);
}

/* ---- the second opinion ---- */

/* llhttp forgets its flags at the end of a message: what it thought of the head is kept here. */
static int on_headers_complete(llhttp_t *parser)
{
    *(llhttp_t *)parser->data = *parser;
    return 1; /* the content is ours to read */
}

static bool agrees(enum message_kind kind, const llhttp_t *p, const struct head *h)
{
    bool chunked = (p->flags & F_CHUNKED) != 0, length = (p->flags & F_CONTENT_LENGTH) != 0;

    if (p->http_major != 1 || p->http_minor != h->minor)
        return false;
    if (kind == MESSAGE_RESPONSE && p->status_code != h->status)
        return false;
    if (h->framing == FRAMING_CHUNKED)
        return chunked && !length;
    if (h->framing == FRAMING_LENGTH)
        return length && !chunked;
    return !chunked;
}

static bool read_again(enum message_kind kind, struct slice raw, const struct head *h, struct fault *why)
{
    static llhttp_settings_t settings;
    llhttp_t parser, seen = {0};
    llhttp_errno_t error;

    if (!settings.on_headers_complete) {
        llhttp_settings_init(&settings);
        settings.on_headers_complete = on_headers_complete;
    }
    llhttp_init(&parser, kind == MESSAGE_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    parser.data = &seen;
    error = llhttp_execute(&parser, raw.ptr, raw.len);
    if (error != HPE_OK && error != HPE_PAUSED_UPGRADE)
        return bad(why, llhttp_get_error_reason(&parser) ? llhttp_get_error_reason(&parser) : "refused by the parser");
    return agrees(kind, &seen, h) || bad(why, "two readings of the head differ");
}

/*
 * llhttp knows a list of methods, and no tab behind Content-Length or chunked. Neither makes a second meaning: it is
 * asked again with POST for the method, which frames as any other does, and blanks for tabs.
 */
static void write_plainly(enum message_kind kind, struct slice raw, const struct head *h, struct buf *out)
{
    char *text;

    if (kind == MESSAGE_REQUEST && !slice_is(h->method, "CONNECT")) {
        buf_append(out, SLICE("POST"));
        raw = slice_from(raw, h->method.len);
    }
    text = buf_reserve(out, raw.len);
    for (size_t i = 0; i < raw.len; i++)
        text[i] = raw.ptr[i] == '\t' ? ' ' : raw.ptr[i];
    buf_commit(out, raw.len);
}

bool head_second_opinion(enum message_kind kind, struct slice raw, const struct head *h, struct fault *why)
{
    struct buf plain = {0};
    bool ok = read_again(kind, raw, h, why);

    if (ok)
        return true;
    write_plainly(kind, raw, h, &plain);
    ok = read_again(kind, buf_slice(&plain), h, why);
    buf_free(&plain);
    return ok;
}
