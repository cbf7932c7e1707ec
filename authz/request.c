/* Makes the canonical request from a head and what its connection fixed. Decides nothing. */
#include "authz/request.h"

#include <string.h>

#include "authz/path.h"
#include "base/put.h"
#include "net/upgrade.h"

static uint16_t default_port(enum scheme scheme)
{
    return scheme == SCHEME_HTTPS ? 443 : 80;
}

static bool malformed(struct fault *why, const char *what)
{
    return fault_reason(why, REASON_REQUEST_MALFORMED, "%s", what);
}

/* Is text this host already, byte for byte, and this port where that is not the usual one? The ordinary case. */
static bool is_written(struct slice text, const char *host, uint16_t port, uint16_t usual)
{
    size_t len = strlen(host);
    char digits[1 + PUT_DECIMAL_MAX] = ":";

    if (text.len < len || memcmp(text.ptr, host, len) != 0)
        return false;
    if (port == usual)
        return text.len == len;
    return slice_equals(slice_from(text, len), slice_make(digits, (size_t)(put_decimal(digits + 1, port) - digits)));
}

/* Does an authority name this destination? fallback: the port it means when it names none. */
static bool agrees(struct slice authority, uint16_t fallback, const char *host, uint16_t port, const char *whose,
                   struct fault *why)
{
    char name[NAME_MAX_LEN + 1];
    struct slice text;
    uint16_t n;

    if (is_written(authority, host, port, fallback))
        return true;
    if (!name_split_authority(authority, fallback, &text, &n, why) || !name_canonical(text, name, why)) {
        fault_prefix(why, "%s", whose);
        return false;
    }
    if (strcmp(name, host) != 0 || n != port)
        return fault_reason(why, REASON_AUTHORITY_MISMATCH, "%s names %s port %u, not %s port %u", whose, name, n,
                            host, port);
    return true;
}

/* The Host field: one, or none in HTTP/1.0. */
static bool find_host(const struct head *h, const struct field **out, struct fault *why)
{
    *out = NULL;
    for (size_t i = 0; i < h->n_fields; i++) {
        if (!slice_equals_nocase(h->fields[i].name, SLICE("Host")))
            continue;
        if (*out)
            return malformed(why, "there are two Host fields");
        *out = &h->fields[i];
    }
    return *out || h->minor == 0 || fault_reason(why, REASON_HOST_MISSING, "there is no Host field");
}

static bool check_host(const struct request *r, uint16_t fallback, struct fault *why)
{
    const struct field *host;

    if (!find_host(r->head, &host, why))
        return false;
    return !host || agrees(host->value, fallback, r->host, r->port, "the Host field", why);
}

/* RFC 3986 has no place for these in any target; "#" would begin what is never sent. */
static bool check_octets(struct slice target, struct fault *why)
{
    for (size_t i = 0; i < target.len; i++)
        if (target.ptr[i] <= 0x20 || target.ptr[i] >= 0x7f)
            return malformed(why, "the target has an octet that must be percent-encoded");
    if (slice_find(target, '#') >= 0)
        return malformed(why, "the target has a fragment");
    return true;
}

/* Path and query of an origin-form target (RFC 9112 3.2.1). */
static bool read_origin_form(struct request *r, struct slice target, struct fault *why)
{
    ptrdiff_t mark = slice_find(target, '?');

    r->target = target;
    r->has_query = mark >= 0;
    r->raw_path = mark < 0 ? target : slice_cut(target, 0, (size_t)mark);
    r->query = mark < 0 ? SLICE("") : slice_from(target, (size_t)mark + 1);
    return path_canonical(r->raw_path, &r->path, why);
}

static bool strip_scheme(struct slice target, enum scheme *scheme, struct slice *rest)
{
    if (slice_starts_nocase(target, SLICE("http://"))) {
        *scheme = SCHEME_HTTP;
        *rest = slice_from(target, 7);
        return true;
    }
    if (slice_starts_nocase(target, SLICE("https://"))) {
        *scheme = SCHEME_HTTPS;
        *rest = slice_from(target, 8);
        return true;
    }
    return false;
}

/* Cut what follows the scheme of a URL into authority and origin-form. */
static bool split_url(struct slice rest, struct slice method, struct slice *authority, struct slice *origin,
                      struct fault *why)
{
    size_t end = 0;

    while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
        end++;
    *authority = slice_cut(rest, 0, end);
    *origin = slice_from(rest, end);
    if (origin->len == 0)
        *origin = SLICE("/");
    if (origin->ptr[0] == '?')
        return fault_reason(why, REASON_PATH_INVALID, "the URL has a query and no path");
    /* RFC 9112 3.2.4: this would mean "*" */
    if (end == rest.len && slice_is(method, "OPTIONS"))
        return malformed(why, "OPTIONS of a whole server is not forwarded");
    return true;
}

static bool read_authority(struct request *r, struct slice authority, uint16_t fallback, struct fault *why)
{
    struct slice host;

    return name_split_authority(authority, fallback, &host, &r->port, why) && name_canonical(host, r->host, why);
}

/* authority-form (RFC 9112 3.2.3); a port must be written. */
static bool read_connect(struct request *r, struct slice target, struct fault *why)
{
    r->connect = true;
    if (!read_authority(r, target, 0, why))
        return false;
    return r->port || malformed(why, "CONNECT names no port");
}

/* What follows the scheme of a URL. */
static bool read_url(struct request *r, struct slice rest, struct fault *why)
{
    struct slice authority, origin;

    return split_url(rest, r->method, &authority, &origin, why) &&
           read_authority(r, authority, default_port(r->scheme), why) && read_origin_form(r, origin, why);
}

