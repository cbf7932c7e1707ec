/* Owns two scanners: of names as they came, and of names folded to lower case, for which canaries are spelled in all the ways of a label. */
#include "proxy/sift.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum spelling { AS_IT_IS, HEX, BASE32, BASE64, N_SPELLINGS };
enum part { ALL, FIRST, LAST, N_PARTS };
enum { SPELLED_MIN = 12, GROUP_32 = 5, GROUP_64 = 3 };

static const char *const encodings[N_SPELLINGS] = {"identity", "hex", "base32", "base64"};

struct sift {
    unsigned refs;
    const struct registry *canaries; /* the scanner's */
    struct scanner *exact, *folded;
};

/* ---- spellings ---- */

static void put_hex(struct buf *out, struct slice value)
{
    for (size_t i = 0; i < value.len; i++)
        buf_printf(out, "%02x", (unsigned)(unsigned char)value.ptr[i]);
}

/*
 * The digits, of so many bits each, that are the same wherever value stands so many bytes into a group: those that carry bits of its
 * neighbours are left out.
 */
static void put_digits(struct buf *out, struct slice value, const char *digits, unsigned bits, size_t before)
{
    size_t first = (before * 8 + bits - 1) / bits * bits, end = (before + value.len) * 8;

    for (size_t bit = first; bit + bits <= end; bit += bits) {
        unsigned digit = 0;

        for (size_t b = bit; b < bit + bits; b++) {
            size_t byte = b / 8 - before;

            digit = digit << 1 | ((unsigned char)value.ptr[byte] >> (7 - b % 8) & 1);
        }
        buf_char(out, digits[digit]);
    }
}

static void fold(struct buf *b)
{
    for (size_t i = b->start; i < b->end; i++)
        if (b->ptr[i] >= 'A' && b->ptr[i] <= 'Z')
            b->ptr[i] |= 0x20;
}

/* Its id says which canary it is, and how it is written. */
static void add(struct registry *to, size_t index, enum spelling how, struct buf *text)
{
    char id[40];

    snprintf(id, sizeof id, "%d-%zu", (int)how, index);
    if (buf_len(text) >= SPELLED_MIN) {
        fold(text);
        registry_add_spelling(to, id, buf_slice(text));
    }
    buf_wipe(text);
}

static void add_spellings(struct registry *to, size_t index, struct slice value)
{
    static const char digits32[] = "abcdefghijklmnopqrstuvwxyz234567";
    static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    static const char plain64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf text = {0};

    buf_append(&text, value);
    add(to, index, AS_IT_IS, &text);
    put_hex(&text, value);
    add(to, index, HEX, &text);
    for (size_t before = 0; before < GROUP_32; before++) {
        put_digits(&text, value, digits32, 5, before);
        add(to, index, BASE32, &text);
    }
    for (size_t before = 0; before < 2 * GROUP_64; before++) {
        put_digits(&text, value, before < GROUP_64 ? digits64 : plain64, 6, before % GROUP_64);
        if (before < GROUP_64 || slice_find(buf_slice(&text), '+') >= 0 || slice_find(buf_slice(&text), '/') >= 0)
            add(to, index, BASE64, &text);
        buf_wipe(&text); /* most spell the same in both */
    }
}

static struct scanner *scanner_of_spellings(const struct registry *canaries, struct slice packed, struct fault *why)
{
    struct registry *spelled = registry_new();
    struct scanner *s;

    for (size_t i = 0; i < registry_count(canaries); i++) {
        const struct canary *c = registry_get(canaries, i);

        add_spellings(spelled, i, slice_make(c->value, c->value_len));
    }
    if ((s = scanner_unpack(spelled, packed, why)))
        scanner_own(s, spelled);
    else
        registry_free(spelled);
    return s;
}

struct sift *sift_over(struct scanner *exact, const struct registry *canaries, struct slice names, struct fault *why)
{
    struct sift *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    *s = (struct sift){.refs = 1, .canaries = canaries, .exact = scanner_ref(exact)};
    if ((s->folded = scanner_of_spellings(canaries, names, why)))
        return s;
    sift_free(s);
    return NULL;
}

void sift_pack(const struct sift *s, struct buf *out)
{
    scanner_pack(s->folded, out);
}

struct sift *sift_new(struct slice json, struct slice scan, struct slice names, struct fault *why)
{
    struct registry *canaries = json.len ? registry_parse(json, "canaries.json", why) : registry_new();
    struct scanner *exact = canaries ? scanner_unpack(canaries, scan, why) : NULL;
    struct sift *s;

    if (!exact) {
        registry_free(canaries);
        return NULL;
    }
    scanner_own(exact, canaries);
    s = sift_over(exact, canaries, names, why);
    scanner_free(exact); /* s has its own reference */
    return s;
}

