/* Where canaries are found, where they are not, and that nothing of one is ever let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "canary/scan.h"
#include "tests/unit/canaries_fixture.h"

#define ODD "\xc3\xbf\xc3\xbe?>~?>~?>~0123456789ABCDEFGHIJKL"
#define SECRET "npm_q7Zt0WmXc4RbN2vLk9HsYd"
/* A leave token: header, claims, an ES256 signature of 86 characters. */
#define SIGNATURE "h0Qx3vN7bYt2kLm9ZsRw4cUe8pJd6aFgViOo1XyTqBnKlMzEuHrGj5WPSCDf-_AaIIbRt7Yw2qZx4Nc8Vb1Lm3"
#define TOKEN "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJjaSIsInN1YiI6InZtMSJ9." SIGNATURE

static int with_two(void **state)
{
    static const char json[] =
        "{\"schema\":\"exeat.canaries/1\",\"canaries\":["
        "{\"id\":\"npm-1\",\"kind\":\"npm\",\"sandbox\":\"\",\"value\":\"" SECRET "\",\"random_from\":4,"
        "\"random_len\":22,\"created\":\"2026-01-02T03:04:05Z\"},"
        /* spells '-' and '_' where the standard alphabet has '+' and '/' */
        "{\"id\":\"odd-1\",\"kind\":\"odd\",\"sandbox\":\"\","
        "\"value\":\"\\u00ff\\u00fe?>~?>~?>~0123456789ABCDEFGHIJKL\","
        "\"random_from\":13,\"random_len\":22,\"created\":\"2026-01-02T03:04:05Z\"}]}";
    static struct fixture f;

    f.registry = registry_parse(slice_of(json), "two.json", NULL);
    assert_non_null(f.registry);
    f.scanner = scanner_new(f.registry, NULL);
    assert_non_null(f.scanner);
    *state = &f;
    return 0;
}

static int with_none(void **state)
{
    static struct fixture f;

    f.registry = registry_new();
    f.scanner = scanner_new(f.registry, NULL);
    assert_non_null(f.scanner);
    *state = &f;
    return 0;
}

/* What a piece becomes on its way into a text. */
enum shape { PLAIN, BASE64, BASE64URL, HEX, HEX_UPPER, PERCENT, PERCENT_LOWER, PERCENT_NEEDED };

