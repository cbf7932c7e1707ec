/* WebSocket frames: what is read, whole and in pieces, what is refused, and what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/frame.h"

#define MASK "\x01\x02\x03\x04"
#define BYTES(text) {text, sizeof(text) - 1}

enum { MESSAGE_MAX = 70000 };

static const char *letter_of(enum frame_opcode opcode)
{
    switch (opcode) {
    case FRAME_TEXT:
        return "T";
    case FRAME_BINARY:
        return "B";
    case FRAME_CLOSE:
        return "C";
    case FRAME_PING:
        return "P";
    case FRAME_PONG:
        return "O";
    default:
        return "?";
    }
}

struct log {
    struct buf out;
    bool open; /* inside a message whose kind was noted */
    bool bad;
};

/* T(...) a text message and its payload, B(...) a binary one, C1000(...) close, P ping, O pong, ! refused. */
static void note(struct log *log, enum frame_event event, const struct frame *f)
{
    if (event == FRAME_PIECE) {
        if (!log->open)
            buf_printf(&log->out, "%s(", letter_of(f->opcode));
        buf_append(&log->out, f->payload);
        log->open = !f->last;
        if (f->last)
            buf_char(&log->out, ')');
        return;
    }
    buf_text(&log->out, letter_of(f->opcode));
    if (f->opcode == FRAME_CLOSE)
        buf_decimal(&log->out, (uint64_t)f->code);
    buf_char(&log->out, '(');
    buf_append(&log->out, f->opcode == FRAME_CLOSE ? slice_from(f->payload, 2) : f->payload);
    buf_char(&log->out, ')');
}

static void feed(struct frame_reader *r, struct slice input, struct log *log)
{
    enum frame_event event;
    struct fault why = {0};
    struct frame f;
    size_t used;

    do {
        event = frame_read(r, input, &used, &f, &why);
        assert_true(used <= input.len);
        input = slice_from(input, used);
        if (event == FRAME_PIECE || event == FRAME_CONTROL)
            note(log, event, &f);
    } while (event == FRAME_PIECE || event == FRAME_CONTROL);
    if (event == FRAME_BAD && !log->bad) {
        assert_int_equal(why.reason, strstr(why.text, "more than 70000")  ? REASON_WEBSOCKET_MESSAGE
                                     : r->masked                         ? REASON_WEBSOCKET_FRAME
                                                                         : REASON_UPSTREAM_WEBSOCKET);
        buf_char(&log->out, '!');
        log->bad = true;
    } else if (event == FRAME_MORE) {
        assert_int_equal(input.len, 0);
    }
}

/* Whole, in two pieces at every place, and byte by byte. */
static void expect(const char *name, bool masked, struct slice raw, const char *want)
{
    for (size_t cut = 0; cut <= raw.len + 1; cut++) {
        struct frame_reader r = {.masked = masked, .message_max = MESSAGE_MAX};
        struct log log = {0};

        if (cut <= raw.len) {
            feed(&r, slice_cut(raw, 0, cut), &log);
            feed(&r, slice_from(raw, cut), &log);
        } else {
            for (size_t i = 0; i < raw.len; i++)
                feed(&r, slice_cut(raw, i, i + 1), &log);
        }
        if (!slice_is(buf_slice(&log.out), want))
            fail_msg("%s, cut at %zu: got %.*s, want %s", name, cut, SLICE_ARG(buf_slice(&log.out)), want);
        buf_free(&log.out);
    }
}

