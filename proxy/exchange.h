/*
 * An exchange: one request and its response. Its table of states
 * (exchange.c) is the way of a request:
 *
 *   AUTHORIZE -> COLLECT -> RECORD -> [GRANT ->] DIAL -> TRUST -> FORWARD -> DONE
 *                                                   for CONNECT: -> CERTIFY -> DONE
 *                                                   WebSocket:   FORWARD -> SOCKET -> DONE
 *   any refusal: -> RECORD (when not yet recorded) -> REPLY -> DONE
 *
 * Callbacks translate into events; exchange_feed is the one function that thinks; handlers return the next
 * state; enter() alone changes it.
 */
#ifndef PROXY_EXCHANGE_H
#define PROXY_EXCHANGE_H

#include "authz/policy.h"
#include "handoff/edge.h"
#include "proxy/coding.h"
#include "proxy/flow.h"
#include "proxy/session.h"
#include "proxy/wallet.h"

struct lookout; /* proxy/lookout.c */

enum exchange_state {
    EXCHANGE_STAY = -1, /* a handler's "no change" */
    EXCHANGE_AUTHORIZE,
    EXCHANGE_COLLECT,
    EXCHANGE_RECORD,
    EXCHANGE_GRANT,
    EXCHANGE_DIAL,
    EXCHANGE_TRUST,
    EXCHANGE_CERTIFY,
    EXCHANGE_FORWARD,
    EXCHANGE_SOCKET,
    EXCHANGE_REPLY,
    EXCHANGE_DONE,
    N_EXCHANGE_STATES
};

enum event_type {
    EV_ENTER,         /* the state was just entered */
    EV_CLIENT_DATA,   /* more input from the client */
    EV_CLIENT_ROOM,
    EV_CLIENT_END,    /* half-close */
    EV_CLIENT_CUT,
    EV_UPSTREAM_UP,   /* TLS towards the service is verified */
    EV_UPSTREAM_DATA,
    EV_UPSTREAM_ROOM,
    EV_UPSTREAM_END,
    EV_UPSTREAM_CUT,
    EV_UPSTREAM_FAIL,
    EV_RECORDED,      /* ok: the scribe has it */
    EV_DIALLED,       /* fd and text (the address) */
    EV_GRANTED,       /* x->grant is there */
    EV_CERTIFIED,     /* bytes: chain, number: not_after */
    EV_REFUSED,       /* porter or keeper said no: reason, text */
    EV_DEADLINE,
    EV_POLICY,        /* another policy is in force */
};

struct event {
    enum event_type type;
    bool ok;
    int fd;
    int64_t number;
    struct slice text;
    enum reason reason;
};

struct websocket;

struct exchange {
    struct session *session;
    struct worker *worker;
    enum exchange_state state;
    bool feeding;          /* a handler is on the stack: no event may come in */
    enum exchange_end end; /* how, once DONE */
    struct id id;
    int64_t started_ns;

    /* what was asked */
    const struct head *head; /* of session->message; NULL when the head was refused */
    struct request request;
    struct identity *identity;
    struct secret *token;  /* plain requests: of this request; tunnels use the session's */
    bool carried;          /* the token is the bound listener's, not shown by the client */
    bool body_done;        /* the request is whole */
    bool asks_to_switch;   /* a handshake of WebSocket, to a service that allows them: what follows it is of no other protocol */

    /* what was decided */
    struct decision decision;
    enum reason reason;    /* of a refusal or failure; REASON_NONE while all is well */
    char detail[240];
    bool recorded;         /* the decision record is acknowledged, or its session waits for it (session.h: opening) */
    bool unrecordable;     /* it could not be: the answer is a 503 */
    bool secretive;        /* the client's own words hold a secret: no record repeats them */
    struct hit hit;
    char hit_place[80];

    /* against which limits (admit.c) */
    struct party *party;   /* the sandbox; NULL while nobody is known */
    bool counted;          /* among the exchanges in flight */
    bool dialling, looking_up;
    bool summed;           /* refused like others before it: no record of its own */
    int64_t retry_ms;      /* for Retry-After */

    /* operations in flight: at most one */
    struct record_wait wait;
    bool waiting;
    struct ask *ask;

    /* towards the service */
    struct grant *grant;   /* the gateway's own credential; NULL: none is needed, or not yet had */
    struct wallet_wait vouch;
    unsigned n_grants;
    struct bucket *bucket;
    struct upstream *upstream;
    struct buf out_head;   /* rewritten request head, exactly what will be sent */
    struct buf dropped;
    struct flow up, down;
    enum coding coding;    /* of the request's body */
    struct buf packed;     /* a gzip body, until it is whole and was looked into */
    bool sent;             /* any byte went to the service */
    bool repeatable;       /* all of the request is still here */
    bool reused;
    bool retried;
    bool service_cut;      /* its connection broke: nothing it sent is an end */

    /* how fast the client moves the body, since when it was last fast enough, or not waited for */
    int64_t slow_since_ms;
    uint64_t slow_from;

    /* towards the client */
    bool response_begun;   /* the final head went out */
    bool response_done;
    bool keep_alive;       /* the client's connection may go on */
    int status;
    int interims;          /* 1xx responses so far */
    int64_t response_hits;
    size_t small_head;     /* of a small response, looked at as a whole: how long its head is */
    bool lasts;            /* the response is a stream of events: it has no end to wait for */
    struct websocket *websocket; /* in SOCKET */
    enum edge_format edges; /* how the response's content is looked through for places it sends on to */
    int64_t held_ms;        /* since when the final head waits in x->down.ready (lookout.c); 0: it does not */
    struct lookout *lookout; /* who does; NULL: nobody, or nobody yet */
};

/* The head of session->message is complete: begin. */
void exchange_start(struct session *s);
/* The head could not be read: decide, record and answer that. */
void exchange_start_refused(struct session *s, const struct fault *why);
void exchange_feed(struct exchange *x, struct event ev);
/* Each second: a client that sends or reads a body too slowly is late. May end the exchange. */
void exchange_tick(struct exchange *x);
void exchange_free(struct exchange *x);
/* Is it a WebSocket? Then both sides are told that it ends, for x->reason, and nothing further passes. */
bool exchange_part(struct exchange *x);
/* It goes on for as long as both sides like: nobody waits for its end. */
bool exchange_is_endless(const struct exchange *x);
/* Is a record that allows it written, or on its way? Then its end is recorded too. */
bool exchange_is_granted(const struct exchange *x);
const char *exchange_state_name(enum exchange_state s);

/* proxy/evidence.c: the records of an exchange. */
void evidence_decision(struct exchange *x, struct record_wait *wait);
void evidence_result(struct exchange *x, const char *outcome);
void evidence_finding(struct exchange *x, const struct hit *hit, const char *place, enum reason reason);
void evidence_connection(struct session *s, enum reason reason, const char *detail);
/* The end of a connection to a service (proxy/upstream.h: pool_ended); worker is the struct worker. */
void evidence_upstream(void *worker, const struct upstream *u, const struct meter *count);
/* Edges that were seen: once, and from then on summed. x is of whom it was seen first; NULL in sums. */
void evidence_edge(struct worker *w, const struct exchange *x, const struct sight *s);
/* Refusals of p that were counted, not recorded one by one. */
void evidence_sum(struct worker *w, const struct party *p, const struct sum *s);

#endif
