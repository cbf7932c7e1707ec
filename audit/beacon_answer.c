/* Owns the pages of the auditor's upstream. */
#include "audit/beacon_answer.h"

#include <openssl/sha.h>

#include "audit/turn.h"
#include "base/clock.h"
#include "base/text.h"

static size_t head_len(struct slice in)
{
    ptrdiff_t end = slice_search(in, SLICE("\r\n\r\n"));

    return end < 0 ? 0 : (size_t)end + 4;
}

struct slice beacon_field(struct slice request, const char *name)
{
    struct slice rest = slice_cut(request, 0, head_len(request)), line;

    while (slice_next(&rest, '\n', &line)) {
        ptrdiff_t colon = slice_find(line, ':');

        if (slice_ends(line, SLICE("\r")))
            line.len--;
        if (colon > 0 && slice_is_nocase(slice_cut(line, 0, (size_t)colon), name))
            return slice_trim(slice_from(line, (size_t)colon + 1));
    }
    return slice_make("", 0);
}

bool beacon_is_whole(struct slice in)
{
    size_t head = head_len(in);
    uint64_t length = 0;
    struct slice value = beacon_field(in, "Content-Length");

    if (head == 0)
        return false;
    if (slice_is_nocase(beacon_field(in, "Transfer-Encoding"), "chunked"))
        return slice_ends(in, SLICE("0\r\n\r\n"));
    if (value.len && !slice_decimal(value, 1u << 30, &length))
        return true;
    return in.len - head >= length;
}

bool beacon_wants_continue(struct slice in)
{
    return slice_is_nocase(beacon_field(in, "Expect"), "100-continue");
}

/* The path of the request line, without scheme and host. */
static struct slice path_of(struct slice request)
{
    struct slice line = request, word;
    ptrdiff_t at;

    slice_next(&line, ' ', &word);
    slice_next(&line, ' ', &word);
    if ((at = slice_search(word, SLICE("://"))) > 0) {
        word = slice_from(word, (size_t)at + 3);
        at = slice_find(word, '/');
        word = at < 0 ? SLICE("/") : slice_from(word, (size_t)at);
    }
    return word;
}

struct page {
    int status;
    const char *type;
    struct buf fields, body;
};

/* npm: the first segment, or two of a scope. */
static void package_page(struct slice path, const char *tarball, struct page *p)
{
    struct slice name = slice_from(path, 1);

    p->type = "application/json";
    buf_text(&p->body, "{\"name\":");
    text_json(&p->body, name);
    buf_text(&p->body, ",\"_id\":");
    text_json(&p->body, name);
    buf_text(&p->body, ",\"dist-tags\":{\"latest\":\"1.0.0\"},\"time\":{\"modified\":\"2026-01-01T00:00:00.000Z\",\"1.0.0\":\"2026-01-01T00:00:00.000Z\"}"
                       ",\"versions\":{\"1.0.0\":{\"name\":");
    text_json(&p->body, name);
    buf_text(&p->body, ",\"version\":\"1.0.0\",\"dist\":{\"shasum\":\"da39a3ee5e6b4b0d3255bfef95601890afd80709\",\"tarball\":");
    text_json(&p->body, slice_of(tarball));
    buf_text(&p->body, "}}}}");
}

static void image_page(struct slice path, struct page *p)
{
    buf_text(&p->fields, "Docker-Distribution-Api-Version: registry/2.0\r\n");
    p->type = "application/json";
    if (slice_search(path, SLICE("/manifests/")) < 0) {
        buf_text(&p->body, "{}");
        return;
    }
    p->type = "application/vnd.docker.distribution.manifest.v2+json";
    buf_text(&p->body, "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\"config\":{\"mediaType\":"
                       "\"application/vnd.docker.container.image.v1+json\",\"size\":2,\"digest\":\"sha256:"
                       "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\"},\"layers\":[]}");
}

static void digest_field(struct page *p)
{
    unsigned char hash[32];
    struct slice body = buf_slice(&p->body);

    SHA256((const unsigned char *)body.ptr, body.len, hash);
    buf_text(&p->fields, "Docker-Content-Digest: sha256:");
    text_hex(&p->fields, slice_make(hash, sizeof hash));
    buf_text(&p->fields, "\r\n");
}

/* What an honest upstream has: search results, metadata, an image, else some bytes. */
static void plain_page(struct slice request, const char *host, struct page *p)
{
    struct slice path = path_of(request), accept = beacon_field(request, "Accept");
    struct buf tarball = {0};

    buf_text(&p->fields, "Cache-Control: max-age=60\r\n");
    if (slice_starts(path, SLICE("/v2/"))) {
        image_page(path, p);
        digest_field(p);
    } else if (slice_search(path, SLICE("/-/v1/search")) >= 0) {
        p->type = "application/json";
        buf_text(&p->body, "{\"objects\":[],\"total\":0,\"time\":\"Thu, 01 Jan 2026 00:00:00 GMT\"}");
    } else if (slice_search(accept, SLICE("json")) >= 0 && slice_search(path, SLICE(".tgz")) < 0) {
        /* Its own name, whatever the request calls it: a host that is repeated is the service's doing. */
        buf_printf(&tarball, "http://%s%.*s/-/x-1.0.0.tgz", host ? host : "upstream.invalid", SLICE_ARG(path));
        buf_char(&tarball, 0);
        package_page(path, buf_slice(&tarball).ptr, p);
    } else {
        buf_printf(&p->body, "the auditor's page for %.*s\n", (int)(path.len < 200 ? path.len : 200), path.ptr);
    }
    buf_free(&tarball);
}

