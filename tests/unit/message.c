/* The strict reading of HTTP/1.x: each row whole, byte by byte, and in two pieces at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/head.h"

static const struct message_limits limits = {.head = 1024, .target = 64, .n_fields = 8};

/* What came out: H head, a body bytes, T trailers, E end, ! bad; then M. */
static void feed(struct message *m, struct slice input, struct buf *out)
{
    for (;;) {
        struct fault why = {0};
        size_t used = 0;
        enum message_event event = message_feed(m, input, &used, &why);

        assert_true(used <= input.len);
        if (event == MESSAGE_HEAD)
            buf_char(out, 'H');
        else if (event == MESSAGE_BODY)
            buf_append(out, message_body(m));
        else if (event == MESSAGE_TRAILERS)
            buf_char(out, 'T');
        else if (event == MESSAGE_END)
            buf_char(out, 'E');
        else if (event == MESSAGE_BAD) {
            buf_char(out, '!');
            return;
        } else
            return;
        input = slice_from(input, used);
        if (event == MESSAGE_END) {
            message_reset(m);
            if (input.len == 0)
                return;
        }
    }
}

static void expect(enum message_kind kind, bool head_request, const char *name, const char *raw, const char *events)
{
    size_t len = strlen(raw);

    for (size_t cut = 0; cut <= len + 1; cut++) {
        struct message *m = message_new(kind, &limits);
        struct buf out = {0};

        message_expect(m, head_request);
        if (cut == len + 1) {
            for (size_t i = 0; i < len && !(buf_len(&out) && out.ptr[out.end - 1] == '!'); i++)
                feed(m, slice_make(raw + i, 1), &out);
        } else {
            feed(m, slice_make(raw, cut), &out);
            if (!(buf_len(&out) && out.ptr[out.end - 1] == '!'))
                feed(m, slice_make(raw + cut, len - cut), &out);
        }
        buf_char(&out, '\0');
        /* a refusal repeated after a refusal is one refusal */
        if (strcmp(buf_slice(&out).ptr, events) != 0)
            fail_msg("%s (cut %zu): expected %s, got %s", name, cut, events, buf_slice(&out).ptr);
        buf_free(&out);
        message_free(m);
    }
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
        {"TLS where HTTP belongs", "\x16\x03\x01\x02", "!"},
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
