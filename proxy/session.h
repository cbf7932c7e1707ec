/*
 * A session: one client connection, and the tunnel in it when there is one. The
 * exchange (exchange.h) is what happens on it: one request and its response.
 *
 * State table: session.c. Order of a tunnel: HEAD, EXCHANGE (the CONNECT), ACCEPT, then HEAD and EXCHANGE for
 * each inner request, LINGER, CLOSED.
 */
#ifndef PROXY_SESSION_H
#define PROXY_SESSION_H

#include "base/id.h"
#include "net/addr.h"
#include "proxy/bound.h"
#include "proxy/worker.h"

enum session_state {
    SESSION_HEAD,     /* waits for a request head, or the end between requests */
    SESSION_EXCHANGE, /* an exchange is at work */
    SESSION_ACCEPT,   /* TLS handshake with the client inside a tunnel */
    SESSION_LINGER,   /* our side is done; waits for the peer's end, input discarded */
    SESSION_CLOSED,
};

struct tunnel {
    bool open;
    struct id id; /* the CONNECT's exchange */
    enum scheme scheme;
    char *host;   /* canonical */
    uint16_t port;
    struct bucket *bucket; /* where its connections to the service are; held */
    uint64_t bucket_mark;  /* of the gateway's credential that they are for; 0: none, or the sandbox's own */
};

struct exchange;
struct arrival; /* proxy/arrival.h */

struct session {
    TAILQ_ENTRY(session) link;
    struct worker *worker;
    enum session_state state;
    struct stream *client;
    struct message *message;      /* requests, plain or inner */
    struct timer *timer;
    struct exchange *exchange;    /* in SESSION_EXCHANGE */
    uint64_t conn;                /* number, for records */
    const char *listener;         /* name; kept by the worker, or bound's */
    struct bound *bound;          /* the listener is for one sandbox; a reference. NULL: it is shared */
    char certificate[44];         /* SHA-256, base64url, of the one the client showed to the listener; "" */
    struct addr source;
    char source_ip[48], source_text[56];
    struct tunnel tunnel;
    struct record_wait opening;   /* the record of a CONNECT that was granted before it is written: nothing was forwarded yet */
    struct arrival *arrival;      /* the listener is a transparent one: how it came there; NULL: it is not */
    struct identity *identity;    /* of the tunnel's CONNECT, or of a newer token inside it */
    bool carried;                 /* that identity is of the bound listener's token */
    bool token_told;              /* a record of this tunnel has the whole of what the token says */
    struct secret *token;         /* its text, looked for in what leaves */
    bool asked;                   /* a request has come, or what passed for one */
    bool client_ended;            /* the client has sent its end (half-close) */
    bool busy;                    /* has had an exchange since the last tick: keeps its TLS buffers */
    bool warm;                    /* the stream was told so */
    struct party *source_party;   /* who it is before a token is shown */
    struct party *party;          /* the sandbox, once a good token was; NULL: a stranger */
    struct identity *proven;      /* the identity party was found for */
    TAILQ_ENTRY(session) stranger_link, any_stranger_link; /* in the source's and the worker's, while party is NULL */
    int64_t began_ms;
    int64_t idle_from_ms;         /* when HEAD began to wait, or got its first byte */
    bool shaking;                 /* holds a place among the handshakes */
    bool closing;                 /* no further request is read */
    size_t linger_pending;        /* unsent when the LINGER timer was last set: it goes on while that shrinks */
    uint64_t linger_from;         /* bytes off the wire when LINGER began */
};

/* Takes fd, a fresh client connection. listener is kept; of a bound one (NULL: none) a reference is taken. transparent: such a listener's address; NULL: an explicit one. */
void session_start(struct worker *w, int fd, const char *listener, struct bound *bound, const struct addr *source,
                   const struct addr *transparent);

/* How an exchange ended, for session_exchange_done. */
enum exchange_end {
    EXCHANGE_KEEP,   /* answered, framing intact: the next request may come */
    EXCHANGE_CLOSE,  /* answered; the connection ends */
    EXCHANGE_CUT,    /* broken off: the client must not take it for an end */
    EXCHANGE_TUNNEL, /* CONNECT was granted: s->tunnel is filled, TLS or plain HTTP follows */
};

/* The exchange is over and will be freed by the session. Called by the exchange as its last act. */
void session_exchange_done(struct session *s, enum exchange_end how);
/* A verified token becomes the session's (tunnel). Takes the reference, copies the text. */
void session_set_identity(struct session *s, struct identity *i, struct slice token);
/* Close now: revoked, stopping. */
void session_cut(struct session *s, enum reason why);
/* The one way to end. clean: the peer may take it for an end. */
void session_close(struct session *s, bool clean);
/* proxy/stranger.c. It begins as one of its source's strangers, of which the oldest may have to make room. */
void session_count_stranger(struct session *s);
/* No stranger any more: out of the lists of those. */
void session_is_known(struct session *s);
/* Its source has too many strangers, of which it is the oldest: it is told so, and closed. */
void session_evict(struct session *s);
/* proxy/review.c. Another configuration is in force: what it no longer allows ends here, what is idle under it goes. */
void session_review(struct session *s);
/* Its listener is another one now, for the same sandbox. */
void session_move(struct session *s, const char *listener, struct bound *bound);
/* The bound listener has another token: a tunnel, a WebSocket or a stream of events that goes by the one before goes on by it. */
void session_renew(struct session *s);
/* Its listener goes: no further request is read. */
void session_drain(struct session *s);
/* Each second: a connection that did nothing since the last time gives its buffers back. */
void session_tick(struct session *s);
/* May another request follow: the client has not ended, or what it sent before is not all read. */
bool session_expects_more(const struct session *s);
/* Between requests. */
bool session_is_idle(const struct session *s);
/* Between requests, or with an exchange that nobody waits for the end of. */
bool session_may_go(const struct session *s);

#endif
