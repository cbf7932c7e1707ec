/*
 * A call: one HTTPS request of the clerk's and its answer, by a descriptor that the porter dials, checks and records, so that
 * the clerk itself can neither resolve nor connect. The answer is hostile: it has a size, a time, and a status that is the
 * caller's to judge; nothing in it is followed.
 */
#ifndef PROXY_CALL_H
#define PROXY_CALL_H

#include "net/head.h"
#include "net/loop.h"
#include "net/tls.h"
#include "proxy/asks.h"
#include "proxy/recorder.h"

struct call;

struct call_order {
    struct asks *porter;      /* kept */
    struct recorder *recorder; /* kept: what went over the connection */
    const char *service, *issuer; /* for that record: whose it is; one is NULL; borrowed */
    uint16_t dial;            /* MSG_DIAL or MSG_DIAL_KEYS, with this body behind its id; borrowed */
    struct slice dial_body;
    struct tls_client *trust; /* take */
    const char *host;         /* whose certificate it must be; borrowed */
    struct slice request;     /* head and body; copied, and wiped when it is written */
    size_t answer_max;        /* bytes of the answer's content */
    int64_t wait_ms;          /* for all of it */
};

/*
 * Once, from the loop: the answer's head and content, borrowed; or NULL and why it did not come, in words for people. The
 * call is dead when this is called.
 */
typedef void call_done(void *arg, const struct head *head, struct slice body, const char *why);

/* Never calls done before it returns. */
struct call *call_start(struct loop *loop, const struct call_order *order, call_done *done, void *arg);
/* done will not be called. NULL is fine. */
void call_cancel(struct call *c);

#endif
