/* Judges handshakes. */
#include "net/upgrade.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/text.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455 1.3 */

enum { KEY_SIZE = 16, SHA1_SIZE = 20, PROTOCOLS_MAX = 32 };

bool upgrade_is_meant(const struct head *request)
{
    return head_lists(request, "upgrade", "websocket");
}

bool upgrade_is_asked(const struct head *request)
{
    return request->upgrade && upgrade_is_meant(request);
}

bool upgrade_is_dropped(struct slice name)
{
    return slice_is_nocase(name, "sec-websocket-extensions");
}

bool upgrade_is_needed(struct slice name)
{
    return slice_is_nocase(name, "sec-websocket-key") || slice_is_nocase(name, "sec-websocket-version") ||
           slice_is_nocase(name, "sec-websocket-protocol");
}

void upgrade_accept(struct slice key, struct buf *out)
{
    unsigned char digest[SHA1_SIZE];
    struct buf text = {0};

    buf_append(&text, key);
    buf_append(&text, SLICE(GUID));
    if (!EVP_Digest(buf_slice(&text).ptr, buf_len(&text), digest, NULL, EVP_sha1(), NULL))
        abort();
    text_base64(out, slice_make(digest, sizeof digest));
    buf_free(&text);
}

/* The value of a field that must be there once; empty: it is not. */
static struct slice only(const struct head *h, const char *name)
{
    return head_count(h, name) == 1 ? head_field(h, name)->value : SLICE("");
}

static bool is_only_websocket(const struct head *h)
{
    return h->upgrade && slice_is_nocase(only(h, "upgrade"), "websocket");
}

/* ---- subprotocols ---- */

static bool is_token(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] <= 0x20 || (unsigned char)s.ptr[i] >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", s.ptr[i]))
            return false;
    return s.len > 0;
}

static bool holds(const struct slice *list, size_t n, struct slice s)
{
    for (size_t i = 0; i < n; i++)
        if (slice_equals(list[i], s))
            return true;
    return false;
}

/* Those offered, in all lines of the field; false when one is none, stands twice, or they are too many. */
static bool read_protocols(const struct head *h, struct slice *list, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < h->n_fields; i++) {
        struct slice rest = h->fields[i].value, piece;

        if (!slice_is_nocase(h->fields[i].name, "sec-websocket-protocol"))
            continue;
        while (slice_next(&rest, ',', &piece)) {
            piece = slice_trim(piece);
            if (*n == PROTOCOLS_MAX || !is_token(piece) || holds(list, *n, piece))
                return false;
            list[(*n)++] = piece;
        }
    }
    return true;
}

/* ---- the request ---- */

static bool is_key(struct slice text)
{
    struct buf bytes = {0};
    bool ok = text_unbase64(text, &bytes) && buf_len(&bytes) == KEY_SIZE;

    buf_free(&bytes);
    return ok;
}

static const char *judge_request(const struct head *h)
{
    struct slice protocols[PROTOCOLS_MAX];
    size_t n;

    if (!slice_is(h->method, "GET") || h->minor != 1)
        return "a handshake is a GET of HTTP/1.1";
    if (h->framing != FRAMING_NONE || h->expect_continue)
        return "a handshake has no content";
    if (!is_only_websocket(h))
        return "a handshake has Connection: upgrade, and Upgrade: websocket alone";
    if (!is_key(only(h, "sec-websocket-key")))
        return "Sec-WebSocket-Key is not one of 16 bytes in base64";
    if (!slice_is(only(h, "sec-websocket-version"), "13"))
        return "Sec-WebSocket-Version is not 13";
    if (!read_protocols(h, protocols, &n))
        return "Sec-WebSocket-Protocol is not a list of tokens, each once";
    return NULL;
}

bool upgrade_check_request(const struct head *request, struct fault *why)
{
    const char *off = judge_request(request);

    return !off || fault_reason(why, REASON_WEBSOCKET_HANDSHAKE, "%s", off);
}

/* ---- the answer ---- */

static bool is_accept(struct slice text, struct slice key)
{
    struct buf want = {0};
    bool ok;

    upgrade_accept(key, &want);
    ok = slice_equals(text, buf_slice(&want));
    buf_free(&want);
    return ok;
}

static bool is_offered(const struct head *request, const struct head *answer)
{
    struct slice protocols[PROTOCOLS_MAX];
    size_t n;

    if (head_count(answer, "sec-websocket-protocol") == 0)
        return true;
    return read_protocols(request, protocols, &n) && holds(protocols, n, only(answer, "sec-websocket-protocol"));
}

static const char *judge_answer(const struct head *request, const struct head *answer)
{
    if (answer->minor != 1 || !is_only_websocket(answer))
        return "101 without Connection: upgrade, or with another Upgrade than websocket";
    if (!is_accept(only(answer, "sec-websocket-accept"), only(request, "sec-websocket-key")))
        return "101 with a Sec-WebSocket-Accept that does not belong to the key";
    if (head_count(answer, "sec-websocket-extensions"))
        return "101 with an extension, of which none was offered";
    if (!is_offered(request, answer))
        return "101 with a subprotocol that was not offered";
    return NULL;
}

bool upgrade_check_answer(const struct head *request, const struct head *answer, struct fault *why)
{
    const char *off = judge_answer(request, answer);

    return !off || fault_reason(why, REASON_UPSTREAM_WEBSOCKET, "%s", off);
}
