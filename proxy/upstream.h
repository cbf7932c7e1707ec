/*
 * Connections to services, and the pool of idle ones. Keyed by sandbox, service, scheme, host and port: never shared
 * across sandboxes. A bucket has the mark of its service's configuration: when that changes, its connections are used
 * no more. A connection goes back only when nothing irregular happened on it.
 */
#ifndef PROXY_UPSTREAM_H
#define PROXY_UPSTREAM_H

#include "net/head.h"
#include "net/stream.h"

struct pool;
struct bucket;

struct upstream {
    struct stream *stream;
    struct message *response;
    struct bucket *bucket;   /* whose key it was made for */
    char address[56];        /* dialled */
    int exchanges;           /* how many it has served */
    char service[64];        /* which it is of, for the record of its end */
    bool warm;               /* keeps its TLS buffers */
    struct upstream *next, *prev;          /* idle: in the bucket */
    struct upstream *older, *newer;        /* idle: in the pool, by age */
    int64_t idle_since_ms;
    struct pool *pool;
};

struct pool_limits {
    size_t per_key, total, keys;
    int64_t idle_ms;
    struct lane *idle; /* whose time idle connections take; may be NULL */
};

/* idle_gauge (may be NULL) is kept up to date with the number of idle connections. */
struct pool *pool_new(struct loop *l, const struct pool_limits *limits, const struct message_limits *messages,
                      uint64_t *idle_gauge);
void pool_free(struct pool *p);
/*
 * ended (kept) is told of each connection when it is closed, with what the kernel counted on it; not of one that is no TCP's.
 * A connection that is closed unclean leaves nothing to be sent.
 */
typedef void pool_ended(void *arg, const struct upstream *u, const struct meter *count);
void pool_tell_ends(struct pool *p, pool_ended *ended, void *arg);
/* Other limits from now on; messages are for connections made from now on. */
void pool_use_limits(struct pool *p, const struct pool_limits *limits, const struct message_limits *messages);
/*
 * The place for a key, made when it is new; mark is that of its service's configuration, and one key has one. Valid
 * while an upstream or an exchange holds it (bucket_hold).
 */
struct bucket *pool_bucket(struct pool *p, struct slice key, uint64_t mark);
/* Is it for connections under this mark, and still in the pool? */
bool bucket_is_of(const struct bucket *b, uint64_t mark);
/* The configuration changed: idle connections of marks that are not kept close, those in use close when they are parked. */
void pool_keep(struct pool *p, bool (*is_kept)(void *arg, uint64_t mark), void *arg);
void bucket_hold(struct bucket *b);
void bucket_release(struct bucket *b);
bool bucket_has_idle(const struct bucket *b);
/*
 * The newest idle connection whose service has neither spoken nor ended meanwhile, out of the pool, or NULL. repeatable: what
 * it is for may be sent once more elsewhere, should it turn out to have ended (RFC 9110 9.2.2).
 */
struct upstream *bucket_take(struct bucket *b, bool repeatable);
/* The TLS session to resume with (borrowed), or NULL; storing takes it. */
SSL_SESSION *bucket_session(const struct bucket *b);
void bucket_store_session(void *bucket, SSL_SESSION *session);

/* A new connection of this bucket over a connected socket (takes fd). */
struct upstream *upstream_new(struct bucket *b, int fd, stream_on *on, void *arg);
/* Idle and whole: back into the pool; over the caps the oldest goes. */
void upstream_park(struct upstream *u);
void upstream_close(struct upstream *u, bool clean);
/* Each second: what lies idle for long gives its TLS buffers back. */
void pool_tick(struct pool *p);
/* Close up to n idle ones, the oldest first: their descriptors are needed. */
void pool_shrink(struct pool *p, size_t n);
/* Close every idle connection (a policy change, the end). */
void pool_clear(struct pool *p);

#endif
