/* One direction of a WebSocket: what is let go and when, how it is cut, and that nothing of a secret is ever let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/frames.h"

#define SECRET "npm_q7Zt0WmXc4RbN2vLk9HsYd"
#define SECRET_LEN (sizeof SECRET - 1)

#include "tests/unit/scanner_fixture.h"

/* What came out, each frame as its opcode's letter, '+' when it is not the last of its message, and its payload in brackets. */
static void describe(struct slice raw, bool masked, struct buf *out)
{
    struct frame_reader r = {.masked = masked, .message_max = UINT32_MAX};
    enum frame_event event;
    struct fault why = {0};
    struct frame f;
    size_t used;

    while ((event = frame_read(&r, raw, &used, &f, &why)) != FRAME_MORE) {
        if (event == FRAME_BAD)
            fail_msg("%s", why.text);
        raw = slice_from(raw, used);
        buf_char(out, "?TB?????CPO"[f.opcode]);
        if (event == FRAME_PIECE && !f.last)
            buf_char(out, '+');
        buf_char(out, '[');
        buf_append(out, f.payload);
        buf_char(out, ']');
    }
    assert_int_equal(raw.len, used);
}

struct way {
    struct frames frames;
    struct buf out;
    struct hit hit;
};

static void begin(struct way *w, struct fixture *f, bool from_client)
{
    *w = (struct way){0};
    frames_start(&w->frames, f->scanner, SLICE(""), from_client, UINT32_MAX, &w->out);
}

static void end(struct way *w)
{
    frames_clear(&w->frames);
    buf_free(&w->out);
}

/* As its peer would send it; false once something was found. */
static bool say(struct way *w, enum frame_opcode opcode, bool fin, struct slice payload)
{
    static const unsigned char mask[4] = {1, 2, 3, 4};
    enum frame_event event;
    struct buf raw = {0};
    struct slice input;
    struct fault why = {0};
    struct frame f;
    size_t used;

    frame_write(&raw, opcode, fin, payload, w->frames.masks ? mask : NULL);
    for (input = buf_slice(&raw); !w->hit.found; input = slice_from(input, used)) {
        event = frame_read(&w->frames.reader, input, &used, &f, &why);
        if (event == FRAME_BAD)
            fail_msg("%s", why.text);
        if (event == FRAME_MORE)
            break;
        w->hit = frames_pass(&w->frames, event, &f);
    }
    buf_free(&raw);
    return !w->hit.found;
}

static void expect(struct way *w, const char *name, const char *want)
{
    struct buf got = {0};

    describe(buf_slice(&w->out), w->frames.masks, &got);
    if (!slice_is(buf_slice(&got), want))
        fail_msg("%s: got %.*s, want %s", name, SLICE_ARG(buf_slice(&got)), want);
    buf_free(&got);
}

static void a_message_goes_on_as_it_came(void **state)
{
    for (int client = 0; client <= 1; client++) {
        struct way w;

        begin(&w, *state, client);
        assert_true(say(&w, FRAME_TEXT, true, SLICE("hi")));
        assert_true(say(&w, FRAME_BINARY, true, SLICE("")));
        assert_true(say(&w, FRAME_PING, true, SLICE("p")));
        expect(&w, "whole messages and a ping", "T[hi]B[]P[p]");
        end(&w);
    }
}

/* What the client says in pieces waits for its end as far as it may be the front of a secret; a ping does not wait for it. */
static void pieces_are_gathered(void **state)
{
    struct way w;

    begin(&w, *state, true);
    assert_true(say(&w, FRAME_TEXT, false, SLICE("a")));
    assert_true(say(&w, FRAME_CONTINUATION, false, SLICE("b")));
    assert_true(say(&w, FRAME_PING, true, SLICE("p")));
    assert_true(say(&w, FRAME_CONTINUATION, true, SLICE("")));
    expect(&w, "from a client", "P[p]T[ab]");
    end(&w);
    begin(&w, *state, false);
    assert_true(say(&w, FRAME_TEXT, false, SLICE("a")));
    assert_true(say(&w, FRAME_PING, true, SLICE("p")));
    assert_true(say(&w, FRAME_CONTINUATION, false, SLICE("")));
    assert_true(say(&w, FRAME_CONTINUATION, true, SLICE("")));
    expect(&w, "from a service", "T+[a]P[p]T[]");
    end(&w);
}

/* Only the last bytes wait. */
static void a_long_message_is_not_held(void **state)
{
    struct fixture *f = *state;
    size_t n = 3 * scanner_hold(f->scanner);
    char *much = malloc(n);
    struct way w;

    assert_non_null(much);
    memset(much, 'x', n);
    begin(&w, f, true);
    assert_true(say(&w, FRAME_BINARY, false, slice_make(much, n)));
    assert_true(w.frames.passed >= n - scanner_hold(f->scanner));
    assert_true(buf_len(&w.frames.held) <= scanner_hold(f->scanner));
    assert_true(say(&w, FRAME_CONTINUATION, true, SLICE("")));
    assert_int_equal(w.frames.passed, n);
    assert_int_equal(buf_len(&w.frames.held), 0);
    end(&w);
    free(much);
}

