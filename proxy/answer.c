#include "proxy/answer.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

enum { RETRY_S = 1 };

int answer_status(const struct answer *a)
{
    int status = a->status ? a->status : reason_get(a->reason)->status;

    return status ? status : 502;
}

/* An sf-string (RFC 8941 3.3.3): printable ASCII, quotes and backslashes escaped. */
static void put_quoted(struct buf *out, struct slice text)
{
    buf_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '"' || c == '\\')
            buf_char(out, '\\');
        buf_char(out, c >= 0x20 && c < 0x7f ? c : '?');
    }
    buf_char(out, '"');
}

static void put_proxy_status(struct buf *out, const struct answer *a)
{
    const struct reason_entry *entry = reason_get(a->reason);

    buf_printf(out, "Proxy-Status: %s", a->gateway);
    if (entry->proxy_status_error[0])
        buf_printf(out, "; error=%s", entry->proxy_status_error);
    buf_text(out, "; details=");
    put_quoted(out, slice_of(entry->code));
    buf_text(out, "\r\n");
}

/* Basic comes first: git and Java answer the first challenge they know. */
static void put_challenges(struct buf *out, const struct answer *a)
{
    const char *field = answer_status(a) == 401 ? "WWW" : "Proxy";

    buf_printf(out, "%s-Authenticate: Basic realm=\"%s\", charset=\"UTF-8\"\r\n", field, a->gateway);
    if (answer_status(a) == 401 && a->basic_alone)
        return;
    buf_printf(out, "%s-Authenticate: Bearer realm=\"%s\"", field, a->gateway);
    if (a->reason != REASON_TOKEN_MISSING) {
        buf_text(out, ", error=\"invalid_token\", error_description=");
        put_quoted(out, reason_sentence(a->reason));
    }
    buf_text(out, "\r\n");
}

static void put_problem(struct buf *out, const struct answer *a)
{
    const struct reason_entry *entry = reason_get(a->reason);
    struct slice sentence = reason_sentence(a->reason);

    buf_printf(out, "{\"type\":\"about:blank\",\"title\":\"exeat %s\",\"status\":%d,\"reason\":\"%s\",\"detail\":",
               entry->code, answer_status(a), entry->code);
    text_json(out, a->detail && a->detail[0] ? slice_of(a->detail) : sentence);
    buf_text(out, ",\"explanation\":");
    text_json(out, sentence);
    buf_text(out, ",\"exchange\":\"");
    id_text(out, a->id);
    buf_text(out, "\",\"operator\":\"exeat why ");
    id_short(out, a->id);
    buf_text(out, "\"}\n");
}

void answer_write(const struct answer *a, int64_t wall_s, struct buf *out)
{
    struct buf body = {0};
    int status = answer_status(a);

    put_problem(&body, a);
    buf_printf(out, "HTTP/1.1 %d exeat %s ", status, reason_code(a->reason));
    id_short(out, a->id);
    buf_text(out, "\r\n");
    buf_text(out, "Date: ");
    clock_http_date(out, wall_s);
    buf_text(out, "\r\n");
    put_proxy_status(out, a);
    if (status == 407 || status == 401)
        put_challenges(out, a);
    if (status == 429)
        buf_printf(out, "Retry-After: %lld\r\n", (long long)(a->retry_ms > 1000 ? (a->retry_ms + 999) / 1000 : RETRY_S));
    if (status == 405)
        buf_text(out, "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\n");
    buf_printf(out, "Content-Type: application/problem+json\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n",
               buf_len(&body));
    if (!a->keep_alive)
        buf_text(out, "Connection: close\r\n");
    else if (a->minor == 0)
        buf_text(out, "Connection: keep-alive\r\n");
    buf_text(out, "\r\n");
    if (!a->head_only)
        buf_append(out, buf_slice(&body));
    buf_free(&body);
}

void answer_established(const struct id *id, int minor, struct buf *out)
{
    buf_printf(out, "HTTP/1.%d 200 Connection established\r\nExeat-Exchange: ", minor);
    id_text(out, id);
    buf_text(out, "\r\n\r\n");
}
