/* Counts over several workers: each a tally of its own over the same shared pages, as processes would have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/pace.h"
#include "proxy/quota.h"

enum { WORKERS = 3, LATER = 1000 };

static const unsigned char secret[16] = "of this gateway";

struct house {
    int fds[WORKERS];
    struct tally *tallies[WORKERS];
};

static struct tally *open_tally(const struct house *h, int self)
{
    struct tally *t = tally_new();
    struct fault why = {0};

    assert_true(tally_own(t, h->fds[self], &why));
    for (int i = 0; i < WORKERS; i++)
        if (i != self)
            assert_true(tally_add(t, h->fds[i], &why));
    return t;
}

/* Parties and their tallies live as long as their worker: here, too, until the program ends. */
enum { KEPT = 64 };

static struct house houses[KEPT];
static struct parties *kept[KEPT];
static size_t n_houses, n_kept;

static struct parties *keep(struct parties *ps)
{
    assert_true(n_kept < KEPT);
    return kept[n_kept++] = ps;
}

static struct house begin(void)
{
    struct house h;
    struct fault why = {0};

    for (int i = 0; i < WORKERS; i++)
        assert_true((h.fds[i] = tally_create(secret, &why)) >= 0);
    for (int i = 0; i < WORKERS; i++)
        h.tallies[i] = open_tally(&h, i);
    assert_true(n_houses < KEPT);
    return houses[n_houses++] = h;
}

static void end(struct house *h)
{
    for (int i = 0; i < WORKERS; i++) {
        tally_free(h->tallies[i]);
        close(h->fds[i]);
    }
}

static void test_held_by_all(void **state)
{
    struct house h = begin();
    struct tally_seat *a0 = tally_sit(h.tallies[0], TALLY_SANDBOX, SLICE("a")), *a1, *b1;

    (void)state;
    tally_hold(a0, HOLD_EXCHANGES, 3);
    assert_int_equal(tally_held(a0, HOLD_EXCHANGES, 1), 3);
    a1 = tally_sit(h.tallies[1], TALLY_SANDBOX, SLICE("a"));
    b1 = tally_sit(h.tallies[1], TALLY_SANDBOX, SLICE("b"));
    tally_hold(a1, HOLD_EXCHANGES, 2);
    assert_int_equal(tally_held(a1, HOLD_EXCHANGES, 1), 5);
    assert_int_equal(tally_held_here(a1, HOLD_EXCHANGES), 2);
    assert_int_equal(tally_held(b1, HOLD_EXCHANGES, 1), 0);
    assert_int_equal(tally_held(a1, HOLD_DIALS, 1), 0);
    assert_int_equal(tally_held(a0, HOLD_EXCHANGES, LATER), 5); /* it had looked before a came to the other worker */
    tally_hold(a0, HOLD_EXCHANGES, -3);
    assert_int_equal(tally_held(a1, HOLD_EXCHANGES, 2), 2); /* at once */
    tally_leave(a0);
    tally_leave(a1);
    tally_leave(b1);
    end(&h);
}

static void test_kinds_are_apart(void **state)
{
    struct house h = begin();
    struct tally_seat *sandbox = tally_sit(h.tallies[0], TALLY_SANDBOX, SLICE("10.0.0.1"));
    struct tally_seat *source = tally_sit(h.tallies[1], TALLY_SOURCE, SLICE("10.0.0.1"));

    (void)state;
    tally_hold(sandbox, HOLD_CONNECTIONS, 1);
    assert_int_equal(tally_held(source, HOLD_CONNECTIONS, LATER), 0);
    tally_refresh(h.tallies[2], LATER);
    tally_hold(source, HOLD_CONNECTIONS, 1);
    tally_refresh(h.tallies[2], LATER);
    assert_int_equal(tally_active(h.tallies[2], TALLY_SANDBOX), 1);
    assert_int_equal(tally_active(h.tallies[2], TALLY_SOURCE), 1);
    tally_leave(sandbox);
    tally_leave(source);
    end(&h);
}

