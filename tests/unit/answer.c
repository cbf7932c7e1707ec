/* Our own answers: status line, Proxy-Status, challenges, problem+json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "net/head.h"
#include "proxy/answer.h"

static const struct message_limits limits = {.head = 8192, .target = 64, .n_fields = 32};

static struct buf write_answer(enum reason reason, int status, bool keep_alive, bool head_only)
{
    struct id id = id_new(1);
    struct answer a = {.reason = reason, .status = status, .detail = "port 8080 \"is\" not listed", .gateway = "gw.test",
                       .id = &id, .keep_alive = keep_alive, .head_only = head_only, .minor = 1};
    struct buf out = {0};

    answer_write(&a, 0, &out);
    return out;
}

/* Every answer is read by our own strict parser, and its body by a JSON parser. */
static void every_reason(void **state)
{
    (void)state;
    for (int r = REASON_TOKEN_MISSING; r < N_REASONS; r++) {
        struct buf out = write_answer((enum reason)r, 0, true, false);
        struct message *m = message_new(MESSAGE_RESPONSE, &limits);
        const struct head *h;
        json_t *body;
        size_t used, more;

        assert_int_equal(message_feed(m, buf_slice(&out), &used, NULL), MESSAGE_HEAD);
        h = message_head(m);
        assert_true(h->status >= 400 && h->status < 600);
        assert_true(slice_starts(h->reason, SLICE("exeat ")));
        assert_true(slice_search(h->reason, slice_of(reason_code((enum reason)r))) > 0);
        assert_non_null(head_field(h, "proxy-status"));
        assert_int_equal(head_count(h, "proxy-authenticate"), h->status == 407 ? 2 : 0);
        assert_int_equal(message_feed(m, slice_from(buf_slice(&out), used), &more, NULL), MESSAGE_BODY);
        body = json_loadb(message_body(m).ptr, message_body(m).len, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(body, "reason")), reason_code((enum reason)r));
        assert_int_equal(json_integer_value(json_object_get(body, "status")), h->status);
        assert_null(strstr(json_string_value(json_object_get(body, "explanation")), ". "));
        json_decref(body);
        message_free(m);
        buf_free(&out);
    }
}

static void shapes(void **state)
{
    struct buf out;

    (void)state;
    out = write_answer(REASON_TOKEN_EXPIRED, 0, true, false);
    assert_true(slice_search(buf_slice(&out), SLICE("HTTP/1.1 407 exeat token_expired ")) == 0);
    assert_true(slice_search(buf_slice(&out), SLICE("Proxy-Authenticate: Basic realm=\"gw.test\"")) > 0);
    assert_true(slice_search(buf_slice(&out), SLICE("error=\"invalid_token\"")) > 0);
    assert_true(slice_search(buf_slice(&out), SLICE("Connection: close")) < 0);
    buf_free(&out);
    out = write_answer(REASON_TOKEN_MISSING, 0, true, false);
    assert_true(slice_search(buf_slice(&out), SLICE("invalid_token")) < 0);
    buf_free(&out);
    out = write_answer(REASON_TOKEN_EXPIRED, 401, true, false);
    assert_true(slice_search(buf_slice(&out), SLICE("HTTP/1.1 401 exeat token_expired ")) == 0);
    assert_true(slice_search(buf_slice(&out), SLICE("\r\nWWW-Authenticate: Basic realm=\"gw.test\"")) > 0);
    assert_true(slice_search(buf_slice(&out), SLICE("\r\nWWW-Authenticate: Bearer realm=\"gw.test\", error=\"invalid_token\"")) > 0);
    assert_true(slice_search(buf_slice(&out), SLICE("Proxy-Authenticate")) < 0);
    buf_free(&out);
    out = write_answer(REASON_TOKEN_EXPIRED, 403, false, true);
    assert_true(slice_search(buf_slice(&out), SLICE("HTTP/1.1 403 exeat token_expired ")) == 0);
    assert_true(slice_search(buf_slice(&out), SLICE("Connection: close\r\n")) > 0);
    assert_true(slice_ends(buf_slice(&out), SLICE("\r\n\r\n")));
    buf_free(&out);
}

/* What a status brings along, and no other has (RFC 9110 10.2.1, 10.2.3); and how HTTP/1.0 is told that it may go on. */
static void fields_of_a_status(void **state)
{
    static const struct {
        const char *name;
        int status;
        int64_t retry_ms;
        int minor;
        bool basic_alone;
        const char *has, *has_not;
    } rows[] = {
        {"too many: in a second", 429, 0, 1, false, "\r\nRetry-After: 1\r\n", "Allow"},
        {"too many: a second begun is a second", 429, 1001, 1, false, "\r\nRetry-After: 2\r\n", "Allow"},
        {"a method: which there are", 405, 0, 1, false, "\r\nAllow: GET, HEAD, POST", "Retry-After"},
        {"neither", 403, 0, 1, false, "\r\nContent-Type: application/problem+json\r\n", "Retry-After"},
        {"nor for another", 503, 0, 1, false, "\r\nContent-Type: application/problem+json\r\n", "Allow"},
        {"HTTP/1.1 goes on", 403, 0, 1, false, "\r\nCache-Control: no-store\r\n", "Connection"},
        {"HTTP/1.0 goes on", 403, 0, 0, false, "\r\nConnection: keep-alive\r\n", "close"},
        {"Basic alone", 401, 0, 1, true, "\r\nWWW-Authenticate: Basic", "Bearer"},
        {"of a proxy both", 407, 0, 1, true, "\r\nProxy-Authenticate: Bearer", "WWW"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct id id = id_new(1);
        struct answer a = {.reason = REASON_TOKEN_EXPIRED, .status = rows[i].status, .gateway = "gw.test", .id = &id, .keep_alive = true,
                           .head_only = true, .minor = rows[i].minor, .retry_ms = rows[i].retry_ms, .basic_alone = rows[i].basic_alone};
        struct buf out = {0};

        answer_write(&a, 0, &out);
        if (slice_search(buf_slice(&out), slice_of(rows[i].has)) < 0 || slice_search(buf_slice(&out), slice_of(rows[i].has_not)) >= 0)
            fail_msg("%s: %.*s", rows[i].name, SLICE_ARG(buf_slice(&out)));
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_reason), cmocka_unit_test(shapes), cmocka_unit_test(fields_of_a_status)};

    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
