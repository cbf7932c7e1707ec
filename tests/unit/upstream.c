/* The pool: whose connections may be used again, how many are kept, and for how long; on a real loop and socket pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "proxy/upstream.h"

enum { PAIRS = 16 };

static const struct message_limits messages = {8192, 1024, 64};

struct bench {
    struct loop *loop;
    struct pool *pool;
    struct timer *timer;
    uint64_t gauge;
    int peers[PAIRS];
    size_t n_peers;
};

static void on_nothing(void *arg, enum stream_event event)
{
    (void)arg;
    (void)event;
}

static void on_time(void *arg)
{
    loop_stop(((struct bench *)arg)->loop);
}

static void turn_for(struct bench *b, int64_t ms)
{
    timer_set(b->timer, ms);
    loop_run(b->loop);
}

static struct bench begin(struct pool_limits limits)
{
    struct bench b = {.loop = loop_new()};

    b.pool = pool_new(b.loop, &limits, &messages, NULL);
    return b;
}

/* b stays where it is from here on. */
static void settle(struct bench *b)
{
    b->timer = timer_new(b->loop, on_time, b);
}

static void end(struct bench *b)
{
    pool_free(b->pool);
    timer_free(b->timer);
    loop_free(b->loop);
    for (size_t i = 0; i < b->n_peers; i++)
        close(b->peers[i]);
}

/* A new connection under key; the other end is the last of b->peers. */
static struct upstream *connect_for(struct bench *b, const char *key)
{
    struct bucket *bucket = pool_bucket(b->pool, slice_of(key), 1);
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    b->peers[b->n_peers++] = fds[1];
    return upstream_new(bucket, fds[0], on_nothing, NULL);
}

static bool has_idle(struct bench *b, const char *key)
{
    return bucket_has_idle(pool_bucket(b->pool, slice_of(key), 1));
}

static bool peer_is_closed(struct bench *b, size_t i)
{
    char c;

    return recv(b->peers[i], &c, 1, MSG_DONTWAIT) == 0;
}

static bool peer_closes(struct bench *b, size_t i)
{
    for (int turns = 0; turns < 3000; turns++) {
        if (peer_is_closed(b, i))
            return true;
        turn_for(b, 10);
    }
    return false;
}

static const struct pool_limits roomy = {4, 8, 100, 60000, NULL};

static void newest_first_and_only_under_its_key(void **state)
{
    struct bench b = begin(roomy);
    struct upstream *first, *second;

    (void)state;
    settle(&b);
    first = connect_for(&b, "sb-1");
    second = connect_for(&b, "sb-1");
    upstream_park(first);
    upstream_park(second);
    assert_false(has_idle(&b, "sb-2"));
    assert_null(bucket_take(pool_bucket(b.pool, SLICE("sb-2"), 1), false));
    assert_ptr_equal(bucket_take(pool_bucket(b.pool, SLICE("sb-1"), 1), false), second);
    assert_ptr_equal(bucket_take(pool_bucket(b.pool, SLICE("sb-1"), 1), false), first);
    assert_null(bucket_take(pool_bucket(b.pool, SLICE("sb-1"), 1), false));
    upstream_close(first, true);
    upstream_close(second, false);
    end(&b);
}

static void over_the_caps_the_oldest_goes(void **state)
{
    struct bench b = begin((struct pool_limits){2, 3, 100, 60000, NULL});
    static const char *const keys[] = {"a", "a", "a", "b", "c"};

    (void)state;
    settle(&b);
    for (size_t i = 0; i < 5; i++)
        upstream_park(connect_for(&b, keys[i]));
    /* the third of a pushed out the first, c the second */
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(peer_is_closed(&b, i), i < 2);
    assert_true(has_idle(&b, "a") && has_idle(&b, "b") && has_idle(&b, "c"));
    end(&b);
}

static void none_is_kept_when_none_may_be(void **state)
{
    static const struct pool_limits rows[] = {{0, 8, 100, 60000, NULL}, {4, 0, 100, 60000, NULL}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bench b = begin(rows[i]);

        settle(&b);
        upstream_park(connect_for(&b, "a"));
        assert_false(has_idle(&b, "a"));
        assert_true(peer_is_closed(&b, 0));
        end(&b);
    }
}

static void idle_ones_end_after_their_time(void **state)
{
    struct bench b = begin((struct pool_limits){4, 8, 100, 500, NULL});

    (void)state;
    settle(&b);
    upstream_park(connect_for(&b, "a"));
    turn_for(&b, 30);
    upstream_park(connect_for(&b, "a"));
    assert_false(peer_is_closed(&b, 0));
    assert_true(peer_closes(&b, 0));
    assert_true(peer_closes(&b, 1));
    assert_false(has_idle(&b, "a"));
    end(&b);
}

