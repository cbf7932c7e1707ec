/*
 * Canonical paths and requests. Rows also stand for the conformance groups path, authority, inner-authority, connect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/path.h"
#include "authz/request.h"
#include "base/clock.h"

static const struct {
    const char *name;
    struct slice raw;
    const char *canonical; /* NULL: refused as path_invalid */
} paths[] = {
    {"plain", SLICE("/pkg/a"), "/pkg/a"},
    {"the root", SLICE("/"), "/"},
    {"a trailing slash stays", SLICE("/pkg/a/"), "/pkg/a/"},
    {"an empty segment stays", SLICE("/pkg/a//b"), "/pkg/a//b"},
    {"two leading slashes stay", SLICE("//pkg/a"), "//pkg/a"},
    {"dots inside names", SLICE("/pkg/a..b/c...d/..e/f../...g"), "/pkg/a..b/c...d/..e/f../...g"},
    {"three dots", SLICE("/.../a"), "/.../a"},
    {"a dot file", SLICE("/.well-known/x"), "/.well-known/x"},
    {"every plain character", SLICE("/-._~!$&'()*+,;=:@"), "/-._~!$&'()*+,;=:@"},
    {"a parameter", SLICE("/pkg/a;v=1"), "/pkg/a;v=1"},
    {"unreserved is decoded", SLICE("/pkg/%61%2D%2e%5F%7e%30"), "/pkg/a-._~0"},
    {"the first and the last letters and digits, decoded", SLICE("/%61%7a%41%5A%30%39"), "/azAZ09"},
    {"reserved stays encoded", SLICE("/%3a%40%21%3b"), "/%3A%40%21%3B"},
    {"an encoded slash stays", SLICE("/pkg/@scope%2fname"), "/pkg/@scope%2Fname"},
    {"encoded question and number signs stay", SLICE("/%3f%23"), "/%3F%23"},
    {"an encoded percent sign", SLICE("/100%25"), "/100%25"},
    {"an encoded percent sign before other text", SLICE("/100%25zz"), "/100%25zz"},
    {"an encoded percent sign before one digit", SLICE("/100%251"), "/100%251"},
    {"an encoded space", SLICE("/a%20b"), "/a%20b"},
    {"UTF-8, two octets", SLICE("/pkg/caf%c3%a9"), "/pkg/caf%C3%A9"},
    {"UTF-8, three octets", SLICE("/%e2%82%ac"), "/%E2%82%AC"},
    {"UTF-8, the first of three octets", SLICE("/%e0%a4%85"), "/%E0%A4%85"},
    {"UTF-8, four octets", SLICE("/%f0%9f%98%80"), "/%F0%9F%98%80"},
    {"UTF-8, two characters", SLICE("/%c3%a9%c3%a8x"), "/%C3%A9%C3%A8x"},
    {"printable, but not of a path", SLICE("/\"<>[]^`{|}"), "/%22%3C%3E%5B%5D%5E%60%7B%7C%7D"},
    {"the same, encoded", SLICE("/%22%7b"), "/%22%7B"},

    {"empty", SLICE(""), NULL},
    {"no leading slash", SLICE("pkg/a"), NULL},
    {"an encoded leading slash", SLICE("%2Fpkg"), NULL},
    {"an asterisk", SLICE("*"), NULL},
    {"dot dot", SLICE("/pkg/../private"), NULL},
    {"dot dot at the end", SLICE("/pkg/.."), NULL},
    {"dot dot in front", SLICE("/../x"), NULL},
    {"dot dot alone", SLICE("/.."), NULL},
    {"dot", SLICE("/pkg/./a"), NULL},
    {"dot at the end", SLICE("/pkg/."), NULL},
    {"dot dot, encoded", SLICE("/pkg/%2e%2e/private"), NULL},
    {"dot dot, half encoded", SLICE("/pkg/.%2E/private"), NULL},
    {"dot, encoded", SLICE("/pkg/%2e"), NULL},
    {"dot dot, encoded twice", SLICE("/pkg/%252e%252e/private"), NULL},
    {"dot dot before an encoded slash", SLICE("/pkg/..%2fprivate"), NULL},
    {"dot dot behind an encoded slash", SLICE("/pkg/a%2f.."), NULL},
    {"dot between encoded slashes", SLICE("/pkg/a%2F.%2Fb"), NULL},
    {"dot dot and a backslash", SLICE("/pkg/..\\private"), NULL},
    {"dot dot and an encoded backslash", SLICE("/pkg/..%5cprivate"), NULL},
    {"dot dot and a parameter", SLICE("/pkg/..;/private"), NULL},
    {"dot and a parameter", SLICE("/pkg/.;x=1/private"), NULL},
    {"dot dot and an encoded parameter", SLICE("/pkg/..%3Bx/private"), NULL},
    {"an overlong slash", SLICE("/pkg/..%c0%afprivate"), NULL},
    {"a lone continuation", SLICE("/%80"), NULL},
    {"a cut character", SLICE("/%e2%82"), NULL},
    {"a cut character before text", SLICE("/%e2%82abc"), NULL},
    {"a surrogate", SLICE("/%ed%a0%80"), NULL},
    {"above Unicode", SLICE("/%f4%90%80%80"), NULL},
    {"octet 255", SLICE("/%ff"), NULL},
    {"a C1 control", SLICE("/%c2%85"), NULL},
    {"an encoded line end", SLICE("/pkg/a%0d%0aX: y"), NULL},
    {"an encoded NUL", SLICE("/pkg/a%00.tgz"), NULL},
    {"an encoded tab", SLICE("/a%09"), NULL},
    {"an encoded DEL", SLICE("/a%7f"), NULL},
    {"a NUL", SLICE("/pkg/a\0b"), NULL},
    {"a tab", SLICE("/pkg/a\tb"), NULL},
    {"a space", SLICE("/pkg/a b"), NULL},
    {"a DEL", SLICE("/a\x7f"), NULL},
    {"an octet above ASCII", SLICE("/pkg/\xff"), NULL},
    {"UTF-8 that is not encoded", SLICE("/caf\xc3\xa9"), NULL},
    {"a bad escape", SLICE("/pkg/%zz"), NULL},
    {"an escape whose first digit is none", SLICE("/pkg/%g0"), NULL},
    {"an escape whose second digit is none", SLICE("/pkg/%6g"), NULL},
    {"a short escape", SLICE("/pkg/a%2"), NULL},
    {"a percent sign at the end", SLICE("/pkg/a%"), NULL},
    {"encoded twice", SLICE("/a%2541"), NULL},
    {"encoded twice, digits encoded too", SLICE("/a%25%34%31"), NULL},
    {"encoded twice, the first digit encoded", SLICE("/a%25%341"), NULL},
    {"encoded three times", SLICE("/%25252e"), NULL},
    {"a fragment", SLICE("/a#b"), NULL},
    {"a question mark", SLICE("/a?b"), NULL},
};

