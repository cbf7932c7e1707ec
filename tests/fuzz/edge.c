/*
 * Handoff edges under libFuzzer. The first byte picks: JSON, HTML, a guess, the fields of a head, one reference. However a content is
 * cut, the same edges are found; what is safe never shrinks, and once something is refused nothing of it was ever safe.
 */
#include "handoff/edge.h"
#include "tests/fuzz/lib/fuzz.h"

static const struct reference page = {.scheme = "https", .host = "registry.test", .port = 443};

struct found {
    struct buf text;
    size_t n, stop_at; /* edges so far; at which one to say stop */
};

static bool on_edge(void *arg, const struct edge *e)
{
    struct found *f = arg;

    assert(e->kind > EDGE_NONE && e->kind < N_EDGE_KINDS);
    assert(e->unclear || e->to.host[0]);
    for (const char *p = e->to.host; *p; p++)
        assert(*p > 0x20 && *p < 0x7f);
    buf_printf(&f->text, "%d %s %s %u %d%d%d%d %s\n", (int)e->kind, e->to.scheme, e->to.host, e->to.port, e->unclear,
               e->to.userinfo, e->downgrade, e->presigned, e->signature.method);
    return ++f->n != f->stop_at;
}

static struct edge_sink sink_of(struct found *f)
{
    return (struct edge_sink){&page, 1767323045, on_edge, f};
}

/* In pieces when seed is not 0. How much was safe. */
static uint64_t read_all(enum edge_format format, struct slice text, unsigned seed, struct found *f)
{
    struct edge_sink sink = sink_of(f);
    struct edge_reader *r = edge_reader_new(format, false, &sink);
    uint64_t safe = 0, before = 0, fed = 0;
    bool on = true;

    while (on && text.len) {
        struct slice piece = fuzz_take(&text, seed ? fuzz_cut(&seed, 40) : text.len);

        on = edge_reader_feed(r, piece, &safe);
        fed += piece.len;
        assert(safe >= before && safe <= fed);
        before = safe;
    }
    edge_reader_end(r);
    edge_reader_free(r);
    return safe;
}

static void read_content(enum edge_format format, struct slice input)
{
    unsigned seed = 1u + fuzz_byte(&input), stop_at = fuzz_byte(&input) % 8u;
    struct found whole = {.stop_at = stop_at}, pieces = {.stop_at = stop_at};
    uint64_t safe = read_all(format, input, 0, &whole), also = read_all(format, input, seed, &pieces);

    assert(slice_equals(buf_slice(&whole.text), buf_slice(&pieces.text)));
    assert(safe == also);
    buf_free(&whole.text);
    buf_free(&pieces.text);
}

static void read_head(struct slice input)
{
    static const char *const names[] = {"Location", "Content-Location", "Link", "Refresh", "Alt-Svc", "WWW-Authenticate",
                                        "Report-To", "Reporting-Endpoints", "Content-Type"};
    uint8_t choice = fuzz_byte(&input);
    struct field field = {slice_of(names[choice % 9u]), input};
    struct head h = {.status = choice & 0x80 ? 202 : 302, .fields = &field, .n_fields = 1};
    struct found f = {0};
    struct edge_sink sink = sink_of(&f);

    assert(edge_read_head(&h, &sink));
    assert(f.n == 0 || edge_glance(&h).sends);
    buf_free(&f.text);
}

static void read_reference(struct slice input)
{
    bool cut = fuzz_byte(&input) % 2;
    struct reference to, again;
    enum reference_kind kind = reference_read(&page, input, cut, &to);

    /* What is not cut and clear stays so with a path behind it. */
    if (kind == REFERENCE_PLACE && !cut) {
        struct buf text = {0};

        buf_printf(&text, "%s://%s:%u/x", to.scheme, to.host, to.port ? to.port : 1);
        assert(reference_read(&page, buf_slice(&text), false, &again) == REFERENCE_PLACE);
        assert(to.port == 0 || (to.port == again.port && strcmp(to.scheme, again.scheme) == 0 && strcmp(to.host, again.host) == 0));
        buf_free(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);

    switch (fuzz_byte(&input) % 5) {
    case 0:
        read_content(EDGE_FORMAT_JSON, input);
        break;
    case 1:
        read_content(EDGE_FORMAT_HTML, input);
        break;
    case 2:
        edge_guess(EDGE_FORMAT_SNIFF, input);
        break;
    case 3:
        read_head(input);
        break;
    default:
        read_reference(input);
    }
    return 0;
}
