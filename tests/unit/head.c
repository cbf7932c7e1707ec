/* Heads: what is read from them, the questions they answer, and the edge cases of the conformance list that a reader can judge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "message_fixture.h"
#include "net/line.h"

#define BYTES(text) {text, sizeof(text) - 1}
#define GET(fields) "GET /p HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define POST(fields) BYTES("POST /up/x HTTP/1.1\r\nHost: a\r\n" fields "\r\n")
#define CHUNKED(chunks) BYTES("POST /up/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" chunks)

static const struct message_limits limits = {.head = 4096, .target = 1024, .n_fields = 32};

/* Read the one head of raw, or fail. */
static struct message *read_head(enum message_kind kind, const char *raw)
{
    struct message *m = message_new(kind, &limits);
    struct fault why = {0};
    size_t used = 0;

    if (message_feed(m, slice_of(raw), &used, &why) != MESSAGE_HEAD)
        fail_msg("%s: %s", raw, why.text);
    return m;
}

static bool feed_says(enum message_kind kind, struct slice raw, struct fault *why)
{
    struct message *m = message_new(kind, &limits);
    size_t used = 0;
    enum message_event event = message_feed(m, raw, &used, why);

    message_free(m);
    return event == MESSAGE_HEAD;
}

/* ---- what is read ---- */