static void paths_have_one_spelling(void **state)
{
    struct buf out = {0}, again = {0};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct fault why = {0};

        buf_clear(&out);
        buf_clear(&again);
        bool ok = path_canonical(paths[i].raw, &out, &why);

        if (ok != (paths[i].canonical != NULL) || (ok && !slice_is(buf_slice(&out), paths[i].canonical)))
            fail_msg("%s: %.*s %s", paths[i].name, SLICE_ARG(buf_slice(&out)), why.text);
        if (!ok && (why.reason != REASON_PATH_INVALID || buf_len(&out) != 0))
            fail_msg("%s: refused as %s", paths[i].name, reason_code(why.reason));
        if (ok && (!path_canonical(buf_slice(&out), &again, &why) ||
                   !slice_equals(buf_slice(&out), buf_slice(&again))))
            fail_msg("%s: the canonical form is not its own", paths[i].name);
    }
    buf_free(&out);
    buf_free(&again);
}

/* Every path of four bytes from those that matter: refused, or its own canonical form with no dot segment left. */
static void canonical_paths_are_stable(void **state)
{
    static const char bytes[] = "/.%25eEfF;\\a";
    struct buf out = {0}, again = {0}, loose = {0};
    char raw[8] = "/";
    size_t n = 0;

    (void)state;
    for (unsigned seed = 0; seed < 200000; seed++) {
        unsigned x = seed * 2654435761u;

        for (int i = 1; i < 8; i++, x = x * 1664525u + 1013904223u)
            raw[i] = bytes[(x >> 16) % (sizeof bytes - 1)];
        buf_clear(&out);
        buf_clear(&again);
        buf_clear(&loose);
        if (!path_canonical(slice_make(raw, 8), &out, NULL))
            continue;
        n++;
        assert_true(path_canonical(buf_slice(&out), &again, NULL));
        assert_true(slice_equals(buf_slice(&out), buf_slice(&again)));
        path_loosen(buf_slice(&out), &loose);
        assert_int_equal(slice_search(buf_slice(&loose), SLICE("/../")), -1);
        if (!path_is_loose(buf_slice(&out)))
            assert_true(slice_equals(buf_slice(&out), buf_slice(&loose)));
    }
    assert_true(n > 1000);
    buf_free(&out);
    buf_free(&again);
    buf_free(&loose);
}

