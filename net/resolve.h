/*
 * Names to addresses: c-ares, asking only the servers it is given. Neither /etc/hosts nor /etc/resolv.conf nor
 * the environment has a say, there is no search list, and nothing is judged here: whoever asked checks every address.
 */
#ifndef NET_RESOLVE_H
#define NET_RESOLVE_H

#include "net/addr.h"
#include "net/loop.h"
#include "net/meter.h"

#define RESOLVE_MAX 32 /* addresses of one answer; what is over it is not looked at */

struct resolver;
struct resolve;

/* A socket by which name servers were asked. */
struct resolver_line {
    struct addr server;
    bool is_tcp;
    uint64_t n_questions; /* messages that left, those that were sent again among them */
    struct meter count;   /* by UDP: bytes of messages; by TCP as the kernel has it, each message with its length in front */
};

/* It is closed: once for each socket that anything left by, from the loop or from resolver_free and resolver_rest; line is borrowed. */
typedef void resolver_closed(void *arg, const struct resolver_line *line);

struct resolver_settings {
    const struct addr *servers; /* asked in this order, the next when one is silent or fails */
    size_t n_servers;
    int64_t timeout_ms; /* for a whole look-up, all servers and retries together */
    size_t pending_max; /* look-ups at once */
    resolver_closed *closed; /* NULL: nobody counts */
    void *arg;
};

struct resolved {
    struct addr addr; /* port 0 */
    int ttl_s;
};

struct resolution {
    size_t count;       /* 0: fault says why */
    struct fault fault; /* reason name_not_resolved or name_timeout */
    struct resolved list[RESOLVE_MAX];
};

/* Called once, from the loop; r is borrowed. */
typedef void resolve_done(void *arg, const struct resolution *r);

/* settings is borrowed. NULL and why when c-ares refuses them. */
struct resolver *resolver_new(struct loop *l, const struct resolver_settings *settings, struct fault *why);
/* Cancel the look-ups first: what is still under way ends without a callback. */
void resolver_free(struct resolver *r);
/* When nobody waits for anything any more: what c-ares still works on ends, and its sockets close. */
void resolver_rest(struct resolver *r);
/* Look-ups that c-ares still works on, cancelled ones included. */
size_t resolver_pending(const struct resolver *r);
/* Is one of its questions, or an answer to come, on a socket of this address and port? */
bool resolver_asks_from(const struct resolver *r, const struct addr *a);

/*
 * Look up IPv6 and IPv4 addresses of name (canonical, absolute without a final dot; borrowed), aliases followed as the
 * answer has them, and hand them to done(arg, ...) once, from the loop, never before this returns. The handle is dead
 * when done is called. NULL and why (FAULT_BUSY, name_not_resolved) when pending_max look-ups are under way.
 */
struct resolve *resolve_start(struct resolver *r, const char *name, resolve_done *done, void *arg, struct fault *why);
/* done will not be called. NULL is fine. */
void resolve_cancel(struct resolve *r);

#endif