/* before and after stand in the same base64 text as the piece; raw stands around it. */
static const struct row {
    const char *name, *before, *piece, *after;
    enum shape shape;
    const char *canary;   /* NULL: clean */
    const char *encoding;
} rows[] = {
    {"whole, alone", "", SECRET, "", PLAIN, "npm-1", "identity"},
    {"whole, in a query", "GET /?q=", SECRET, "&x=1 HTTP/1.1", PLAIN, "npm-1", "identity"},
    {"whole, at the end", "key=", SECRET, "", PLAIN, "npm-1", "identity"},
    {"whole, after its own beginning", "npm_q7Zt0npm_q7", SECRET, "", PLAIN, "npm-1", "identity"},
    {"first character missing", "", "pm_q7Zt0WmXc4RbN2vLk9HsYd", "", PLAIN, NULL, NULL},
    {"last character missing", "", "npm_q7Zt0WmXc4RbN2vLk9HsY", "", PLAIN, NULL, NULL},
    {"one character changed", "", "npm_q7Zt0WmXc4RbN2vLk8HsYd", "", PLAIN, NULL, NULL},
    {"another case", "", "NPM_q7Zt0WmXc4RbN2vLk9HsYd", "", PLAIN, NULL, NULL},
    {"its prefix only", "", "npm_", "", PLAIN, NULL, NULL},
    {"base64, first alignment", "", SECRET, "", BASE64, "npm-1", "base64"},
    {"base64, second alignment", ":", SECRET, "", BASE64, "npm-1", "base64"},
    {"base64, third alignment", "a:", SECRET, "", BASE64, "npm-1", "base64"},
    {"base64, first alignment again", "abc", SECRET, "", BASE64, "npm-1", "base64"},
    {"base64, one byte follows", "", SECRET, "z", BASE64, "npm-1", "base64"},
    {"base64, two bytes follow", ":", SECRET, "zz", BASE64, "npm-1", "base64"},
    {"base64, all around", "user:", SECRET, " and more", BASE64, "npm-1", "base64"},
    {"base64 of a near miss", "user:", "npm_q7Zt0WmXc4RbN2vLk8HsYd", "", BASE64, NULL, NULL},
    {"base64url where it spells the same", "user:", SECRET, "", BASE64URL, "npm-1", "base64"},
    {"odd bytes, whole", "", ODD, "", PLAIN, "odd-1", "identity"},
    {"odd bytes, base64", "", ODD, "", BASE64, "odd-1", "base64"},
    {"odd bytes, base64, second alignment", "x", ODD, "y", BASE64, "odd-1", "base64"},
    {"odd bytes, base64, third alignment", "xx", ODD, "y", BASE64, "odd-1", "base64"},
    {"odd bytes, base64url", "", ODD, "", BASE64URL, "odd-1", "base64url"},
    {"odd bytes, base64url, second alignment", "x", ODD, "", BASE64URL, "odd-1", "base64url"},
    {"odd bytes, base64url, third alignment", "xx", ODD, "", BASE64URL, "odd-1", "base64url"},
    {"hexadecimal", "", SECRET, "", HEX, "npm-1", "hex"},
    {"hexadecimal, in capitals", "", SECRET, "", HEX_UPPER, "npm-1", "hex"},
    {"hexadecimal, all around", "user:", SECRET, " and more", HEX, "npm-1", "hex"},
    {"hexadecimal of a near miss", "user:", "npm_q7Zt0WmXc4RbN2vLk8HsYd", "", HEX, NULL, NULL},
    {"hexadecimal, odd bytes", "x", ODD, "y", HEX_UPPER, "odd-1", "hex"},
    {"percent, every byte", "", SECRET, "", PERCENT, "npm-1", "percent"},
    {"percent, every byte, in lower case", "q=", SECRET, "&", PERCENT_LOWER, "npm-1", "percent"},
    {"percent of a near miss", "", "npm_q7Zt0WmXc4RbN2vLk8HsYd", "", PERCENT, NULL, NULL},
    {"percent, odd bytes", "x", ODD, "y", PERCENT, "odd-1", "percent"},
    {"percent where it must be", "x ", ODD, " y", PERCENT_NEEDED, "odd-1", "percent"},
    {"the leave token", "Cookie: t=", TOKEN, "; a=b", PLAIN, "leave-token", "identity"},
    {"the token's signature", "", SIGNATURE, "", PLAIN, "leave-token", "identity"},
    {"24 characters of it", "x", "kLm9ZsRw4cUe8pJd6aFgViOo", "x", PLAIN, "leave-token", "identity"},
    {"its last 24 characters", "", "AaIIbRt7Yw2qZx4Nc8Vb1Lm3", "", PLAIN, "leave-token", "identity"},
    {"the token's signature, base64", "", SIGNATURE, "", BASE64, "leave-token", "base64"},
    {"the token's signature, base64, second alignment", "x", SIGNATURE, "yz", BASE64, "leave-token", "base64"},
    {"the token's signature, base64, third alignment", "xx", SIGNATURE, "y", BASE64, "leave-token", "base64"},
    {"the token's signature, base64, behind a user", "jwt:eyJ.eyJ.", SIGNATURE, "", BASE64, "leave-token", "base64"},
    {"the token's signature, base64url", "x", SIGNATURE, "", BASE64URL, "leave-token", "base64"},
    {"24 characters of it, base64", "x", "kLm9ZsRw4cUe8pJd6aFgViOo", "x", BASE64, "leave-token", "base64"},
    {"15 characters of it, base64", "x", "kLm9ZsRw4cUe8pJ", "x", BASE64, NULL, NULL},
    {"23 characters of it", "x", "kLm9ZsRw4cUe8pJd6aFgViO", "x", PLAIN, NULL, NULL},
    {"its header and claims", "", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJjaSIsInN1YiI6InZtMSJ9.", "", PLAIN, NULL, NULL},
    {"nothing", "", "", "", PLAIN, NULL, NULL},
};

static void put_byte(struct buf *out, enum shape shape, unsigned char c)
{
    if (shape == HEX || shape == HEX_UPPER)
        buf_printf(out, shape == HEX ? "%02x" : "%02X", c);
    else if (shape == PERCENT_NEEDED && (isalnum(c) || strchr("-._~", c)))
        buf_char(out, (char)c);
    else
        buf_printf(out, shape == PERCENT_LOWER ? "%%%02x" : "%%%02X", c);
}

static size_t put_bytes(struct buf *out, enum shape shape, struct slice plain)
{
    size_t from = buf_len(out);

    for (size_t i = 0; i < plain.len; i++)
        put_byte(out, shape, (unsigned char)plain.ptr[i]);
    return buf_len(out) - from;
}

struct text {
    struct buf bytes;
    size_t first; /* where the piece's first byte, or the first character that carries a bit of it, stands */
};

static struct text make_text(const struct row *r, size_t shift)
{
    struct text t = {{0}, shift};
    struct buf plain = {0};
    size_t before = strlen(r->before);

    for (size_t i = 0; i < shift; i++)
        buf_char(&t.bytes, '.');
    buf_text(&plain, r->before);
    buf_text(&plain, r->piece);
    buf_text(&plain, r->after);
    if (r->shape == PLAIN) {
        buf_append(&t.bytes, buf_slice(&plain));
        t.first += before;
    } else if (r->shape >= HEX) {
        t.first += put_bytes(&t.bytes, r->shape, slice_of(r->before));
        put_bytes(&t.bytes, r->shape, slice_from(buf_slice(&plain), before));
    } else {
        (r->shape == BASE64 ? text_base64 : text_base64url)(&t.bytes, buf_slice(&plain));
        t.first += before * 8 / 6;
    }
    buf_text(&t.bytes, "..");
    if (strstr(r->piece, "." SIGNATURE))
        t.first += strlen(TOKEN) - strlen(SIGNATURE);
    buf_free(&plain);
    return t;
}

static bool is_expected(const struct row *r, const struct text *t, struct hit hit)
{
    if (!r->canary || !hit.found)
        return !r->canary && !hit.found;
    return strcmp(hit.canary, r->canary) == 0 && strcmp(hit.encoding, r->encoding) == 0 && hit.from == t->first &&
           hit.to > hit.from && hit.to <= buf_len(&t->bytes);
}

/* Feed in pieces that end at cuts[0], ...; false when a byte at or after t->first was safe or the hit is off. */
static bool stream_holds(struct scanner *s, const struct row *r, const struct text *t, const size_t *cuts,
                         size_t n_cuts)
{
    struct scan *c = scan_start(s, SLICE(TOKEN));
    struct slice all = buf_slice(&t->bytes);
    uint64_t safe = 0, last = 0;
    struct hit hit = {0};
    bool good = true;

    for (size_t i = 0, at = 0; i <= n_cuts; i++) {
        size_t end = i < n_cuts ? cuts[i] : all.len;

        hit = scan_feed(c, slice_cut(all, at, end), &safe);
        good = good && safe >= last && safe <= end && end - safe <= (hit.found ? end : scan_hold(c)) &&
               (!r->canary || safe <= t->first);
        last = safe;
        at = end;
    }
    hit = scan_finish(c, &safe);
    good = good && is_expected(r, t, hit) && (r->canary ? safe <= t->first : safe == all.len);
    scan_free(c);
    return good;
}

/* All at once: the same answer as in pieces. */
static bool whole_holds(struct scanner *s, const struct row *r, const struct text *t)
{
    struct scan *c = scan_start(s, SLICE(TOKEN));
    size_t len = buf_len(&t->bytes);
    uint64_t safe = 0;
    bool good = is_expected(r, t, scan_feed_whole(c, buf_slice(&t->bytes), &safe));

    good = good && (r->canary ? safe <= t->first : safe == len);
    good = good && is_expected(r, t, scan_finish(c, &safe)) && (r->canary ? safe <= t->first : safe == len);
    scan_free(c);
    return good;
}

static void test_texts(void **state)
{
    const struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t shift = 0; shift < 20; shift++) {
            struct text t = make_text(&rows[i], shift);

            if (!is_expected(&rows[i], &t, scanner_text_with(f->scanner, buf_slice(&t.bytes), SLICE(TOKEN))))
                fail_msg("%s, at %zu", rows[i].name, shift);
            if (!whole_holds(f->scanner, &rows[i], &t))
                fail_msg("%s, at %zu, as the one feed of a scan", rows[i].name, shift);
            buf_free(&t.bytes);
        }
}

