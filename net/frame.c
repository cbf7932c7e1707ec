/* Reads and writes frames. Owns the head of the frame under way and a control frame's payload; knows no peers and no states. */
#include "net/frame.h"

#include <assert.h>
#include <string.h>

enum { BIT_FIN = 0x80, BITS_RESERVED = 0x70, BITS_OPCODE = 0x0f, BIT_MASK = 0x80, BITS_LENGTH = 0x7f, LENGTH_16 = 126, LENGTH_64 = 127 };

static char unmasked[64 << 10];

static enum frame_event bad(struct frame_reader *r, struct fault *why, const char *text)
{
    r->broken = true;
    fault_reason(why, r->masked ? REASON_WEBSOCKET_FRAME : REASON_UPSTREAM_WEBSOCKET, "%s", text);
    return FRAME_BAD;
}

/* ---- masks ---- */

/* Byte i of from is under byte (at + i) % 4 of the key. */
static void mask_bytes(char *to, struct slice from, const unsigned char key[4], unsigned at)
{
    unsigned char turned[8];
    uint64_t word, mask;
    size_t i = 0;

    for (unsigned k = 0; k < sizeof turned; k++)
        turned[k] = key[(at + k) % 4];
    memcpy(&mask, turned, sizeof mask);
    for (; i + sizeof word <= from.len; i += sizeof word) {
        memcpy(&word, from.ptr + i, sizeof word);
        word ^= mask;
        memcpy(to + i, &word, sizeof word);
    }
    for (; i < from.len; i++)
        to[i] = (char)((unsigned char)from.ptr[i] ^ turned[i % sizeof turned]);
}

/* ---- heads ---- */

static bool is_control(enum frame_opcode opcode)
{
    return opcode >= FRAME_CLOSE;
}

/* RFC 6455 5.2, of the first byte; NULL when nothing is off with it. */
static const char *judge_first(const struct frame_reader *r, unsigned char byte)
{
    unsigned opcode = byte & BITS_OPCODE;
    bool fin = byte & BIT_FIN;

    if (byte & BITS_RESERVED)
        return "a frame with a reserved bit: no extension was agreed on";
    if (opcode == FRAME_CONTINUATION)
        return r->in_message ? NULL : "a continuation of no message";
    if (opcode == FRAME_TEXT || opcode == FRAME_BINARY)
        return r->in_message ? "a message inside another" : NULL;
    if (opcode != FRAME_CLOSE && opcode != FRAME_PING && opcode != FRAME_PONG)
        return "an opcode that RFC 6455 does not have";
    return fin ? NULL : "a control frame in pieces";
}

static const char *judge_second(const struct frame_reader *r, unsigned char byte)
{
    bool masked = byte & BIT_MASK;

    if (masked != r->masked)
        return masked ? "a masked frame of a service" : "a frame of a client that is not masked";
    if (is_control(r->head[0] & BITS_OPCODE) && (byte & BITS_LENGTH) > FRAME_CONTROL_MAX)
        return "a control frame of more than 125 bytes";
    return NULL;
}

static size_t length_bytes(unsigned char second)
{
    unsigned n = second & BITS_LENGTH;

    return n == LENGTH_64 ? 8 : n == LENGTH_16 ? 2 : 0;
}

/* Of the head, of which the first two bytes are there. */
static size_t head_size(const struct frame_reader *r)
{
    return 2 + length_bytes(r->head[1]) + (r->masked ? 4 : 0);
}

static const char *read_length(const struct frame_reader *r, uint64_t *out)
{
    size_t n = length_bytes(r->head[1]);
    uint64_t length = n ? 0 : r->head[1] & BITS_LENGTH;

    for (size_t i = 0; i < n; i++)
        length = length << 8 | r->head[2 + i];
    *out = length;
    if (length > INT64_MAX)
        return "a length with the highest bit set";
    if ((n == 2 && length < LENGTH_16) || (n == 8 && length <= UINT16_MAX))
        return "a length that is not written in the shortest form";
    return NULL;
}

static enum frame_event too_large(struct frame_reader *r, struct fault *why)
{
    r->broken = true;
    fault_reason(why, REASON_WEBSOCKET_MESSAGE, "a message of the %s of more than %llu bytes", r->masked ? "client" : "service",
                 (unsigned long long)r->message_max);
    return FRAME_BAD;
}

/* The head is whole. MORE: its payload comes. */
static enum frame_event begin_frame(struct frame_reader *r, struct fault *why)
{
    size_t n = length_bytes(r->head[1]);
    const char *off = read_length(r, &r->left);

    if (off)
        return bad(r, why, off);
    r->opcode = r->head[0] & BITS_OPCODE;
    r->fin = r->head[0] & BIT_FIN;
    if (r->masked)
        memcpy(r->mask, r->head + 2 + n, sizeof r->mask);
    r->at = 0;
    r->head_len = r->control_len = 0;
    r->in_payload = true;
    if (is_control(r->opcode))
        return FRAME_MORE;
    if (r->opcode != FRAME_CONTINUATION) {
        r->message = r->opcode;
        r->message_len = 0;
    }
    r->in_message = true;
    if (r->left > r->message_max - r->message_len)
        return too_large(r, why);
    r->message_len += r->left;
    return FRAME_MORE;
}

/* One byte of a head; each is judged as it comes. */
static enum frame_event take_head_byte(struct frame_reader *r, unsigned char byte, struct fault *why)
{
    const char *off = r->head_len == 0 ? judge_first(r, byte) : r->head_len == 1 ? judge_second(r, byte) : NULL;

