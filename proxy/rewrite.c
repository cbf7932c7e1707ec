#include "proxy/rewrite.h"

#include <string.h>

#include "net/upgrade.h"

static void put_field(struct buf *out, struct slice name, struct slice value)
{
    buf_append(out, name);
    buf_append(out, SLICE(": "));
    buf_append(out, value);
    buf_append(out, SLICE("\r\n"));
}

static bool is_default_port(const struct request *r)
{
    return r->port == (r->scheme == SCHEME_HTTPS ? 443 : 80);
}

static void put_host(struct buf *out, const struct request *r)
{
    buf_append(out, SLICE("Host: "));
    buf_text(out, r->host);
    if (!is_default_port(r)) {
        buf_char(out, ':');
        buf_decimal(out, r->port);
    }
    buf_append(out, SLICE("\r\n"));
}

static void put_framing(struct buf *out, enum framing framing, uint64_t length)
{
    if (framing == FRAMING_LENGTH) {
        buf_append(out, SLICE("Content-Length: "));
        buf_decimal(out, length);
        buf_append(out, SLICE("\r\n"));
    } else if (framing == FRAMING_CHUNKED) {
        buf_append(out, SLICE("Transfer-Encoding: chunked\r\n"));
    }
}

/* Fields that we write ourselves, or that belong to the connection. */
static bool is_ours(struct slice name)
{
    return slice_is_nocase(name, "host") || slice_is_nocase(name, "content-length") || slice_is_nocase(name, "expect");
}

static void note_dropped(struct buf *dropped, struct slice name)
{
    if (buf_len(dropped))
        buf_char(dropped, ',');
    buf_append(dropped, name);
}

static void put_own_via(struct buf *out, const char *via)
{
    buf_append(out, SLICE("Via: "));
    buf_text(out, via);
    buf_append(out, SLICE("\r\n"));
}

/* What a response came through stays, and we come last. */
static void put_via(struct buf *out, const struct head *h, const char *via)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (slice_is_nocase(h->fields[i].name, "via"))
            put_field(out, h->fields[i].name, h->fields[i].value);
    put_own_via(out, via);
}

/* The leave token never goes on, whatever the service takes. */
static bool is_carrier(const struct request *r, struct slice name)
{
    return r->carrier.len && slice_equals_nocase(name, r->carrier);
}

static bool goes_on(const struct request *r, const struct service *s, struct slice name)
{
    if (!r->websocket)
        return service_forwards_field(s, name);
    if (upgrade_is_needed(name) && !service_is_credential(s, name))
        return true;
    return !upgrade_is_dropped(name) && service_forwards_field(s, name);
}