static const struct row {
    const char *name;
    bool masked;
    struct slice raw;
    const char *want;
} rows[] = {
    {"a service's text", false, BYTES("\x81\x02hi"), "T(hi)"},
    {"a client's text is unmasked", true, BYTES("\x81\x82" MASK "\x69\x6b"), "T(hi)"},
    {"a client's, longer than its key", true, BYTES("\x82\x86" MASK "\x60\x60\x60\x60\x64\x64"), "B(abcdef)"},
    {"a client's frame without a mask", true, BYTES("\x81\x02hi"), "!"},
    {"a service's frame with a mask", false, BYTES("\x81\x82" MASK "\x69\x6b"), "!"},
    {"an empty message", false, BYTES("\x81\x00"), "T()"},
    {"an empty masked message", true, BYTES("\x82\x80" MASK), "B()"},
    {"two messages", false, BYTES("\x81\x01" "a" "\x82\x01" "b"), "T(a)B(b)"},
    {"a message in three frames", false, BYTES("\x01\x01" "a" "\x00\x01" "b" "\x80\x01" "c"), "T(abc)"},
    {"empty frames of a message", false, BYTES("\x01\x00\x00\x00\x00\x01" "b" "\x80\x00"), "T(b)"},
    {"a ping inside a message", false, BYTES("\x01\x01" "a" "\x89\x01" "p" "\x80\x01" "b"), "T(aP(p)b)"},
    {"a continuation of nothing", false, BYTES("\x80\x01" "a"), "!"},
    {"a continuation after the end", false, BYTES("\x81\x01" "a" "\x80\x01" "b"), "T(a)!"},
    {"a message inside another", false, BYTES("\x01\x01" "a" "\x81\x01" "b"), "T(a!"},
    {"RSV1, as permessage-deflate sets it", false, BYTES("\xc1\x01" "a"), "!"},
    {"RSV2", false, BYTES("\xa1\x01" "a"), "!"},
    {"RSV3", true, BYTES("\x91\x81" MASK "a"), "!"},
    {"RSV on a control frame", false, BYTES("\xc9\x00"), "!"},
    {"opcode 3", false, BYTES("\x83\x00"), "!"},
    {"opcode 7", false, BYTES("\x87\x00"), "!"},
    {"opcode 11", false, BYTES("\x8b\x00"), "!"},
    {"opcode 15", true, BYTES("\x8f\x80" MASK), "!"},
    {"a ping and a pong, empty", false, BYTES("\x89\x00\x8a\x00"), "P()O()"},
    {"a masked pong", true, BYTES("\x8a\x81" MASK "\x60"), "O(a)"},
    {"a ping in pieces", false, BYTES("\x09\x01" "a"), "!"},
    {"a close in pieces", false, BYTES("\x08\x00"), "!"},
    {"a ping of 126 bytes", false, BYTES("\x89\x7e\x00\x7e"), "!"},
    {"16 bits for 125", false, BYTES("\x81\x7e\x00\x7d"), "!"},
    {"64 bits for 65535", false, BYTES("\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff"), "!"},
    {"64 bits, the highest set", false, BYTES("\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00"), "!"},
    {"a message over the limit", false, BYTES("\x81\x7f\x00\x00\x00\x00\x00\x01\x11\x71"), "!"},
    {"a second frame that makes it too large", false, BYTES("\x01\x01" "a" "\x80\x7f\x00\x00\x00\x00\x00\x01\x11\x70"), "T(a!"},
    {"close without a code", false, BYTES("\x88\x00"), "C1005()"},
    {"close 1000 and a reason", false, BYTES("\x88\x05\x03\xe8" "bye"), "C1000(bye)"},
    {"close 1000, masked", true, BYTES("\x88\x82" MASK "\x02\xea"), "C1000()"},
    {"what follows a close is thrown away", false, BYTES("\x88\x00\x81\x01" "a" "\xff\xff"), "C1005()"},
    {"close of one byte", false, BYTES("\x88\x01\x03"), "!"},
    {"close 999", false, BYTES("\x88\x02\x03\xe7"), "!"},
    {"close 1003", false, BYTES("\x88\x02\x03\xeb"), "C1003()"},
    {"close 1004", false, BYTES("\x88\x02\x03\xec"), "!"},
    {"close 1005", false, BYTES("\x88\x02\x03\xed"), "!"},
    {"close 1006", false, BYTES("\x88\x02\x03\xee"), "!"},
    {"close 1007", false, BYTES("\x88\x02\x03\xef"), "C1007()"},
    {"close 1014", false, BYTES("\x88\x02\x03\xf6"), "C1014()"},
    {"close 1015", false, BYTES("\x88\x02\x03\xf7"), "!"},
    {"close 2999", false, BYTES("\x88\x02\x0b\xb7"), "!"},
    {"close 3000", false, BYTES("\x88\x02\x0b\xb8"), "C3000()"},
    {"close 4999", false, BYTES("\x88\x02\x13\x87"), "C4999()"},
    {"close 5000", false, BYTES("\x88\x02\x13\x88"), "!"},
    {"close 65535", false, BYTES("\x88\x02\xff\xff"), "!"},
    {"a reason that is not UTF-8", false, BYTES("\x88\x03\x03\xe8\xff"), "!"},
};