static void request_heads(void **state)
{
    static const struct {
        const char *name, *raw, *method, *target;
        int minor;
        enum framing framing;
        uint64_t length;
        bool keep_alive, upgrade, expect_continue, expect_other;
    } rows[] = {
        {"1.1 lives on", GET(""), "GET", "/p", 1, FRAMING_NONE, 0, true, false, false, false},
        {"close", GET("Connection: close\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, false, false, false, false},
        {"close in a list, any case", GET("connection: te ,CLOSE\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, false, false,
         false, false},
        {"close in a second line", GET("Connection: te\r\nConnection: close\r\n"), "GET", "/p", 1, FRAMING_NONE, 0,
         false, false, false, false},
        {"close wins over keep-alive", GET("Connection: keep-alive, close\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, false,
         false, false, false},
        {"closed is not close", GET("Connection: closed\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true, false, false,
         false},
        {"Proxy-Connection says nothing", GET("Proxy-Connection: close\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true,
         false, false, false},
        {"1.0 ends", "GET http://a/ HTTP/1.0\r\n\r\n", "GET", "http://a/", 0, FRAMING_NONE, 0, false, false, false,
         false},
        {"1.0 with keep-alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET", "/", 0, FRAMING_NONE, 0, true,
         false, false, false},
        {"an upgrade", GET("Connection: Upgrade\r\nUpgrade: websocket\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true, true,
         false, false},
        {"Upgrade alone is none", GET("Upgrade: websocket\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true, false, false,
         false},
        {"the option alone is none", GET("Connection: upgrade\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true, false, false,
         false},
        {"a length", GET("Content-Length: 42\r\n"), "GET", "/p", 1, FRAMING_LENGTH, 42, true, false, false, false},
        {"the largest length", GET("Content-Length: 9223372036854775807\r\n"), "GET", "/p", 1, FRAMING_LENGTH,
         INT64_MAX, true, false, false, false},
        {"chunked", GET("transfer-encoding: CHUNKED\r\n"), "GET", "/p", 1, FRAMING_CHUNKED, 0, true, false, false,
         false},
        {"100-continue", GET("Expect: 100-Continue\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true, false, true, false},
        {"something else expected", GET("Expect: tea\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true, false, false, true},
        {"two expectations", GET("Expect: 100-continue\r\nExpect: tea\r\n"), "GET", "/p", 1, FRAMING_NONE, 0, true,
         false, false, true},
        {"1.0 expects nothing", "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", "GET", "/", 0, FRAMING_NONE, 0, false,
         false, false, false},
        {"CONNECT has no content", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 0\r\n\r\n", "CONNECT",
         "a:443", 1, FRAMING_NONE, 0, true, false, false, false},
        {"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS", "*", 1, FRAMING_NONE, 0, true, false, false,
         false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message *m = read_head(MESSAGE_REQUEST, rows[i].raw);
        const struct head *h = message_head(m);

        if (!slice_is(h->method, rows[i].method) || !slice_is(h->target, rows[i].target) ||
            h->minor != rows[i].minor || h->framing != rows[i].framing || h->length != rows[i].length ||
            h->keep_alive != rows[i].keep_alive || h->upgrade != rows[i].upgrade ||
            h->expect_continue != rows[i].expect_continue || h->expect_other != rows[i].expect_other)
            fail_msg("%s: framing %d, length %llu, minor %d, flags %d%d%d%d", rows[i].name, h->framing,
                     (unsigned long long)h->length, h->minor, h->keep_alive, h->upgrade, h->expect_continue,
                     h->expect_other);
        message_free(m);
    }
}

static void response_heads(void **state)
{
    static const struct {
        const char *name, *raw;
        int status;
        const char *reason;
        enum framing framing;
        uint64_t length;
        bool keep_alive;
    } rows[] = {
        {"a length", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, "OK", FRAMING_LENGTH, 7, true},
        {"none: to the end", "HTTP/1.1 200 OK\r\n\r\n", 200, "OK", FRAMING_CLOSE, 0, true},
        {"chunked", "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n", 404, "Not Found", FRAMING_CHUNKED, 0,
         true},
        {"304 tells a length and has none", "HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", 304, "x", FRAMING_NONE, 7,
         true},
        {"1.0 ends", "HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\n", 200, "OK", FRAMING_LENGTH, 7, false},
        {"no reason", "HTTP/1.1 599\r\n\r\n", 599, "", FRAMING_CLOSE, 0, true},
        {"a reason of high octets", "HTTP/1.1 200 \xe9t\xe9\r\n\r\n", 200, "\xe9t\xe9", FRAMING_CLOSE, 0, true},
        {"an interim one", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 103, "Early Hints", FRAMING_NONE, 0, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message *m = read_head(MESSAGE_RESPONSE, rows[i].raw);
        const struct head *h = message_head(m);

        if (h->status != rows[i].status || !slice_is(h->reason, rows[i].reason) || h->framing != rows[i].framing ||
            h->length != rows[i].length || h->keep_alive != rows[i].keep_alive)
            fail_msg("%s: %d '%.*s' framing %d", rows[i].name, h->status, SLICE_ARG(h->reason), h->framing);
        message_free(m);
    }
}

static void reasons_of_refusals(void **state)
{
    static char long_target[1200], long_field[5000];
    const struct {
        const char *name;
        struct slice raw;
        enum reason reason;
    } rows[] = {
        {"malformed", BYTES("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), REASON_REQUEST_MALFORMED},
        {"no Host", BYTES("GET / HTTP/1.1\r\n\r\n"), REASON_HOST_MISSING},
        {"two Hosts", BYTES("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), REASON_REQUEST_MALFORMED},
        {"another version", BYTES("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), REASON_VERSION_NOT_SUPPORTED},
        {"HTTP/2 with prior knowledge", BYTES("PRI * HTTP/2.0\r\n\r\n"), REASON_VERSION_NOT_SUPPORTED},
        {"a long target", {long_target, sizeof long_target}, REASON_TARGET_TOO_LONG},
        {"a long head", {long_field, sizeof long_field}, REASON_HEAD_TOO_LARGE},
    };

    (void)state;
    memset(long_target, 'a', sizeof long_target);
    memcpy(long_target, "GET /", 5);
    memset(long_field, 'a', sizeof long_field);
    memcpy(long_field, "GET / HTTP/1.1\r\nHost: ", 22);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};

        assert_false(feed_says(MESSAGE_REQUEST, rows[i].raw, &why));
        if (why.reason != rows[i].reason)
            fail_msg("%s: reason %d, %s", rows[i].name, why.reason, why.text);
    }
    struct fault why = {0};

    assert_false(feed_says(MESSAGE_RESPONSE, SLICE("HTTP/2.0 200 OK\r\n\r\n"), &why));
    assert_int_equal(why.reason, REASON_UPSTREAM_MALFORMED);
}

/* ---- the questions ---- */

static void questions(void **state)
{
    struct message *m = read_head(MESSAGE_REQUEST, "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a:  2 \t\r\n"
                                                   "Connection: X-Hop, ,close\r\nAccept: a, b ;q=1\r\n\r\n");
    const struct head *h = message_head(m);
    static const struct {
        const char *name;
        bool hop;
    } hops[] = {
        {"connection", true}, {"Keep-Alive", true}, {"proxy-connection", true}, {"Proxy-Authorization", true},
        {"proxy-authenticate", true}, {"TE", true}, {"trailer", true}, {"Transfer-Encoding", true}, {"upgrade", true},
        {"x-HOP", true}, {"close", true}, {"host", false}, {"x-a", false}, {"x-hop2", false}, {"", true},
        {"authorization", false}, {"content-length", false},
    };

    (void)state;
    assert_int_equal(head_count(h, "x-a"), 2);
    assert_int_equal(head_count(h, "x-b"), 0);
    assert_true(slice_is(head_field(h, "X-a")->value, "1"));
    assert_null(head_field(h, "x"));
    assert_true(slice_is(h->fields[2].value, "2"));
    assert_true(head_lists(h, "connection", "CLOSE"));
    assert_false(head_lists(h, "connection", "clos"));
    assert_true(head_lists(h, "x-a", "2"));
    assert_false(head_lists(h, "accept", "b"));
    for (size_t i = 0; i < sizeof hops / sizeof *hops; i++)
        if (head_is_hop(h, slice_of(hops[i].name)) != hops[i].hop)
            fail_msg("hop: %s", hops[i].name);
    message_free(m);
}

/* ---- edge cases ---- */

static void framing_cases(void **state)
{
    static const struct {
        const char *name;
        struct slice raw;
        const char *events;
    } rows[] = {
        {"length and coding", POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "!"},
        {"coding and length", POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), "!"},
        {"length in hexadecimal", POST("Content-Length: 0x3\r\n"), "!"},
        {"length over 2^64", POST("Content-Length: 18446744073709551619\r\n"), "!"},
        {"length with a blank inside", POST("Content-Length: 1 0\r\n"), "!"},
        {"length with a minus", POST("Content-Length: -0\r\n"), "!"},
        {"length of blanks", POST("Content-Length:  \t\r\n"), "!"},
        {"length with leading zeros", BYTES("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabc"), "HabcE"},
        {"chunked is not last", POST("Transfer-Encoding: chunked, identity\r\n"), "!"},
        {"chunked after gzip", POST("Transfer-Encoding: gzip, chunked\r\n"), "!"},
        {"identity", POST("Transfer-Encoding: identity\r\n"), "!"},
        {"two coding lines", POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), "!"},
        {"an empty coding", POST("Transfer-Encoding:\r\n"), "!"},
        {"chunked and a comma", POST("Transfer-Encoding: chunked,\r\n"), "!"},
        {"a tab before chunked", BYTES("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n"), "HE"},
        {"a vertical tab before it", POST("Transfer-Encoding: \vchunked\r\n"), "!"},
        {"quoted", POST("Transfer-Encoding: \"chunked\"\r\n"), "!"},
        {"a blank after the name", POST("Transfer-Encoding : chunked\r\n"), "!"},
        {"a tab after the name", POST("Transfer-Encoding\t: chunked\r\n"), "!"},
        {"a parameter", POST("Transfer-Encoding: chunked;a=b\r\n"), "!"},
        {"a folded coding", POST("Transfer-Encoding:\r\n chunked\r\n"), "!"},
        {"a size with a minus", CHUNKED("-1\r\nabc\r\n0\r\n\r\n"), "H!"},
        {"a size with a tab", CHUNKED("3\t\r\nabc\r\n0\r\n\r\n"), "H!"},
        {"a size with a blank before", CHUNKED(" 3\r\nabc\r\n0\r\n\r\n"), "H!"},
        {"a size with an underscore", CHUNKED("1_0\r\nabc\r\n0\r\n\r\n"), "H!"},
        {"a size of both cases", CHUNKED("0aA;x\r\n0123456789"), "H0123456789"},
        {"a size that ends with CR only", CHUNKED("3\rabc\r\n0\r\n\r\n"), "H!"},
        {"fifteen digits", CHUNKED("000000000000003\r\nabc\r\n0\r\n\r\n"), "HabcE"},
        {"sixteen digits", CHUNKED("ffffffffffffffff\r\nabc"), "H!"},
        {"fewer octets than said", CHUNKED("4\r\nabc\r\n0\r\n\r\n"), "Habc\r!"},
        {"no CRLF after the chunk", CHUNKED("3\r\nabc0\r\n\r\n"), "Habc!"},
        {"LF after the chunk", CHUNKED("3\r\nabc\n0\r\n\r\n"), "Habc!"},
        {"LF after the last chunk", CHUNKED("0\n\n"), "H!"},
        {"LF in an extension", CHUNKED("3;a\nb\r\nabc\r\n0\r\n\r\n"), "H!"},
        {"CR in an extension", CHUNKED("3;a\rb\r\nabc\r\n0\r\n\r\n"), "H!"},
        {"NUL in an extension", CHUNKED("3;a\0b\r\nabc\r\n0\r\n\r\n"), "H!"},
        {"a trailer that routes", CHUNKED("0\r\nHost: other\r\n\r\n"), "H!"},
        {"a trailer that authenticates", CHUNKED("0\r\nProxy-Authorization: x\r\n\r\n"), "H!"},
        {"a trailer folded", CHUNKED("0\r\nX: a\r\n b\r\n\r\n"), "H!"},
        {"a trailer with LF", CHUNKED("0\r\nX: a\n\r\n"), "H!"},
        {"a trailer without a colon", CHUNKED("0\r\nX\r\n\r\n"), "H!"},
        {"a request hidden after a length", BYTES("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
                                                  "GET /p HTTP/1.1\r\nHost: b\r\n\r\n"), "HEHE"},
        {"a request hidden after chunks", CHUNKED("0\r\n\r\nGET /p HTTP/1.1\r\nHost: b\r\n\r\n"), "HEHE"},
        {"a bad one after a good one", CHUNKED("0\r\n\r\nGET /p HTTP/1.1\r\n\r\n"), "HE!"},
        {"an empty line between two", CHUNKED("0\r\n\r\n\r\nGET /p HTTP/1.1\r\nHost: b\r\n\r\n"), "HEHE"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_bytes(&limits, MESSAGE_REQUEST, false, rows[i].name, rows[i].raw, rows[i].events);
}

static void field_cases(void **state)
{
    static const struct {
        const char *name;
        struct slice raw;
        const char *events;
    } rows[] = {
        {"a bare CR", BYTES(GET("A: b\rC: d\r\n")), "!"},
        {"CR CR LF", BYTES(GET("A: b\r\r\n")), "!"},
        {"a fold", BYTES(GET("X-A: b\r\n folded\r\n")), "!"},
        {"a fold with a tab", BYTES(GET("X-A: b\r\n\tfolded\r\n")), "!"},
        {"a fold of the request line", BYTES("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), "!"},
        {"a line of blanks", BYTES(GET("X-A: b\r\n \r\n")), "!"},
        {"NUL in a value", BYTES(GET("X-A: b\0c\r\n")), "!"},
        {"NUL in a name", BYTES(GET("X\0A: b\r\n")), "!"},
        {"NUL in the target", BYTES("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"), "!"},
        {"DEL in a value", BYTES(GET("X-A: b\177c\r\n")), "!"},
        {"a tab in a value", BYTES(GET("X-A: b\tc\r\n")), "HE"},
        {"a name with a blank", BYTES(GET("X A: b\r\n")), "!"},
        {"a name with high octets", BYTES(GET("X\xc3\xa9: b\r\n")), "!"},
        {"a name in brackets", BYTES(GET("X[A]: b\r\n")), "!"},
        {"a name of odd marks", BYTES(GET("!#$%&'*+-.^_`|~: b\r\n")), "HE"},
        {"an empty value", BYTES(GET("X-A:\r\n")), "HE"},
        {"a value of blanks", BYTES(GET("X-A: \t \r\n")), "HE"},
        {"a colon in a value", BYTES(GET("X-A: b:c\r\n")), "HE"},
        {"HTTP/1.10", BYTES("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), "!"},
        {"HTTP/01.1", BYTES("GET / HTTP/01.1\r\nHost: a\r\n\r\n"), "!"},
        {"HTTP/1,1", BYTES("GET / HTTP/1,1\r\nHost: a\r\n\r\n"), "!"},
        {"no version", BYTES("GET /\r\nHost: a\r\n\r\n"), "!"},
        {"no target", BYTES("GET HTTP/1.1\r\nHost: a\r\n\r\n"), "!"},
        {"an empty target", BYTES("GET  HTTP/1.1\r\nHost: a\r\n\r\n"), "!"},
        {"a blank in the target", BYTES("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), "!"},
        {"high octets in the target", BYTES("GET http://r\xc3\xa9.test/ HTTP/1.1\r\nHost: a\r\n\r\n"), "!"},
        {"a blank before the method", BYTES(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "!"},
        {"another protocol", BYTES("SSH-2.0-OpenSSH_9.2\r\n"), "!"},
        {"another protocol, its end", BYTES("SSH-2.0-OpenSSH_9.2\r\n\r\n"), "!"},
        {"LF LF before", BYTES("\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), "!"},
        {"Host twice, spelled apart", BYTES(GET("HOST: a\r\n")), "!"},
        {"Connection takes the length away", BYTES(GET("Connection: content-length\r\nContent-Length: 0\r\n")), "!"},
        {"Connection takes the coding away", BYTES(GET("Connection: close, Transfer-Encoding\r\n")), "!"},
        {"Connection takes Via away", BYTES(GET("Connection: via\r\n")), "!"},
        {"CONNECT as pip sends it", BYTES("CONNECT a:443 HTTP/1.0\r\n\r\n"), "HE"},
        {"CONNECT with a coding", BYTES("CONNECT a:443 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "!"},
        {"CONNECT without Host in 1.1", BYTES("CONNECT a:443 HTTP/1.1\r\n\r\n"), "!"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_bytes(&limits, MESSAGE_REQUEST, false, rows[i].name, rows[i].raw, rows[i].events);
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Does a message with one field, or one trailer field, of these parts come to its end? */
static bool passes(bool trailer, const char *before, int pad, char c, const char *after)
{
    struct message *m = message_new(MESSAGE_REQUEST, &limits);
    struct buf raw = {0}, out = {0};
    bool ended;

    buf_text(&raw, "POST / HTTP/1.1\r\nHost: a\r\n");
    buf_text(&raw, trailer ? "Transfer-Encoding: chunked\r\n\r\n0\r\n" : "");
    buf_printf(&raw, "%s%.*s", before, pad, "xxxxxxxx");
    buf_char(&raw, c);
    buf_printf(&raw, "%s\r\n\r\n", after);
    feed(m, buf_slice(&raw), &out);
    ended = slice_ends(buf_slice(&out), SLICE("E"));
    buf_free(&raw);
    buf_free(&out);
    message_free(m);
    return ended;
}

/* Every octet at every place of a word, in names and values. Trailers have no second reader: they show ours alone. */
static void every_octet(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++)
        for (int pad = 0; pad <= 8; pad++)
            for (int trailer = 0; trailer <= 1; trailer++) {
                bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
                bool in_name = alnum || is_one_of((char)c, "!#$%&'*+-.^_`|~") || (c == ':' && pad > 0);
                bool in_value = c == '\t' || (c >= 0x20 && c != 0x7f);

                if (passes(trailer, "", pad, (char)c, "x: v") != in_name)
                    fail_msg("octet %02x at %d of a name", c, pad);
                if (passes(trailer, "x: ", pad, (char)c, "v") != in_value)
                    fail_msg("octet %02x at %d of a value", c, pad);
            }
}

/* used is exact: what follows a CONNECT head, or any whole message, stays with the caller. */
static void what_follows_is_not_touched(void **state)
{
    static const struct {
        enum message_kind kind;
        const char *message, *after;
    } rows[] = {
        {MESSAGE_REQUEST, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "\x16\x03\x01"},
        {MESSAGE_REQUEST, GET(""), "GET"},
        {MESSAGE_REQUEST, GET("Content-Length: 2\r\n") "ab", "\r\n"},
        {MESSAGE_REQUEST, GET("Transfer-Encoding: chunked\r\n") "2\r\nab\r\n0\r\nX: y\r\n\r\n", "\r"},
        {MESSAGE_RESPONSE, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", "\x81\x05hello"},
        {MESSAGE_RESPONSE, "HTTP/1.1 100 Go\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message *m = message_new(rows[i].kind, &limits);
        enum message_event event = MESSAGE_MORE;
        struct buf both = {0};
        size_t total = 0, used = 0;

        buf_text(&both, rows[i].message);
        buf_text(&both, rows[i].after);
        do {
            event = message_feed(m, slice_from(buf_slice(&both), total), &used, NULL);
            total += used;
        } while (event == MESSAGE_HEAD || event == MESSAGE_BODY || event == MESSAGE_TRAILERS);
        assert_int_equal(event, MESSAGE_END);
        assert_int_equal(total, strlen(rows[i].message));
        assert_false(message_is_open(m));
        buf_free(&both);
        message_free(m);
    }
}

static void extensions_are_bounded_for_the_whole_body(void **state)
{
    struct buf raw = {0};

    (void)state;
    for (int chunks = 10; chunks <= 11; chunks++) { /* 100 octets of extension each, ';' not counted */
        buf_text(&raw, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (int i = 0; i < chunks; i++)
            buf_printf(&raw, "1;%0100d\r\na\r\n", 0);
        buf_text(&raw, "0\r\n\r\n");
        struct message *m = message_new(MESSAGE_REQUEST, &limits);
        struct buf out = {0};

        feed(m, buf_slice(&raw), &out);
        assert_true(slice_equals(buf_slice(&out), chunks == 10 ? SLICE("HaaaaaaaaaaE") : SLICE("Haaaaaaaaaa!")));
        buf_free(&out);
        buf_free(&raw);
        message_free(m);
    }
}

static void many_trailers(void **state)
{
    (void)state;
    for (size_t n = limits.n_fields; n <= limits.n_fields + 1; n++) {
        struct buf raw = {0}, out = {0};
        struct message *m = message_new(MESSAGE_REQUEST, &limits);

        buf_text(&raw, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
        for (size_t i = 0; i < n; i++)
            buf_text(&raw, "X: y\r\n");
        buf_text(&raw, "\r\n");
        feed(m, buf_slice(&raw), &out);
        assert_true(slice_equals(buf_slice(&out), n == limits.n_fields ? SLICE("HTE") : SLICE("H!")));
        buf_free(&raw);
        buf_free(&out);
        message_free(m);
    }
}

/* Two readings that differ in framing, version or status are two meanings, whichever of the two is ours. */
static void second_opinions(void **state)
{
    static const struct {
        const char *name;
        enum message_kind kind;
        const char *raw;
        struct head ours;
        bool agrees;
    } rows[] = {
        {"no content", MESSAGE_REQUEST, GET(""), {.minor = 1}, true},
        {"a length", MESSAGE_REQUEST, GET("Content-Length: 2\r\n"), {.minor = 1, .framing = FRAMING_LENGTH}, true},
        {"chunks", MESSAGE_REQUEST, GET("Transfer-Encoding: chunked\r\n"), {.minor = 1, .framing = FRAMING_CHUNKED}, true},
        {"a length where there is none", MESSAGE_REQUEST, GET(""), {.minor = 1, .framing = FRAMING_LENGTH}, false},
        {"a length where there are chunks", MESSAGE_REQUEST, GET("Transfer-Encoding: chunked\r\n"),
         {.minor = 1, .framing = FRAMING_LENGTH}, false},
        {"chunks where there are none", MESSAGE_REQUEST, GET(""), {.minor = 1, .framing = FRAMING_CHUNKED}, false},
        {"chunks where there is a length", MESSAGE_REQUEST, GET("Content-Length: 2\r\n"),
         {.minor = 1, .framing = FRAMING_CHUNKED}, false},
        {"no content where there are chunks", MESSAGE_REQUEST, GET("Transfer-Encoding: chunked\r\n"), {.minor = 1}, false},
        {"another version", MESSAGE_REQUEST, GET(""), {.minor = 0}, false},
        {"a status", MESSAGE_RESPONSE, "HTTP/1.1 200 OK\r\n\r\n", {.minor = 1, .status = 200, .framing = FRAMING_CLOSE}, true},
        {"another status", MESSAGE_RESPONSE, "HTTP/1.1 200 OK\r\n\r\n", {.minor = 1, .status = 204, .framing = FRAMING_CLOSE},
         false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct head ours = rows[i].ours;
        struct fault why = {0};

        ours.method = rows[i].kind == MESSAGE_REQUEST ? SLICE("GET") : SLICE("");
        if (head_second_opinion(rows[i].kind, slice_of(rows[i].raw), &ours, &why) != rows[i].agrees)
            fail_msg("%s: %s", rows[i].name, why.text);
    }
}

/* ---- plain heads ---- */

/* Is it one; and if so, does llhttp agree, which is not asked then? False too when it is refused. */
static bool is_plain(enum message_kind kind, struct slice raw)
{
    struct message *m = message_new(kind, &limits);
    size_t used = 0;
    bool plain = message_feed(m, raw, &used, NULL) == MESSAGE_HEAD && message_head(m)->plain;

    if (plain && !head_second_opinion(kind, raw, message_head(m), NULL))
        fail_msg("taken for plain, and llhttp differs: %.*s", SLICE_ARG(raw));
    message_free(m);
    return plain;
}

#define TO(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define ANSWER(line, fields) "HTTP/1.1 " line "\r\n" fields "\r\n"

static void what_is_plain(void **state)
{
    static const struct {
        const char *name;
        enum message_kind kind;
        const char *raw;
        bool plain;
    } rows[] = {
        {"a GET", MESSAGE_REQUEST, GET("Accept: */*\r\nUser-Agent: npm/10.9 (x; y)\r\n"), true},
        {"of a package", MESSAGE_REQUEST, TO("/@scope%2Fname/-/name-1.0.0+b~1.tgz?x=1&y=a,b;c:d!$*"), true},
        {"keep-alive", MESSAGE_REQUEST, GET("Connection: keep-alive\r\n"), true},
        {"close", MESSAGE_REQUEST, GET("Connection: Close , keep-alive\r\n"), true},
        {"a length", MESSAGE_REQUEST, GET("Content-Length: 2\r\n"), true},
        {"octets beyond ASCII in a value", MESSAGE_REQUEST, GET("X: \xc3\xa9\xff\r\n"), true},
        {"an empty value", MESSAGE_REQUEST, GET("X:\r\nY: \r\n"), true},
        {"HEAD", MESSAGE_REQUEST, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"POST", MESSAGE_REQUEST, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", true},
        {"an answer", MESSAGE_RESPONSE, ANSWER("200 OK", "Content-Length: 3\r\nContent-Type: a/b\r\n"), true},
        {"an answer without a reason", MESSAGE_RESPONSE, ANSWER("404 ", ""), true},
        {"an answer without a reason or its blank", MESSAGE_RESPONSE, ANSWER("404", ""), true},
        {"no content", MESSAGE_RESPONSE, ANSWER("204 No Content", ""), true},
        {"not modified", MESSAGE_RESPONSE, ANSWER("304 Not Modified", "Content-Length: 3\r\n"), true},
        {"a tab", MESSAGE_REQUEST, GET("X: a\tb\r\n"), false},
        {"a tab in an answer", MESSAGE_RESPONSE, ANSWER("200 OK", "X: a\tb\r\n"), false},
        {"chunks", MESSAGE_REQUEST, GET("Transfer-Encoding: chunked\r\n"), false},
        {"chunks in an answer", MESSAGE_RESPONSE, ANSWER("200 OK", "Transfer-Encoding: chunked\r\n"), false},
        {"Upgrade", MESSAGE_REQUEST, GET("Upgrade: websocket\r\n"), false},
        {"Connection: upgrade", MESSAGE_REQUEST, GET("Connection: upgrade\r\n"), false},
        {"another option", MESSAGE_REQUEST, GET("Connection: close, te\r\n"), false},
        {"Proxy-Connection", MESSAGE_REQUEST, GET("Proxy-Connection: keep-alive\r\n"), false},
        {"version 1.0", MESSAGE_REQUEST, "GET / HTTP/1.0\r\n\r\n", false},
        {"an answer of version 1.0", MESSAGE_RESPONSE, "HTTP/1.0 200 OK\r\n\r\n", false},
        {"an interim answer", MESSAGE_RESPONSE, ANSWER("100 Continue", ""), false},
        {"CONNECT", MESSAGE_REQUEST, "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", false},
        {"another method", MESSAGE_REQUEST, "PATCH / HTTP/1.1\r\nHost: a\r\n\r\n", false},
        {"a method in small letters", MESSAGE_REQUEST, "get / HTTP/1.1\r\nHost: a\r\n\r\n", false},
        {"a URL", MESSAGE_REQUEST, TO("http://a/"), false},
        {"an asterisk", MESSAGE_REQUEST, TO("*"), false},
        {"a fragment", MESSAGE_REQUEST, TO("/a#b"), false},
        {"a quote", MESSAGE_REQUEST, TO("/a\"b"), false},
        {"a backslash", MESSAGE_REQUEST, TO("/a\\b"), false},
        {"brackets", MESSAGE_REQUEST, TO("/a[b]"), false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is_plain(rows[i].kind, slice_of(rows[i].raw)) != rows[i].plain)
            fail_msg("%s", rows[i].name);
}

/* Any octet, in place of any octet of a plain head, or put in before it: what is plain then has one meaning still. */
static void plain_heads_with_any_octet_anywhere(void **state)
{
    static const struct {
        enum message_kind kind;
        const char *raw;
    } heads[] = {
        {MESSAGE_REQUEST, "PUT /a/b?c=d HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\nContent-Length: 12\r\nX-y:\r\n\r\n"},
        {MESSAGE_RESPONSE, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 12\r\nX-y: z\r\n\r\n"},
    };
    size_t n_plain = 0;

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t at = 0; at < strlen(heads[i].raw); at++)
            for (int c = 0; c < 512; c++) {
                struct slice head = slice_of(heads[i].raw);
                struct buf raw = {0};

                buf_append(&raw, slice_cut(head, 0, at));
                buf_char(&raw, (char)c);
                buf_append(&raw, slice_from(head, at + (c < 256)));
                n_plain += is_plain(heads[i].kind, buf_slice(&raw));
                buf_free(&raw);
            }
    assert_in_range(n_plain, 10000, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_heads),
        cmocka_unit_test(response_heads),
        cmocka_unit_test(reasons_of_refusals),
        cmocka_unit_test(questions),
        cmocka_unit_test(framing_cases),
        cmocka_unit_test(field_cases),
        cmocka_unit_test(every_octet),
        cmocka_unit_test(what_follows_is_not_touched),
        cmocka_unit_test(extensions_are_bounded_for_the_whole_body),
        cmocka_unit_test(many_trailers),
        cmocka_unit_test(second_opinions),
        cmocka_unit_test(what_is_plain),
        cmocka_unit_test(plain_heads_with_any_octet_anywhere),
    };

    return cmocka_run_group_tests_name("head", tests, NULL, NULL);
}