static void put_switch(struct buf *out)
{
    buf_append(out, SLICE("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
}

void rewrite_request(const struct request *r, const struct service *s, const char *via, struct buf *out,
                     struct buf *dropped)
{
    const struct head *h = r->head;

    buf_append(out, r->method);
    buf_char(out, ' ');
    buf_append(out, r->target);
    buf_append(out, SLICE(" HTTP/1.1\r\n"));
    put_host(out, r);
    for (size_t i = 0; i < h->n_fields; i++) {
        struct slice name = h->fields[i].name;

        if (is_ours(name) || head_is_hop(h, name) || is_carrier(r, name))
            continue;
        if (goes_on(r, s, name))
            put_field(out, name, h->fields[i].value);
        else
            note_dropped(dropped, name);
    }
    if (r->websocket)
        put_switch(out);
    if (service_reads_answers(s)) /* so that the answer can be looked through */
        buf_append(out, SLICE("Accept-Encoding: identity\r\n"));
    put_framing(out, h->framing, h->length);
    if (h->expect_continue)
        buf_append(out, SLICE("Expect: 100-continue\r\n"));
    put_own_via(out, via);
    buf_append(out, SLICE("\r\n"));
}

void rewrite_request_trailers(const struct head *h, const struct service *s, const struct field *trailers, size_t n,
                              struct buf *out, struct buf *dropped)
{
    for (size_t i = 0; i < n; i++)
        if (!head_is_hop(h, trailers[i].name) && service_forwards_field(s, trailers[i].name))
            put_field(out, trailers[i].name, trailers[i].value);
        else
            note_dropped(dropped, trailers[i].name);
}

/* The name that an entry of Proxy-Status begins with: a token or a string (RFC 9209 2, RFC 8941 3.3). */
static struct slice who_speaks(struct slice entry)
{
    struct slice word = slice_trim(entry);
    ptrdiff_t end = slice_find(word, ';');

    word = slice_trim(end < 0 ? word : slice_cut(word, 0, (size_t)end));
    if (word.len >= 2 && word.ptr[0] == '"' && word.ptr[word.len - 1] == '"')
        word = slice_cut(word, 1, word.len - 1);
    return word;
}

static bool names_us(struct slice value, const char *gateway)
{
    struct slice rest = value, piece;

    while (slice_next(&rest, ',', &piece))
        if (slice_is_nocase(who_speaks(piece), gateway))
            return true;
    return false;
}

static bool is_dropped_response_field(const struct field *f, const char *gateway)
{
    if (slice_is_nocase(f->name, "alt-svc") || slice_is_nocase(f->name, "content-length") ||
        slice_is_nocase(f->name, "via"))
        return true;
    return slice_is_nocase(f->name, "proxy-status") && names_us(f->value, gateway);
}

/* Clients show it to people, and ours begins with our name (answer.c): a service does not speak so. */
static bool passes_for_ours(struct slice reason)
{
    return slice_starts_nocase(slice_trim(reason), SLICE("exeat"));
}

static void put_status(struct buf *out, const struct head *h)
{
    buf_append(out, SLICE("HTTP/1.1 "));
    buf_decimal(out, (uint64_t)h->status);
    buf_char(out, ' ');
    if (!passes_for_ours(h->reason))
        buf_append(out, h->reason);
    buf_append(out, SLICE("\r\n"));
}

void rewrite_response(const struct head *h, const struct response_frame *frame, const char *gateway, const char *via,
                      struct buf *out)
{
    put_status(out, h);
    for (size_t i = 0; i < h->n_fields; i++) {
        const struct field *f = &h->fields[i];

        if (!head_is_hop(h, f->name) && !is_dropped_response_field(f, gateway))
            put_field(out, f->name, f->value);
    }
    if (frame->head_only) {
        const struct field *length = head_field(h, "content-length");

        if (length)
            put_field(out, length->name, length->value);
    } else {
        put_framing(out, frame->framing, frame->length);
    }
    put_via(out, h, via);
    if (!frame->keep_alive)
        buf_append(out, SLICE("Connection: close\r\n"));
    else if (frame->minor == 0)
        buf_append(out, SLICE("Connection: keep-alive\r\n"));
    buf_append(out, SLICE("\r\n"));
}

void rewrite_response_trailers(const struct head *h, const struct field *trailers, size_t n, const char *gateway,
                               struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        if (!head_is_hop(h, trailers[i].name) && !is_dropped_response_field(&trailers[i], gateway))
            put_field(out, trailers[i].name, trailers[i].value);
}

static void put_interim(const struct head *h, const char *gateway, const char *via, struct buf *out)
{
    put_status(out, h);
    for (size_t i = 0; i < h->n_fields; i++)
        if (!head_is_hop(h, h->fields[i].name) && !is_dropped_response_field(&h->fields[i], gateway))
            put_field(out, h->fields[i].name, h->fields[i].value);
    put_via(out, h, via);
}

void rewrite_interim(const struct head *h, const char *gateway, const char *via, struct buf *out)
{
    put_interim(h, gateway, via, out);
    buf_append(out, SLICE("\r\n"));
}

void rewrite_switch(const struct head *h, const char *gateway, const char *via, struct buf *out)
{
    put_interim(h, gateway, via, out);
    put_switch(out);
    buf_append(out, SLICE("\r\n"));
}

/* Received-by of one entry of Via (RFC 9110 7.6.3), without its port: the second word, whatever white space parts them. */
static struct slice received_by(struct slice entry)
{
    size_t end = 0;

    entry = slice_trim(entry);
    while (end < entry.len && entry.ptr[end] != ' ' && entry.ptr[end] != '\t')
        end++;
    entry = slice_trim(slice_from(entry, end));
    for (end = 0; end < entry.len && !strchr(" \t:(", entry.ptr[end]);)
        end++;
    return slice_cut(entry, 0, end);
}

/* "1.1 gw.example, 1.0 other (comment)" */
bool rewrite_is_loop(const struct head *h, const char *gateway)
{
    for (size_t i = 0; i < h->n_fields; i++) {
        struct slice rest = h->fields[i].value, piece;

        if (!slice_is_nocase(h->fields[i].name, "via"))
            continue;
        while (slice_next(&rest, ',', &piece))
            if (slice_is_nocase(received_by(piece), gateway))
                return true;
    }
    return false;
}