static bool read_absolute_form(struct request *r, struct slice target, struct fault *why)
{
    struct slice rest;

    if (!strip_scheme(target, &r->scheme, &rest))
        return slice_starts(target, SLICE("/")) || slice_is(target, "*")
                   ? fault_reason(why, REASON_NOT_A_PROXY_REQUEST, "the target names no host")
                   : malformed(why, "the target is no URL of http, and no CONNECT");
    return read_url(r, rest, why);
}

static bool read_outside(struct request *r, const struct head *head, struct fault *why)
{
    if (slice_is(head->method, "CONNECT")) {
        if (head->framing == FRAMING_CHUNKED || (head->framing == FRAMING_LENGTH && head->length))
            return malformed(why, "CONNECT has no body");
        return read_connect(r, head->target, why) && check_host(r, r->port, why);
    }
    if (slice_starts_nocase(head->target, SLICE("https://")))
        return malformed(why, "https is reached by CONNECT, never in plain");
    return read_absolute_form(r, head->target, why) && check_host(r, default_port(r->scheme), why);
}

/* absolute-form inside a tunnel must name the tunnel's own destination. */
static bool strip_own_authority(struct request *r, struct slice *target, struct fault *why)
{
    struct slice rest, authority;
    enum scheme scheme;

    if (target->len && target->ptr[0] == '/')
        return true;
    if (!strip_scheme(*target, &scheme, &rest))
        return malformed(why, "the target is neither a path nor a URL");
    if (scheme != r->scheme)
        return fault_reason(why, REASON_AUTHORITY_MISMATCH, "the target has the other scheme than the tunnel");
    return split_url(rest, r->method, &authority, target, why) &&
           agrees(authority, default_port(scheme), r->host, r->port, "the target", why);
}

static bool read_inside(struct request *r, const struct head *head, const struct request_context *context,
                        struct fault *why)
{
    struct slice target = head->target;

    if (slice_is(head->method, "CONNECT"))
        return malformed(why, "CONNECT inside a tunnel is refused");
    r->scheme = context->scheme;
    r->port = context->port;
    memcpy(r->host, context->host, strlen(context->host) + 1);
    return check_host(r, default_port(r->scheme), why) && strip_own_authority(r, &target, why) &&
           read_origin_form(r, target, why);
}

/* Of plain HTTP: the Host field is all that says where to. Without a port it means the scheme's own, and that is the one meant. */
static bool take_host(struct request *r, struct fault *why)
{
    const struct field *host;
    uint16_t meant = r->port;

    if (!find_host(r->head, &host, why))
        return false;
    if (!host)
        return fault_reason(why, REASON_HOST_MISSING, "there is no Host field");
    if (!read_authority(r, host->value, default_port(r->scheme), why))
        return false;
    if (r->port == meant)
        return true;
    return fault_reason(why, REASON_AUTHORITY_MISMATCH, "the Host field names port %u, and the connection was to port %u", r->port, meant);
}

static bool read_transparent(struct request *r, const struct head *head, const struct request_context *context,
                             struct fault *why)
{
    if (!slice_starts(head->target, SLICE("/")))
        return fault_reason(why, REASON_PROXY_REQUEST, "the target is no path");
    r->scheme = context->scheme;
    r->port = context->port;
    if (context->host)
        memcpy(r->host, context->host, strlen(context->host) + 1);
    return (context->host ? check_host(r, default_port(r->scheme), why) : take_host(r, why)) &&
           read_origin_form(r, head->target, why);
}

/* Everything but the memory of the path. host is written whole by whoever reads it. */
static void reset(struct request *r, struct slice method, const struct head *head)
{
    r->connect = false;
    r->scheme = SCHEME_HTTP;
    r->host[0] = '\0';
    r->port = 0;
    r->method = method;
    r->target = r->raw_path = r->query = r->carrier = SLICE("");
    r->has_query = r->websocket = false;
    buf_clear(&r->path);
    r->head = head;
}

bool request_read(struct request *r, const struct head *head, const struct request_context *context,
                  struct fault *why)
{
    reset(r, head->method, head);
    r->websocket = head->upgrade && upgrade_is_asked(head);
    if (!check_octets(head->target, why))
        return false;
    if (context->transparent)
        return read_transparent(r, head, context, why);
    return context->tunnelled ? read_inside(r, head, context, why) : read_outside(r, head, why);
}

/* RFC 6455 3 */
static bool strip_websocket_scheme(struct slice url, struct request *r, struct slice *rest)
{
    bool tls = slice_starts_nocase(url, SLICE("wss://"));

    r->websocket = tls || slice_starts_nocase(url, SLICE("ws://"));
    r->scheme = tls ? SCHEME_HTTPS : SCHEME_HTTP;
    *rest = slice_from(url, tls ? 6 : 5);
    return r->websocket;
}

bool request_from_url(struct request *r, struct slice method, struct slice url, struct fault *why)
{
    struct slice rest;

    reset(r, method, NULL);
    if (slice_find(url, '#') >= 0)
        return malformed(why, "the URL has a fragment; clients never send it");
    if (slice_is(method, "CONNECT"))
        return read_connect(r, url, why);
    if (!strip_scheme(url, &r->scheme, &rest) && !strip_websocket_scheme(url, r, &rest))
        return malformed(why, "the URL starts with neither https:// nor http://, wss:// nor ws://");
    return read_url(r, rest, why) && check_octets(r->query, why);
}

void request_clear(struct request *r)
{
    buf_free(&r->path);
}
