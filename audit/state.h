/* What the parts of one audit share. Private to audit/. */
#ifndef AUDIT_STATE_H
#define AUDIT_STATE_H

#include "audit/audit.h"
#include "audit/forge.h"
#include "audit/transport.h"

enum { KEPT_BACK = 2 /* the first baseline again, and FU-4's */ };
enum { SILENT_MAX = 3 /* time-outs in a row after which nothing more is sent */, VERSION_LEN = 120 };

/* How RL-1 to RL-4 found that it relays: for the checks that go on from there. */
enum route { ROUTE_NONE, ROUTE_ABSOLUTE, ROUTE_CONNECT, ROUTE_HOST, ROUTE_PATH };

enum shown { SHOWN_UNKNOWN, SHOWN_NO, SHOWN_YES };

struct audit {
    const struct target *target;
    struct audit_options options;
    struct transport *transport;
    struct beacon *beacon; /* NULL: no --beacon, or no places */
    struct forge *forge;
    struct evidence own;   /* the baselines' exchanges */
    struct baseline baselines[BASELINES_MAX];
    size_t n_baselines;
    struct turn *nowhere;
    struct audit_result *results;
    struct tighter *tighter; /* once it is done */
    size_t n_results, n_done;
    int64_t interval_ns, next_ns;
    size_t sent, budget;
    size_t kept_back; /* of the budget, for what is asked last */
    unsigned silent;
    bool is_dead;          /* it no longer answers */
    struct buf shut_out;   /* what the gateway said in place of the service; empty: nothing */
    int64_t began_s, began_ms, took_ms;
    char version[VERSION_LEN];
    enum shown shows_tokens; /* does the service name a token endpoint itself? */
    enum route route;
    char *route_path;      /* of ROUTE_PATH: with {host} and {nonce} */
};

/*
 * An audit with nothing asked yet: transport, budget, listener. NULL and why when the listener cannot be had. Give: audit_free().
 */
struct audit *audit_open(struct target *t, const struct audit_options *o, struct fault *why);

/* The baselines, in order. False and why when the first of them says that nobody is there. */
bool baselines_take(struct audit *a, struct fault *why);
/* Does the first path still answer as it did? */
bool baselines_hold(struct audit *a);
/* What the service calls itself, from the first of them. */
void baselines_version(struct audit *a);

/* Send one check's probes into r->evidence, or the reason why not. */
void trial_send(struct audit *a, struct audit_result *r);
/* The verdict of r->evidence as it is by now, and whether it is accepted. */
void trial_judge(const struct audit *a, struct audit_result *r);
/* Wait for who comes late to the listener. */
void trial_settle(const struct audit *a);
size_t evidence_outcomes(const struct evidence *e, enum outcome o);

/* Ask all that is weak again through the gateway of the options, if any. */
void cover_weak(struct audit *a);

#endif
