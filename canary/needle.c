/* Owns the search for pieces of one text. */
#include "canary/needle.h"

#include <stdlib.h>
#include <string.h>

#include "base/secret.h"

#define TAIL_MAX 1024 /* RS256 by a 6144-bit key; of a longer tail the end */
#define ENCODED_TAIL_MAX 128 /* so much of its end is sought in base64 too; all of an ES256 signature */
#define BITS 65536
#define SLOTS 128 /* a power of two */

enum { TEXT_TAIL, TEXT_BASE64, N_TEXTS = TEXT_BASE64 + 3 };

/* The tail, and its base64 when nothing, one or two bytes stand before it in a group of three. */
struct text {
    size_t len;
    char bytes[TAIL_MAX];
};

struct needle {
    unsigned refs;
    unsigned char map[BITS / 8]; /* which pieces may stand in the texts, by hash */
    struct text texts[N_TEXTS];
};

struct needle_cache {
    struct needle *slots[SLOTS];
};

/* Any position of a window of the stream whose first byte is byte `base` of it. */
struct window {
    struct slice bytes;
    uint64_t base;
};

static uint64_t hash_of(const char *piece)
{
    uint64_t word;

    memcpy(&word, piece, NEEDLE_PIECE);
    return word * 0x9e3779b97f4a7c15;
}

/* A piece has two bits of the map, or one look in 150 would be for nothing, and a closer one costs as much as the scan. */
static uint64_t first_bit(uint64_t hash)
{
    return hash >> 48;
}

static uint64_t second_bit(uint64_t hash)
{
    return hash >> 32 & (BITS - 1);
}

static struct slice tail_of(struct slice text)
{
    const char *dot = text.len ? memrchr(text.ptr, '.', text.len) : NULL;
    struct slice tail = dot ? slice_from(text, (size_t)(dot - text.ptr) + 1) : text;

    return tail.len > TAIL_MAX ? slice_from(tail, tail.len - TAIL_MAX) : tail;
}

/*
 * The characters of base64 that say nothing but tail, were there `before` bytes in front of it. The URL's alphabet gives the
 * same: of three characters of a JWT none makes a group of six bits that is 62 or 63.
 */
static void encode(struct text *out, struct slice tail, size_t before)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bits = 8 * tail.len, skip = (6 - 8 * before % 6) % 6;

    out->len = 0;
    for (size_t at = skip; at + 6 <= bits; at += 6) {
        unsigned two = (unsigned)(unsigned char)tail.ptr[at / 8] << 8;

        if (at / 8 + 1 < tail.len)
            two |= (unsigned char)tail.ptr[at / 8 + 1];
        out->bytes[out->len++] = digits[two >> (10 - at % 8) & 63];
    }
}

static void set_bit(struct needle *t, uint64_t bit)
{
    t->map[bit / 8] |= (unsigned char)(1 << bit % 8);
}

static bool has_bit(const struct needle *t, uint64_t bit)
{
    return t->map[bit / 8] >> bit % 8 & 1;
}

static void note_pieces(struct needle *t, const struct text *text)
{
    for (size_t i = 0; i + NEEDLE_PIECE <= text->len; i++) {
        uint64_t hash = hash_of(text->bytes + i);

        set_bit(t, first_bit(hash));
        set_bit(t, second_bit(hash));
    }
}

static struct needle *needle_new(struct slice tail)
{
    struct needle *t = calloc(1, sizeof *t);
    struct slice end = tail.len > ENCODED_TAIL_MAX ? slice_from(tail, tail.len - ENCODED_TAIL_MAX) : tail;

    if (!t)
        abort();
    t->refs = 1;
    t->texts[TEXT_TAIL].len = tail.len;
    memcpy(t->texts[TEXT_TAIL].bytes, tail.ptr, tail.len);
    for (size_t before = 0; before < 3; before++)
        encode(&t->texts[TEXT_BASE64 + before], end, before);
    for (size_t i = 0; i < N_TEXTS; i++)
        note_pieces(t, &t->texts[i]);
    return t;
}

static struct slice tail_in(const struct needle *t)
{
    return slice_make(t->texts[TEXT_TAIL].bytes, t->texts[TEXT_TAIL].len);
}

void needle_release(struct needle *t)
{
    if (!t || --t->refs)
        return;
    secret_wipe(t, sizeof *t);
    free(t);
}

struct needle_cache *needle_cache_new(void)
{
    struct needle_cache *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    return c;
}

void needle_cache_free(struct needle_cache *c)
{
    for (size_t i = 0; c && i < SLOTS; i++)
        needle_release(c->slots[i]);
    free(c);
}

struct needle *needle_get(struct needle_cache *c, struct slice text)
{
    struct slice tail = tail_of(text);
    struct needle **slot;

    if (tail.len < NEEDLE_RUN)
        return NULL;
    slot = &c->slots[first_bit(hash_of(tail.ptr + tail.len - NEEDLE_PIECE)) % SLOTS];
    if (!*slot || !secret_equals(tail_in(*slot), tail)) {
        needle_release(*slot);
        *slot = needle_new(tail);
    }
    (*slot)->refs++;
    return *slot;
}