static void test_paces_of_all(void **state)
{
    struct house h = begin();
    struct tally_seat *a0 = tally_sit(h.tallies[0], TALLY_SANDBOX, SLICE("a"));
    struct tally_seat *a2 = tally_sit(h.tallies[2], TALLY_SANDBOX, SLICE("a"));
    int64_t now = 60 * 60 * 1000;

    (void)state;
    tally_add_pace(a0, PACE_DENIALS, now, 4);
    tally_add_pace(a2, PACE_DENIALS, now, 5);
    assert_int_equal(tally_paced(a0, PACE_DENIALS, now), 9);
    assert_int_equal(tally_paced(a0, PACE_BYTES, now), 0);
    assert_false(tally_is_idle(a0, now));
    assert_int_equal(tally_paced(a2, PACE_DENIALS, now + 2 * tally_window_ms(PACE_DENIALS)), 0);
    assert_true(tally_is_idle(a0, now + 2 * tally_window_ms(PACE_DENIALS)));
    tally_leave(a0);
    tally_leave(a2);
    end(&h);
}

/* Who left and comes back is not new; a worker that died holds nothing, and what it counted still counts. */
static void test_coming_back(void **state)
{
    struct house h = begin();
    struct tally_seat *a0 = tally_sit(h.tallies[0], TALLY_SANDBOX, SLICE("a")), *a1;
    int64_t now = 5000;

    (void)state;
    tally_add_pace(a0, PACE_NAMES, now, 7);
    tally_leave(a0);
    tally_refresh(h.tallies[0], now);
    a0 = tally_sit(h.tallies[0], TALLY_SANDBOX, SLICE("a"));
    assert_int_equal(tally_paced(a0, PACE_NAMES, now), 7);
    tally_hold(a0, HOLD_CONNECTIONS, 9);
    a1 = tally_sit(h.tallies[1], TALLY_SANDBOX, SLICE("a"));
    assert_int_equal(tally_held(a1, HOLD_CONNECTIONS, now), 9);
    free(a0);
    tally_free(h.tallies[0]); /* it died */
    h.tallies[0] = open_tally(&h, 0);
    assert_int_equal(tally_held(a1, HOLD_CONNECTIONS, now), 0);
    assert_int_equal(tally_paced(a1, PACE_NAMES, now), 7);
    tally_refresh(h.tallies[0], now + 3 * tally_window_ms(PACE_NAMES)); /* nobody sits there, nothing counts: free */
    assert_int_equal(tally_paced(a1, PACE_NAMES, now + LATER), 0);
    tally_leave(a1);
    end(&h);
}

static void test_active(void **state)
{
    struct house h = begin();
    struct tally_seat *seats[6];
    char name[8];

    (void)state;
    assert_int_equal(tally_active(h.tallies[0], TALLY_SANDBOX), 1); /* whoever asks */
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "s%d", i / 2); /* each on two workers */
        seats[i] = tally_sit(h.tallies[i % 2], TALLY_SANDBOX, slice_of(name));
        tally_hold(seats[i], HOLD_CONNECTIONS, 1);
    }
    tally_refresh(h.tallies[2], 1);
    assert_int_equal(tally_active(h.tallies[2], TALLY_SANDBOX), 3);
    tally_hold(seats[0], HOLD_CONNECTIONS, -1);
    tally_refresh(h.tallies[2], 1);
    assert_int_equal(tally_active(h.tallies[2], TALLY_SANDBOX), 3); /* still on the other worker */
    tally_hold(seats[1], HOLD_CONNECTIONS, -1);
    tally_refresh(h.tallies[2], 1);
    assert_int_equal(tally_active(h.tallies[2], TALLY_SANDBOX), 2);
    for (int i = 0; i < 6; i++)
        tally_leave(seats[i]);
    end(&h);
}

