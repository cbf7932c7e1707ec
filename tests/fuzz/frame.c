/*
 * WebSocket frames under libFuzzer: whatever the bytes, however they are cut, the same is read; what is accepted keeps RFC 6455;
 * and what was read, written anew in other pieces, is read as the same messages. The first byte picks the direction, the second seeds
 * the cuts, the rest is what one side says.
 */
#include "net/frame.h"
#include "tests/fuzz/lib/fuzz.h"

enum { MESSAGE_MAX = 1000 };

struct log {
    struct buf text;  /* what was read, without the seams of pieces */
    struct buf anew;  /* the same in frames of ours */
    bool open;
    size_t message_len;
    bool closed;
};

static const unsigned char key[4] = {0xa5, 0x00, 0xff, 0x5a};

static void note_piece(struct log *log, const struct frame *f, bool masked)
{
    assert(f->opcode == FRAME_TEXT || f->opcode == FRAME_BINARY);
    assert(f->payload.len || f->last);
    if (!log->open)
        buf_printf(&log->text, "\nM%d ", f->opcode);
    buf_append(&log->text, f->payload);
    log->message_len += f->payload.len;
    assert(log->message_len <= MESSAGE_MAX);
    frame_write(&log->anew, log->open ? FRAME_CONTINUATION : f->opcode, f->last, f->payload, masked ? key : NULL);
    log->open = !f->last;
    if (f->last) {
        buf_text(&log->text, "\nE");
        log->message_len = 0;
    }
}

/* A control frame may come between the pieces of a message: it is noted behind that, so that the cuts make no difference. */
static void note_control(struct log *log, struct buf *controls, const struct frame *f, bool masked)
{
    assert(f->payload.len <= FRAME_CONTROL_MAX);
    assert(f->opcode == FRAME_CLOSE || f->opcode == FRAME_PING || f->opcode == FRAME_PONG);
    assert(!log->closed);
    log->closed = f->opcode == FRAME_CLOSE;
    if (log->closed)
        assert(f->payload.len != 1 && slice_is_utf8(slice_from(f->payload, 2)));
    buf_printf(controls, "\nC%d ", f->opcode);
    buf_append(controls, f->payload);
    frame_write(&log->anew, f->opcode, true, f->payload, masked ? key : NULL);
}

/* In pieces of 1 to 16 bytes, or whole when seed is 0. False: it was refused. */
static bool read_all(struct slice input, bool masked, unsigned seed, struct log *log)
{
    struct frame_reader r = {.masked = masked, .message_max = MESSAGE_MAX};
    enum frame_event event = FRAME_MORE;
    struct buf controls = {0};
    struct frame f;

    while (input.len && event != FRAME_BAD) {
        size_t n = seed ? fuzz_cut(&seed, 16) : input.len, used;
        struct slice piece = fuzz_take(&input, n);

        do {
            event = frame_read(&r, piece, &used, &f, NULL);
            assert(used <= piece.len);
            assert(event != FRAME_MORE || used == piece.len);
            piece = slice_from(piece, used);
            if (event == FRAME_PIECE)
                note_piece(log, &f, masked);
            else if (event == FRAME_CONTROL)
                note_control(log, &controls, &f, masked);
        } while (event == FRAME_PIECE || event == FRAME_CONTROL);
    }
    buf_append(&log->text, buf_slice(&controls));
    buf_printf(&log->text, "\n%s %d", event == FRAME_BAD ? "BAD" : "MORE", r.closed);
    buf_free(&controls);
    return event != FRAME_BAD;
}

static void clear(struct log *log)
{
    buf_free(&log->text);
    buf_free(&log->anew);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    bool masked = fuzz_byte(&input) & 1;
    unsigned seed = 1u + fuzz_byte(&input);
    struct log whole = {0}, pieces = {0}, again = {0};
    bool fine = read_all(input, masked, 0, &whole);

    assert(read_all(input, masked, seed, &pieces) == fine);
    assert(slice_equals(buf_slice(&whole.text), buf_slice(&pieces.text)));
    assert(read_all(buf_slice(&pieces.anew), masked, 0, &again));
    if (fine)
        assert(slice_equals(buf_slice(&whole.text), buf_slice(&again.text)));
    clear(&whole);
    clear(&pieces);
    clear(&again);
    return 0;
}