/* Without canaries only the token is found, and what is held back is for it alone. */
static bool has_row(const struct fixture *f, const struct row *r)
{
    return registry_count(f->registry) || !r->canary || strcmp(r->canary, "leave-token") == 0;
}

static void test_every_split_in_two_and_three(void **state)
{
    const struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct text t = make_text(&rows[i], i % 17);
        size_t len = buf_len(&t.bytes);

        for (size_t a = 0; a <= len && has_row(f, &rows[i]); a++)
            for (size_t b = a; b <= len; b++) {
                size_t cuts[2] = {a, b};

                if (!stream_holds(f->scanner, &rows[i], &t, cuts, 2))
                    fail_msg("%s, cut at %zu and %zu", rows[i].name, a, b);
            }
        buf_free(&t.bytes);
    }
}

static void test_every_piece_size(void **state)
{
    const struct fixture *f = *state;
    size_t cuts[2048];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t shift = 0; shift < 40; shift++)
            for (size_t size = 1; size < 60 && has_row(f, &rows[i]); size += 1 + size / 8) {
                struct text t = make_text(&rows[i], shift);
                size_t n = 0;

                for (size_t at = size; at < buf_len(&t.bytes); at += size)
                    cuts[n++] = at;
                if (!stream_holds(f->scanner, &rows[i], &t, cuts, n))
                    fail_msg("%s, at %zu, in pieces of %zu", rows[i].name, shift, size);
                buf_free(&t.bytes);
            }
}