static void test_seen(void **state)
{
    struct house h = begin();
    struct tally_seat *a0 = tally_sit(h.tallies[0], TALLY_SANDBOX, SLICE("a"));
    struct tally_seat *a1 = tally_sit(h.tallies[1], TALLY_SANDBOX, SLICE("a"));
    struct tally_seat *b1 = tally_sit(h.tallies[1], TALLY_SANDBOX, SLICE("b"));
    int64_t hour = tally_window_ms(PACE_URLS), now = 10 * hour;

    (void)state;
    assert_false(tally_has_seen(a0, PACE_URLS, SLICE("h"), SLICE("/x"), now));
    assert_false(tally_has_seen(a0, PACE_URLS, SLICE("h"), SLICE("/x"), now)); /* asked is not noted */
    tally_note_seen(a0, PACE_URLS, SLICE("h"), SLICE("/x"), now);
    assert_true(tally_has_seen(a0, PACE_URLS, SLICE("h"), SLICE("/x"), now));
    assert_true(tally_has_seen(a1, PACE_URLS, SLICE("h"), SLICE("/x"), now)); /* at any worker */
    assert_false(tally_has_seen(b1, PACE_URLS, SLICE("h"), SLICE("/x"), now)); /* each for itself */
    assert_false(tally_has_seen(a0, PACE_NAMES, SLICE("h"), SLICE("/x"), now));
    assert_false(tally_has_seen(a0, PACE_URLS, SLICE("h2"), SLICE("/x"), now));
    assert_false(tally_has_seen(a0, PACE_URLS, SLICE("h"), SLICE("/y"), now));
    assert_true(tally_has_seen(a0, PACE_URLS, SLICE("h"), SLICE("/x"), now + hour)); /* used again: kept for another */
    assert_true(tally_has_seen(a0, PACE_URLS, SLICE("h"), SLICE("/x"), now + 2 * hour));
    assert_false(tally_has_seen(a0, PACE_URLS, SLICE("h"), SLICE("/x"), now + 5 * hour));
    tally_leave(a0);
    tally_leave(a1);
    tally_leave(b1);
    end(&h);
}

/* As many as the highest sandbox-urls, from four sandboxes: (nearly) none is forgotten. */
static void test_seen_many(void **state)
{
    struct house h = begin();
    struct tally_seat *s = tally_sit(h.tallies[0], TALLY_SANDBOX, SLICE("a"));
    unsigned forgotten = 0;
    char path[32];

    (void)state;
    for (unsigned i = 0; i < TALLY_SEEN_MAX / 4; i++) {
        snprintf(path, sizeof path, "/%u", i);
        tally_note_seen(s, PACE_URLS, SLICE("h"), slice_of(path), 1000);
    }
    for (unsigned i = 0; i < TALLY_SEEN_MAX / 4; i++) {
        snprintf(path, sizeof path, "/%u", i);
        forgotten += !tally_has_seen(s, PACE_URLS, SLICE("h"), slice_of(path), 1000);
    }
    assert_in_range(forgotten, 0, TALLY_SEEN_MAX / 4 / 1000);
    tally_leave(s);
    end(&h);
}

/* More principals than there are places: who finds none counts at this worker alone. */
static void test_no_place(void **state)
{
    struct house h = begin();
    struct tally_seat **seats = calloc(9000, sizeof *seats);
    char name[16];

    (void)state;
    for (int i = 0; i < 9000; i++) {
        snprintf(name, sizeof name, "s%d", i);
        seats[i] = tally_sit(h.tallies[0], TALLY_SOURCE, slice_of(name));
        tally_hold(seats[i], HOLD_CONNECTIONS, 1);
    }
    for (int i = 0; i < 9000; i++) {
        assert_int_equal(tally_held(seats[i], HOLD_CONNECTIONS, 1), 1);
        tally_leave(seats[i]);
    }
    free(seats);
    end(&h);
}

static void test_only_the_owner_writes(void **state)
{
    struct fault why = {0};
    struct tally *t = tally_new();
    int fd = tally_create(secret, &why), read_only, plain = memfd_create("plain", MFD_ALLOW_SEALING);
    char path[40];

    (void)state;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_true((read_only = open(path, O_RDONLY)) >= 0);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, read_only, 0), MAP_FAILED);
    assert_false(tally_own(t, read_only, &why));
    assert_true(tally_add(t, read_only, &why));
    assert_false(tally_add(t, plain, &why)); /* not sealed, not of this size */
    tally_free(t);
    close(fd);
    close(read_only);
    close(plain);
}

