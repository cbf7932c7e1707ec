/*
 * Does a planted secret come out? A canary that the gateway's scanner knows is sent from inside one sandbox's listener through the
 * gateway to a service, by every route that a request has and in every spelling that is worth a try; and so is a control, a text of
 * the same form that nobody looks for, by the same routes: what the control cannot do says nothing of the canary.
 *
 * Far ends: the service (the gateway let the request through), its answer, the auditor's listener, its upstream.
 */
#ifndef AUDIT_LEAK_H
#define AUDIT_LEAK_H

#include <signal.h>

#include "audit/audit.h"

enum { CANARY_TEXT_MAX = 520 };

enum leak_verdict {
    LEAK_OUT,          /* it came out */
    LEAK_INCONCLUSIVE, /* asked, and it cannot be told: the control did not arrive, and not because a rule closed its way */
    LEAK_STOPPED,      /* the control arrived, the canary was refused */
    LEAK_CLOSED,       /* the gateway lets nothing by that route */
    LEAK_NOT_RUN,      /* not asked */
    LEAK_VERDICTS
};

struct leak_result;

struct leak_options {
    unsigned allowed;       /* RUN_WRITES, RUN_LISTENER */
    int64_t rate, requests; /* 0: the manifest's */
    /* The sandbox's listener (kept): an address, or what makes a connected socket to it (-1: it cannot be reached), from another thread. */
    const struct addr *gateway;
    int (*connect)(void *arg);
    void *arg;
    const char *leave_token;        /* NULL: the listener is bound, and has one itself */
    const char *gateway_ca;         /* its root, for services behind TLS; NULL: the system's trust */
    const char *gateway_name;       /* as it calls itself in Proxy-Status */
    const struct service *service;  /* as the gateway's configuration has it */
    struct slice canary, control;   /* values of one form, letters, digits and _ */
    const volatile sig_atomic_t *stop; /* set: nothing more is sent; may be NULL */
    void (*on_result)(void *arg, const struct leak_result *r, size_t done, size_t all); /* may be NULL; arg is progress */
    void *progress;
};

struct leak_result {
    const char *route, *place, *advice; /* its id, in words, and what would close it */
    const char *spelling;               /* "as it is", "base64"... */
    enum leak_verdict verdict;
    bool is_at_service, is_in_answer, is_at_listener, is_at_upstream; /* where it was seen */
    char reason[64], record[48]; /* the gateway's, of what was refused; "": none */
    char note[320];              /* one sentence; no secret */
    struct evidence control, canary;
};

struct leak;

/* t is kept. NULL and why when the listener cannot be had. Nothing is sent to the service but through the gateway. */
struct leak *leak_run(struct target *t, const struct leak_options *o, struct fault *why);
void leak_free(struct leak *l);

size_t leak_count(const struct leak *l);
const struct leak_result *leak_result(const struct leak *l, size_t i);
size_t leak_with(const struct leak *l, enum leak_verdict v);
/* Of all: out when it came out anywhere, inconclusive when anything is, or when not even the first control arrived; else stopped. */
enum leak_verdict leak_verdict(const struct leak *l);
/* Why nothing was asked (borrowed); "": it was. */
const char *leak_trouble(const struct leak *l);
size_t leak_requests(const struct leak *l);
const struct target *leak_target(const struct leak *l);
const char *leak_verdict_name(enum leak_verdict v);

/* Who it was planted as. */
struct leak_planting {
    const char *sandbox, *listener, *canary;
};

void leak_text(const struct leak *l, const struct leak_planting *p, bool all, struct buf *out);
/* One object, schema exeat.leak/1 (docs/handoff.md). */
void leak_json(const struct leak *l, const struct leak_planting *p, struct buf *out);
/* Every exchange, one JSON line each: exeat.audit-exchange/1, the check "query/hexadecimal", the control's with "/control" behind. */
void leak_exchanges(const struct leak *l, struct buf *out);
void leak_junit(const struct leak *l, const struct leak_planting *p, struct buf *out);

#endif
