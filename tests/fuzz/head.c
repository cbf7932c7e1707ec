/*
 * Heads and messages under libFuzzer: whatever the bytes, however they are cut, the same is read; and what is accepted has one
 * meaning. The first byte picks the kind, the second seeds the cuts, the rest is the connection's input.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "net/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct message_limits limits = {.head = 2048, .target = 256, .n_fields = 16};

static void note_slice(struct buf *log, struct slice s)
{
    buf_append(log, s);
    buf_char(log, '\n');
}

static void check_field(const struct field *f)
{
    assert(f->name.len > 0);
    for (size_t i = 0; i < f->name.len; i++)
        assert(f->name.ptr[i] > ' ' && f->name.ptr[i] < 0x7f && f->name.ptr[i] != ':');
    for (size_t i = 0; i < f->value.len; i++)
        assert((unsigned char)f->value.ptr[i] >= ' ' || f->value.ptr[i] == '\t');
    assert(slice_trim(f->value).len == f->value.len);
}

static void check_head(enum message_kind kind, const struct head *h)
{
    size_t lengths = head_count(h, "content-length"), codings = head_count(h, "transfer-encoding");

    assert(h->minor == 0 || h->minor == 1);
    assert(lengths + codings <= 1 && (!codings || h->minor == 1));
    assert(h->n_fields <= limits.n_fields && h->target.len <= limits.target);
    for (size_t i = 0; i < h->n_fields; i++)
        check_field(&h->fields[i]);
    if (kind == MESSAGE_RESPONSE) {
        assert(h->status >= 100 && h->status <= 599);
        return;
    }
    assert(h->method.len && h->target.len && slice_find(h->target, ' ') < 0);
    assert(head_count(h, "host") <= 1 && (h->minor == 0 || head_count(h, "host") == 1));
    assert(h->framing != FRAMING_CLOSE);
    assert((h->framing == FRAMING_CHUNKED) == (codings == 1));
    if (h->framing == FRAMING_NONE)
        assert(!codings && (!lengths || slice_is(h->method, "CONNECT")));
}

static void note_head(struct buf *log, enum message_kind kind, const struct head *h)
{
    check_head(kind, h);
    buf_printf(log, "\nHEAD %d %d %d %llu %d%d%d%d\n", h->status, h->minor, h->framing, (unsigned long long)h->length,
               h->keep_alive, h->upgrade, h->expect_continue, h->expect_other);
    note_slice(log, h->method);
    note_slice(log, h->target);
    note_slice(log, h->reason);
    for (size_t i = 0; i < h->n_fields; i++) {
        note_slice(log, h->fields[i].name);
        note_slice(log, h->fields[i].value);
    }
}

/* llhttp is not asked of a plain head, because what it would say is known: it is. raw: the head, if all of it came at once. */
static void check_plain(enum message_kind kind, const struct head *h, struct slice raw)
{
    if (slice_starts(raw, SLICE("\r\n"))) /* one empty line may stand before a request */
        raw = slice_from(raw, 2);
    if (h->plain)
        assert(!slice_ends(raw, SLICE("\r\n\r\n")) || head_second_opinion(kind, raw, h, NULL));
}

static void note_trailers(struct buf *log, const struct message *m)
{
    size_t n = 0;
    const struct field *fields = message_trailers(m, &n);

    assert(n > 0);
    buf_text(log, "\nTRAILERS\n");
    for (size_t i = 0; i < n; i++) {
        check_field(&fields[i]);
        note_slice(log, fields[i].name);
        note_slice(log, fields[i].value);
    }
}

static void note_body(struct buf *log, struct slice piece)
{
    assert(piece.len > 0);
    buf_append(log, piece);
}

/* One event; false after BAD. Pieces of content are noted without their seams. */
static bool step(struct message *m, enum message_kind kind, struct slice *input, struct buf *log, bool *more)
{
    bool at_once = !message_is_open(m);
    size_t used = 0;
    enum message_event event = message_feed(m, *input, &used, NULL);

    assert(used <= input->len);
    if (event == MESSAGE_HEAD && at_once)
        check_plain(kind, message_head(m), slice_cut(*input, 0, used));
    assert(event != MESSAGE_MORE || used == input->len);
    if (event == MESSAGE_HEAD)
        note_head(log, kind, message_head(m));
    else if (event == MESSAGE_BODY)
        note_body(log, message_body(m));
    else if (event == MESSAGE_TRAILERS)
        note_trailers(log, m);
    else if (event == MESSAGE_BAD)
        buf_text(log, "\nBAD");
    *input = slice_from(*input, used);
    if (event == MESSAGE_END) {
        buf_text(log, "\nEND");
        assert(!message_is_open(m));
        message_reset(m);
    }
    *more = event != MESSAGE_MORE && (event != MESSAGE_END || input->len);
    return event != MESSAGE_BAD;
}

static bool feed(struct message *m, enum message_kind kind, struct slice input, struct buf *log)
{
    bool more = true;

    while (more)
        if (!step(m, kind, &input, log, &more))
            return false;
    return true;
}

/* Whole when seed is 0; else in pieces of 1 to 16 bytes. */
static void read_all(enum message_kind kind, bool head_request, struct slice input, unsigned seed, struct buf *log)
{
    struct message *m = message_new(kind, &limits);
    bool fine = true;

    message_expect(m, head_request);
    while (fine && input.len) {
        size_t n = input.len;

        if (seed) {
            seed = seed * 1103515245u + 12345u;
            n = 1 + (seed >> 16) % 16;
        }
        fine = feed(m, kind, slice_cut(input, 0, n), log);
        input = slice_from(input, n);
    }
    if (fine)
        buf_printf(log, "\nFINISH %d", message_finish(m, NULL));
    message_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0}, pieces = {0};
    enum message_kind kind;
    struct slice input;

    if (size < 2)
        return 0;
    kind = data[0] & 1 ? MESSAGE_RESPONSE : MESSAGE_REQUEST;
    input = slice_make(data + 2, size - 2);
    read_all(kind, data[0] & 2, input, 0, &whole);
    read_all(kind, data[0] & 2, input, 1u + data[1], &pieces);
    assert(slice_equals(buf_slice(&whole), buf_slice(&pieces)));
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
