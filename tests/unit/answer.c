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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_reason), cmocka_unit_test(shapes)};

    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
