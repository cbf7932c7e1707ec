/*
 * The publish listener: a small, strict HTTP server. One GET or HEAD a connection, capped heads, a deadline on
 * everything. It knows no paths: whoever made it answers, at once or later.
 */
#ifndef PROXY_PUBLISH_H
#define PROXY_PUBLISH_H

#include "base/slice.h"
#include "net/loop.h"

struct publish;

struct publish_reply {
    int status;
    const char *type; /* "text/plain; charset=utf-8" */
    struct slice body;
};

/*
 * Somebody asks for path (borrowed; without its query). Answer with publish_answer() and this ticket, from inside the
 * call or later; after PUBLISH_WAIT_MS the visitor gets 503.
 */
typedef void publish_ask(void *arg, uint64_t ticket, struct slice path);

#define PUBLISH_WAIT_MS 5000 /* for the request, and again for its answer */

/* Takes fd, a listening socket. */
struct publish *publish_new(struct loop *l, int fd, publish_ask *ask, void *arg);
void publish_free(struct publish *p);
/* Borrows reply. A ticket whose visitor is gone is fine. */
void publish_answer(struct publish *p, uint64_t ticket, const struct publish_reply *reply);

#endif
