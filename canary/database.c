/* Owns the patterns and Vectorscan's databases of them; knows nothing of holding back. */
#include "canary/database.h"

#include <assert.h>
#include <hs.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/pack.h"
#include "base/secret.h"
#include "canary/view.h"

struct pattern {
    struct spelling spelling;
    const struct canary *canary;
};

struct database {
    struct pattern *patterns;
    size_t n_patterns, cap;
    const struct canary *adding; /* whose spellings come in */
    size_t hold;
    hs_database_t *block, *stream;
    hs_scratch_t *scratch; /* one scan at a time: the role has one thread and calls end before they return */
};

static void add_pattern(void *arg, struct spelling s)
{
    struct database *d = arg;
    size_t hold = s.lead + s.len - 1;

    if (d->n_patterns == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 64;
        if (!(d->patterns = reallocarray(d->patterns, d->cap, sizeof *d->patterns)))
            abort();
    }
    d->patterns[d->n_patterns++] = (struct pattern){s, d->adding};
    if (hold > d->hold)
        d->hold = hold;
}

static void add_canaries(struct database *d, const struct registry *r)
{
    for (size_t i = 0; i < registry_count(r); i++) {
        d->adding = registry_get(r, i);
        (d->adding->plain ? view_spell_plain : view_spell)(slice_make(d->adding->value, d->adding->value_len), add_pattern, d);
    }
}

/* Vectorscan's form of the patterns. */
struct literals {
    const char **texts;
    size_t *lens;
    unsigned *ids, *flags;
};

static void literals_clear(struct literals *l)
{
    free(l->texts);
    free(l->lens);
    free(l->ids);
    free(l->flags);
}

static struct literals literals_of(const struct database *d)
{
    size_t n = d->n_patterns;
    struct literals l = {calloc(n, sizeof(char *)), calloc(n, sizeof(size_t)), calloc(n, sizeof(unsigned)),
                         calloc(n, sizeof(unsigned))};

    if (!l.texts || !l.lens || !l.ids || !l.flags)
        abort();
    for (size_t i = 0; i < n; i++) {
        l.texts[i] = d->patterns[i].spelling.literal;
        l.lens[i] = d->patterns[i].spelling.len;
        l.ids[i] = (unsigned)i;
        l.flags[i] = d->patterns[i].spelling.any_case ? HS_FLAG_CASELESS : 0;
    }
    return l;
}

static bool compile(const struct database *d, const struct literals *l, unsigned mode, hs_database_t **out,
                    struct fault *why)
{
    hs_compile_error_t *error = NULL;
    hs_error_t status = hs_compile_lit_multi(l->texts, l->flags, l->ids, l->lens, (unsigned)d->n_patterns, mode, NULL,
                                             out, &error);

    if (status == HS_SUCCESS)
        return true;
    /* The message may quote a pattern; its number is enough. */
    fault_set(why, FAULT_REFUSED, "canary %s: Vectorscan cannot compile it (error %d)",
              error && error->expression >= 0 ? d->patterns[error->expression].canary->id : "database", status);
    hs_free_compile_error(error);
    return false;
}

static bool compile_both(struct database *d, struct fault *why)
{
    struct literals l = literals_of(d);
    bool ok = compile(d, &l, HS_MODE_BLOCK, &d->block, why) && compile(d, &l, HS_MODE_STREAM, &d->stream, why);

    literals_clear(&l);
    return ok;
}

/* The patterns are there, and nothing is compiled of them. */
static struct database *begin(const struct registry *r, struct fault *why)
{
    struct database *d = calloc(1, sizeof *d);

    assert(registry_count(r));
    if (!d)
        abort();
    if (hs_valid_platform() != HS_SUCCESS) {
        fault_set(why, FAULT_REFUSED, "this processor lacks what Vectorscan needs (SSE4.2)");
        free(d);
        return NULL;
    }
    add_canaries(d, r);
    return d;
}

/* Takes d, and gives it back when both databases are there. */
static struct database *finish(struct database *d, bool ok)
{
    if (!ok) {
        database_free(d);
        return NULL;
    }
    if (hs_alloc_scratch(d->block, &d->scratch) != HS_SUCCESS || hs_alloc_scratch(d->stream, &d->scratch) != HS_SUCCESS)
        abort();
    return d;
}

struct database *database_new(const struct registry *r, struct fault *why)
{
    struct database *d = begin(r, why);

    return d ? finish(d, compile_both(d, why)) : NULL;
}

/* ---- for another process ---- */