/* The longest run around window position `at`, were the piece there the one at text position `in`. */
static struct needle_match run_around(const struct text *t, const struct window *w, size_t at, size_t in)
{
    size_t left = 0, right = NEEDLE_PIECE;

    while (left < at && left < in && w->bytes.ptr[at - left - 1] == t->bytes[in - left - 1])
        left++;
    while (at + right < w->bytes.len && in + right < t->len && w->bytes.ptr[at + right] == t->bytes[in + right])
        right++;
    return (struct needle_match){left + right >= NEEDLE_RUN, "identity", w->base + at - left, w->base + at + right};
}

static struct needle_match look_in(const struct text *t, const struct window *w, size_t at)
{
    for (size_t in = 0; in + NEEDLE_PIECE <= t->len; in++) {
        struct needle_match m;

        if (memcmp(t->bytes + in, w->bytes.ptr + at, NEEDLE_PIECE) == 0 && (m = run_around(t, w, at, in)).found)
            return m;
    }
    return (struct needle_match){0};
}

static struct needle_match look_closer(const struct needle *t, const struct window *w, size_t at)
{
    struct needle_match m = {0};

    for (size_t i = 0; i < N_TEXTS && !m.found; i++) {
        m = look_in(&t->texts[i], w, at);
        if (!m.found || i == TEXT_TAIL)
            continue;
        m.encoding = "base64";
        if (i > TEXT_BASE64 && m.from > 0)
            m.from--; /* it has the first bits */
    }
    return m;
}

/* Look up the stream's positions from, from + stride, ... <= last; each has NEEDLE_PIECE bytes in w. */
static struct needle_match look_up(const struct needle *t, const struct window *w, uint64_t from, uint64_t last)
{
    for (uint64_t p = from; p <= last; p += NEEDLE_STRIDE) {
        size_t at = (size_t)(p - w->base);
        uint64_t hash = hash_of(w->bytes.ptr + at);
        struct needle_match m;

        if (has_bit(t, first_bit(hash)) && has_bit(t, second_bit(hash)) && (m = look_closer(t, w, at)).found)
            return m;
    }
    return (struct needle_match){0};
}

struct needle_match needle_text(const struct needle *t, struct slice text)
{
    struct window w = {text, 0};

    if (text.len < NEEDLE_RUN)
        return (struct needle_match){0};
    return look_up(t, &w, 0, text.len - NEEDLE_PIECE);
}

/* The first multiple of the stride after last. */
static uint64_t position_after(uint64_t last)
{
    return (last / NEEDLE_STRIDE + 1) * NEEDLE_STRIDE;
}

static struct needle_match look_up_to(const struct needle *t, struct needle_scan *s, const struct window *w,
                                     uint64_t last)
{
    struct needle_match m = {0};

    if (s->next > last)
        return m;
    m = look_up(t, w, s->next, last);
    s->next = position_after(last);
    return m;
}

static void keep_tail(struct needle_scan *s, struct slice bytes)
{
    size_t keep;

    if (bytes.len >= sizeof s->tail) {
        s->tail_len = sizeof s->tail;
        memcpy(s->tail, bytes.ptr + bytes.len - sizeof s->tail, sizeof s->tail);
        return;
    }
    keep = sizeof s->tail - bytes.len < s->tail_len ? sizeof s->tail - bytes.len : s->tail_len;
    memmove(s->tail, s->tail + s->tail_len - keep, keep);
    memcpy(s->tail + keep, bytes.ptr, bytes.len);
    s->tail_len = keep + bytes.len;
}

/*
 * A position is looked up when NEEDLE_RUN bytes from it are there. Those near the border need the kept tail
 * before them: a run may have begun up to a stride earlier.
 */
static struct needle_match feed_border(const struct needle *t, struct needle_scan *s, struct slice bytes)
{
    char joined[2 * NEEDLE_LATE];
    struct slice front = slice_cut(bytes, 0, NEEDLE_LATE);
    struct window w = {slice_make(joined, s->tail_len + front.len), s->total - s->tail_len};
    uint64_t end = s->total + front.len;

    memcpy(joined, s->tail, s->tail_len);
    memcpy(joined + s->tail_len, front.ptr, front.len);
    if (end < NEEDLE_RUN)
        return (struct needle_match){0};
    return look_up_to(t, s, &w, end - NEEDLE_RUN);
}

struct needle_match needle_feed(const struct needle *t, struct needle_scan *s, struct slice bytes)
{
    struct window w = {bytes, s->total};
    struct needle_match m;

    if (bytes.len == 0)
        return (struct needle_match){0};
    m = feed_border(t, s, bytes);
    if (!m.found && bytes.len > NEEDLE_LATE)
        m = look_up_to(t, s, &w, s->total + bytes.len - NEEDLE_RUN);
    keep_tail(s, bytes);
    s->total += bytes.len;
    return m;
}

struct needle_match needle_finish(const struct needle *t, struct needle_scan *s)
{
    struct window w = {slice_make(s->tail, s->tail_len), s->total - s->tail_len};

    if (s->total < NEEDLE_PIECE)
        return (struct needle_match){0};
    return look_up_to(t, s, &w, s->total - NEEDLE_PIECE);
}
