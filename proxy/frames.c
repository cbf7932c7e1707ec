/* Owns the bytes of a message that are not yet safe, and the scans of one direction. Knows no states and no peers. */
#include "proxy/frames.h"

#include <openssl/rand.h>
#include <stdlib.h>

void frames_start(struct frames *f, struct scanner *scanner, struct slice token, bool from_client, uint64_t message_max,
                  struct buf *to)
{
    *f = (struct frames){.scanner = scanner_ref(scanner), .to = to, .masks = from_client, .holds = from_client};
    f->reader.masked = from_client;
    f->reader.message_max = message_max;
    f->messages.scan = scan_start(scanner, token);
    f->controls.scan = scan_start(scanner, token);
}

void frames_guard(struct frames *f, struct scan *messages, struct scan *controls)
{
    f->messages.guard = messages;
    f->controls.guard = controls;
}

static void put(struct frames *f, enum frame_opcode opcode, bool fin, struct slice payload)
{
    unsigned char mask[4];

    if (f->masks && RAND_bytes(mask, sizeof mask) != 1)
        abort();
    frame_write(f->to, opcode, fin, payload, f->masks ? mask : NULL);
    f->bytes += payload.len;
}

static struct hit feed(struct scan *c, struct slice bytes, bool whole, uint64_t *safe)
{
    struct hit hit = scan_feed(c, bytes, safe);

    return whole && !hit.found ? scan_pause(c, safe) : hit;
}

/* *safe: how many bytes of all that look has seen may go. whole: a message or a control frame ends here. */
static struct hit look_at(struct frames *f, struct frames_look *look, struct slice bytes, bool whole, uint64_t *safe)
{
    struct hit hit = feed(look->scan, bytes, whole, safe);

    look->total += bytes.len;
    if (!f->holds)
        *safe = look->total;
    if (look->guard)
        f->caught = feed(look->guard, bytes, whole, safe);
    return hit;
}

/* A piece of the message, and its end when that is due. */
static void put_piece(struct frames *f, enum frame_opcode opcode, bool last, struct slice bytes)
{
    if (bytes.len == 0 && !last)
        return;
    put(f, f->begun ? FRAME_CONTINUATION : opcode, last, bytes);
    f->passed += bytes.len;
    f->begun = !last;
}

/* Let go of what lies before offset safe of all messages; fresh follows what is held. */
static void release(struct frames *f, const struct frame *fresh, uint64_t safe)
{
    size_t n = safe > f->passed ? (size_t)(safe - f->passed) : 0;

    if (buf_len(&f->held) == 0) {
        put_piece(f, fresh->opcode, fresh->last, slice_cut(fresh->payload, 0, n));
        buf_append(&f->held, slice_from(fresh->payload, n));
        return;
    }
    buf_append(&f->held, fresh->payload);
    put_piece(f, fresh->opcode, fresh->last, slice_cut(buf_slice(&f->held), 0, n));
    buf_consume(&f->held, n);
}

struct hit frames_pass(struct frames *f, enum frame_event event, const struct frame *frame)
{
    bool control = event == FRAME_CONTROL;
    uint64_t safe = 0;
    struct hit hit = look_at(f, control ? &f->controls : &f->messages, frame->payload, control || frame->last, &safe);

    if (f->caught.found || (hit.found && f->holds))
        return hit;
    if (control)
        put(f, frame->opcode, true, frame->payload);
    else
        release(f, frame, safe);
    return hit;
}

void frames_say_close(struct frames *f, int code, const char *reason)
{
    unsigned char mask[4];

    if (f->masks && RAND_bytes(mask, sizeof mask) != 1)
        abort();
    frame_write_close(f->to, code, reason, f->masks ? mask : NULL);
}

static void begin_again(struct frames_look *look, struct scanner *scanner, struct slice token)
{
    scan_free(look->scan);
    look->scan = scan_start(scanner, token);
    scan_skip(look->scan, look->total);
}

void frames_renew(struct frames *f, struct scanner *scanner, struct slice token)
{
    if (f->scanner == scanner || f->begun || buf_len(&f->held))
        return;
    begin_again(&f->messages, scanner, token);
    begin_again(&f->controls, scanner, token);
    scanner_free(f->scanner);
    f->scanner = scanner_ref(scanner);
}

static void look_clear(struct frames_look *look)
{
    scan_free(look->scan);
    scan_free(look->guard);
}

void frames_clear(struct frames *f)
{
    look_clear(&f->messages);
    look_clear(&f->controls);
    scanner_free(f->scanner);
    buf_free(&f->held);
    *f = (struct frames){0};
}