/* The secret in two frames, cut everywhere; of one message, or of two, of which the first is gone. */
static void a_secret_in_two_frames(void **state)
{
    for (size_t cut = 0; cut <= SECRET_LEN; cut++)
        for (int messages = 1; messages <= 2; messages++) {
            struct slice first = slice_cut(SLICE(SECRET), 0, cut), second = slice_from(SLICE(SECRET), cut);
            bool two = messages == 2, whole = cut == SECRET_LEN;
            struct buf want = {0};
            struct way w;

            begin(&w, *state, true);
            assert_true(say(&w, FRAME_TEXT, true, SLICE("before")));
            buf_text(&want, "T[before]");
            assert_int_equal(say(&w, FRAME_TEXT, two, first), !whole);
            if (two && !whole)
                buf_printf(&want, "T[%.*s]", SLICE_ARG(first));
            if (!whole)
                assert_false(say(&w, two ? FRAME_TEXT : FRAME_CONTINUATION, true, second));
            assert_string_equal(w.hit.canary, "npm-1");
            buf_char(&want, '\0');
            expect(&w, "what is out", buf_slice(&want).ptr);
            buf_free(&want);
            end(&w);
        }
}

static void a_secret_in_control_frames(void **state)
{
    struct way w;

    begin(&w, *state, true);
    assert_true(say(&w, FRAME_PING, true, slice_cut(SLICE(SECRET), 0, 9)));
    assert_true(say(&w, FRAME_TEXT, true, SLICE("x")));
    assert_false(say(&w, FRAME_PONG, true, slice_from(SLICE(SECRET), 9)));
    expect(&w, "over a ping and a pong", "P[npm_q7Zt0]T[x]");
    end(&w);
}

/* A secret that is half a message and half a ping is none: neither side reads them as one. */
static void messages_and_control_frames_are_looked_at_apart(void **state)
{
    struct way w;

    begin(&w, *state, true);
    assert_true(say(&w, FRAME_TEXT, false, slice_cut(SLICE(SECRET), 0, 9)));
    assert_true(say(&w, FRAME_PING, true, SLICE("ping")));
    assert_false(say(&w, FRAME_CONTINUATION, true, slice_from(SLICE(SECRET), 9)));
    expect(&w, "a ping between the halves", "P[ping]");
    end(&w);
}

static void a_service_s_secret_is_told_and_passes(void **state)
{
    struct way w;

    begin(&w, *state, false);
    assert_false(say(&w, FRAME_TEXT, true, SLICE("a " SECRET " b")));
    expect(&w, "from a service", "T[a " SECRET " b]");
    end(&w);
}

/* Guarded, nothing of it passes, in whatever pieces; all else does, and without delay. */
static void a_guard_holds_what_a_service_says(void **state)
{
    struct fixture *f = *state;

    for (size_t cut = 1; cut < SECRET_LEN; cut++) {
        struct way w;

        begin(&w, f, false);
        frames_guard(&w.frames, scan_start(f->scanner, SLICE("")), scan_start(f->scanner, SLICE("")));
        assert_true(say(&w, FRAME_TEXT, true, SLICE("clean")));
        expect(&w, "what is clean", "T[clean]");
        say(&w, FRAME_TEXT, false, slice_cut(SLICE(SECRET), 0, cut));
        say(&w, FRAME_CONTINUATION, true, slice_from(SLICE(SECRET), cut));
        assert_true(w.frames.caught.found);
        expect(&w, "what is not", "T[clean]");
        end(&w);
    }
}

static void a_close_frame_of_ours(void **state)
{
    for (int client = 0; client <= 1; client++) {
        struct way w;

        begin(&w, *state, client);
        say(&w, FRAME_TEXT, false, SLICE("never ended"));
        frames_say_close(&w.frames, 1008, "why");
        expect(&w, "a close frame inside a message", client ? "C[\x03\xf0why]" : "T+[never ended]C[\x03\xf0why]");
        end(&w);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_goes_on_as_it_came),
        TEST(pieces_are_gathered),
        TEST(a_long_message_is_not_held),
        TEST(a_secret_in_two_frames),
        TEST(a_secret_in_control_frames),
        TEST(messages_and_control_frames_are_looked_at_apart),
        TEST(a_service_s_secret_is_told_and_passes),
        TEST(a_guard_holds_what_a_service_says),
        TEST(a_close_frame_of_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