/* One that was taken over has its own pages; who has them next begins by what they were made with. */
static void test_what_was_written_over_the_head_ends_with_who_did(void **state)
{
    struct fault why = {0};
    struct tally *t = tally_new(), *other = tally_new();
    int fd = tally_create(secret, &why), own = tally_create(secret, &why);
    char bytes[24], head[24];

    (void)state;
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    memset(bytes, 0xfe, sizeof bytes);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_true(tally_own(other, own, &why));
    assert_true(tally_add(other, fd, &why)); /* its counts are read all the same */
    assert_false(tally_own(t, fd, &why));
    assert_true(tally_mend(fd, secret));
    assert_true(tally_own(t, fd, &why));
    assert_int_equal(pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_memory_equal(bytes, head, sizeof head);
    tally_free(t);
    tally_free(other);
    close(fd);
    close(own);
}

/* ---- parties and quotas over it ---- */

static struct party *sandbox(struct parties *ps, const char *name)
{
    struct identity_claims c = {.sandbox = name, .issuer = "https://i.test"};
    struct identity *i = identity_make(&c, NULL);
    struct party *p = parties_sandbox(ps, i);

    identity_unref(i);
    return p;
}

static struct party *source(struct parties *ps, const char *text)
{
    struct addr a;

    assert_true(addr_parse(slice_of(text), &a));
    return parties_source(ps, &a, "l");
}

static size_t n_told;
static char told_of[80];

static void on_sum(void *arg, const struct party *p, const struct sum *s)
{
    (void)arg;
    n_told += s->count;
    snprintf(told_of, sizeof told_of, "%s", p->name);
}

static void test_parties(void **state)
{
    struct house h = begin();
    struct parties *ps = keep(parties_new(h.tallies[0], lanes_new(NULL, 1, 1, 1, NULL), on_sum, NULL));
    struct party *a = sandbox(ps, "a"), *b = sandbox(ps, "b"), *a2 = sandbox(ps, "a");
    struct party *v4 = source(ps, "192.0.2.1:1"), *v4_other_port = source(ps, "192.0.2.1:2"), *v4_other = source(ps, "192.0.2.2:1");
    struct party *v6 = source(ps, "[2001:db8::1]:1"), *v6_same_64 = source(ps, "[2001:db8::ff:1]:1"),
                 *v6_other_64 = source(ps, "[2001:db8:0:1::1]:1");
    struct addr none = {0};
    struct party *l1 = parties_source(ps, &none, "vm1"), *l2 = parties_source(ps, &none, "vm2");

    (void)state;
    assert_ptr_equal(a, a2);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(v4, v4_other_port);
    assert_ptr_not_equal(v4, v4_other);
    assert_ptr_equal(v6, v6_same_64); /* who has one address of a /64 has all of it */
    assert_ptr_not_equal(v6, v6_other_64);
    assert_ptr_not_equal(l1, l2);
    assert_string_equal(v6->name, "2001:db8::/64");
    assert_int_equal(parties_count(ps), 8);
    tally_add_pace(a->seat, PACE_URLS, 1000, 1);
    party_unref(ps, a);
    party_unref(ps, a2);
    party_unref(ps, b);
    parties_tick(ps, 1000, false);
    assert_int_equal(parties_count(ps), 7); /* b did nothing; a is remembered while that counts */
    parties_tick(ps, 3 * tally_window_ms(PACE_URLS), false);
    assert_int_equal(parties_count(ps), 6);
}

/* A thousand connections of one sandbox hold its token once; nobody holds it when they are gone. */
static void test_who_shows_the_same_token_shares_it(void **state)
{
    struct house h = begin();
    struct parties *ps = keep(parties_new(h.tallies[0], lanes_new(NULL, 1, 1, 1, NULL), on_sum, NULL));
    struct party *a = sandbox(ps, "a"), *b = sandbox(ps, "b");
    struct secret *first = party_token(a, SLICE("one")), *same = party_token(a, SLICE("one")),
                  *newer = party_token(a, SLICE("two")), *of_b = party_token(b, SLICE("two"));

    (void)state;
    assert_ptr_equal(first, same);
    assert_ptr_not_equal(first, newer);
    assert_ptr_not_equal(newer, of_b);
    secret_free(first);
    assert_true(slice_is(secret_slice(same), "one")); /* its other holder still has it */
    assert_true(slice_is(secret_slice(newer), "two"));
    party_unref(ps, a);
    assert_null(a->token);
    assert_true(slice_is(secret_slice(newer), "two"));
    secret_free(same);
    secret_free(newer);
    secret_free(of_b);
    party_unref(ps, b);
}

static const struct limits limits = {
    .connections = 100, .sandbox_connections = 10, .source_connections = 5, .exchanges = 12, .sandbox_exchanges = 8,
    .dials = 8, .sandbox_dials = 6, .lookups = 8, .sandbox_lookups = 3, .handshakes = 8, .sandbox_handshakes = 4,
    .handshake_rate = 5, .failed_handshakes = 4, .records = 100, .sandbox_records = 30, .sandbox_denials = 7, .source_denials = 6,
    .sandbox_bytes = 1000, .sandbox_urls = 9, .sandbox_names = 2, .token_failures = 3,
};

enum { UNLIMITED = 100000 };

/* Who comes from many places is many parties: what was refused to one of them is told before it makes room. */
static void test_who_makes_room_takes_no_sum_along(void **state)
{
    struct house h = begin();
    struct parties *ps;
    struct party *first;
    struct id id = {0};
    char text[40];

    (void)state;
    ps = keep(parties_new(h.tallies[0], lanes_new(NULL, 1, 1, 1, NULL), on_sum, NULL));
    first = source(ps, "192.0.2.1:1");
    sums_add(&first->sums, REASON_TOKEN_FAILURES, "", 1000, 1, &id);
    sums_add(&first->sums, REASON_TOKEN_FAILURES, "", 1000, 1, &id);
    party_unref(ps, first);
    n_told = 0;
    for (int i = 0; i <= PARTIES_MAX; i++) {
        snprintf(text, sizeof text, "10.0.%d.%d:1", i / 256, i % 256);
        party_unref(ps, source(ps, text));
    }
    assert_int_equal(parties_count(ps), PARTIES_MAX);
    assert_int_equal(n_told, 1);
    assert_string_equal(told_of, "192.0.2.1");
    end(&h);
}

/* How many one party gets before it is refused: alone, and with one other active. */
static const struct quota_row {
    const char *name;
    enum tally_kind kind;
    int what; /* a hold, or N_HOLDS + a pace */
    int alone, beside;
    enum reason reason;
    const char *detail, *detail_beside;
} quota_rows[] = {
    {"connections of a sandbox", TALLY_SANDBOX, HOLD_CONNECTIONS, 10, 10, REASON_LIMIT_CONNECTIONS,
     "10 of 10, limits.sandbox-connections", NULL},
    {"connections of a source", TALLY_SOURCE, HOLD_CONNECTIONS, 5, 5, REASON_LIMIT_CONNECTIONS,
     "5 of 5, limits.source-connections", NULL},
    {"exchanges: a share of all", TALLY_SANDBOX, HOLD_EXCHANGES, 6, 4, REASON_LIMIT_EXCHANGES,
     "6 of a share of 6: limits.exchanges among 1 active and one more",
     "4 of a share of 4: limits.exchanges among 2 active and one more"},
    {"exchanges of a source are not limited", TALLY_SOURCE, HOLD_EXCHANGES, UNLIMITED, UNLIMITED, REASON_NONE, NULL, NULL},
    {"dials", TALLY_SANDBOX, HOLD_DIALS, 4, 2, REASON_LIMIT_DIALS, NULL, NULL},
    {"look-ups", TALLY_SANDBOX, HOLD_LOOKUPS, 3, 2, REASON_LIMIT_LOOKUPS, "3 of 3, limits.sandbox-lookups",
     "2 of a share of 2: limits.lookups among 2 active and one more"},
    {"handshakes", TALLY_SANDBOX, HOLD_HANDSHAKES, 4, 2, REASON_LIMIT_HANDSHAKES, NULL, NULL},
    {"records: in 10 s", TALLY_SANDBOX, N_HOLDS + PACE_RECORDS, 300, 300, REASON_LIMIT_RECORDS,
     "300 of 300 in 10 s, limits.sandbox-records", NULL},
    {"denials of a sandbox", TALLY_SANDBOX, N_HOLDS + PACE_DENIALS, 7, 7, REASON_LIMIT_DENIALS, NULL, NULL},
    {"denials of a source", TALLY_SOURCE, N_HOLDS + PACE_DENIALS, 6, 6, REASON_LIMIT_DENIALS, NULL, NULL},
    {"handshakes a second", TALLY_SANDBOX, N_HOLDS + PACE_HANDSHAKES, 5, 5, REASON_LIMIT_HANDSHAKES,
     "5 of 5, limits.handshake-rate", NULL},
    {"failed handshakes of a sandbox", TALLY_SANDBOX, N_HOLDS + PACE_FAILED_HANDSHAKES, 4, 4, REASON_LIMIT_HANDSHAKES, NULL,
     NULL},
    {"failed handshakes of a source", TALLY_SOURCE, N_HOLDS + PACE_FAILED_HANDSHAKES, 4, 4, REASON_LIMIT_HANDSHAKES, NULL,
     NULL},
    {"junk tokens of a source", TALLY_SOURCE, N_HOLDS + PACE_JUNK_TOKENS, 3, 3, REASON_TOKEN_FAILURES, NULL, NULL},
    {"bytes", TALLY_SANDBOX, N_HOLDS + PACE_BYTES, 1000, 1000, REASON_LIMIT_BYTES, NULL, NULL},
    {"URLs", TALLY_SANDBOX, N_HOLDS + PACE_URLS, 9, 9, REASON_LIMIT_URLS, NULL, NULL},
    {"names", TALLY_SANDBOX, N_HOLDS + PACE_NAMES, 2, 2, REASON_LIMIT_NAMES, "2 of 2, limits.sandbox-names", NULL},
};

static bool may(const struct quota *q, struct party *p, int what, struct verdict *v)
{
    return what < N_HOLDS ? quota_room(q, p, (enum tally_hold)what, 5000, v)
                          : quota_pace(q, p, (enum tally_pace)(what - N_HOLDS), 1, 5000, v);
}

static int take_all(const struct quota *q, struct party *p, int what, struct verdict *v)
{
    int n = 0;

    while (n < UNLIMITED && may(q, p, what, v)) {
        if (what < N_HOLDS)
            tally_hold(p->seat, (enum tally_hold)what, 1);
        else
            tally_add_pace(p->seat, (enum tally_pace)(what - N_HOLDS), 5000, 1);
        n++;
    }
    return n;
}

static void check_quota(const struct quota_row *r, bool beside)
{
    struct house h = begin();
    struct parties *ps = keep(parties_new(h.tallies[0], lanes_new(NULL, 1, 1, 1, NULL), on_sum, NULL));
    struct quota q = {&limits, h.tallies[0], 1};
    struct party *p = r->kind == TALLY_SANDBOX ? sandbox(ps, "a") : source(ps, "192.0.2.1:1");
    struct tally_seat *other = tally_sit(h.tallies[1], r->kind, SLICE("another"));
    struct verdict v = {.reason = REASON_NONE};
    const char *detail = beside && r->detail_beside ? r->detail_beside : r->detail;
    int n;

    tally_hold(p->seat, HOLD_CONNECTIONS, r->what == HOLD_CONNECTIONS ? 0 : 1); /* active */
    tally_hold(other, HOLD_CONNECTIONS, beside ? 1 : 0);
    tally_refresh(h.tallies[0], 5000);
    n = take_all(&q, p, r->what, &v);
    if (n != (beside ? r->beside : r->alone) || v.reason != r->reason)
        fail_msg("%s%s: %d, %s", r->name, beside ? " beside another" : "", n, reason_code(v.reason));
    if (r->reason && (v.retry_ms < 1 || reason_get(v.reason)->status != 429))
        fail_msg("%s: no 429 with a time", r->name);
    if (detail && strcmp(detail, v.detail) != 0)
        fail_msg("%s: %s", r->name, v.detail);
    party_unref(ps, p);
    tally_leave(other);
    end(&h);
}

static void test_quota(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof quota_rows / sizeof *quota_rows; i++) {
        check_quota(&quota_rows[i], false);
        check_quota(&quota_rows[i], true);
    }
}