/* Which of two is told does not hang on which was sought first. */
static void test_of_two_the_first_is_told(void **state)
{
    static const struct {
        const char *name, *text, *canary;
    } pairs[] = {
        {"a canary before the token", "a=" SECRET "&t=" SIGNATURE, "npm-1"},
        {"the token before a canary", "t=" SIGNATURE "&a=" SECRET, "leave-token"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct scan *c = scan_start(f->scanner, SLICE(TOKEN));
        uint64_t safe;
        struct hit hit = scan_feed_whole(c, slice_of(pairs[i].text), &safe);

        if (strcmp(hit.canary, pairs[i].canary) != 0 ||
            strcmp(scanner_text_with(f->scanner, slice_of(pairs[i].text), SLICE(TOKEN)).canary, pairs[i].canary) != 0)
            fail_msg("%s: %s", pairs[i].name, hit.canary);
        scan_free(c);
    }
}

/* The last character of an encoding has bits of what comes next; where the text ends before it, so does the hit. */
static void test_a_hit_ends_with_the_text(void **state)
{
    struct fixture *f = *state;
    struct buf encoded = {0};
    struct slice cut;
    struct hit hit;

    text_base64(&encoded, SLICE(SECRET));
    cut = slice_cut(buf_slice(&encoded), 0, strlen(SECRET) * 8 / 6);
    hit = scanner_text(f->scanner, cut);
    assert_true(hit.found);
    assert_int_equal(hit.to, cut.len);
    buf_free(&encoded);
}

static void test_hit_stays(void **state)
{
    const struct fixture *f = *state;
    struct scan *c = scan_start(f->scanner, SLICE(""));
    uint64_t safe;
    struct hit first = scan_feed(c, SLICE("x" SECRET), &safe), later;

    assert_true(first.found);
    later = scan_feed(c, SLICE("and so on, much longer than anything that would be held back at any time: "
                               "................................................................"), &safe);
    assert_true(later.found && later.from == first.from && safe <= 1);
    later = scan_finish(c, &safe);
    assert_true(later.found && later.from == first.from && safe <= 1);
    scan_free(c);
}

/* A scan from the pool starts anew: the front of a secret in one stream and its rest in the next is no match. */
static void test_scans_forget(void **state)
{
    const struct fixture *f = *state;
    uint64_t safe;

    for (int i = 0; i < 3; i++) {
        struct scan *c = scan_start(f->scanner, SLICE(TOKEN));

        assert_false(scan_feed(c, SLICE("N2vLk9HsYd.....cUe8pJd6aFgViOo1X"), &safe).found);
        assert_false(scan_feed(c, SLICE("kLm9ZsRw4cUe"), &safe).found);
        assert_false(scan_feed(c, SLICE("npm_q7Zt0WmXc4Rb"), &safe).found);
        scan_free(c);
    }
}

static void test_several_at_once(void **state)
{
    const struct fixture *f = *state;
    struct scan *c[300];
    uint64_t safe;

    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 300; i++) {
            c[i] = scan_start(f->scanner, SLICE(""));
            assert_false(scan_feed(c[i], SLICE("npm_q7Zt0WmXc4"), &safe).found);
        }
        for (size_t i = 0; i < 300; i++) {
            struct slice rest = i % 2 ? SLICE("RbN2vLk9HsYd") : SLICE("RbN2vLk9HsYe");

            assert_int_equal(scan_feed(c[i], rest, &safe).found, i % 2);
            scan_free(c[i]);
        }
    }
}