static void frames_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(rows[i].name, rows[i].masked, rows[i].raw, rows[i].want);
}

static char at(size_t i)
{
    return (char)('a' + i * 7 % 26);
}

/* Written, and read again in pieces of 1 to 999 bytes. */
static void write_and_read(size_t len, bool masked)
{
    static const unsigned char mask[4] = {0x9a, 0, 0xff, 0x31};
    struct frame_reader r = {.masked = masked, .message_max = len};
    struct buf payload = {0}, raw = {0}, got = {0};
    struct slice input;
    struct fault why = {0};
    struct frame f = {0};
    size_t used, cut = 1;

    for (size_t i = 0; i < len; i++)
        buf_char(&payload, at(i));
    frame_write(&raw, FRAME_BINARY, true, buf_slice(&payload), masked ? mask : NULL);
    assert_int_equal(buf_len(&raw), len + (len < 126 ? 2 : len < 65536 ? 4 : 10) + (masked ? 4 : 0));
    for (input = buf_slice(&raw); input.len; input = slice_from(input, used), cut = (cut * 13 + 1) % 999 + 1) {
        enum frame_event event = frame_read(&r, slice_cut(input, 0, cut), &used, &f, &why);

        assert_true(event == FRAME_MORE || event == FRAME_PIECE);
        if (event == FRAME_PIECE)
            buf_append(&got, f.payload);
    }
    assert_true(f.last);
    assert_true(frame_is_between(&r));
    assert_true(slice_equals(buf_slice(&got), buf_slice(&payload)));
    buf_free(&payload);
    buf_free(&raw);
    buf_free(&got);
}

static void lengths_at_their_borders(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 125, 126, 127, 65535, 65536, 65537, 300000};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_and_read(lengths[i], false);
        write_and_read(lengths[i], true);
    }
}

static void a_close_frame_is_never_too_long(void **state)
{
    struct frame_reader r = {.message_max = 1};
    struct buf raw = {0};
    struct fault why = {0};
    char reason[200];
    struct frame f;
    size_t used;

    (void)state;
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    frame_write_close(&raw, 1008, reason, NULL);
    assert_int_equal(frame_read(&r, buf_slice(&raw), &used, &f, &why), FRAME_CONTROL);
    assert_int_equal(f.code, 1008);
    assert_int_equal(f.payload.len, FRAME_CONTROL_MAX);
    assert_int_equal(used, buf_len(&raw));
    buf_free(&raw);
}

static void frames_are_counted(void **state)
{
    struct frame_reader r = {.message_max = 10};
    struct log log = {0};

    (void)state;
    feed(&r, SLICE("\x01\x01" "a" "\x00\x00\x80\x01" "b" "\x89\x00\x81\x05" "half"), &log);
    assert_int_equal(r.frames, 4);
    assert_false(frame_is_between(&r));
    buf_free(&log.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_read),
        cmocka_unit_test(lengths_at_their_borders),
        cmocka_unit_test(a_close_frame_is_never_too_long),
        cmocka_unit_test(frames_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