/* ---- sums ---- */

static void test_sums(void **state)
{
    struct sums s = {0};
    struct id first = id_new(1), second = id_new(2), third = id_new(3);
    struct id given = second;
    const struct sum *sum;

    (void)state;
    assert_true(sums_add(&s, REASON_LIMIT_URLS, "5 of 5", 1000, 10, &first)); /* recorded for itself */
    assert_null(sums_next(&s, 1000, false));
    assert_false(sums_add(&s, REASON_LIMIT_URLS, "x", 2000, 11, &given));
    assert_memory_equal(given.bytes, first.bytes, sizeof first.bytes);
    assert_false(sums_add(&s, REASON_LIMIT_URLS, "x", 3000, 12, &given));
    assert_true(sums_add(&s, REASON_LIMIT_NAMES, "", 3000, 12, &third)); /* another reason, another sum */
    assert_null(sums_next(&s, 10999, false));
    assert_non_null(sum = sums_next(&s, 11000, false));
    assert_true(sum->reason == REASON_LIMIT_URLS && sum->count == 2 && sum->first_s == 11 && sum->last_s == 12);
    assert_string_equal(sum->detail, "5 of 5");
    assert_null(sums_next(&s, 11000, false));
    assert_false(sums_add(&s, REASON_LIMIT_URLS, "x", 12000, 21, &given)); /* it goes on: under the same id */
    assert_non_null(sum = sums_next(&s, 21000, false));
    assert_true(sum->count == 1 && sum->first_s == 21);
    assert_null(sums_next(&s, 31000, false)); /* quiet for a while ... */
    assert_true(sums_are_empty(&s));
    assert_true(sums_add(&s, REASON_LIMIT_URLS, "", 32000, 40, &second)); /* ... then the next is a first again */
}