/* Runs of the signature that are as long as one must be, wherever they lie in the stream. */
enum { RUN = 24, PLACES = 40 };

static void fill(struct buf *text, size_t n)
{
    while (n--)
        buf_char(text, '.');
}

static void a_pause_looks_at_all_that_came(void **state)
{
    struct fixture *f = *state;

    for (size_t before = 0; before < PLACES; before++) {
        struct scan *c = scan_start(f->scanner, SLICE(TOKEN));
        struct buf text = {0};
        uint64_t safe;

        fill(&text, before);
        buf_append(&text, slice_cut(SLICE(SIGNATURE), 7, 7 + RUN));
        scan_feed(c, buf_slice(&text), &safe);
        if (!scan_pause(c, &safe).found || safe > before)
            fail_msg("behind %zu bytes: not found, or %llu safe", before, (unsigned long long)safe);
        scan_free(c);
        buf_free(&text);
    }
}

/* With a pause after each first n bytes of the run: what was looked at early is looked at again. */
static void a_pause_forgets_nothing(void **state)
{
    struct fixture *f = *state;

    for (size_t at = 0; at < PLACES * RUN; at++) {
        size_t before = at / RUN, n = at % RUN;
        struct scan *c = scan_start(f->scanner, SLICE(TOKEN));
        struct buf text = {0};
        uint64_t safe;

        fill(&text, before);
        buf_append(&text, slice_cut(SLICE(SIGNATURE), 7, 7 + n));
        assert_false(scan_feed(c, buf_slice(&text), &safe).found);
        assert_false(scan_pause(c, &safe).found);
        assert_int_equal(safe, before + n);
        scan_feed(c, slice_cut(SLICE(SIGNATURE), 7 + n, 7 + RUN), &safe);
        if (!scan_pause(c, &safe).found || safe != before + n)
            fail_msg("behind %zu bytes, after %zu of the run: not found, or %llu safe", before, n, (unsigned long long)safe);
        scan_free(c);
        buf_free(&text);
    }
}

/* What is safe once stays so; a canary over a pause is found where it ends, and nothing of the second part goes. */
static void a_canary_over_a_pause(void **state)
{
    struct fixture *f = *state;

    for (size_t n = 0; n < sizeof SECRET - 1; n++) {
        struct scan *c = scan_start(f->scanner, SLICE(""));
        uint64_t safe;

        scan_feed(c, slice_cut(SLICE(SECRET), 0, n), &safe);
        assert_false(scan_pause(c, &safe).found);
        assert_int_equal(safe, n);
        assert_false(scan_feed(c, slice_cut(SLICE(SECRET), n, sizeof SECRET - 2), &safe).found);
        assert_int_equal(safe, n);
        assert_true(scan_feed(c, slice_from(SLICE(SECRET), sizeof SECRET - 2), &safe).found);
        assert_true(scan_pause(c, &safe).found);
        assert_int_equal(safe, n);
        scan_free(c);
    }
}

static void test_token_apart_from_others(void **state)
{
    const struct fixture *f = *state;
    struct slice other = SLICE("eyJ.eyJ.0123456789abcdefghijABCDEFGHIJ0123456789abcd");
    struct slice text = SLICE("0123456789abcdefghijABCDEFGHIJ0123456789abcd");

    for (int i = 0; i < 3; i++) {
        assert_true(scanner_text_with(f->scanner, text, other).found);
        assert_false(scanner_text_with(f->scanner, text, SLICE(TOKEN)).found);
        assert_false(scanner_text_with(f->scanner, text, SLICE("")).found);
        assert_false(scanner_text_with(f->scanner, text, SLICE("too.short")).found);
        assert_false(scanner_text(f->scanner, text).found);
    }
}