static void one_that_speaks_or_ends_is_dropped(void **state)
{
    struct bench b = begin(roomy);

    (void)state;
    settle(&b);
    for (int i = 0; i < 3; i++)
        upstream_park(connect_for(&b, "a"));
    assert_int_equal(write(b.peers[0], "HTTP", 4), 4);
    assert_int_equal(shutdown(b.peers[1], SHUT_WR), 0);
    turn_for(&b, 20);
    struct upstream *u = bucket_take(pool_bucket(b.pool, SLICE("a"), 1), false);

    assert_non_null(u);
    assert_false(has_idle(&b, "a"));
    assert_false(peer_is_closed(&b, 2));
    upstream_close(u, true);
    end(&b);
}

/* What came since the loop last looked: the pool must not hand it out as the answer to somebody's request. */
static void bytes_or_an_end_not_read_yet_make_it_useless(void **state)
{
    static const struct {
        const char *name, *says;
        bool ends, kept;
    } rows[] = {
        {"silent", "", false, true},
        {"a byte", "H", false, false},
        {"an answer nobody asked for", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, false},
        {"an end", "", true, false},
        {"an answer and the end", "HTTP/1.1 408 Request Timeout\r\n\r\n", true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b = begin(roomy);
        struct upstream *u;

        print_message("    %s\n", rows[i].name);
        settle(&b);
        upstream_park(connect_for(&b, "a"));
        assert_int_equal(write(b.peers[0], rows[i].says, strlen(rows[i].says)), strlen(rows[i].says));
        if (rows[i].ends)
            assert_int_equal(shutdown(b.peers[0], SHUT_WR), 0);
        u = bucket_take(pool_bucket(b.pool, SLICE("a"), 1), false); /* no turn of the loop in between */
        assert_true((u != NULL) == rows[i].kept);
        assert_false(has_idle(&b, "a"));
        upstream_close(u, true);
        end(&b);
    }
}

/* Who takes a connection in the middle of a turn, and what its peer does before. */
struct taker {
    struct bench *bench;
    const char *says;
    bool ends, within; /* within: when the turn has begun already, and the kernel has answered */
    bool repeatable;
    int64_t wait_ms;   /* between that and the taking */
    struct upstream *taken;
    struct watch *watch;
};

static void act(const struct taker *t)
{
    int peer = t->bench->peers[0];

    assert_int_equal(write(peer, t->says, strlen(t->says)), strlen(t->says));
    if (t->ends)
        assert_int_equal(shutdown(peer, SHUT_WR), 0);
}

static void take(void *arg, unsigned ready)
{
    struct taker *t = arg;
    int64_t from = clock_mono_ms();

    (void)ready;
    watch_want(t->watch, 0);
    if (t->within)
        act(t);
    while (clock_mono_ms() < from + t->wait_ms)
        ;
    t->taken = bucket_take(pool_bucket(t->bench->pool, SLICE("a"), 1), t->repeatable);
    loop_stop(t->bench->loop);
}

/*
 * The loop's own knowledge is good enough for a request that can be repeated: while it is fresh, and no event of the connection
 * waits for its turn. Else the socket is asked.
 */
static void what_the_loop_knows_is_enough_for_a_moment(void **state)
{
    static const struct {
        const char *name, *says;
        bool ends, within, repeatable;
        int64_t wait_ms;
        bool kept;
    } rows[] = {
        {"silent", "", false, false, true, 0, true},
        {"silent, not repeatable", "", false, false, false, 0, true},
        {"silent, in a turn that is old", "", false, false, true, 3, true},
        {"bytes that the turn knows of, and has not come to", "H", false, false, true, 0, false},
        {"an end that the turn knows of, and has not come to", "", true, false, true, 0, false},
        {"bytes since the turn began, not repeatable", "H", false, true, false, 0, false},
        {"an end since the turn began, not repeatable", "", true, true, false, 0, false},
        {"bytes in a turn that is old", "H", false, true, true, 3, false},
        {"an end in a turn that is old", "", true, true, true, 3, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b = begin(roomy);
        struct taker t = {&b, rows[i].says, rows[i].ends, rows[i].within, rows[i].repeatable, rows[i].wait_ms, NULL, NULL};
        int fds[2];

        settle(&b);
        upstream_park(connect_for(&b, "a"));
        turn_for(&b, 5);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        t.watch = watch_new(b.loop, fds[0], WATCH_READ, take, &t);
        assert_int_equal(write(fds[1], "go", 2), 2); /* before the other: so it is called first */
        if (!rows[i].within)
            act(&t);
        loop_run(b.loop);
        if ((t.taken != NULL) != rows[i].kept)
            fail_msg("%s", rows[i].name);
        upstream_close(t.taken, true);
        watch_free(t.watch);
        close(fds[0]);
        close(fds[1]);
        end(&b);
    }
}

/* A new connection: bytes before any request are told from an end, which has an event of its own. */
static void who_speaks_first_is_told_from_who_goes(void **state)
{
    static const struct {
        const char *name, *says;
        bool ends, spoken;
    } rows[] = {
        {"silent", "", false, false},
        {"a greeting", "220 mail", false, true},
        {"an end", "", true, false},
        {"a greeting and the end", "220 mail", true, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b = begin(roomy);
        struct upstream *u = connect_for(&b, "a");

        assert_int_equal(write(b.peers[0], rows[i].says, strlen(rows[i].says)), strlen(rows[i].says));
        if (rows[i].ends)
            assert_int_equal(shutdown(b.peers[0], SHUT_WR), 0);
        if (stream_has_spoken(u->stream) != rows[i].spoken)
            fail_msg("%s", rows[i].name);
        upstream_close(u, true);
        end(&b);
    }
}

static void an_older_quiet_one_is_taken_instead(void **state)
{
    struct bench b = begin(roomy);
    struct upstream *old, *u;

    (void)state;
    settle(&b);
    old = connect_for(&b, "a");
    upstream_park(old);
    upstream_park(connect_for(&b, "a"));
    assert_int_equal(write(b.peers[1], "x", 1), 1);
    u = bucket_take(pool_bucket(b.pool, SLICE("a"), 1), false);
    assert_ptr_equal(u, old);
    upstream_close(u, true);
    end(&b);
}

static bool is_2(void *arg, uint64_t mark)
{
    (void)arg;
    return mark == 2;
}

/* A service has changed: its idle connections close, one in use closes when it is done, the others' stay. */
static void connections_of_another_mark_go(void **state)
{
    struct bench b = begin(roomy);
    struct bucket *kept;
    struct upstream *busy;

    (void)state;
    settle(&b);
    upstream_park(connect_for(&b, "changed"));
    busy = connect_for(&b, "changed");
    kept = pool_bucket(b.pool, SLICE("same"), 2);
    bucket_hold(kept);
    pool_keep(b.pool, is_2, NULL);
    assert_true(peer_is_closed(&b, 0));
    assert_false(peer_is_closed(&b, 1));
    assert_false(bucket_is_of(busy->bucket, 1));
    assert_true(bucket_is_of(kept, 2));
    assert_false(bucket_is_of(kept, 1));
    assert_false(has_idle(&b, "changed")); /* a new place, which the old one's connection does not come to */
    upstream_park(busy);
    assert_true(peer_is_closed(&b, 1));
    assert_false(has_idle(&b, "changed"));
    bucket_release(kept);
    end(&b);
}

/* Room for one key: what nobody holds makes room, what is in use stays valid. */
static void keys_are_bounded_but_those_in_use_stay(void **state)
{
    struct bench b = begin((struct pool_limits){4, 8, 1, 60000, NULL});
    struct bucket *a;
    struct upstream *u;

    (void)state;
    settle(&b);
    u = connect_for(&b, "a");
    a = u->bucket;
    upstream_park(connect_for(&b, "b"));
    assert_ptr_equal(pool_bucket(b.pool, SLICE("a"), 1), a);
    (void)pool_bucket(b.pool, SLICE("c"), 1); /* b's idle connection goes for it */
    assert_true(peer_is_closed(&b, 1));
    upstream_park(u);
    assert_true(has_idle(&b, "a"));
    pool_clear(b.pool);
    assert_false(has_idle(&b, "a"));
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_first_and_only_under_its_key),
        cmocka_unit_test(over_the_caps_the_oldest_goes),
        cmocka_unit_test(none_is_kept_when_none_may_be),
        cmocka_unit_test(idle_ones_end_after_their_time),
        cmocka_unit_test(one_that_speaks_or_ends_is_dropped),
        cmocka_unit_test(bytes_or_an_end_not_read_yet_make_it_useless),
        cmocka_unit_test(what_the_loop_knows_is_enough_for_a_moment),
        cmocka_unit_test(who_speaks_first_is_told_from_who_goes),
        cmocka_unit_test(an_older_quiet_one_is_taken_instead),
        cmocka_unit_test(connections_of_another_mark_go),
        cmocka_unit_test(keys_are_bounded_but_those_in_use_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
