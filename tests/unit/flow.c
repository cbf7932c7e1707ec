/* One direction of a body: what is let go and when, how it is framed, and that nothing of a secret is ever let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/flow.h"

#define SECRET "npm_q7Zt0WmXc4RbN2vLk9HsYd"
#define TOKEN "a.b.h0Qx3vN7bYt2kLm9ZsRw4cUe8pJd6aFgViOo1XyTqBnKlMzEuHrGj5WPSCDf-_AaIIbRt7Yw2qZx4Nc8Vb1Lm3"

#include "tests/unit/scanner_fixture.h"

/* Chunks of a body taken apart: the content, and whether it has its end. */
static bool unchunk(struct slice raw, struct buf *content)
{
    static const struct message_limits limits = {8192, 1024, 64};
    struct message *m = message_new(MESSAGE_RESPONSE, &limits);
    struct buf all = {0};
    enum message_event event;
    struct slice left;

    buf_text(&all, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    buf_append(&all, raw);
    left = buf_slice(&all);
    do {
        size_t used;

        event = message_feed(m, left, &used, NULL);
        left = slice_from(left, used);
        if (event == MESSAGE_BODY)
            buf_append(content, message_body(m));
        assert_int_not_equal(event, MESSAGE_BAD);
    } while (event != MESSAGE_MORE && event != MESSAGE_END);
    message_free(m);
    buf_free(&all);
    return event == MESSAGE_END;
}

static const struct {
    const char *name, *body, *token;
    bool leaks;
    size_t most; /* of what leaks: bytes before the secret */
} rows[] = {
    {"clean, shorter than what is held", "abc", "", false, 0},
    {"clean, long", "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789", "",
     false, 0},
    {"a secret alone", SECRET, "", true, 0},
    {"a secret behind much else",
     "................................................................................................" SECRET "....", "", true, 96},
    {"a secret as the last bytes", "....................................................." SECRET, "", true, 53},
    {"all of a secret but its last character", "npm_q7Zt0WmXc4RbN2vLk9HsY", "", false, 0},
    {"the token's signature", "x h0Qx3vN7bYt2kLm9ZsRw4cUe8pJd6aFgViOo1XyTqBnKlMzEuHrGj5WPSCDf x", TOKEN, true, 2},
    {"another's token", "x h0Qx3vN7bYt2kLm9ZsRw4cUe8pJd6aFgViOo1XyTqBnKlMzEuHrGj5WPSCDf x", "", false, 0},
};

/* Whatever the pieces a body comes in, the whole goes on when it is clean, and only what lies before a secret when not. */
static void feed_in_pieces(const struct fixture *f, size_t row, size_t piece, enum framing framing)
{
    struct slice body = slice_of(rows[row].body);
    struct buf content = {0};
    struct flow flow;
    struct hit hit = {0};
    bool ended;

    flow_start(&flow, f->scanner, slice_of(rows[row].token), framing, true);
    flow.length = framing == FRAMING_LENGTH ? body.len : 0;
    for (size_t at = 0; at < body.len && !hit.found; at += piece)
        hit = flow_data(&flow, slice_cut(body, at, at + piece < body.len ? at + piece : body.len));
    if (!hit.found)
        hit = flow_end(&flow, SLICE(""));
    ended = framing == FRAMING_CHUNKED ? unchunk(buf_slice(&flow.ready), &content) : !hit.found;
    if (framing != FRAMING_CHUNKED)
        buf_append(&content, buf_slice(&flow.ready));
    if (hit.found != rows[row].leaks || ended == rows[row].leaks || flow.released != buf_len(&content) ||
        buf_len(&content) > body.len || memcmp(buf_slice(&content).ptr ? buf_slice(&content).ptr : "", body.ptr, buf_len(&content)) ||
        (rows[row].leaks ? buf_len(&content) > rows[row].most : buf_len(&content) != body.len))
        fail_msg("%s, by %zu: hit %d, let go %zu: %.*s", rows[row].name, piece, hit.found, buf_len(&content),
                 SLICE_ARG(buf_slice(&content)));
    buf_free(&content);
    flow_clear(&flow);
}

static void nothing_of_a_secret_is_let_go(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t piece = 1; piece <= 130; piece += 1 + piece / 8) {
            feed_in_pieces(*state, i, piece, FRAMING_LENGTH);
            feed_in_pieces(*state, i, piece, FRAMING_CHUNKED);
        }
}

