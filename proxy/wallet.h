/*
 * The worker's grants: credentials that the keeper gave it for a while, one for each sandbox, service and generation; who asks
 * while the keeper is asked already waits for the same answer (design 13). A grant is held by the exchanges that use it.
 */
#ifndef PROXY_WALLET_H
#define PROXY_WALLET_H

#include <sys/queue.h>

#include "authz/policy.h"
#include "base/secret.h"
#include "canary/scan.h"
#include "proxy/asks.h"

struct wallet;
struct grant;

struct wallet *wallet_new(struct loop *l, struct asks *keeper);
/* Nobody waits any more. */
void wallet_free(struct wallet *w);
/* Each second: what is over is forgotten. */
void wallet_tick(struct wallet *w);

/* For whom, and by which leave token (borrowed). */
struct wallet_order {
    uint64_t generation;
    const struct identity *identity;
    const struct service *service;
    struct slice token;
    const char *listener, *certificate; /* where it came, and what was shown with it ("": nothing) */
};

/* A grant that is at hand (a reference, to be given back), or NULL. */
struct grant *wallet_find(struct wallet *w, const struct wallet_order *o);

/* Embedded in whoever waits; zero it and set on and arg. It stays where it is until it was called or wallet_cancel. */
struct wallet_wait {
    /* Once, from the loop: a reference to the grant, or NULL and why->reason. */
    void (*on)(void *arg, struct grant *g, const struct fault *why);
    void *arg;
    TAILQ_ENTRY(wallet_wait) link;
    struct pocket *pocket; /* NULL: it does not wait */
};

/* False: the keeper is not there, or too much is asked of it. */
bool wallet_ask(struct wallet *w, const struct wallet_order *o, struct wallet_wait *wait);
void wallet_cancel(struct wallet_wait *wait);
/* The service did not take it (401): the next who asks gets it anew. Not more often than once a second. */
void wallet_distrust(struct wallet *w, const struct wallet_order *o, const struct grant *g);

/* NULL is fine. */
void grant_release(struct grant *g);
bool grant_is_over(const struct grant *g, int64_t now_s);
/* Tells one identity from another where the gateway has several for one sandbox and service; 0: it is the sandbox's own. */
uint64_t grant_mark(const struct grant *g);
/* What goes into the field. */
struct slice grant_value(const struct grant *g);
/* Looks for it in what comes back: a scan (give), as scan_start makes one. */
struct scan *grant_guard(const struct grant *g);
struct hit grant_look(const struct grant *g, struct slice text);

#endif
