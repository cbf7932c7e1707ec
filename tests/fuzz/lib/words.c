#include "tests/fuzz/lib/words.h"

#include "net/frame.h"
#include "tests/fuzz/lib/world.h"

#define N(array) (sizeof array / sizeof *array)

const struct word words_requests[] = {
    {"get", "GET http://registry.test/pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$T\r\n"},
    {"post", "POST http://upload.test/up/$N HTTP/1.1\r\nHost: upload.test\r\n$TContent-Length: 5\r\n\r\nhello"},
    {"post-chunked", "POST http://upload.test/up/$N HTTP/1.1\r\nHost: upload.test\r\n$T"
                     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: y\r\n\r\n"},
    {"connect", "CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\n$T\r\n"},
    {"connect-upload", "CONNECT upload.test:443 HTTP/1.1\r\nHost: upload.test:443\r\n$T\r\n"},
    {"connect-plain", "CONNECT upload.test:80 HTTP/1.1\r\nHost: upload.test:80\r\n$T\r\n"},
    {"inner-get", "GET /pkg/$N HTTP/1.1\r\nHost: registry.test\r\n\r\n"},
    {"inner-head", "HEAD /pkg/$N HTTP/1.1\r\nHost: registry.test\r\n\r\n"},
    {"inner-put", "PUT /up/$N HTTP/1.1\r\nHost: upload.test\r\nContent-Length: 5\r\n\r\nhello"},
    {"inner-chunked", "POST /up/$N HTTP/1.1\r\nHost: upload.test\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: y\r\n\r\n"},
    {"inner-expect", "POST /up/$N HTTP/1.1\r\nHost: upload.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"},
    {"post-large", "POST http://upload.test/up/$N HTTP/1.1\r\nHost: upload.test\r\n$TContent-Length: 300000\r\n\r\n$L"},
    {"inner-large", "POST /up/$N HTTP/1.1\r\nHost: upload.test\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n493e0\r\n$L\r\n0\r\n\r\n"},
    {"leak-target", "GET http://registry.test/pkg/$C HTTP/1.1\r\nHost: registry.test\r\n$T\r\n"},
    {"leak-body", "POST http://upload.test/up/$N HTTP/1.1\r\nHost: upload.test\r\n$TContent-Length: 34\r\n\r\na$Cb"},
    {"leak-chunks", "POST /up/$N HTTP/1.1\r\nHost: upload.test\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n1\r\n!\r\n20\r\n$C\r\n0\r\n\r\n"},
    {"late-head", "POST http://upload.test/up/$N HTTP/1.1\r\nHost: upload.test\r\n$TContent-Length: 5032\r\n\r\n$K"},
    {"old", "GET http://registry.test/pkg/$N HTTP/1.0\r\nHost: registry.test\r\n$TConnection: keep-alive\r\n\r\n"},
    {"last", "GET http://registry.test/pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$TConnection: close\r\n\r\n"},
    {"junk-token", "GET http://registry.test/pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$J\r\n"},
    {"other-sandbox", "GET http://registry.test/pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$U\r\n"},
    {"no-such-path", "GET http://registry.test/no/$N HTTP/1.1\r\nHost: registry.test\r\n$T\r\n"},
    {"no-token", "GET http://other.test/pkg/$N HTTP/1.1\r\nHost: other.test\r\n\r\n"},
    {"inner-foreign", "GET /pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$U\r\n"},
    {"two-framings", "POST /up/$N HTTP/1.1\r\nHost: upload.test\r\n"
                     "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello"},
    {"chunked-head", "POST /up/$N HTTP/1.1\r\nHost: upload.test\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"chunk", "3\r\nabc\r\n"},
    {"last-chunk", "0\r\n\r\n"},
    {"raw-hello", "hello"},
    {"raw-canary", "$C"},
    {"raw-large", "$L"},
    {"socket", "GET http://talk.test/ws/$N HTTP/1.1\r\nHost: talk.test\r\n$TConnection: upgrade\r\nUpgrade: websocket\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"},
    {"bad-socket", "GET http://talk.test/ws/$N HTTP/1.1\r\nHost: talk.test\r\n$TUpgrade: websocket\r\n\r\n"},
    {"frame", "\x81\x82" "abcd" "\x09\x0b"},
    {"frame-part", "\x01\x82" "abcd" "\x09\x0b"},
    {"frame-more", "\x80\x82" "abcd" "\x09\x0b"},
    {"frame-ping", "\x89\x82" "abcd" "\x09\x0b"},
    {"frame-close", "\x88\x82" "abcd" "\x62\x8a"},
    {"frame-large", "$B"},
    {"frame-unmasked", "\x81\x02" "hi"},
    {"frame-leak", "\x82\xa0" "abcd" "$M"},
    {"frame-leak-begins", "\x02\x90" "abcd" "$H"},
    {"frame-leak-goes-on", "\x80\x90" "abcd" "$I"},
    {"frame-leak-first", "\x82\x90" "abcd" "$H"},
    {"frame-leak-second", "\x82\x90" "abcd" "$I"},
    {"frame-half", "\x81\x84" "abcd" "\x09"},
    {"raw-record", "\x17\x03\x03\x01\x01$K"},
    {"raw-record-of-hello", "\x16\x03\x03\x01\x01$K"},
    {"steered-get", "GET /pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$A\r\n"},
    {"steered-field", "GET /pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$E\r\n"},
    {"steered-two", "GET /pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$A$E\r\n"},
    {"steered-foreign", "GET /pkg/$N HTTP/1.1\r\nHost: registry.test\r\n$O\r\n"},
    {"steered-put", "PUT /up/$N HTTP/1.1\r\nHost: upload.test\r\n$AContent-Length: 5\r\n\r\nhello"},
    {"steered-large", "POST /up/$N HTTP/1.1\r\nHost: upload.test\r\n$ATransfer-Encoding: chunked\r\n\r\n493e0\r\n$L\r\n0\r\n\r\n"},
    {"steered-leak", "GET /pkg/$C HTTP/1.1\r\nHost: registry.test\r\n$A\r\n"},
    {"steered-elsewhere", "GET /pkg/$N HTTP/1.1\r\nHost: other.test\r\n$A\r\n"},
    {"steered-socket", "GET /ws/$N HTTP/1.1\r\nHost: talk.test\r\n$AConnection: upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"},
};
const size_t words_n_requests = N(words_requests);

const struct word words_responses[] = {
    {"ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
    {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: y\r\n\r\n"},
    {"until-end", "HTTP/1.1 200 OK\r\n\r\nuntil the end"},
    {"no-content", "HTTP/1.1 204 No Content\r\n\r\n"},
    {"not-modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"},
    {"continue", "HTTP/1.1 100 Continue\r\n\r\n"},
    {"early-hints", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
    {"proxy-auth", "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"},
    {"switching", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"},
    {"large", "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n$L"},
    {"large-chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n$L\r\n0\r\n\r\n"},
    {"short", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"},
    {"last", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"},
    {"two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"},
    {"twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
    {"bad-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
    {"leak", "HTTP/1.1 200 OK\r\nX-Leak: $C\r\nContent-Length: 32\r\n\r\n$C"},
    {"busy", "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno"},
    {"raw-ok", "ok"},
    {"raw-head", "HTTP/1.1 2"},
    {"raw-large", "$L"},
    {"events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"},
    {"socket", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x02" "hi"},
    {"frame", "\x81\x02" "hi"},
    {"frame-part", "\x01\x02" "hi"},
    {"frame-more", "\x80\x02" "hi"},
    {"frame-ping", "\x89\x01" "p"},
    {"frame-close", "\x88\x02\x03\xe8"},
    {"frame-leak", "\x82\x20$C"},
    {"away", "HTTP/1.1 302 Found\r\nLocation: https://away.test/\r\nContent-Length: 0\r\n\r\n"},
    {"json-away", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "f\r\n{\"dl\":\"https://\r\n20\r\naway.test/\",\"api\":\"//away.test\"}\r\n0\r\n\r\n"},
    {"json-large", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300028\r\n\r\n{\"x\":\"$L\",\"dl\":\"//away.test/\"}"},
};
const size_t words_n_responses = N(words_responses);

static void put_much(struct buf *out, size_t n)
{
    memset(buf_reserve(out, n), 'x', n);
    buf_commit(out, n);
}

enum { HALF = (sizeof WORLD_CANARY - 1) / 2 };

static void put_masked(struct buf *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        buf_char(out, (char)(text.ptr[i] ^ "abcd"[i % 4]));
}

static void put_large_frame(struct buf *out)
{
    static const unsigned char mask[4] = {'a', 'b', 'c', 'd'};
    struct buf payload = {0};

    put_much(&payload, WORDS_LARGE);
    frame_write(out, FRAME_BINARY, true, buf_slice(&payload), mask);
    buf_free(&payload);
}

static void put_token(struct buf *out, const char *before, const struct buf *token)
{
    buf_text(out, before);
    buf_append(out, buf_slice(token));
    buf_text(out, "\r\n");
}

static void expand(char what, const struct buf *tokens, unsigned number, struct buf *out)
{
    switch (what) {
    case 'T':
    case 'U':
        put_token(out, "Proxy-Authorization: Bearer ", &tokens[what == 'U']);
        break;
    case 'A':
    case 'O':
        put_token(out, "Authorization: Bearer ", &tokens[what == 'O']);
        break;
    case 'E':
        put_token(out, "Exeat-Token: ", &tokens[0]);
        break;
    case 'J':
        buf_text(out, "Proxy-Authorization: Bearer e30.e30.e30\r\n");
        break;
    case 'N':
        buf_decimal(out, number);
        break;
    case 'C':
        buf_text(out, WORLD_CANARY);
        break;
    case 'M':
        put_masked(out, SLICE(WORLD_CANARY));
        break;
    case 'H':
        put_masked(out, slice_cut(SLICE(WORLD_CANARY), 0, HALF));
        break;
    case 'I':
        put_masked(out, slice_from(SLICE(WORLD_CANARY), HALF));
        break;
    case 'B':
        put_large_frame(out);
        break;
    default:
        put_much(out, what == 'K' ? WORDS_MIDDLE : WORDS_LARGE);
    }
}

void words_expand(const struct word *w, const struct buf *tokens, unsigned number, struct buf *out)
{
    for (const char *p = w->text; *p; p++)
        if (*p == '$')
            expand(*++p, tokens, number, out);
        else
            buf_char(out, *p);
}