static const struct {
    const char *name, *canonical, *loose;
} looses[] = {
    {"nothing to do", "/-/v1/search", "/-/v1/search"},
    {"an encoded slash", "/-/v1%2Fsearch", "/-/v1/search"},
    {"an empty segment", "/-//v1/search", "/-/v1/search"},
    {"two leading slashes", "//-/v1/search", "/-/v1/search"},
    {"an encoded empty segment", "/-%2F/v1/search", "/-/v1/search"},
    {"a trailing slash stays", "/-/v1/search/", "/-/v1/search/"},
    {"two trailing slashes", "/-/v1/search//", "/-/v1/search/"},
    {"a parameter", "/-/v1;x=1/search;y", "/-/v1/search"},
    {"an encoded parameter", "/-/v1/search%3By", "/-/v1/search"},
    {"a reserved character", "/%40scope", "/@scope"},
    {"the root", "/", "/"},
    {"slashes only", "///", "/"},
};

static void loose_paths_are_what_careless_servers_see(void **state)
{
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof looses / sizeof *looses; i++) {
        struct slice canonical = slice_of(looses[i].canonical);

        buf_clear(&out);
        path_loosen(canonical, &out);
        if (!slice_is(buf_slice(&out), looses[i].loose))
            fail_msg("%s: %.*s", looses[i].name, SLICE_ARG(buf_slice(&out)));
        if (path_is_loose(canonical) == slice_is(canonical, looses[i].loose))
            fail_msg("%s: path_is_loose", looses[i].name);
    }
    buf_free(&out);
}

/* The tails of a row. */
#define READ(host, port, origin) REASON_NONE, host, port, origin
#define REFUSED(reason) REASON_##reason, NULL, 0, NULL

enum { N_HOSTS = 2 };

struct row {
    const char *name, *method, *target, *hosts[N_HOSTS]; /* Host fields */
    enum reason reason; /* REASON_NONE: read */
    const char *host;
    uint16_t port;
    const char *origin; /* what will be forwarded */
};

