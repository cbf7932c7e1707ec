/* Owns idle connections to services. Who may use which is in the key, made by the exchange. */
#include "proxy/upstream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

enum { COLD_MS = 1000 };

struct bucket {
    struct pool *pool;
    uint64_t mark;
    bool stale; /* not in the table any more; freed by who holds it last */
    struct upstream *first; /* idle, newest first */
    size_t n_idle;
    size_t holds;
    SSL_SESSION *session;
    size_t key_len;
    char key[];
};

struct pool {
    struct loop *loop;
    struct pool_limits limits;
    struct message_limits messages;
    struct table *buckets;
    struct upstream *oldest, *newest;
    size_t n_idle;
    uint64_t *gauge;
    struct timer *timer;
    pool_ended *ended;
    void *ended_arg;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void on_idle_event(void *arg, enum stream_event event);

static void unlink_idle(struct upstream *u)
{
    struct pool *p = u->pool;

    if (u->prev)
        u->prev->next = u->next;
    else
        u->bucket->first = u->next;
    if (u->next)
        u->next->prev = u->prev;
    if (u->older)
        u->older->newer = u->newer;
    else
        p->oldest = u->newer;
    if (u->newer)
        u->newer->older = u->older;
    else
        p->newest = u->older;
    u->next = u->prev = u->older = u->newer = NULL;
    u->bucket->n_idle--;
    p->n_idle--;
    if (p->gauge)
        *p->gauge = p->n_idle;
}

static void drop_idle(struct upstream *u)
{
    unlink_idle(u);
    upstream_close(u, true);
}

static void on_timer(void *arg)
{
    struct pool *p = arg;
    int64_t now = loop_now_ms(p->loop);

    while (p->oldest && p->oldest->idle_since_ms + p->limits.idle_ms <= now)
        drop_idle(p->oldest);
    if (p->oldest)
        timer_set(p->timer, p->oldest->idle_since_ms + p->limits.idle_ms - now);
}

struct pool *pool_new(struct loop *l, const struct pool_limits *limits, const struct message_limits *messages,
                      uint64_t *idle_gauge)
{
    struct pool *p = must(calloc(1, sizeof *p));

    p->loop = l;
    p->limits = *limits;
    p->messages = *messages;
    p->gauge = idle_gauge;
    p->buckets = table_new();
    p->timer = timer_new(l, on_timer, p);
    return p;
}

void pool_tell_ends(struct pool *p, pool_ended *ended, void *arg)
{
    p->ended = ended;
    p->ended_arg = arg;
}

void pool_tick(struct pool *p)
{
    int64_t now = loop_now_ms(p->loop);

    for (struct upstream *u = p->oldest; u && u->idle_since_ms + COLD_MS <= now; u = u->newer)
        if (u->warm) {
            u->warm = false;
            stream_set_busy(u->stream, false);
        }
}

void pool_shrink(struct pool *p, size_t n)
{
    while (n-- && p->oldest)
        drop_idle(p->oldest);
}

void pool_clear(struct pool *p)
{
    while (p->oldest)
        drop_idle(p->oldest);
}

static void collect_key(void *arg, struct slice key, void *value)
{
    struct bucket *b = value;
    struct slice *found = arg;

    if (b->holds == 0 && b->n_idle == 0)
        *found = key;
}

static void bucket_free(struct bucket *b)
{
    if (!b->stale)
        table_remove(b->pool->buckets, slice_make(b->key, b->key_len));
    SSL_SESSION_free(b->session);
    free(b);
}

/* Too many keys: let one go that nobody uses. */
static bool make_room(struct pool *p)
{
    struct slice key = {0};

    table_each(p->buckets, collect_key, &key);
    if (key.len == 0)
        return false;
    bucket_free(table_get(p->buckets, key));
    return true;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pool_clear(p);
    while (make_room(p))
        ;
    table_free(p->buckets);
    timer_free(p->timer);
    free(p);
}

static void make_stale(struct bucket *b)
{
    bucket_hold(b);
    while (b->first)
        drop_idle(b->first);
    table_remove(b->pool->buckets, slice_make(b->key, b->key_len));
    b->stale = true;
    bucket_release(b);
}

/* The buckets of a table, which must not change while it is walked. */
struct roll {
    struct bucket **list;
    size_t n;
};

static void note_bucket(void *arg, struct slice key, void *value)
{
    struct roll *r = arg;

    (void)key;
    r->list[r->n++] = value;
}

void pool_keep(struct pool *p, bool (*is_kept)(void *arg, uint64_t mark), void *arg)
{
    struct roll r = {must(calloc(table_count(p->buckets) + 1, sizeof *r.list)), 0};

    table_each(p->buckets, note_bucket, &r);
    for (size_t i = 0; i < r.n; i++)
        if (!is_kept(arg, r.list[i]->mark))
            make_stale(r.list[i]);
    free(r.list);
}

void pool_use_limits(struct pool *p, const struct pool_limits *limits, const struct message_limits *messages)
{
    p->limits = *limits;
    p->messages = *messages;
    while (p->n_idle > p->limits.total)
        drop_idle(p->oldest);
    on_timer(p);
}

bool bucket_is_of(const struct bucket *b, uint64_t mark)
{
    return !b->stale && b->mark == mark;
}

struct bucket *pool_bucket(struct pool *p, struct slice key, uint64_t mark)
{
    struct bucket *b = table_get(p->buckets, key);

