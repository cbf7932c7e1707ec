/*
 * What exeat-relay takes for the ends of heads, where it adds tokens, under libFuzzer: however the bytes are cut, it is the same;
 * and the gateway's own parser finds heads that end at the same places, or has refused the bytes before. The first byte says what the
 * gateway answers to a switch, the second seeds the cuts, the rest is what the client says.
 */
#include "tests/fuzz/lib/fuzz.h"

#include "net/head.h"
#include "sandbox/reply.h"
#include "sandbox/scanner.h"

enum { ENDS_MOST = 512 };

struct ends {
    size_t at[ENDS_MOST];
    size_t n;
    size_t passed;          /* bytes that may pass */
    size_t blind;           /* where it stopped looking; SIZE_MAX: nowhere */
    enum scan_event last;
};

static void note(struct ends *e, size_t at)
{
    if (e->n < ENDS_MOST)
        e->at[e->n++] = at;
}

/* One piece, to its end. False: it is over. */
static bool feed(struct scanner *s, const unsigned char *bytes, size_t n, bool yes, struct ends *e)
{
    size_t used = 0;

    while (used < n) {
        size_t went = scanner_feed(s, bytes + used, n - used, &e->last);

        used += went;
        e->passed += went;
        assert(used <= n && e->last <= SCAN_BAD);
        if (e->last == SCAN_TOKEN)
            note(e, e->passed + 2);
        if (e->last == SCAN_SWITCH) {
            if (yes && e->blind == SIZE_MAX)
                e->blind = e->passed;
            scanner_switch(s, yes);
        }
        if (e->last == SCAN_BAD || e->last == SCAN_LARGE)
            return false;
        assert(e->last != SCAN_MORE || used == n);
    }
    return true;
}

static void scan(struct slice input, unsigned seed, bool yes, struct ends *e)
{
    struct scanner s;

    *e = (struct ends){.blind = SIZE_MAX};
    scanner_init(&s);
    while (input.len) {
        size_t n = seed ? fuzz_cut(&seed, 16) : input.len;
        struct slice piece = fuzz_take(&input, n);

        if (!feed(&s, (const unsigned char *)piece.ptr, piece.len, yes, e))
            return;
    }
}

/* Where the gateway sees heads end, up to what it refuses (*bad) or to where it stops reading heads. */
static void read_heads(struct slice input, size_t most, struct ends *e, bool *bad)
{
    static const struct message_limits limits = {.head = SCAN_HEAD_MAX, .target = SCAN_HEAD_MAX, .n_fields = 10000};
    struct message *m = message_new(MESSAGE_REQUEST, &limits);
    size_t at = 0;
    bool more = true;

    *bad = false;
    while (more && at < most && e->n < ENDS_MOST) {
        size_t used = 0;
        enum message_event event = message_feed(m, slice_from(input, at), &used, NULL);

        at += used;
        if (event == MESSAGE_HEAD)
            note(e, at);
        if (event == MESSAGE_END)
            message_reset(m);
        *bad = event == MESSAGE_BAD;
        more = event != MESSAGE_BAD && event != MESSAGE_MORE;
    }
    e->passed = at;
    message_free(m);
}

static bool has(const struct ends *e, size_t at)
{
    for (size_t i = 0; i < e->n; i++)
        if (e->at[i] == at)
            return true;
    return false;
}

static void compare(struct slice input, const struct ends *ours)
{
    struct ends theirs = {0};
    bool bad;

    read_heads(input, ours->blind, &theirs, &bad);
    if (theirs.n == ENDS_MOST)
        return;
    for (size_t i = 0; i < ours->n; i++) /* at the input's end the empty line may not be whole */
        assert(ours->at[i] > input.len || bad || has(&theirs, ours->at[i]));
    if (!bad)
        return;
    for (size_t i = 0; i + 1 < theirs.n && i + 1 < ours->n; i++) /* before what was refused they agree, too */
        assert(has(&theirs, ours->at[i]) || ours->at[i] > theirs.at[theirs.n - 1]);
}

/* The same answer however it is cut. */
static void check_reply(struct slice input, unsigned seed)
{
    struct reply whole = {.connect = seed & 1}, pieces = whole;
    enum reply_says says = reply_feed(&whole, (const unsigned char *)input.ptr, input.len), cut = REPLY_NOT_YET;

    while (input.len && cut == REPLY_NOT_YET) {
        struct slice piece = fuzz_take(&input, fuzz_cut(&seed, 8));

        cut = reply_feed(&pieces, (const unsigned char *)piece.ptr, piece.len);
    }
    assert(cut == says);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    static struct ends whole, pieces;
    bool yes = fuzz_byte(&input) & 1;
    unsigned seed = 1u + fuzz_byte(&input);

    scan(input, 0, yes, &whole);
    scan(input, seed, yes, &pieces);
    assert(whole.n == pieces.n && whole.passed == pieces.passed && whole.blind == pieces.blind && whole.last == pieces.last);
    assert(memcmp(whole.at, pieces.at, whole.n * sizeof *whole.at) == 0);
    compare(input, &whole);
    check_reply(input, seed);
    return 0;
}