/* One caller's alone: another caller's is another. */
static void private_page(struct slice request, bool is_public, struct page *p)
{
    struct slice who = beacon_field(request, "Authorization");
    unsigned char hash[32];

    if (who.len == 0) {
        p->status = 401;
        buf_text(&p->fields, "WWW-Authenticate: Basic realm=\"exeat-audit\"\r\n");
        return;
    }
    SHA256((const unsigned char *)who.ptr, who.len, hash);
    buf_printf(&p->fields, "Cache-Control: %smax-age=60\r\n", is_public ? "public, " : "");
    buf_text(&p->body, "private to ");
    text_hex(&p->body, slice_make(hash, 8));
}

static void echo_page(struct slice request, struct page *p)
{
    static const char *const names[] = {"X-Forwarded-Host", "X-Original-URL", "X-Forwarded-Scheme", "X-Host", "Forwarded"};

    buf_text(&p->fields, "Cache-Control: public, max-age=60\r\n");
    buf_text(&p->body, "echo");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        buf_printf(&p->body, " [%.*s]", SLICE_ARG(beacon_field(request, names[i])));
}

static void named_page(struct slice request, enum act act, const char *to, uint64_t serial, struct page *p)
{
    unsigned long long n = (unsigned long long)serial;

    switch (act) {
    case ACT_REDIRECT:
    case ACT_REDIRECT_307:
        p->status = act == ACT_REDIRECT ? 302 : 307;
        buf_printf(&p->fields, "Location: %s\r\n", to);
        break;
    case ACT_CHALLENGE:
        p->status = 401;
        buf_printf(&p->fields, "Docker-Distribution-Api-Version: registry/2.0\r\nWWW-Authenticate: Bearer realm=\"%s\",service=\"exeat-audit\"\r\n", to);
        p->type = "application/json";
        buf_text(&p->body, "{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}");
        break;
    case ACT_MISSING:
        p->status = 404;
        p->type = "application/json";
        buf_text(&p->body, "{\"error\":\"not found\"}");
        break;
    case ACT_LINK_NEXT:
        plain_page(request, NULL, p);
        buf_printf(&p->fields, "Link: <%s>; rel=\"next\"\r\n", to);
        break;
    case ACT_PACKAGE:
        buf_text(&p->fields, "Cache-Control: max-age=60\r\n");
        package_page(path_of(request), to, p);
        break;
    case ACT_COOKIE:
        buf_printf(&p->fields, "Set-Cookie: exeat=%llu; Path=/\r\nCache-Control: max-age=60\r\n", n);
        buf_printf(&p->body, "cookie %llu", n);
        break;
    case ACT_NO_STORE:
        buf_text(&p->fields, "Cache-Control: no-store, private\r\n");
        buf_printf(&p->body, "fresh %llu", n);
        break;
    case ACT_VARY:
        buf_text(&p->fields, "Cache-Control: public, max-age=60\r\nVary: Accept-Language\r\n");
        buf_printf(&p->body, "language [%.*s]", SLICE_ARG(beacon_field(request, "Accept-Language")));
        break;
    case ACT_CHANGED:
        buf_printf(&p->fields, "Cache-Control: no-cache\r\n");
        buf_printf(&p->body, "version %llu", n);
        break;
    default:
        plain_page(request, to, p);
        break;
    }
}

void beacon_answer(struct slice request, enum act act, const char *to, uint64_t serial, int64_t now_s, struct buf *out)
{
    struct page p = {.status = 200, .type = "application/octet-stream"};

    if (slice_starts(request, SLICE("CONNECT ")))
        p.status = 405;
    else if (act == ACT_PRIVATE_MAX_AGE || act == ACT_PRIVATE_PUBLIC)
        private_page(request, act == ACT_PRIVATE_PUBLIC, &p);
    else if (act == ACT_ECHO)
        echo_page(request, &p);
    else
        named_page(request, act, to, serial, &p);
    buf_printf(out, "HTTP/1.1 %d Exeat\r\nDate: ", p.status);
    clock_http_date(out, now_s);
    buf_printf(out, "\r\nContent-Type: %s\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n", p.type);
    buf_append(out, buf_slice(&p.fields));
    buf_printf(out, "Content-Length: %zu\r\nConnection: close\r\n\r\n", buf_len(&p.body));
    if (!slice_starts(request, SLICE("HEAD ")))
        buf_append(out, buf_slice(&p.body));
    buf_free(&p.fields);
    buf_free(&p.body);
}