/* Of all the patterns: a match is told by the number of its own, which must mean the same there. */
static uint64_t mark_of(const struct database *d)
{
    static const uint64_t seed[2] = {0};
    struct buf all = {0};
    uint64_t mark;

    for (size_t i = 0; i < d->n_patterns; i++) {
        pack_bytes(&all, slice_make(d->patterns[i].spelling.literal, d->patterns[i].spelling.len));
        pack_u8(&all, d->patterns[i].spelling.any_case);
    }
    mark = hash_bytes(seed, buf_slice(&all));
    buf_wipe(&all);
    return mark;
}

static void pack_one(const hs_database_t *one, struct buf *out)
{
    char *bytes = NULL;
    size_t len = 0;

    if (hs_serialize_database(one, &bytes, &len) != HS_SUCCESS)
        abort();
    pack_bytes(out, slice_make(bytes, len));
    secret_wipe(bytes, len);
    free(bytes);
}

void database_pack(const struct database *d, struct buf *out)
{
    pack_u64(out, mark_of(d));
    pack_one(d->block, out);
    pack_one(d->stream, out);
}

static hs_error_t unpack_both(struct database *d, struct slice block, struct slice stream)
{
    hs_error_t result = hs_deserialize_database(block.ptr, block.len, &d->block);

    return result == HS_SUCCESS ? hs_deserialize_database(stream.ptr, stream.len, &d->stream) : result;
}

struct database *database_unpack(const struct registry *r, struct slice packed, struct fault *why)
{
    struct database *d = begin(r, why);
    struct unpack u = unpack_start(packed);
    uint64_t mark = unpack_u64(&u);
    struct slice block = unpack_bytes(&u), stream = unpack_bytes(&u);
    hs_error_t result = HS_INVALID;
    bool ok;

    if (!d)
        return NULL;
    if (unpack_done(&u) && mark == mark_of(d))
        result = unpack_both(d, block, stream);
    if (result == HS_DB_PLATFORM_ERROR) /* this process sees another processor, an emulated one: compiled once more, for it */
        return finish(d, compile_both(d, why));
    ok = result == HS_SUCCESS;
    if (!ok)
        fault_set(why, FAULT_SYNTAX, "what was compiled of the canaries is damaged, or of others");
    return finish(d, ok);
}

void database_free(struct database *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_patterns; i++) {
        secret_wipe(d->patterns[i].spelling.literal, d->patterns[i].spelling.len);
        free(d->patterns[i].spelling.literal);
    }
    free(d->patterns);
    hs_free_scratch(d->scratch);
    hs_free_database(d->block);
    hs_free_database(d->stream);
    free(d);
}

size_t database_hold(const struct database *d)
{
    return d->hold;
}

struct answer {
    const struct database *database;
    struct match match;
};

/* Literals have one length, so the start follows from the end: no start-of-match tracking in the streams. */
static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *arg)
{
    struct answer *a = arg;
    const struct pattern *p = &a->database->patterns[id];
    uint64_t start = to - p->spelling.len;

    (void)from, (void)flags;
    a->match = (struct match){
        .found = true,
        .canary = p->canary->id,
        .view = p->spelling.view,
        .from = start > p->spelling.lead ? start - p->spelling.lead : 0,
        .to = to + p->spelling.trail,
    };
    return 1;
}

/* Anything but an end or a match is a misuse of Vectorscan: a scan that did not happen is never a clean one. */
static struct match answered(hs_error_t status, const struct answer *a)
{
    if (status != (a->match.found ? HS_SCAN_TERMINATED : HS_SUCCESS))
        abort();
    return a->match;
}

struct match database_text(const struct database *d, struct slice text)
{
    struct answer a = {.database = d};

    assert(text.len <= UINT32_MAX);
    if (text.len == 0)
        return a.match;
    return answered(hs_scan(d->block, text.ptr, (unsigned)text.len, 0, d->scratch, on_match, &a), &a);
}

struct database_stream *database_open(const struct database *d)
{
    hs_stream_t *stream = NULL;

    if (hs_open_stream(d->stream, 0, &stream) != HS_SUCCESS)
        abort();
    return (struct database_stream *)stream;
}

void database_reset(const struct database *d, struct database_stream *s)
{
    if (hs_reset_stream((hs_stream_t *)s, 0, d->scratch, NULL, NULL) != HS_SUCCESS)
        abort();
}

void database_close(const struct database *d, struct database_stream *s)
{
    if (s && hs_close_stream((hs_stream_t *)s, d->scratch, NULL, NULL) != HS_SUCCESS)
        abort();
}

struct match database_feed(const struct database *d, struct database_stream *s, struct slice bytes)
{
    struct answer a = {.database = d};

    assert(bytes.len <= UINT32_MAX);
    if (bytes.len == 0)
        return a.match;
    return answered(hs_scan_stream((hs_stream_t *)s, bytes.ptr, (unsigned)bytes.len, 0, d->scratch, on_match, &a), &a);
}
