/* Owns held bytes and the scan of one body. Knows no states and no peers. */
#include "proxy/flow.h"

#include <assert.h>
#include <stdio.h>

void flow_start(struct flow *f, struct scanner *scanner, struct slice token, enum framing framing, bool holds)
{
    *f = (struct flow){.framing = framing, .holds = holds};
    if (framing != FRAMING_NONE)
        f->scan = scan_start(scanner, token);
}

void flow_guard(struct flow *f, struct scan *guard)
{
    assert(!f->holds && !f->guard);
    f->guard = guard;
}

void flow_set_gate(struct flow *f, flow_gate *gate, void *arg, bool holds)
{
    assert(!f->holds && !f->total);
    f->gate = gate;
    f->gate_arg = arg;
    f->gate_holds = holds;
}

static void put(struct flow *f, struct slice bytes)
{
    if (f->to)
        stream_write(f->to, bytes);
    else
        buf_append(&f->ready, bytes);
}

static void emit(struct flow *f, struct slice bytes)
{
    if (bytes.len == 0)
        return;
    if (f->framing == FRAMING_CHUNKED) {
        char line[24];
        int n = snprintf(line, sizeof line, "%zx\r\n", bytes.len);

        put(f, slice_make(line, (size_t)n));
        put(f, bytes);
        put(f, SLICE("\r\n"));
    } else {
        put(f, bytes);
    }
    f->released += bytes.len;
}

/* Let go of what lies before offset safe of the content; fresh follows what is held. */
static void release(struct flow *f, struct slice fresh, uint64_t safe)
{
    uint64_t n = safe > f->released ? safe - f->released : 0;
    size_t held = buf_len(&f->held);

    if (n < held) {
        emit(f, slice_cut(buf_slice(&f->held), 0, (size_t)n));
        buf_consume(&f->held, (size_t)n);
        buf_append(&f->held, fresh);
        return;
    }
    emit(f, buf_slice(&f->held));
    buf_clear(&f->held);
    n -= held;
    emit(f, slice_cut(fresh, 0, (size_t)n));
    buf_append(&f->held, slice_from(fresh, (size_t)n));
}

/* *safe: what is so far; the gate may let go of less. */
static void ask_gate(struct flow *f, struct slice bytes, uint64_t *safe)
{
    uint64_t open = f->total;

    f->barred = f->barred || !f->gate(f->gate_arg, bytes, &open);
    f->gate_open = open;
    if (open < *safe)
        *safe = open;
}

static struct hit look(struct scan *scan, struct slice bytes, bool whole, uint64_t *safe)
{
    return whole ? scan_feed_whole(scan, bytes, safe) : scan_feed(scan, bytes, safe);
}

struct hit flow_data(struct flow *f, struct slice bytes)
{
    uint64_t safe = 0;
    bool whole = f->length && bytes.len == f->length && !f->total;
    struct hit hit = {0};

    if (!f->seen)
        hit = look(f->scan, bytes, whole, &safe);
    f->total += bytes.len;
    if (f->guard)
        f->caught = look(f->guard, bytes, whole, &safe);
    else if (!f->holds)
        safe = f->total;
    if (f->gate)
        ask_gate(f, bytes, &safe);
    if (f->holds || f->guard || f->gate_holds)
        release(f, bytes, safe);
    else
        emit(f, bytes);
    return hit;
}

struct hit flow_renew(struct flow *f, struct scanner *scanner, struct slice token)
{
    uint64_t safe;

    if (!f->scan || f->seen || f->ended || scan_is_of(f->scan, scanner))
        return (struct hit){0};
    scan_free(f->scan);
    f->scan = scan_start(scanner, token);
    scan_skip(f->scan, f->total - (f->holds ? buf_len(&f->held) : 0));
    return f->holds ? scan_feed(f->scan, buf_slice(&f->held), &safe) : (struct hit){0};
}

void flow_rest(struct flow *f)
{
    uint64_t safe = 0;

    if (!f->guard || f->caught.found || f->barred)
        return;
    f->caught = scan_pause(f->guard, &safe);
    if (f->gate_holds && f->gate_open < safe)
        safe = f->gate_open;
    release(f, slice_make("", 0), safe);
}

static void end_framing(struct flow *f, struct slice trailers)
{
    if (f->framing != FRAMING_CHUNKED)
        return;
    put(f, SLICE("0\r\n"));
    put(f, trailers);
    put(f, SLICE("\r\n"));
}

struct hit flow_end(struct flow *f, struct slice trailers)
{
    struct hit hit = {0};
    uint64_t safe = f->total;

    if (f->scan && !f->seen)
        hit = scan_finish(f->scan, &safe);
    if (f->guard)
        f->caught = scan_finish(f->guard, &safe);
    else if (!f->holds)
        safe = f->total;
    if (f->gate)
        ask_gate(f, slice_make("", 0), &safe);
    if (f->holds || f->guard || f->gate_holds)
        release(f, slice_make("", 0), safe);
    f->ended = true;
    if (!f->caught.found && !f->barred && (!hit.found || !f->holds))
        end_framing(f, trailers);
    return hit;
}

void flow_attach(struct flow *f, struct stream *to, bool keep)
{
    f->to = to;
    if (buf_len(&f->ready))
        stream_write(to, buf_slice(&f->ready));
    if (!keep)
        buf_free(&f->ready);
}

void flow_clear(struct flow *f)
{
    scan_free(f->scan);
    scan_free(f->guard);
    buf_free(&f->held);
    buf_free(&f->ready);
    *f = (struct flow){0};
}