    if (b)
        return b;
    if (table_count(p->buckets) >= p->limits.keys && !make_room(p) && p->oldest) {
        drop_idle(p->oldest);
        make_room(p);
    }
    b = must(calloc(1, sizeof *b + key.len));
    b->pool = p;
    b->mark = mark;
    b->key_len = key.len;
    memcpy(b->key, key.ptr, key.len);
    table_put(p->buckets, key, b);
    return b;
}

void bucket_hold(struct bucket *b)
{
    b->holds++;
}

void bucket_release(struct bucket *b)
{
    assert(b->holds > 0);
    if (--b->holds == 0 && b->stale)
        bucket_free(b);
}

bool bucket_has_idle(const struct bucket *b)
{
    return b->first != NULL;
}

/*
 * Bytes that came while a connection lay idle, and that the loop has not read yet, would pass for the answer to the next
 * request (RFC 9112 9.2): such a connection is not used, nor one that has ended. The loop has asked all sockets when its turn
 * began, most often some ten microseconds ago; to ask this one again is half a microsecond, and gets nearer to the moment in which the
 * request goes out without ever reaching it. So that is kept for an older turn, and for what must not be sent twice.
 */
static bool is_fit(struct upstream *u, bool repeatable)
{
    return (repeatable && stream_seems_quiet(u->stream)) || stream_is_quiet(u->stream);
}

static struct upstream *take_fit(struct bucket *b, bool repeatable)
{
    while (b->first) {
        struct upstream *u = b->first;

        unlink_idle(u);
        if (is_fit(u, repeatable))
            return u;
        upstream_close(u, false);
    }
    return NULL;
}

struct upstream *bucket_take(struct bucket *b, bool repeatable)
{
    struct upstream *u = take_fit(b, repeatable);

    if (u && !u->warm) {
        u->warm = true;
        stream_set_busy(u->stream, true);
    }
    return u;
}

SSL_SESSION *bucket_session(const struct bucket *b)
{
    return b->session;
}

void bucket_store_session(void *arg, SSL_SESSION *session)
{
    struct bucket *b = arg;

    SSL_SESSION_free(b->session);
    b->session = session;
}

struct upstream *upstream_new(struct bucket *b, int fd, stream_on *on, void *arg)
{
    struct upstream *u = must(calloc(1, sizeof *u));

    u->bucket = b;
    u->pool = b->pool;
    bucket_hold(b);
    u->stream = stream_new(b->pool->loop, fd, on, arg);
    u->response = message_new(MESSAGE_RESPONSE, &b->pool->messages);
    return u;
}

void upstream_park(struct upstream *u)
{
    struct pool *p = u->pool;
    struct bucket *b = u->bucket;

    if (b->stale) {
        upstream_close(u, true);
        return;
    }
    stream_set_handler(u->stream, on_idle_event, u);
    u->idle_since_ms = loop_now_ms(p->loop);
    if (p->limits.idle)
        stream_set_lane(u->stream, p->limits.idle);
    u->next = b->first;
    if (b->first)
        b->first->prev = u;
    b->first = u;
    u->older = p->newest;
    if (p->newest)
        p->newest->newer = u;
    else
        p->oldest = u;
    p->newest = u;
    b->n_idle++;
    p->n_idle++;
    if (b->n_idle > p->limits.per_key) {
        struct upstream *last = b->first;

        while (last->next)
            last = last->next;
        drop_idle(last);
    }
    if (p->n_idle > p->limits.total)
        drop_idle(p->oldest);
    if (p->gauge)
        *p->gauge = p->n_idle;
    if (p->oldest)
        timer_set(p->timer, p->oldest->idle_since_ms + p->limits.idle_ms - loop_now_ms(p->loop));
}

/* Whatever an idle connection says, an end or bytes nobody asked for, makes it useless. */
static void on_idle_event(void *arg, enum stream_event event)
{
    (void)event;
    drop_idle(arg);
}

void upstream_close(struct upstream *u, bool clean)
{
    struct meter count;

    if (!u)
        return;
    if (stream_close_counted(u->stream, clean, &count) && u->pool->ended) {
        if (!clean)
            count.unsent = 0;
        u->pool->ended(u->pool->ended_arg, u, &count);
    }
    message_free(u->response);
    bucket_release(u->bucket);
    free(u);
}
