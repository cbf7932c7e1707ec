/* The opening handshake of a WebSocket: requests and answers, each off in one thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/upgrade.h"

static const struct message_limits limits = {.head = 8192, .target = 1024, .n_fields = 64};

static struct message *read_head(enum message_kind kind, const char *raw)
{
    struct message *m = message_new(kind, &limits);
    struct fault why = {0};
    size_t used;

    if (message_feed(m, slice_of(raw), &used, &why) != MESSAGE_HEAD)
        fail_msg("%s: %s", raw, why.text);
    return m;
}

/* RFC 6455 1.2 */
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define HOST "Host: a.test\r\n"
#define UPGRADE "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define GET "GET /ws HTTP/1.1\r\n" HOST

static const struct request_row {
    const char *name, *raw;
    bool asked, fine;
} requests[] = {
    {"as RFC 6455 has it", GET UPGRADE KEY VERSION "\r\n", true, true},
    {"as browsers send it", GET "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" KEY VERSION "\r\n", true, true},
    {"subprotocols", GET UPGRADE KEY VERSION "Sec-WebSocket-Protocol: a, b.v1\r\nSec-WebSocket-Protocol: c\r\n\r\n", true, true},
    {"an extension is offered, and will be left out", GET UPGRADE KEY VERSION "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
     true, true},
    {"no upgrade at all", GET "\r\n", false, false},
    {"Upgrade, and Connection says nothing of it", GET "Upgrade: websocket\r\n" KEY VERSION "\r\n", false, false},
    {"Connection, and no Upgrade", GET "Connection: upgrade\r\n" KEY VERSION "\r\n", false, false},
    {"another protocol", GET "Connection: upgrade\r\nUpgrade: h2c\r\n" KEY VERSION "\r\n", false, false},
    {"another protocol beside it", GET "Connection: upgrade\r\nUpgrade: h2c, websocket\r\n" KEY VERSION "\r\n", true, false},
    {"Upgrade twice", GET UPGRADE "Upgrade: websocket\r\n" KEY VERSION "\r\n", true, false},
    {"POST", "POST /ws HTTP/1.1\r\n" HOST UPGRADE KEY VERSION "\r\n", true, false},
    {"HTTP/1.0", "GET /ws HTTP/1.0\r\n" HOST UPGRADE KEY VERSION "\r\n", true, false},
    {"content", GET UPGRADE KEY VERSION "Content-Length: 1\r\n\r\n", true, false},
    {"content of no bytes", GET UPGRADE KEY VERSION "Content-Length: 0\r\n\r\n", true, false},
    {"chunked content", GET UPGRADE KEY VERSION "Transfer-Encoding: chunked\r\n\r\n", true, false},
    {"an expectation", GET UPGRADE KEY VERSION "Expect: 100-continue\r\n\r\n", true, false},
    {"no key", GET UPGRADE VERSION "\r\n", true, false},
    {"two keys", GET UPGRADE KEY KEY VERSION "\r\n", true, false},
    {"a key of 15 bytes", GET UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n\r\n", true, false},
    {"a key of 17 bytes", GET UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZXM=\r\n\r\n", true, false},
    {"a key without its padding", GET UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n\r\n", true, false},
    {"a key with stray bits", GET UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n\r\n", true, false},
    {"a key in the other alphabet", GET UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j_Q==\r\n\r\n", true, false},
    {"no version", GET UPGRADE KEY "\r\n", true, false},
    {"version 8", GET UPGRADE KEY "Sec-WebSocket-Version: 8\r\n\r\n", true, false},
    {"version 13 and 8", GET UPGRADE KEY "Sec-WebSocket-Version: 13, 8\r\n\r\n", true, false},
    {"the version twice", GET UPGRADE KEY VERSION VERSION "\r\n", true, false},
    {"an empty subprotocol", GET UPGRADE KEY VERSION "Sec-WebSocket-Protocol: a,,b\r\n\r\n", true, false},
    {"a subprotocol that is no token", GET UPGRADE KEY VERSION "Sec-WebSocket-Protocol: a b\r\n\r\n", true, false},
    {"a subprotocol twice", GET UPGRADE KEY VERSION "Sec-WebSocket-Protocol: a, b, a\r\n\r\n", true, false},
};

static void requests_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const struct request_row *row = &requests[i];
        struct message *m = read_head(MESSAGE_REQUEST, row->raw);
        struct fault why = {0};

        if (upgrade_is_asked(message_head(m)) != row->asked)
            fail_msg("%s: asked is %d", row->name, !row->asked);
        if (upgrade_check_request(message_head(m), &why) != row->fine)
            fail_msg("%s: fine is %d (%s)", row->name, !row->fine, why.text);
        if (!row->fine)
            assert_int_equal(why.reason, REASON_WEBSOCKET_HANDSHAKE);
        message_free(m);
    }
}

#define SWITCH "HTTP/1.1 101 Switching Protocols\r\n"

static const struct answer_row {
    const char *name, *raw;
    bool fine;
} answers[] = {
    {"as RFC 6455 has it", SWITCH UPGRADE ACCEPT "\r\n", true},
    {"one of the subprotocols offered", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: b\r\n\r\n", true},
    {"a subprotocol that was not offered", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: c\r\n\r\n", false},
    {"a subprotocol in other letters", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: B\r\n\r\n", false},
    {"two subprotocols", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: a, b\r\n\r\n", false},
    {"two lines of them", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n\r\n", false},
    {"no Upgrade", SWITCH "Connection: Upgrade\r\n" ACCEPT "\r\n", false},
    {"another Upgrade", SWITCH "Upgrade: h2c\r\nConnection: Upgrade\r\n" ACCEPT "\r\n", false},
    {"no Connection", SWITCH "Upgrade: websocket\r\n" ACCEPT "\r\n", false},
    {"Connection of something else", SWITCH "Upgrade: websocket\r\nConnection: keep-alive\r\n" ACCEPT "\r\n", false},
    {"no accept", SWITCH UPGRADE "\r\n", false},
    {"the accept of another key", SWITCH UPGRADE "Sec-WebSocket-Accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\n\r\n", false},
    {"the accept in other letters", SWITCH UPGRADE "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", false},
    {"two accepts", SWITCH UPGRADE ACCEPT ACCEPT "\r\n", false},
    {"an extension", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", false},
    {"HTTP/1.0", "HTTP/1.0 101 Switching Protocols\r\n" UPGRADE ACCEPT "\r\n", false},
};

static void answers_are_judged(void **state)
{
    struct message *request = read_head(MESSAGE_REQUEST, GET UPGRADE KEY VERSION "Sec-WebSocket-Protocol: a, b\r\n\r\n");

    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct message *m = read_head(MESSAGE_RESPONSE, answers[i].raw);
        struct fault why = {0};

        if (upgrade_check_answer(message_head(request), message_head(m), &why) != answers[i].fine)
            fail_msg("%s: fine is %d (%s)", answers[i].name, !answers[i].fine, why.text);
        if (!answers[i].fine)
            assert_int_equal(why.reason, REASON_UPSTREAM_WEBSOCKET);
        message_free(m);
    }
    message_free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_judged),
        cmocka_unit_test(answers_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