static void test_no_canaries(void **state)
{
    struct registry *r = registry_new();
    struct scanner *s = scanner_new(r, NULL);
    struct scan *c = scan_start(s, SLICE(""));
    uint64_t safe;

    (void)state;
    assert_false(scanner_text(s, SLICE(SECRET)).found);
    assert_false(scan_feed(c, SLICE(SECRET), &safe).found);
    assert_int_equal(safe, strlen(SECRET)); /* nothing to wait for */
    scan_free(c);
    c = scan_start(s, SLICE(TOKEN));
    assert_true(scan_feed(c, SLICE(SIGNATURE), &safe).found);
    assert_int_equal(safe, 0);
    scan_free(c);
    scanner_free(s);
    registry_free(r);
}

static void test_empty_stream(void **state)
{
    const struct fixture *f = *state;
    struct scan *c = scan_start(f->scanner, SLICE(TOKEN));
    uint64_t safe = 9;

    assert_false(scan_feed(c, SLICE(""), &safe).found);
    assert_int_equal(safe, 0);
    assert_false(scan_finish(c, &safe).found);
    assert_int_equal(safe, 0);
    scan_free(c);
}

static void test_hundred_each_found(void **state)
{
    const struct fixture *f = *state;

    for (size_t i = 0; i < registry_count(f->registry); i++)
        for (size_t at = 0; at < 3; at++)
            for (int shape = 0; shape < 2; shape++) {
                const struct canary *c = registry_get(f->registry, i);
                struct buf plain = {0}, text = {0};
                struct hit hit;

                buf_append(&plain, slice_make("abc", at));
                buf_append(&plain, slice_make(c->value, c->value_len));
                if (shape)
                    text_base64(&text, buf_slice(&plain));
                else
                    buf_append(&text, buf_slice(&plain));
                hit = scanner_text(f->scanner, buf_slice(&text));
                assert_true(hit.found);
                assert_string_equal(hit.canary, c->id);
                assert_int_equal(hit.from, shape ? at * 8 / 6 : at);
                assert_true(hit.to <= buf_len(&text));
                buf_free(&plain);
                buf_free(&text);
            }
}

/* 10 MB that nobody planted anything in: bytes, then base64 characters, in pieces of many sizes. */
static void test_random_data_is_clean(void **state)
{
    const struct fixture *f = *state;
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char bytes[5000000];

    for (int letters = 0; letters < 2; letters++) {
        struct scan *c = scan_start(f->scanner, SLICE(TOKEN));
        uint64_t x = 88172645463325252, safe;

        for (size_t i = 0; i < sizeof bytes; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            bytes[i] = letters ? alphabet[x >> 58] : (char)(x >> 56);
        }
        for (size_t at = 0, size = 1; at < sizeof bytes; at += size, size = size * 3 % 16411)
            assert_false(scan_feed(c, slice_cut(slice_make(bytes, sizeof bytes), at, at + size), &safe).found);
        assert_false(scan_finish(c, &safe).found);
        assert_int_equal(safe, sizeof bytes);
        scan_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_texts, with_two, drop),
        cmocka_unit_test_setup_teardown(test_every_split_in_two_and_three, with_two, drop),
        cmocka_unit_test_setup_teardown(test_every_piece_size, with_two, drop),
        cmocka_unit_test_setup_teardown(test_every_split_in_two_and_three, with_none, drop),
        cmocka_unit_test_setup_teardown(test_every_piece_size, with_none, drop),
        cmocka_unit_test_setup_teardown(test_of_two_the_first_is_told, with_two, drop),
        cmocka_unit_test_setup_teardown(test_a_hit_ends_with_the_text, with_two, drop),
        cmocka_unit_test_setup_teardown(test_hit_stays, with_two, drop),
        cmocka_unit_test_setup_teardown(test_scans_forget, with_two, drop),
        cmocka_unit_test_setup_teardown(test_several_at_once, with_two, drop),
        cmocka_unit_test_setup_teardown(test_token_apart_from_others, with_two, drop),
        cmocka_unit_test_setup_teardown(a_pause_looks_at_all_that_came, with_two, drop),
        cmocka_unit_test_setup_teardown(a_pause_forgets_nothing, with_two, drop),
        cmocka_unit_test_setup_teardown(a_canary_over_a_pause, with_two, drop),
        cmocka_unit_test(test_no_canaries),
        cmocka_unit_test_setup_teardown(test_empty_stream, with_two, drop),
        cmocka_unit_test_setup_teardown(test_hundred_each_found, with_hundred, drop),
        cmocka_unit_test_setup_teardown(test_random_data_is_clean, with_hundred, drop),
    };

    return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