/* Lets go of what lies before the first '!', and bars the rest; a '?' holds until the next byte has come. */
static bool gate(void *arg, struct slice bytes, uint64_t *safe)
{
    uint64_t *seen = arg;
    ptrdiff_t at = slice_find(bytes, '!');

    if (at >= 0)
        *safe = *seen + (uint64_t)at;
    else if (slice_ends(bytes, SLICE("?")))
        *safe -= 1;
    *seen += bytes.len;
    return at < 0;
}

static void a_gate_lets_go_of_what_it_says_and_of_no_end(void **state)
{
    static const struct {
        const char *name, *pieces[4], *passes;
        bool barred, holds;
    } cases[] = {
        {"all of it", {"abc", "def"}, "abcdef", false, true},
        {"what it has no say in yet", {"ab?", "c"}, "ab?c", false, true},
        {"nothing behind what it bars", {"ab", "c!d", "e"}, "abc", true, true},
        {"the same in one piece", {"ab!cd"}, "ab", true, true},
        {"all of it where it only looks", {"ab", "c!d", "e"}, "abc!de", true, false},
    };
    const struct fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct flow flow;
        uint64_t seen = 0;

        flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_CLOSE, false);
        flow_set_gate(&flow, gate, &seen, cases[i].holds);
        for (size_t p = 0; p < 4 && cases[i].pieces[p] && !(flow.barred && cases[i].holds); p++)
            flow_data(&flow, slice_of(cases[i].pieces[p]));
        if (!flow.barred)
            flow_end(&flow, SLICE(""));
        if (flow.barred != cases[i].barred || !slice_is(buf_slice(&flow.ready), cases[i].passes))
            fail_msg("%s: %.*s", cases[i].name, SLICE_ARG(buf_slice(&flow.ready)));
        flow_clear(&flow);
    }
}

/* What only looks lets all go at once, and says what it saw. */
static void what_only_looks_holds_nothing(void **state)
{
    struct fixture *f = *state;
    struct flow flow;
    struct hit hit;

    flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_CLOSE, false);
    assert_false(flow_data(&flow, SLICE("a npm_q7Zt0WmX")).found);
    assert_int_equal(buf_len(&flow.ready), 14);
    hit = flow_data(&flow, SLICE("c4RbN2vLk9HsYd b"));
    assert_int_equal(buf_len(&flow.ready), 30);
    hit = hit.found ? hit : flow_end(&flow, SLICE(""));
    assert_true(hit.found);
    assert_string_equal(hit.canary, "npm-1");
    flow_clear(&flow);
}

static void trailers_follow_the_last_chunk(void **state)
{
    const struct slice trailers = SLICE("X-Sum: 1\r\nX-Two: \r\n");
    struct fixture *f = *state;
    struct flow flow;

    flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_CHUNKED, false);
    flow_data(&flow, SLICE("abc"));
    flow_end(&flow, trailers);
    assert_true(slice_is(buf_slice(&flow.ready), "3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Two: \r\n\r\n"));
    flow_clear(&flow);
    flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_LENGTH, false);
    flow_data(&flow, SLICE("abc"));
    flow_end(&flow, trailers);
    assert_true(slice_is(buf_slice(&flow.ready), "abc"));
    flow_clear(&flow);
}

static void an_empty_body_is_framed(void **state)
{
    struct fixture *f = *state;
    struct flow flow;

    flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_CHUNKED, true);
    assert_false(flow_end(&flow, SLICE("")).found);
    assert_true(slice_is(buf_slice(&flow.ready), "0\r\n\r\n"));
    flow_clear(&flow);
    flow_clear(&flow); /* again is fine */
}

