/* The strict reading of HTTP/1.x: each row whole, byte by byte, and in two pieces at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "message_fixture.h"

static const struct message_limits limits = {.head = 1024, .target = 64, .n_fields = 8};

static void expect(enum message_kind kind, bool head_request, const char *name, const char *raw, const char *events)
{
    expect_bytes(&limits, kind, head_request, name, slice_of(raw), events);
}

#define R(fields) "GET / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define P(fields) "POST / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"

static void requests(void **state)
{
    static const struct {
        const char *name, *raw, *events;
    } rows[] = {
        {"a GET", R(""), "HE"},
        {"two pipelined", R("") R(""), "HEHE"},
        {"HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", "HE"},
        {"CONNECT 1.0 without Host, TLS follows untouched", "CONNECT a:443 HTTP/1.0\r\n\r\n", "HE"},
        {"one empty line before", "\r\n" R(""), "HE"},
        {"two empty lines before", "\r\n\r\n" R(""), "!"},
        {"a length", P("Content-Length: 3\r\n") "abc", "HabcE"},
        {"a zero length", P("Content-Length: 0\r\n"), "HE"},
        {"chunks", P("Transfer-Encoding: chunked\r\n") "3\r\nabc\r\n0\r\n\r\n", "HabcE"},
        {"chunks with extension", P("Transfer-Encoding: chunked\r\n") "3;x=y\r\nabc\r\n0\r\n\r\n", "HabcE"},
        {"chunks with trailer", P("Transfer-Encoding: chunked\r\n") "3\r\nabc\r\n0\r\nx: y\r\n\r\n", "HabcTE"},
        {"chunks with framing trailer", P("Transfer-Encoding: chunked\r\n") "0\r\nContent-Length: 1\r\n\r\n", "H!"},
        {"chunk size with sign", P("Transfer-Encoding: chunked\r\n") "+3\r\nabc\r\n0\r\n\r\n", "H!"},
        {"chunk size with 0x", P("Transfer-Encoding: chunked\r\n") "0x3\r\nabc\r\n0\r\n\r\n", "H!"},
        {"chunk size with blank", P("Transfer-Encoding: chunked\r\n") "3 \r\nabc\r\n0\r\n\r\n", "H!"},
        {"chunk size too long", P("Transfer-Encoding: chunked\r\n") "0000000000000003\r\nabc\r\n0\r\n\r\n", "H!"},
        {"chunk line with bare LF", P("Transfer-Encoding: chunked\r\n") "3\nabc\r\n0\r\n\r\n", "H!"},
        {"chunk data too long", P("Transfer-Encoding: chunked\r\n") "2\r\nabc\r\n0\r\n\r\n", "Hab!"},
        {"empty chunk size", P("Transfer-Encoding: chunked\r\n") "\r\nabc\r\n0\r\n\r\n", "H!"},
        {"length and coding", P("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n", "!"},
        {"length twice, equal", P("Content-Length: 3\r\nContent-Length: 3\r\n") "abc", "!"},
        {"length list", P("Content-Length: 3, 3\r\n") "abc", "!"},
        {"length with sign", P("Content-Length: +3\r\n") "abc", "!"},
        {"length empty", P("Content-Length:\r\n"), "!"},
        {"length over 2^63", P("Content-Length: 9223372036854775808\r\n"), "!"},
        {"unknown coding", P("Transfer-Encoding: foo\r\n"), "!"},
        {"chunked twice", P("Transfer-Encoding: chunked, chunked\r\n"), "!"},
        {"coding in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "!"},
        {"no Host", "GET / HTTP/1.1\r\n\r\n", "!"},
        {"two Hosts", R("Host: a\r\n"), "!"},
        {"a fold", R("X: a\r\n b\r\n"), "!"},
        {"a blank before the colon", R("X : a\r\n"), "!"},
        {"an empty name", R(": a\r\n"), "!"},
        {"no colon", R("X\r\n"), "!"},
        {"bare LF", "GET / HTTP/1.1\nHost: a\n\n", "!"},
        {"bare CR in a value", R("X: a\rb\r\n"), "!"},
        {"a control in a value", R("X: a\x01\r\n"), "!"},
        {"obs-text in a value", R("X: \xe9\r\n"), "HE"},
        {"two spaces in the request line", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "!"},
        {"a tab in the request line", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "!"},
        {"HTTP/0.9", "GET /\r\n\r\n", "!"},
        {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "!"},
        {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", "!"},
        {"lower-case protocol", "GET / http/1.1\r\nHost: a\r\n\r\n", "!"},
        {"a method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "!"},
        {"CONNECT with content", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "!"},
        {"Connection takes Host away", R("Connection: host\r\n"), "!"},
        {"nine fields", R("a: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\ne: 1\r\nf: 1\r\ng: 1\r\nh: 1\r\n"), "!"},
        {"eight fields", R("a: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\ne: 1\r\nf: 1\r\ng: 1\r\n"), "HE"},
        {"a target over the limit",
         "GET /3456789012345678901234567890123456789012345678901234567890123456789 HTTP/1.1\r\nHost: a\r\n\r\n", "!"},
        {"a start line over the limit, whole or not",
         "GET / 5678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
         "1234567890123456789\r\n", "!"},
        {"ten fields before the head is whole",
         "GET / HTTP/1.1\r\nHost: a\r\na: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\ne: 1\r\nf: 1\r\ng: 1\r\nh: 1\r\ni: 1\r\n", "!"},
        {"32 options in Connection", R("Connection: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\r\n"), "HE"},
        {"33 options in Connection", R("Connection: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\r\n"), "!"},
        {"33 options in two lines of it",
         R("Connection: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\r\nConnection: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\r\n"), "!"},
        {"a blank after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "!"},
        {"TLS where HTTP belongs", "\x16\x03\x01\x02", "!"},
        {"HTTP/0.9 without an empty line", "GET /\r\n", "!"},
        {"another protocol's first line", "SSH-2.0-OpenSSH_9.2\r\n", "!"},
        {"another version, before the head is whole", "GET / HTTP/3.0\r\nHost: a\r\n", "!"},
        {"a sound start line waits for the rest", "GET / HTTP/1.1\r\n", ""},
        {"a method that no parser lists", "FROBNICATE / HTTP/1.1\r\nHost: a\r\n\r\n", "HE"},
        {"a tab behind a length", P("Content-Length: 3\t\r\n") "abc", "HabcE"},
        {"a tab behind chunked", P("Transfer-Encoding: chunked \t\r\n") "3\r\nabc\r\n0\r\n\r\n", "HabcE"},
        {"a tab inside chunked", P("Transfer-Encoding: chun\tked\r\n") "3\r\nabc\r\n0\r\n\r\n", "!"},
        {"a tab inside a length", P("Content-Length: 3\t3\r\n") "abc", "!"},
        {"a tab before the colon", P("Content-Length\t: 3\r\n") "abc", "!"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(MESSAGE_REQUEST, false, rows[i].name, rows[i].raw, rows[i].events);
}

static void responses(void **state)
{
    static const struct {
        const char *name, *raw, *events;
        bool head_request;
    } rows[] = {
        {"200 with a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "HabE", false},
        {"200 to HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "HE", true},
        {"204", "HTTP/1.1 204 No Content\r\n\r\n", "HE", false},
        {"204 with an empty length", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "HE", false},
        {"204 that announces content", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", "!", false},
        {"204 with a coding", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "!", false},
        {"100 with a coding", "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n", "!", false},
        {"after 204 comes another head", "HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "HEHaE", false},
        {"after 204 content is no head", "HTTP/1.1 204 No\r\n\r\nab\r\n\r\n", "HE!", false},
        {"chunked to HEAD has no chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HE", true},
        {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "HabE", false},
        {"chunked with trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nETag: x\r\n\r\n", "HTE", false},
        {"until the end", "HTTP/1.1 200 OK\r\n\r\nab", "Hab", false},
        {"until the end, in 1.0 with keep-alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nab", "Hab", false},
        {"304 with a coding has no chunks", "HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", "HE", false},
        {"101 ends the reading", "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", "HE", false},
        {"a status with letters", "HTTP/1.1 2x0 OK\r\n\r\n", "!", false},
        {"a status line that is none, before the head is whole", "ICY 200 OK\r\n", "!", false},
        {"a status with a sign", "HTTP/1.1 +20 OK\r\n\r\n", "!", false},
        {"status 099", "HTTP/1.1 099 OK\r\n\r\n", "!", false},
        {"two spaces before the status", "HTTP/1.1  200 OK\r\n\r\n", "!", false},
        {"no version", "200 OK\r\n\r\n", "!", false},
        {"a control in the reason", "HTTP/1.1 200 O\x01K\r\n\r\n", "!", false},
        {"an empty reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "HE", false},
        {"a length that is no number", "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n", "!", false},
        {"a coding in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "!", false},
        {"another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "!", false},
        {"lines that end with LF only", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "!", false},
        {"a blank before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", "!", false},
        {"304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", "HE", false},
        {"100 and then 200", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HEHE", false},
        {"no reason phrase", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "HE", false},
        {"two digits", "HTTP/1.1 20 OK\r\n\r\n", "!", false},
        {"four digits", "HTTP/1.1 2000 OK\r\n\r\n", "!", false},
        {"status 600", "HTTP/1.1 600 No\r\n\r\n", "!", false},
        {"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", "!", false},
        {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", "!", false},
        {"length and coding", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "!", false},
        {"a fold", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "!", false},
        {"an empty line before", "\r\nHTTP/1.1 200 OK\r\n\r\n", "!", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(MESSAGE_RESPONSE, rows[i].head_request, rows[i].name, rows[i].raw, rows[i].events);
}

static void ends(void **state)
{
    static const char until_close[] = "HTTP/1.1 200 OK\r\n\r\nabc", cut[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab";
    struct buf out = {0};
    struct message *m;

    (void)state;
    m = message_new(MESSAGE_RESPONSE, &limits);
    feed(m, slice_of(until_close), &out);
    assert_int_equal(message_finish(m, NULL), MESSAGE_END);
    message_free(m);
    m = message_new(MESSAGE_RESPONSE, &limits);
    feed(m, slice_of(cut), &out);
    assert_int_equal(message_finish(m, NULL), MESSAGE_BAD);
    message_free(m);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests), cmocka_unit_test(responses), cmocka_unit_test(ends)};

    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
