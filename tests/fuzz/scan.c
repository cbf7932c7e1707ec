/*
 * Canaries under libFuzzer: registries as files, gzip as it comes, and the scanner. The first byte picks which. A planted
 * canary is found in every encoding, at every place, however the bytes are cut; whole and in pieces the same is found; and nothing
 * of what is found was ever called safe.
 */
#include "base/text.h"
#include "canary/gzip.h"
#include "canary/scan.h"
#include "tests/fuzz/lib/fuzz.h"

#define CANARY "npm_q7Rz2LkVw9TbXc4MnH8sJd5Fg1Yp"
#define ODD "\xc3\xbf\xc3\xbe?>~?>~?>~0123456789ABCDEFGHIJKL"
#define SIGNATURE "h0Qx3vN7bYt2kLm9ZsRw4cUe8pJd6aFgViOo1XyTqBnKlMzEuHrGj5WPSCDf-_AaIIbRt7Yw2qZx4Nc8Vb1Lm3"
#define TOKEN "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJjaSIsInN1YiI6InZtMSJ9." SIGNATURE

enum { GZIP_MOST = 1 << 20 };

static struct scanner *known(void)
{
    static const char json[] =
        "{\"schema\":\"exeat.canaries/1\",\"canaries\":["
        "{\"id\":\"c1\",\"kind\":\"npm\",\"sandbox\":\"\",\"value\":\"" CANARY "\",\"random_from\":4,"
        "\"random_len\":28,\"created\":\"2026-01-02T03:04:05Z\"},"
        "{\"id\":\"c2\",\"kind\":\"odd\",\"sandbox\":\"\",\"value\":\"\\u00ff\\u00fe?>~?>~?>~0123456789ABCDEFGHIJKL\","
        "\"random_from\":13,\"random_len\":22,\"created\":\"2026-01-02T03:04:05Z\"}]}";
    static struct scanner *scanner;
    static struct registry *registry;

    if (!scanner) {
        registry = registry_parse(slice_of(json), "known", NULL);
        assert(registry);
        scanner = scanner_new(registry, NULL);
        assert(scanner);
    }
    return scanner;
}

/* ---- registries ---- */

static void read_registry(struct slice json)
{
    struct registry *r = registry_parse(json, "canaries.json", NULL), *again;
    struct buf first = {0}, second = {0};

    if (!r)
        return;
    registry_json(r, &first);
    again = registry_parse(buf_slice(&first), "canaries.json", NULL);
    assert(again && registry_count(again) == registry_count(r));
    registry_json(again, &second);
    assert(slice_equals(buf_slice(&first), buf_slice(&second)));
    buf_free(&first);
    buf_free(&second);
    registry_free(again);
    registry_free(r);
}

static void open_gzip(struct slice packed)
{
    struct buf out = {0};

    if (gzip_open(packed, GZIP_MOST, &out))
        assert(buf_len(&out) <= GZIP_MOST);
    buf_free(&out);
}

/* ---- scans ---- */

/* All of text, in pieces when seed is not 0. What is safe never shrinks, and never reaches into what is found. */
static struct hit scan_all(struct slice text, struct slice token, unsigned seed)
{
    struct scan *c = scan_start(known(), token);
    uint64_t safe = 0, before = 0, fed = 0;
    struct hit hit = {0};

    while (text.len && !hit.found) {
        struct slice piece = slice_cut(text, 0, seed ? fuzz_cut(&seed, 40) : text.len);

        hit = scan_feed(c, piece, &safe);
        fed += piece.len;
        assert(safe >= before && safe <= fed && (hit.found || fed - safe <= scan_hold(c)));
        before = safe;
        text = slice_from(text, piece.len);
    }
    if (!hit.found)
        hit = scan_finish(c, &safe);
    assert(safe >= before && (hit.found ? safe <= hit.from : safe == fed));
    scan_free(c);
    return hit;
}

/* A stream is stopped at the first thing that is complete; so a whole text may tell of another one. */
static struct hit scan_both(struct slice text, struct slice token, unsigned seed)
{
    struct hit whole = scan_all(text, token, 0), pieces = scan_all(text, token, seed);
    struct hit text_hit = scanner_text_with(known(), text, token);

    assert(whole.found == pieces.found && text_hit.found == whole.found);
    if (whole.found)
        assert(pieces.to <= text.len && pieces.from < pieces.to && text_hit.to <= text.len);
    return whole;
}

/* As somebody would hide it. */
static void put_encoded(struct buf *out, struct slice secret, struct slice around, uint8_t how)
{
    struct buf plain = {0};
    struct slice before = slice_cut(around, 0, how / 4 % 8u);

    buf_append(&plain, how % 4 ? before : slice_make("", 0));
    buf_append(&plain, secret);
    if (how % 4)
        buf_append(&plain, slice_from(around, before.len));
    if (how % 4 == 0)
        buf_append(out, secret);
    else
        (how % 4 == 1 ? text_base64 : how % 4 == 2 ? text_base64url : text_hex)(out, buf_slice(&plain));
    buf_free(&plain);
}

static void plant(struct slice input)
{
    static const struct slice secrets[] = {{CANARY, sizeof CANARY - 1}, {ODD, sizeof ODD - 1}};
    uint8_t how = fuzz_byte(&input), seed = fuzz_byte(&input), split = fuzz_byte(&input);
    struct slice before = fuzz_take(&input, split), around = fuzz_take(&input, how % 16u);
    struct buf text = {0};

    buf_append(&text, before);
    put_encoded(&text, secrets[how / 32 % 2], around, how);
    buf_append(&text, input);
    assert(scan_both(buf_slice(&text), slice_make("", 0), 1u + seed).found);
    buf_free(&text);
}

static void plant_token(struct slice input)
{
    uint8_t seed = fuzz_byte(&input), from = fuzz_byte(&input), split = fuzz_byte(&input);
    struct slice before = fuzz_take(&input, split);
    struct buf text = {0};

    buf_append(&text, before);
    buf_append(&text, slice_cut(SLICE(SIGNATURE), from % 60u, from % 60u + 24));
    buf_append(&text, input);
    assert(scan_both(buf_slice(&text), SLICE(TOKEN), 1u + seed).found);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    uint8_t seed;

    switch (fuzz_byte(&input) % 5) {
    case 0:
        read_registry(input);
        break;
    case 1:
        open_gzip(input);
        break;
    case 2:
        seed = fuzz_byte(&input);
        scan_both(input, SLICE(TOKEN), 1u + seed);
        break;
    case 3:
        plant(input);
        break;
    default:
        plant_token(input);
    }
    return 0;
}