    if (off)
        return bad(r, why, off);
    r->head[r->head_len++] = byte;
    return r->head_len >= 2 && r->head_len == head_size(r) ? begin_frame(r, why) : FRAME_MORE;
}

/* ---- payload ---- */

/* Of the frame under way, as much as there is; unmasked where it must be. */
static struct slice take_payload(struct frame_reader *r, struct slice input, size_t *used)
{
    struct slice piece = slice_cut(input, 0, r->left < sizeof unmasked ? (size_t)r->left : sizeof unmasked);

    *used += piece.len;
    r->left -= piece.len;
    if (!r->masked)
        return piece;
    mask_bytes(unmasked, piece, r->mask, r->at);
    r->at = (unsigned)((r->at + piece.len) % 4);
    return slice_make(unmasked, piece.len);
}

static void end_frame(struct frame_reader *r)
{
    r->in_payload = false;
    r->frames++;
}

/* RFC 6455 7.4, and those that IANA has registered since. */
static bool may_be_sent(int code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

static enum frame_event close_frame(struct frame_reader *r, struct frame *f, struct fault *why)
{
    f->code = FRAME_NO_CODE;
    if (f->payload.len == 1)
        return bad(r, why, "a close frame of one byte");
    if (f->payload.len >= 2) {
        f->code = (unsigned char)f->payload.ptr[0] << 8 | (unsigned char)f->payload.ptr[1];
        if (!may_be_sent(f->code))
            return bad(r, why, "a close frame with a code that is not for sending");
        if (!slice_is_utf8(slice_from(f->payload, 2)))
            return bad(r, why, "a close frame whose reason is not UTF-8");
    }
    r->closed = true;
    return FRAME_CONTROL;
}

static enum frame_event feed_control(struct frame_reader *r, struct slice input, size_t *used, struct frame *f, struct fault *why)
{
    struct slice piece = take_payload(r, input, used);

    assert(piece.len <= sizeof r->control - r->control_len);
    memcpy(r->control + r->control_len, piece.ptr, piece.len);
    r->control_len += piece.len;
    if (r->left)
        return FRAME_MORE;
    end_frame(r);
    *f = (struct frame){.opcode = r->opcode, .payload = slice_make(r->control, r->control_len)};
    return r->opcode == FRAME_CLOSE ? close_frame(r, f, why) : FRAME_CONTROL;
}

static enum frame_event feed_message(struct frame_reader *r, struct slice input, size_t *used, struct frame *f)
{
    *f = (struct frame){.opcode = r->message, .payload = take_payload(r, input, used)};
    if (r->left == 0) {
        end_frame(r);
        f->last = r->fin;
        r->in_message = !r->fin;
    }
    return f->payload.len || f->last ? FRAME_PIECE : FRAME_MORE;
}

enum frame_event frame_read(struct frame_reader *r, struct slice input, size_t *used, struct frame *f, struct fault *why)
{
    enum frame_event event = FRAME_MORE;

    *used = 0;
    if (r->broken)
        return FRAME_BAD;
    if (r->closed) {
        *used = input.len;
        return FRAME_MORE;
    }
    while (event == FRAME_MORE && (*used < input.len || (r->in_payload && r->left == 0))) {
        if (!r->in_payload)
            event = take_head_byte(r, (unsigned char)input.ptr[(*used)++], why);
        else if (is_control(r->opcode))
            event = feed_control(r, slice_from(input, *used), used, f, why);
        else
            event = feed_message(r, slice_from(input, *used), used, f);
    }
    return event;
}

bool frame_is_between(const struct frame_reader *r)
{
    return !r->in_message && !r->in_payload && r->head_len == 0;
}

/* ---- writing ---- */

static size_t put_length(unsigned char *to, uint64_t n, unsigned mask_bit)
{
    size_t bytes = n > UINT16_MAX ? 8 : n >= LENGTH_16 ? 2 : 0;

    to[0] = (unsigned char)(mask_bit | (bytes == 8 ? LENGTH_64 : bytes == 2 ? LENGTH_16 : n));
    for (size_t i = 0; i < bytes; i++)
        to[1 + i] = (unsigned char)(n >> (8 * (bytes - 1 - i)));
    return 1 + bytes;
}

void frame_write(struct buf *out, enum frame_opcode opcode, bool fin, struct slice payload, const unsigned char mask[4])
{
    unsigned char *to = (unsigned char *)buf_reserve(out, FRAME_HEAD_MAX + payload.len);
    size_t n = 1;

    to[0] = (unsigned char)((fin ? BIT_FIN : 0) | opcode);
    n += put_length(to + 1, payload.len, mask ? BIT_MASK : 0);
    if (mask) {
        memcpy(to + n, mask, 4);
        n += 4;
        mask_bytes((char *)to + n, payload, mask, 0);
    } else {
        memcpy(to + n, payload.ptr, payload.len);
    }
    buf_commit(out, n + payload.len);
}

void frame_write_close(struct buf *out, int code, const char *reason, const unsigned char mask[4])
{
    char payload[FRAME_CONTROL_MAX];
    struct slice text = slice_cut(slice_of(reason), 0, sizeof payload - 2);

    payload[0] = (char)(code >> 8);
    payload[1] = (char)code;
    memcpy(payload + 2, text.ptr, text.len);
    frame_write(out, FRAME_CLOSE, true, slice_make(payload, 2 + text.len), mask);
}
