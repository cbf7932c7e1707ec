/*
 * WebSocket frames (RFC 6455 5): a strict streaming reader of one direction, and the writer. Pure: bytes in, events out; a frame's
 * payload is never held, but that of a control frame.
 *
 * Refused: reserved bits (no extension is ever agreed on), unknown opcodes, a client's frame that is not masked and a service's
 * that is, lengths that are not written in the shortest form, control frames in pieces or over 125 bytes, a continuation of
 * nothing, a message inside another, close frames of one byte, with a code that may not be sent or a reason that is not UTF-8.
 */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include "base/buf.h"
#include "base/fault.h"

enum frame_opcode {
    FRAME_CONTINUATION = 0,
    FRAME_TEXT = 1,
    FRAME_BINARY = 2,
    FRAME_CLOSE = 8,
    FRAME_PING = 9,
    FRAME_PONG = 10,
};

enum { FRAME_CONTROL_MAX = 125, FRAME_HEAD_MAX = 14, FRAME_NO_CODE = 1005 /* a close frame without a code (7.1.5) */ };

enum frame_event {
    FRAME_MORE,    /* all input is used; wants more */
    FRAME_PIECE,   /* a piece of a message's payload */
    FRAME_CONTROL, /* a whole control frame */
    FRAME_BAD,     /* refused; why says it. Nothing of this direction may be used again */
};

/* What an event found. */
struct frame {
    enum frame_opcode opcode; /* PIECE: of the message it is of, TEXT or BINARY; CONTROL: CLOSE, PING or PONG */
    struct slice payload;     /* unmasked; borrowed until the next frame_read of any reader */
    bool last;                /* PIECE: it ends its message. Then it may be empty, else not */
    int code;                 /* CLOSE: its code, or FRAME_NO_CODE */
};

/* One direction. Zero it, set masked and message_max. The rest is its own; frames is to be read. */
struct frame_reader {
    bool masked;          /* a client's: its frames are */
    uint64_t message_max; /* bytes of one message */
    uint64_t frames;      /* whole ones that came */
    bool closed;          /* a close frame came: what follows is thrown away (RFC 6455 1.4) */
    bool broken, in_payload, in_message, fin;
    enum frame_opcode opcode, message;
    size_t head_len, control_len;
    unsigned at;          /* in the mask */
    uint64_t left, message_len;
    unsigned char head[FRAME_HEAD_MAX], mask[4];
    char control[FRAME_CONTROL_MAX];
};

/*
 * Read some of input, up to the next event; *used says how much. Call again with the rest until MORE or BAD. BAD sets
 * why->reason: websocket_frame, or upstream_websocket where frames are not masked; websocket_message when a message is too large, as
 * soon as that is announced.
 */
enum frame_event frame_read(struct frame_reader *r, struct slice input, size_t *used, struct frame *f, struct fault *why);
/* Between two messages, with nothing of a frame read? */
bool frame_is_between(const struct frame_reader *r);

/* Append a frame. mask: its key, unpredictable for whoever wrote the payload (10.3); NULL: unmasked. */
void frame_write(struct buf *out, enum frame_opcode opcode, bool fin, struct slice payload, const unsigned char mask[4]);
/* A close frame with a code and a reason, which is cut where it is too long. */
void frame_write_close(struct buf *out, int code, const char *reason, const unsigned char mask[4]);

#endif