static void test_sums_at_the_end(void **state)
{
    struct sums s = {0};
    struct id id = id_new(1);

    (void)state;
    sums_add(&s, REASON_LIMIT_URLS, "", 1000, 10, &id);
    sums_add(&s, REASON_LIMIT_NAMES, "", 1000, 10, &id);
    sums_add(&s, REASON_LIMIT_NAMES, "", 1000, 10, &id);
    assert_int_equal(sums_next(&s, 1000, true)->reason, REASON_LIMIT_NAMES);
    assert_null(sums_next(&s, 1000, true));
    assert_true(sums_are_empty(&s));
}

/* Every reason of a limit finds a place. */
static void test_sums_hold_all(void **state)
{
    struct sums s = {0};
    struct id id = id_new(1);

    (void)state;
    for (int r = 1; r < N_REASONS; r++)
        if (sums_takes((enum reason)r))
            assert_true(sums_add(&s, (enum reason)r, "", 1000, 10, &id));
    for (int r = 1; r < N_REASONS; r++)
        if (sums_takes((enum reason)r))
            assert_false(sums_add(&s, (enum reason)r, "", 1000, 10, &id));
    assert_false(sums_takes(REASON_HOST_NOT_LISTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_by_all),   cmocka_unit_test(test_kinds_are_apart),
        cmocka_unit_test(test_paces_of_all),  cmocka_unit_test(test_coming_back),
        cmocka_unit_test(test_active),        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_seen_many),     cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_only_the_owner_writes), cmocka_unit_test(test_parties),
        cmocka_unit_test(test_what_was_written_over_the_head_ends_with_who_did),
        cmocka_unit_test(test_who_shows_the_same_token_shares_it),
        cmocka_unit_test(test_who_makes_room_takes_no_sum_along),
        cmocka_unit_test(test_quota),         cmocka_unit_test(test_sums),
        cmocka_unit_test(test_sums_at_the_end), cmocka_unit_test(test_sums_hold_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
