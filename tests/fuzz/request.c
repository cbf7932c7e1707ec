/*
 * Requests under libFuzzer: method, target and Host of the fuzzer's making, outside a tunnel and inside. What is
 * accepted has a canonical host and path, goes on as it was written, and holds nothing that a server could read in
 * another way.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "authz/path.h"
#include "authz/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(struct slice raw, struct slice path)
{
    struct buf again = {0};
    struct slice rest = path, segment;

    assert(path.len && path.ptr[0] == '/');
    assert(path_canonical(path, &again, NULL) && slice_equals(buf_slice(&again), path));
    while (slice_next(&rest, '/', &segment))
        assert(!slice_is(segment, ".") && !slice_is(segment, ".."));
    for (size_t i = 0; i < path.len; i++)
        assert(path.ptr[i] > ' ' && path.ptr[i] < 0x7f && slice_find(SLICE("\\?#"), path.ptr[i]) < 0);
    buf_clear(&again);
    path_loosen(path, &again);
    assert(path_is_loose(path) || slice_equals(buf_slice(&again), path));
    assert(raw.len && raw.ptr[0] == '/');
    buf_free(&again);
}

static void check_host(const char *host)
{
    char again[NAME_MAX_LEN + 1];

    assert(name_canonical(slice_of(host), again, NULL) && strcmp(again, host) == 0);
    for (const char *c = host; *c; c++)
        assert((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-' || *c == '.');
}

static void check_request(const struct request *r, const struct request_context *context)
{
    check_host(r->host);
    assert(r->port);
    if (r->connect) {
        assert(!context->tunnelled && !context->transparent);
        return;
    }
    check_path(r->raw_path, buf_slice(&r->path));
    assert(r->target.len == r->raw_path.len + (r->has_query ? 1 + r->query.len : 0));
    assert(slice_starts(r->target, r->raw_path) && slice_find(r->target, '#') < 0 && slice_find(r->target, ' ') < 0);
    if (!context->tunnelled && !context->transparent)
        assert(r->scheme == SCHEME_HTTP);
    else
        assert(r->scheme == context->scheme && (!context->host || strcmp(r->host, context->host) == 0) && r->port == context->port);
}

/* One line of the input is the method, one the target, one the Host value. */
static void read_once(struct slice input, uint8_t choice)
{
    struct request_context context = {.tunnelled = choice & 1, .scheme = choice & 2 ? SCHEME_HTTPS : SCHEME_HTTP,
                                      .host = "a.test", .port = choice & 2 ? 443 : 80};
    struct field host = {.name = SLICE("Host")};
    struct head h = {.minor = choice & 4 ? 1 : 0, .fields = &host, .n_fields = choice & 8 ? 1 : 0};
    struct request r = {0};
    struct fault why = {0};
    struct slice line;

    if (choice & 32) /* TLS names the host before; plain HTTP does not */
        context = (struct request_context){.transparent = true, .scheme = context.scheme, .host = choice & 2 ? "a.test" : NULL,
                                           .port = context.port};
    h.method = choice & 16 ? SLICE("CONNECT") : SLICE("GET");
    if (!slice_next(&input, '\n', &h.target))
        return;
    host.value = slice_next(&input, '\n', &line) ? line : SLICE("a.test");
    if (request_read(&r, &h, &context, &why))
        check_request(&r, &context);
    else
        assert(why.reason == REASON_REQUEST_MALFORMED || why.reason == REASON_NOT_A_PROXY_REQUEST ||
               why.reason == REASON_HOST_INVALID || why.reason == REASON_PATH_INVALID ||
               why.reason == REASON_AUTHORITY_MISMATCH || why.reason == REASON_HOST_MISSING ||
               (why.reason == REASON_PROXY_REQUEST && context.transparent));
    request_clear(&r);
}

static void read_path(struct slice raw)
{
    struct buf path = {0};

    buf_text(&path, "before");
    if (!path_canonical(raw, &path, NULL)) {
        assert(slice_is(buf_slice(&path), "before"));
    } else {
        check_path(raw, slice_from(buf_slice(&path), 6));
    }
    buf_free(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    read_once(slice_make(data + 1, size - 1), data[0]);
    read_path(slice_make(data + 1, size - 1));
    return 0;
}