struct sift *sift_ref(struct sift *s)
{
    s->refs++;
    return s;
}

void sift_free(struct sift *s)
{
    if (!s || --s->refs)
        return;
    scanner_free(s->exact);
    scanner_free(s->folded);
    free(s);
}

/* ---- looking ---- */

static struct sift_find found_folded(const struct sift *s, const struct hit *hit, const char *place)
{
    char *end;
    size_t how = strtoul(hit->canary, &end, 10), index = strtoul(end + 1, NULL, 10);

    return (struct sift_find){registry_get(s->canaries, index)->id, encodings[how], place};
}

static struct sift_find look_at(const struct sift *s, struct slice text, const char *place)
{
    struct sift_find none = {0};
    struct buf copy = {0};
    struct hit hit = scanner_text(s->exact, text);

    if (hit.found)
        return (struct sift_find){hit.canary, hit.encoding, place};
    buf_append(&copy, text);
    fold(&copy);
    hit = scanner_text(s->folded, buf_slice(&copy));
    buf_free(&copy);
    return hit.found ? found_folded(s, &hit, place) : none;
}

struct sift_find sift_host(const struct sift *s, struct slice host)
{
    struct sift_find find = {0};
    struct slice rest = host, label;
    struct buf joined = {0};

    if (!registry_count(s->canaries))
        return find;
    find = look_at(s, host, "host");
    while (!find.canary && slice_next(&rest, '.', &label))
        buf_append(&joined, label);
    if (!find.canary)
        find = look_at(s, buf_slice(&joined), "host");
    buf_free(&joined);
    return find;
}

/* At most PATRON_TAIL bytes of what came last. */
static void lengthen(struct buf *tail, struct slice by)
{
    buf_append(tail, by);
    if (buf_len(tail) > PATRON_TAIL)
        buf_consume(tail, buf_len(tail) - PATRON_TAIL);
}

/* The labels from..end joined: by dots as they are read, or by nothing. */
static void join(struct buf *out, const struct dns_question *q, size_t from, size_t end, bool dots)
{
    struct slice label;
    size_t at = 0;

    for (size_t n = 0; n < end && dns_question_label(q, &at, &label); n++) {
        if (n < from)
            continue;
        if (dots && n)
            buf_char(out, '.');
        buf_append(out, label);
    }
}

size_t sift_varying(const struct dns_question *q, size_t fixed)
{
    struct slice label;
    size_t at = 0, n = 0;

    while (dns_question_label(q, &at, &label))
        n++;
    return n > fixed ? n - fixed : 0;
}

/* A resolver asks for the addresses of both families: the second question about a name says nothing that the first did not. */
static bool is_echo(const struct patron *p, const struct dns_question *q)
{
    return q->type != DNS_A && p->last_len == q->name_len && memcmp(p->last, q->name, q->name_len) == 0;
}

/*
 * What varies, its first label, its last (counters stand in front of a piece, or behind it): of names that are new, so that nothing is taken
 * twice, and of all of them, as a piece may be the same as one before, down to a digit that is one of sixteen names.
 */
static struct sift_find look_over_names(const struct sift *s, struct patron *p, const struct dns_question *q, size_t varying, bool is_new)
{
    struct sift_find find = {0};

    for (size_t i = 0; i < PATRON_TAILS && !find.canary; i++) {
        struct buf piece = {0};

        if (i >= N_PARTS ? is_echo(p, q) : !is_new)
            continue;
        join(&piece, q, i % N_PARTS == LAST ? varying - 1 : 0, i % N_PARTS == FIRST ? 1 : varying, false);
        lengthen(&p->tails[i], buf_slice(&piece));
        buf_free(&piece);
        find = look_at(s, buf_slice(&p->tails[i]), "names");
    }
    for (size_t i = 0; i < PATRON_TAILS && find.canary; i++)
        buf_clear(&p->tails[i]); /* told: what comes now is not part of it */
    return find;
}

struct sift_find sift_look(const struct sift *s, struct patron *p, const struct dns_question *q, size_t varying, bool is_new)
{
    struct sift_find find = {0};
    struct buf text = {0};

    if (!registry_count(s->canaries))
        return find;
    find = look_at(s, slice_make(q->name, q->name_len), "name");
    for (int dots = 1; dots >= 0 && !find.canary; dots--) {
        buf_clear(&text);
        join(&text, q, 0, SIZE_MAX, dots);
        find = look_at(s, buf_slice(&text), dots ? "name" : "labels");
    }
    buf_free(&text);
    if (!find.canary && varying)
        find = look_over_names(s, p, q, varying, is_new);
    memcpy(p->last, q->name, p->last_len = q->name_len);
    return find;
}