static const struct row outside[] = {
    {"absolute form", "GET", "http://registry.test/pkg/a", {"registry.test"}, READ("registry.test", 80, "/pkg/a")},
    {"a host in capitals", "GET", "http://REGISTRY.test/pkg/a", {"registry.test"}, READ("registry.test", 80, "/pkg/a")},
    {"a scheme in capitals", "GET", "HTTP://registry.test/a", {"registry.test"}, READ("registry.test", 80, "/a")},
    {"a trailing dot on both sides", "GET", "http://registry.test./a", {"registry.test."},
     READ("registry.test", 80, "/a")},
    {"a port", "GET", "http://registry.test:8080/a", {"registry.test:8080"}, READ("registry.test", 8080, "/a")},
    {"the default port written once", "GET", "http://registry.test:80/a", {"registry.test"},
     READ("registry.test", 80, "/a")},
    {"no path", "GET", "http://registry.test", {"registry.test"}, READ("registry.test", 80, "/")},
    {"a query, as written", "GET", "http://registry.test/a?b=%61", {"registry.test"},
     READ("registry.test", 80, "/a?b=%61")},
    {"a question mark alone", "GET", "http://registry.test/a?", {"registry.test"}, READ("registry.test", 80, "/a?")},
    {"an address inside the query", "GET", "http://registry.test/a?u=http://other.test/", {"registry.test"},
     READ("registry.test", 80, "/a?u=http://other.test/")},
    {"the path is not rewritten", "GET", "http://registry.test/%61", {"registry.test"},
     READ("registry.test", 80, "/%61")},
    {"another Host", "GET", "http://other.test/pkg/a", {"registry.test"}, REFUSED(AUTHORITY_MISMATCH)},
    {"another port in Host", "GET", "http://registry.test/a", {"registry.test:8080"}, REFUSED(AUTHORITY_MISMATCH)},
    {"another port in the target", "GET", "http://registry.test:8080/a", {"registry.test"},
     REFUSED(AUTHORITY_MISMATCH)},
    {"no Host", "GET", "http://registry.test/a", {0}, REFUSED(HOST_MISSING)},
    {"two Hosts", "GET", "http://registry.test/a", {"registry.test", "registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"an empty Host", "GET", "http://registry.test/a", {""}, REFUSED(HOST_INVALID)},
    {"a fragment", "GET", "http://registry.test/pkg/a#http://other.test/", {"registry.test"},
     REFUSED(REQUEST_MALFORMED)},
    {"ftp", "GET", "ftp://registry.test/a", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"https in plain", "GET", "https://registry.test/a", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"origin form", "GET", "/pkg/a", {"registry.test"}, REFUSED(NOT_A_PROXY_REQUEST)},
    {"two slashes", "GET", "//registry.test/a", {"registry.test"}, REFUSED(NOT_A_PROXY_REQUEST)},
    {"asterisk form", "OPTIONS", "*", {"registry.test"}, REFUSED(NOT_A_PROXY_REQUEST)},
    {"OPTIONS of a whole server", "OPTIONS", "http://registry.test", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"OPTIONS of the root", "OPTIONS", "http://registry.test/", {"registry.test"}, READ("registry.test", 80, "/")},
    {"a query without a path", "GET", "http://registry.test?a", {"registry.test"}, REFUSED(PATH_INVALID)},
    {"no host", "GET", "http:///a", {""}, REFUSED(HOST_INVALID)},
    {"one slash", "GET", "http:/registry.test/a", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"a port with a sign", "GET", "http://registry.test:+80/a", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"an empty port", "GET", "http://registry.test:/a", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"an empty label", "GET", "http://registry..test/a", {"registry..test"}, REFUSED(HOST_INVALID)},
    {"an encoded host", "GET", "http://registry%2etest/a", {"registry%2etest"}, REFUSED(HOST_INVALID)},
    {"an underscore", "GET", "http://regi_stry.test/a", {"regi_stry.test"}, REFUSED(HOST_INVALID)},
    {"a Unicode host on the wire", "GET", "http://r\xc3\xa9gistry.test/a", {"registry.test"},
     REFUSED(REQUEST_MALFORMED)},
    {"an ideographic full stop", "GET", "http://registry\xe3\x80\x82test/a", {"registry.test"},
     REFUSED(REQUEST_MALFORMED)},
    {"user information", "GET", "http://user@registry.test/a", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"user information that looks like the host", "GET", "http://registry.test@other.test/a",
     {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"a backslash for the slash", "GET", "http://other.test\\@registry.test/a", {"registry.test"},
     REFUSED(REQUEST_MALFORMED)},
    {"a backslash in the host", "GET", "http://registry.test\\.other.test/a", {"registry.test"}, REFUSED(HOST_INVALID)},
    {"IPv4", "GET", "http://127.0.0.1/a", {"127.0.0.1"}, REFUSED(HOST_INVALID)},
    {"IPv6", "GET", "http://[::1]/a", {"[::1]"}, REFUSED(HOST_INVALID)},
    {"IPv6 with a zone", "GET", "http://[fe80::1%25eth0]/a", {"[fe80::1%25eth0]"}, REFUSED(HOST_INVALID)},
    {"a dot segment", "GET", "http://registry.test/a/../b", {"registry.test"}, REFUSED(PATH_INVALID)},

    {"CONNECT", "CONNECT", "registry.test:443", {"registry.test:443"}, READ("registry.test", 443, "")},
    {"CONNECT, Host without port", "CONNECT", "registry.test:443", {"registry.test"}, READ("registry.test", 443, "")},
    {"CONNECT in capitals", "CONNECT", "Registry.TEST:443", {"registry.test:443"}, READ("registry.test", 443, "")},
    {"CONNECT, another Host", "CONNECT", "registry.test:443", {"other.test:443"}, REFUSED(AUTHORITY_MISMATCH)},
    {"CONNECT, another port in Host", "CONNECT", "registry.test:443", {"registry.test:22"},
     REFUSED(AUTHORITY_MISMATCH)},
    {"CONNECT without a port", "CONNECT", "registry.test", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"CONNECT to port 0", "CONNECT", "registry.test:0", {"registry.test:0"}, REFUSED(REQUEST_MALFORMED)},
    {"CONNECT with a URL", "CONNECT", "https://registry.test:443", {"https://registry.test:443"},
     REFUSED(REQUEST_MALFORMED)},
    {"CONNECT with a path", "CONNECT", "registry.test:443/", {"registry.test:443"}, REFUSED(REQUEST_MALFORMED)},
    {"CONNECT with user information", "CONNECT", "user@registry.test:443", {"user@registry.test:443"},
     REFUSED(REQUEST_MALFORMED)},
    {"CONNECT to IPv6", "CONNECT", "[::1]:443", {"[::1]:443"}, REFUSED(HOST_INVALID)},
    {"CONNECT to IPv6 without brackets", "CONNECT", "::1:443", {"::1:443"}, REFUSED(HOST_INVALID)},
    {"CONNECT to IPv4", "CONNECT", "127.0.0.1:443", {"127.0.0.1:443"}, REFUSED(HOST_INVALID)},
    {"connect in small letters is no CONNECT", "connect", "registry.test:443", {"registry.test:443"},
     REFUSED(REQUEST_MALFORMED)},
};

static const struct row inside[] = {
    {"origin form", "GET", "/pkg/a?x=1", {"registry.test"}, READ("registry.test", 443, "/pkg/a?x=1")},
    {"Host in capitals", "GET", "/pkg/a", {"Registry.Test"}, READ("registry.test", 443, "/pkg/a")},
    {"Host with the port", "GET", "/pkg/a", {"registry.test:443"}, READ("registry.test", 443, "/pkg/a")},
    {"Host with a trailing dot", "GET", "/pkg/a", {"registry.test."}, READ("registry.test", 443, "/pkg/a")},
    {"another Host", "GET", "/pkg/a", {"other.test"}, REFUSED(AUTHORITY_MISMATCH)},
    {"a Host below", "GET", "/pkg/a", {"a.registry.test"}, REFUSED(AUTHORITY_MISMATCH)},
    {"another port in Host", "GET", "/pkg/a", {"registry.test:8443"}, REFUSED(AUTHORITY_MISMATCH)},
    {"the port of plain HTTP in Host", "GET", "/pkg/a", {"registry.test:80"}, REFUSED(AUTHORITY_MISMATCH)},
    {"two names in Host", "GET", "/pkg/a", {"registry.test,other.test"}, REFUSED(HOST_INVALID)},
    {"two Hosts", "GET", "/pkg/a", {"registry.test", "other.test"}, REFUSED(REQUEST_MALFORMED)},
    {"no Host", "GET", "/pkg/a", {0}, REFUSED(HOST_MISSING)},
    {"absolute form, the same", "GET", "https://registry.test/pkg/a", {"registry.test"},
     READ("registry.test", 443, "/pkg/a")},
    {"absolute form with the port", "GET", "https://registry.test:443/pkg/a", {"registry.test"},
     READ("registry.test", 443, "/pkg/a")},
    {"absolute form, another host", "GET", "https://other.test/pkg/a", {"registry.test"}, REFUSED(AUTHORITY_MISMATCH)},
    {"absolute form, another port", "GET", "https://registry.test:8443/pkg/a", {"registry.test"},
     REFUSED(AUTHORITY_MISMATCH)},
    {"absolute form, the other scheme", "GET", "http://registry.test:443/pkg/a", {"registry.test"},
     REFUSED(AUTHORITY_MISMATCH)},
    {"absolute form, user information", "GET", "https://u@registry.test/a", {"registry.test"},
     REFUSED(REQUEST_MALFORMED)},
    {"CONNECT inside", "CONNECT", "other.test:443", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"asterisk form", "OPTIONS", "*", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"OPTIONS of a path", "OPTIONS", "/", {"registry.test"}, READ("registry.test", 443, "/")},
    {"authority form", "GET", "registry.test:443", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"an empty target", "GET", "", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"two leading slashes are a path", "GET", "//pkg/a", {"registry.test"}, READ("registry.test", 443, "//pkg/a")},
    {"a fragment", "GET", "/pkg/a#x", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"an octet above ASCII", "GET", "/pkg/\xff", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"a space", "GET", "/pkg/a b", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"a dot segment", "GET", "/pkg/../private", {"registry.test"}, REFUSED(PATH_INVALID)},
    {"a dot segment in the query is text", "GET", "/pkg/a?../x", {"registry.test"},
     READ("registry.test", 443, "/pkg/a?../x")},
};

static const struct request_context tls_tunnel = {
    .tunnelled = true, .scheme = SCHEME_HTTPS, .host = "registry.test", .port = 443};

/* A head as net/head.h would give it. */
static struct head make_head(const struct row *row, int minor, struct field fields[N_HOSTS + 1])
{
    struct head h = {.method = slice_of(row->method), .target = slice_of(row->target), .minor = minor};

    fields[h.n_fields++] = (struct field){SLICE("User-Agent"), SLICE("test")};
    for (size_t i = 0; i < N_HOSTS && row->hosts[i]; i++)
        fields[h.n_fields++] = (struct field){i ? SLICE("host") : SLICE("Host"), slice_of(row->hosts[i])};
    h.fields = fields;
    return h;
}

/* To registry.test port 443, by the name in the ClientHello. */
static const struct request_context steered_tls = {
    .transparent = true, .scheme = SCHEME_HTTPS, .host = "registry.test", .port = 443};

static const struct row arrived_by_tls[] = {
    {"the ordinary one", "GET", "/pkg/a?b", {"registry.test"}, REASON_NONE, "registry.test", 443, "/pkg/a?b"},
    {"Host with the port", "GET", "/", {"registry.test:443"}, REASON_NONE, "registry.test", 443, "/"},
    {"Host in capitals", "GET", "/", {"Registry.TEST."}, REASON_NONE, "registry.test", 443, "/"},
    {"Host of another", "GET", "/", {"other.test"}, REFUSED(AUTHORITY_MISMATCH)},
    {"Host with another port", "GET", "/", {"registry.test:80"}, REFUSED(AUTHORITY_MISMATCH)},
    {"Host that is an address", "GET", "/", {"10.0.0.1"}, REFUSED(HOST_INVALID)},
    {"no Host", "GET", "/", {NULL}, REFUSED(HOST_MISSING)},
    {"two Hosts", "GET", "/", {"registry.test", "registry.test"}, REFUSED(REQUEST_MALFORMED)},
    {"as of a proxy", "GET", "http://registry.test/", {"registry.test"}, REFUSED(PROXY_REQUEST)},
    {"as of a proxy, by https", "GET", "https://registry.test/", {"registry.test"}, REFUSED(PROXY_REQUEST)},
    {"CONNECT", "CONNECT", "registry.test:443", {"registry.test:443"}, REFUSED(PROXY_REQUEST)},
    {"OPTIONS of the whole", "OPTIONS", "*", {"registry.test"}, REFUSED(PROXY_REQUEST)},
    {"a path of two meanings", "GET", "/a/../b", {"registry.test"}, REFUSED(PATH_INVALID)},
    {"an octet in the path", "GET", "/a b", {"registry.test"}, REFUSED(REQUEST_MALFORMED)},
};

/* To port 8080, with nothing but what the request says. */
static const struct request_context steered_plain = {.transparent = true, .scheme = SCHEME_HTTP, .port = 8080};

static const struct row arrived_in_plain[] = {
    {"the ordinary one", "GET", "/pkg/a", {"registry.test:8080"}, REASON_NONE, "registry.test", 8080, "/pkg/a"},
    {"Host without the port means 80", "GET", "/", {"registry.test"}, REFUSED(AUTHORITY_MISMATCH)},
    {"Host with another port", "GET", "/", {"registry.test:443"}, REFUSED(AUTHORITY_MISMATCH)},
    {"Host that is an address", "GET", "/", {"10.0.0.1:8080"}, REFUSED(HOST_INVALID)},
    {"Host that is one of IPv6", "GET", "/", {"[fd00::1]:8080"}, REFUSED(HOST_INVALID)},
    {"an empty Host", "GET", "/", {""}, REFUSED(HOST_INVALID)},
    {"no Host", "GET", "/", {NULL}, REFUSED(HOST_MISSING)},
    {"two Hosts", "GET", "/", {"registry.test:8080", "other.test:8080"}, REFUSED(REQUEST_MALFORMED)},
    {"as of a proxy", "GET", "http://registry.test:8080/", {"registry.test:8080"}, REFUSED(PROXY_REQUEST)},
    {"CONNECT", "CONNECT", "registry.test:8080", {"registry.test:8080"}, REFUSED(PROXY_REQUEST)},
};

static void check_row(const struct row *row, const struct request_context *context, struct request *r)
{
    struct field fields[N_HOSTS + 1];
    struct head head = make_head(row, 1, fields);
    struct fault why = {0};
    bool ok = request_read(r, &head, context, &why);

    if (ok != (row->reason == REASON_NONE) || (!ok && why.reason != row->reason))
        fail_msg("%s: %s (%s)", row->name, reason_code(why.reason), why.text);
    if (ok && (strcmp(r->host, row->host) != 0 || r->port != row->port || !slice_is(r->target, row->origin)))
        fail_msg("%s: %s %u %.*s", row->name, r->host, r->port, SLICE_ARG(r->target));
    if (ok && r->connect != (strcmp(row->method, "CONNECT") == 0))
        fail_msg("%s: connect", row->name);
}

static void requests_outside_a_tunnel_name_their_destination(void **state)
{
    const struct request_context context = {0};
    struct request r = {0};

    (void)state;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        check_row(&outside[i], &context, &r);
    request_clear(&r);
}

static void requests_inside_a_tunnel_agree_with_it(void **state)
{
    struct request r = {0};

    (void)state;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        check_row(&inside[i], &tls_tunnel, &r);
    request_clear(&r);
}

static void requests_without_a_proxy_name_the_host_of_the_connection(void **state)
{
    struct request r = {0};

    (void)state;
    for (size_t i = 0; i < sizeof arrived_by_tls / sizeof *arrived_by_tls; i++)
        check_row(&arrived_by_tls[i], &steered_tls, &r);
    for (size_t i = 0; i < sizeof arrived_in_plain / sizeof *arrived_in_plain; i++)
        check_row(&arrived_in_plain[i], &steered_plain, &r);
    request_clear(&r);
}

static void other_tunnels_have_other_default_ports(void **state)
{
    const struct row bare = {.name = "bare", .method = "GET", .target = "/a", .hosts = {"registry.test"},
                             .host = "registry.test", .port = 80, .origin = "/a"};
    struct row mismatch = bare, written = bare;
    struct request_context context = {.tunnelled = true, .scheme = SCHEME_HTTP, .host = "registry.test", .port = 80};
    struct request r = {0};

    (void)state;
    check_row(&bare, &context, &r);
    context.port = 8080;
    mismatch.reason = REASON_AUTHORITY_MISMATCH;
    check_row(&mismatch, &context, &r);
    written.hosts[0] = "registry.test:8080";
    written.port = 8080;
    check_row(&written, &context, &r);
    request_clear(&r);
}

static void http_1_0_needs_no_host(void **state)
{
    static const struct row connect = {.method = "CONNECT", .target = "registry.test:443"};
    static const struct row get = {.method = "GET", .target = "/pkg/a"};
    const struct request_context none = {0};
    struct field fields[N_HOSTS + 1];
    struct head head = make_head(&connect, 0, fields);
    struct request r = {0};
    struct fault why;

    (void)state;
    assert_true(request_read(&r, &head, &none, &why));
    head.minor = 1;
    assert_false(request_read(&r, &head, &none, &why));
    assert_int_equal(why.reason, REASON_HOST_MISSING);
    assert_false(request_read(&r, &head, &steered_plain, &why));
    head = make_head(&get, 0, fields);
    assert_true(request_read(&r, &head, &tls_tunnel, &why));
    assert_string_equal(r.host, "registry.test");
    assert_true(request_read(&r, &head, &steered_tls, &why));
    assert_false(request_read(&r, &head, &steered_plain, &why));
    assert_int_equal(why.reason, REASON_HOST_MISSING);
    request_clear(&r);
}

static void connect_has_no_body(void **state)
{
    static const struct row connect = {
        .method = "CONNECT", .target = "registry.test:443", .hosts = {"registry.test:443"}};
    const struct request_context none = {0};
    struct field fields[N_HOSTS + 1];
    struct head head = make_head(&connect, 1, fields);
    struct request r = {0};
    struct fault why;

    (void)state;
    head.framing = FRAMING_LENGTH;
    assert_true(request_read(&r, &head, &none, &why));
    head.length = 3;
    assert_false(request_read(&r, &head, &none, &why));
    assert_int_equal(why.reason, REASON_REQUEST_MALFORMED);
    head.framing = FRAMING_CHUNKED;
    assert_false(request_read(&r, &head, &none, &why));
    request_clear(&r);
}

static void a_request_holds_path_and_query_apart(void **state)
{
    static const struct row row = {
        .method = "GET", .target = "http://registry.test/%61/b?x=%31&y", .hosts = {"registry.test"}};
    const struct request_context none = {0};
    struct field fields[N_HOSTS + 1];
    struct head head = make_head(&row, 1, fields);
    struct request r = {0};

    (void)state;
    assert_true(request_read(&r, &head, &none, NULL));
    assert_true(slice_is(buf_slice(&r.path), "/a/b"));
    assert_true(slice_is(r.raw_path, "/%61/b"));
    assert_true(r.has_query);
    assert_true(slice_is(r.query, "x=%31&y"));
    assert_ptr_equal(r.head, &head);
    head.target = SLICE("http://registry.test/c");
    assert_true(request_read(&r, &head, &none, NULL));
    assert_true(slice_is(buf_slice(&r.path), "/c"));
    assert_false(r.has_query);
    request_clear(&r);
}

static const struct {
    const char *name, *method, *url;
    enum reason reason;
    enum scheme scheme;
    const char *host;
    uint16_t port;
    const char *path;
} urls[] = {
    {"https", "GET", "https://npm.example/x", 0, SCHEME_HTTPS, "npm.example", 443, "/x"},
    {"http", "GET", "http://npm.example", 0, SCHEME_HTTP, "npm.example", 80, "/"},
    {"a port", "GET", "https://npm.example:8443/%61", 0, SCHEME_HTTPS, "npm.example", 8443, "/a"},
    {"a Unicode host, as people type it", "GET", "https://r\xc3\xa9gistry.test/", 0, SCHEME_HTTPS,
     "xn--rgistry-bya.test", 443, "/"},
    {"CONNECT", "CONNECT", "npm.example:443", 0, SCHEME_HTTP, "npm.example", 443, ""},
    {"CONNECT with a URL", "CONNECT", "https://npm.example/", REASON_REQUEST_MALFORMED, 0, NULL, 0, NULL},
    {"no scheme", "GET", "npm.example/left-pad", REASON_REQUEST_MALFORMED, 0, NULL, 0, NULL},
    {"another scheme", "GET", "file:///etc/passwd", REASON_REQUEST_MALFORMED, 0, NULL, 0, NULL},
    {"a fragment", "GET", "https://npm.example/#x", REASON_REQUEST_MALFORMED, 0, NULL, 0, NULL},
    {"a dot segment", "GET", "https://npm.example/../x", REASON_PATH_INVALID, 0, NULL, 0, NULL},
    {"a space in the query", "GET", "https://npm.example/?a b", REASON_REQUEST_MALFORMED, 0, NULL, 0, NULL},
    {"an address", "GET", "https://127.0.0.1/", REASON_HOST_INVALID, 0, NULL, 0, NULL},
};

static void a_url_is_a_request_too(void **state)
{
    struct request r = {0};

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct fault why = {0};
        bool ok = request_from_url(&r, slice_of(urls[i].method), slice_of(urls[i].url), &why);

        if (ok != (urls[i].reason == REASON_NONE) || (!ok && why.reason != urls[i].reason))
            fail_msg("%s: %s (%s)", urls[i].name, reason_code(why.reason), why.text);
        if (ok && (r.scheme != urls[i].scheme || strcmp(r.host, urls[i].host) != 0 || r.port != urls[i].port ||
                   !slice_is(buf_slice(&r.path), urls[i].path)))
            fail_msg("%s: %s %u %.*s", urls[i].name, r.host, r.port, SLICE_ARG(buf_slice(&r.path)));
    }
    request_clear(&r);
}

static void measure(void **state)
{
    static const struct row row = {
        .method = "GET", .target = "/simple/left-pad/left_pad-1.3.0-py3-none-any.whl", .hosts = {"registry.test"}};
    struct field fields[N_HOSTS + 1];
    struct head head = make_head(&row, 1, fields);
    struct request r = {0};
    int64_t start = clock_mono_ns();

    (void)state;
    for (int i = 0; i < 100000; i++)
        assert_true(request_read(&r, &head, &tls_tunnel, NULL));
    print_message("request_read: %lld ns\n", (long long)(clock_mono_ns() - start) / 100000);
    request_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_have_one_spelling),
        cmocka_unit_test(canonical_paths_are_stable),
        cmocka_unit_test(loose_paths_are_what_careless_servers_see),
        cmocka_unit_test(requests_outside_a_tunnel_name_their_destination),
        cmocka_unit_test(requests_inside_a_tunnel_agree_with_it),
        cmocka_unit_test(requests_without_a_proxy_name_the_host_of_the_connection),
        cmocka_unit_test(other_tunnels_have_other_default_ports),
        cmocka_unit_test(http_1_0_needs_no_host),
        cmocka_unit_test(connect_has_no_body),
        cmocka_unit_test(a_request_holds_path_and_query_apart),
        cmocka_unit_test(a_url_is_a_request_too),
        cmocka_unit_test(measure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
