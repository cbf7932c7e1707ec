/* Owns nothing. Everything shown here was chosen by somebody who may be hostile. */
#include "journal/view.h"

#include <inttypes.h>
#include <string.h>

#include "base/id.h"
#include "base/reason.h"

enum { SHOWN_MAX = 300, NAME_MAX_LEN = 64 };

static const json_t *find(const json_t *record, const char *name)
{
    const char *dot = strchr(name, '.');
    char group[NAME_MAX_LEN];

    if (!dot)
        return json_object_get(record, name);
    if ((size_t)(dot - name) >= sizeof group)
        return NULL;
    memcpy(group, name, (size_t)(dot - name));
    group[dot - name] = '\0';
    return json_object_get(json_object_get(record, group), dot + 1);
}

const char *view_text(const json_t *record, const char *name)
{
    return json_string_value(find(record, name));
}

int64_t view_number(const json_t *record, const char *name, int64_t fallback)
{
    const json_t *value = find(record, name);

    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool view_flag(const json_t *record, const char *name)
{
    return json_is_true(find(record, name));
}

/* jansson gives valid UTF-8: the code point at p and its length. */
static unsigned decode(const unsigned char *p, size_t *len)
{
    *len = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    switch (*len) {
    case 1:
        return p[0];
    case 2:
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    case 3:
        return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    default:
        return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    }
}

/* Controls, and what turns the direction of text or hides in it. */
static bool is_trouble(unsigned c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x061C || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

void view_put(struct buf *out, const char *text)
{
    size_t left = strlen(text), len;

    for (const unsigned char *p = (const unsigned char *)text; *p; p += len, left -= len) {
        unsigned c = decode(p, &len);

        if (len > left || (size_t)(p - (const unsigned char *)text) > SHOWN_MAX) {
            buf_text(out, "...");
            return;
        }
        if (!is_trouble(c))
            buf_append(out, slice_make(p, len));
        else
            buf_printf(out, c < 0x80 ? "\\x%02x" : "\\u%04x", c);
    }
}

static bool is_usual_port(const char *scheme, int64_t port)
{
    return (strcmp(scheme, "https") == 0 && port == 443) || (strcmp(scheme, "http") == 0 && port == 80);
}

/* A question to a DNS listener, or the look-up that it made. */
static void put_question(struct buf *out, const json_t *record, const char *type)
{
    const char *name = view_text(record, "dns.name");

    if (!name)
        name = view_text(record, "http.host");
    buf_text(out, "DNS ");
    view_put(out, type);
    buf_char(out, ' ');
    view_put(out, name ? name : "(a name that is not repeated)");
}

void view_put_request(struct buf *out, const json_t *record)
{
    const char *type = view_text(record, "dns.type");
    const char *method = view_text(record, "http.method"), *scheme = view_text(record, "http.scheme");
    const char *host = view_text(record, "http.host"), *path = view_text(record, "http.path");
    int64_t port = view_number(record, "http.port", 0);

    if (type) {
        put_question(out, record, type);
        return;
    }
    if (method) {
        view_put(out, method);
        buf_char(out, ' ');
    }
    if (scheme) {
        view_put(out, scheme);
        buf_text(out, "://");
    }
    if (host)
        view_put(out, host);
    else
        buf_text(out, "(no host)");
    if (port && !(scheme && is_usual_port(scheme, port)))
        buf_printf(out, ":%" PRId64, port);
    if (path)
        view_put(out, path);
}

void view_put_duration(struct buf *out, int64_t us)
{
    if (us < 1000)
        buf_printf(out, "%" PRId64 " us", us);
    else if (us < 1000000)
        buf_printf(out, "%" PRId64 " ms", us / 1000);
    else
        buf_printf(out, "%" PRId64 ".%" PRId64 " s", us / 1000000, us / 100000 % 10);
}

/* "2026-01-02 03:04:05.123" of the RFC 3339 time. */
static void put_time(struct buf *out, const char *ts)
{
    struct slice s = slice_of(ts);

    if (s.len < 24 || s.ptr[10] != 'T') {
        view_put(out, ts);
        return;
    }
    buf_append(out, slice_cut(s, 0, 10));
    buf_char(out, ' ');
    buf_append(out, slice_cut(s, 11, 23));
}

static void put_member(struct buf *out, const json_t *record, const char *name, const char *before)
{
    const char *text = view_text(record, name);

    if (!text || !*text)
        return;
    buf_text(out, before);
    view_put(out, text);
}

static void put_number(struct buf *out, const json_t *record, const char *name, const char *before)
{
    int64_t n = view_number(record, name, -1);

    if (n >= 0)
        buf_printf(out, "%s%" PRId64, before, n);
}

static void put_what(struct buf *out, const json_t *record)
{
    int64_t status = view_number(record, "http.status", 0), us = view_number(record, "duration_us", -1);

    if (view_text(record, "http.host") || view_text(record, "http.method") || view_text(record, "dns.type")) {
        buf_char(out, ' ');
        view_put_request(out, record);
    }
    if (status)
        buf_printf(out, " %" PRId64, status);
    if (view_number(record, "http.response_bytes", -1) >= 0)
        buf_printf(out, " %" PRId64 " B up, %" PRId64 " B down", view_number(record, "http.request_bytes", 0),
                   view_number(record, "http.response_bytes", 0));
    if (us >= 0) {
        buf_text(out, " in ");
        view_put_duration(out, us);
    }
}

void view_put_line(struct buf *out, const json_t *record)
{
    const char *ts = view_text(record, "ts"), *id = view_text(record, "id"), *kind = view_text(record, "kind");
    const char *reason = view_text(record, "reason");

    put_time(out, ts ? ts : "?");
    buf_printf(out, " %-*s ", ID_SHORT_LEN, id && strlen(id) == ID_TEXT_LEN ? id + ID_TEXT_LEN - ID_SHORT_LEN : "-");
    view_put(out, kind ? kind : "?");
    put_member(out, record, "action", " ");
    put_member(out, record, "outcome", " ");
    if (!reason || strcmp(reason, reason_code(REASON_ALLOWED)) != 0) /* action and outcome say that much */
        put_member(out, record, "reason", " ");
    put_member(out, record, "sandbox", " sandbox ");
    put_member(out, record, "service", " service ");
    put_what(out, record);
    put_member(out, record, "address", " to ");
    put_member(out, record, "canary.id", " canary ");
    put_number(out, record, "audit.exchanges", " exchanges ");
    put_member(out, record, "audit.root", " root ");
    if (view_text(record, "edge.kind")) {
        put_member(out, record, "edge.kind", " ");
        put_member(out, record, "edge.scheme", " to ");
        put_member(out, record, "edge.host", "://");
        put_number(out, record, "edge.port", ":");
        put_number(out, record, "edge.count", ", times ");
    }
    put_member(out, record, "revocation.key", " ");
    put_member(out, record, "revocation.value", " ");
    put_member(out, record, "gateway", " ");
    if (!id)
        put_number(out, record, "generation", " generation ");
    put_number(out, record, "accepted", " accepted ");
    put_number(out, record, "open", " open ");
    put_number(out, record, "lost.records", " records ");
    put_member(out, record, "lost.role", " of ");
    put_member(out, record, "detail", ": ");
}
