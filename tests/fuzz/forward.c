/*
 * Smuggling under libFuzzer: what the input is as requests to a proxy, what goes on of them, and what the next reader makes
 * of that. Each message that is accepted is forwarded as proxy/rewrite.c and proxy/flow.c do it; read again, with no
 * knowledge of how it came about, the result is the same messages: as many, each with method, target and content. The first byte
 * picks requests or responses, the second seeds the cuts.
 */
#include "authz/policy.h"
#include "proxy/flow.h"
#include "proxy/rewrite.h"
#include "tests/fuzz/lib/fuzz.h"

static const struct message_limits limits = {.head = 8192, .target = 2048, .n_fields = 64};
/* Of what we write: Via comes on top. */
static const struct message_limits wider = {.head = 16384, .target = 2048, .n_fields = 70};

static struct policy *policy;
static struct registry *none;
static struct scanner *scanner;

static void set_up(void)
{
    static const struct conf_section *const sections[] = {&services_section};
    static const char text[] = "services: {a: {hosts: [a.test], plain-ports: [80], allow: [\"GET,POST,PUT /**\"], scope: s,"
                               " body: 1m, client-credentials: allow, audit: \"waived: x\"}}";
    struct fault why = {0};
    struct conf *c = conf_parse(slice_of(text), "proxy.conf", "/", sections, 1, &why);

    policy = c ? policy_compile(c, &why) : NULL;
    assert(policy);
    conf_free(c);
    none = registry_new();
    scanner = scanner_new(none, NULL);
}

/* ---- messages as they are read: one text for each ---- */

static void note_request(struct buf *log, const struct head *h)
{
    buf_printf(log, "REQUEST %.*s %.*s\n", SLICE_ARG(h->method), SLICE_ARG(h->target));
}

static void note_response(struct buf *log, const struct head *h)
{
    buf_printf(log, "RESPONSE %d\n", h->status);
}

/* ---- one message on its way ---- */

struct way {
    enum message_kind kind;
    struct request request;
    struct buf out;    /* what goes on */
    struct buf before; /* what was understood of the input */
    struct flow flow;
    bool refused;      /* nothing further goes on */
    bool until_end;    /* the content ends with the connection */
};

static bool forward_request(struct way *w, const struct head *h)
{
    struct request_context context = {.tunnelled = true, .scheme = SCHEME_HTTP, .host = "a.test", .port = 80};
    struct buf dropped = {0};
    bool ok = request_read(&w->request, h, &context, NULL);

    if (ok && !w->request.connect) {
        buf_printf(&w->before, "REQUEST %.*s %.*s\n", SLICE_ARG(h->method), SLICE_ARG(w->request.target));
        rewrite_request(&w->request, policy_service(policy, 0), "1.1 gw.test", &w->out, &dropped);
        flow_start(&w->flow, scanner, slice_make("", 0), h->framing, true);
    }
    buf_free(&dropped);
    return ok && !w->request.connect;
}

static bool forward_response(struct way *w, const struct head *h)
{
    struct response_frame frame = {.minor = 1, .framing = h->framing, .length = h->length, .keep_alive = true};

    if (h->status == 101)
        return false;
    note_response(&w->before, h);
    frame.head_only = h->status == 304;
    if (frame.head_only)
        frame.framing = FRAMING_NONE;
    else if (frame.framing == FRAMING_CLOSE)
        frame.framing = FRAMING_CHUNKED;
    if (h->status < 200)
        rewrite_interim(h, "gw.test", "1.1 gw.test", &w->out);
    else
        rewrite_response(h, &frame, "gw.test", "1.1 gw.test", &w->out);
    flow_start(&w->flow, scanner, slice_make("", 0), h->status < 200 ? FRAMING_NONE : frame.framing, false);
    w->until_end = h->framing == FRAMING_CLOSE;
    return true;
}

static void end_message(struct way *w, const struct message *m)
{
    size_t n = 0;
    const struct field *trailers = message_trailers(m, &n);
    struct buf lines = {0}, dropped = {0};

    if (w->kind == MESSAGE_REQUEST)
        rewrite_request_trailers(message_head(m), policy_service(policy, 0), trailers, n, &lines, &dropped);
    else
        rewrite_response_trailers(message_head(m), trailers, n, "gw.test", &lines);
    flow_end(&w->flow, buf_slice(&lines));
    buf_append(&w->out, buf_slice(&w->flow.ready));
    buf_text(&w->before, "\nEND\n");
    flow_clear(&w->flow);
    buf_free(&lines);
    buf_free(&dropped);
}

static void on_message(struct way *w, struct message *m, enum message_event event)
{
    if (event == MESSAGE_HEAD) {
        w->refused = !(w->kind == MESSAGE_REQUEST ? forward_request(w, message_head(m)) : forward_response(w, message_head(m)));
    } else if (event == MESSAGE_BODY) {
        flow_data(&w->flow, message_body(m));
        buf_append(&w->before, message_body(m));
    } else if (event == MESSAGE_END) {
        end_message(w, m);
        message_reset(m);
    }
}

static void go(struct way *w, struct slice input, unsigned seed)
{
    struct message *m = message_new(w->kind, &limits);
    enum message_event event = MESSAGE_MORE;

    while (!w->refused && (input.len || event != MESSAGE_MORE)) {
        struct slice piece = slice_cut(input, 0, fuzz_cut(&seed, 64));
        size_t used;

        event = message_feed(m, piece, &used, NULL);
        input = slice_from(input, used);
        w->refused = event == MESSAGE_BAD;
        on_message(w, m, event);
        if (event == MESSAGE_END && input.len == 0)
            break;
    }
    if (!w->refused && w->until_end && message_finish(m, NULL) == MESSAGE_END)
        end_message(w, m);
    message_free(m);
}

/* ---- the next reader ---- */

static void read_again(enum message_kind kind, struct slice bytes, struct buf *after)
{
    struct message *m = message_new(kind, &wider);
    enum message_event event = MESSAGE_MORE;
    size_t used;

    while (bytes.len || event != MESSAGE_MORE) {
        event = message_feed(m, bytes, &used, NULL);
        bytes = slice_from(bytes, used);
        assert(event != MESSAGE_BAD);
        if (event == MESSAGE_HEAD)
            (kind == MESSAGE_REQUEST ? note_request : note_response)(after, message_head(m));
        else if (event == MESSAGE_BODY)
            buf_append(after, message_body(m));
        if (event != MESSAGE_END)
            continue;
        buf_text(after, "\nEND\n");
        message_reset(m);
        if (bytes.len == 0)
            break;
    }
    message_free(m);
}

/* What was broken off may be behind in what went on, never ahead. */
static void compare(const struct way *w)
{
    struct buf after = {0};

    read_again(w->kind, buf_slice(&w->out), &after);
    assert(slice_starts(buf_slice(&w->before), buf_slice(&after)));
    assert(w->flow.scan || w->refused || slice_equals(buf_slice(&w->before), buf_slice(&after)));
    buf_free(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    struct way w = {0};
    unsigned seed;

    if (!policy)
        set_up();
    w.kind = fuzz_byte(&input) & 1 ? MESSAGE_RESPONSE : MESSAGE_REQUEST;
    seed = fuzz_byte(&input);
    go(&w, input, seed);
    compare(&w);
    request_clear(&w.request);
    flow_clear(&w.flow);
    buf_free(&w.out);
    buf_free(&w.before);
    return 0;
}