/* What only passes is held by a guard: of what that looks for no byte goes, nor an end, wherever the content is cut. */
static void a_guard_lets_nothing_of_it_go(void **state)
{
    struct fixture *f = *state;
    struct registry *none = registry_new();
    struct scanner *plain = scanner_new(none, NULL);
    struct slice content = SLICE("before " SECRET " behind");

    for (size_t cut = 0; cut <= content.len; cut++) {
        struct flow flow = {0};

        flow_start(&flow, plain, slice_make("", 0), FRAMING_CHUNKED, false);
        flow_guard(&flow, scan_start(f->scanner, slice_make("", 0)));
        flow_data(&flow, slice_cut(content, 0, cut));
        if (!flow.caught.found)
            flow_data(&flow, slice_from(content, cut));
        if (!flow.caught.found)
            flow_end(&flow, slice_make("", 0));
        assert_true(flow.caught.found);
        assert_int_equal(flow.caught.from, 7);
        assert_true(flow.released <= 7);
        assert_true(slice_search(buf_slice(&flow.ready), SLICE("0\r\n\r\n")) < 0);
        flow_clear(&flow);
    }
    scanner_free(plain);
    registry_free(none);
}

/* At rest what the guard holds goes on, as far as the gate lets it. */
static void a_guard_rests_behind_a_gate(void **state)
{
    struct fixture *f = *state;
    struct flow flow = {0};
    uint64_t seen = 0;

    flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_CLOSE, false);
    flow_guard(&flow, scan_start(f->scanner, slice_make("", 0)));
    flow_set_gate(&flow, gate, &seen, true);
    flow_data(&flow, SLICE("event\n"));
    flow_rest(&flow);
    assert_true(slice_is(buf_slice(&flow.ready), "event\n"));
    flow_data(&flow, SLICE("more?"));
    flow_rest(&flow);
    assert_true(slice_is(buf_slice(&flow.ready), "event\nmore"));
    flow_data(&flow, SLICE("!"));
    flow_rest(&flow);
    assert_true(flow.barred && slice_find(buf_slice(&flow.ready), '!') < 0);
    flow_clear(&flow);
}

static void a_guard_lets_all_else_go(void **state)
{
    struct fixture *f = *state;
    struct flow flow = {0};

    flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_LENGTH, false);
    flow_guard(&flow, scan_start(f->scanner, slice_of(TOKEN)));
    for (int i = 0; i < 100; i++)
        flow_data(&flow, SLICE("0123456789"));
    flow_end(&flow, slice_make("", 0));
    assert_false(flow.caught.found);
    assert_int_equal(buf_len(&flow.ready), 1000);
    flow_clear(&flow);
}

/* Content that is whole in its first piece is looked at once: it goes, all of it, before its end is told, or none of it. */
static void a_guard_judges_what_is_whole_at_once(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct slice content;
        size_t goes;
    } wholes[] = {{SLICE("before, and behind"), 18}, {SLICE("before " SECRET " behind"), 0}, {SLICE("before " SECRET), 0}};

    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        struct flow flow = {0};

        flow_start(&flow, f->scanner, slice_make("", 0), FRAMING_LENGTH, false);
        flow.length = wholes[i].content.len;
        flow_guard(&flow, scan_start(f->scanner, slice_make("", 0)));
        flow_data(&flow, wholes[i].content);
        assert_int_equal(flow.caught.found, wholes[i].goes == 0);
        assert_int_equal(buf_len(&flow.ready), wholes[i].goes);
        flow_end(&flow, slice_make("", 0));
        assert_int_equal(flow.caught.found, wholes[i].goes == 0);
        assert_int_equal(buf_len(&flow.ready), wholes[i].goes);
        flow_clear(&flow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_a_secret_is_let_go),
        cmocka_unit_test(what_only_looks_holds_nothing),
        cmocka_unit_test(a_gate_lets_go_of_what_it_says_and_of_no_end),
        cmocka_unit_test(trailers_follow_the_last_chunk),
        cmocka_unit_test(an_empty_body_is_framed),
        cmocka_unit_test(a_guard_lets_nothing_of_it_go),
        cmocka_unit_test(a_guard_lets_all_else_go),
        cmocka_unit_test(a_guard_rests_behind_a_gate),
        cmocka_unit_test(a_guard_judges_what_is_whole_at_once),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
