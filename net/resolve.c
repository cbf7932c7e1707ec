/* Owns the c-ares channel, its sockets' watches and the look-ups under way. Knows no policy. */
#include "net/resolve.h"

#include <ares.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "net/asker.h"

enum { TRIES = 2, EDNS_SIZE = 1232 };

struct socket_watch {
    struct socket_watch *next;
    struct resolver *resolver;
    struct watch *watch;
    int fd;
};

struct resolver {
    struct loop *loop;
    ares_channel channel;
    struct askers *askers;
    struct timer *timer; /* c-ares's own retries */
    struct socket_watch *sockets;
    int64_t timeout_ms;
    size_t pending, pending_max;
    bool ending;
};

struct resolve {
    struct resolver *resolver; /* not used once c-ares has answered */
    struct timer *deadline;
    resolve_done *done; /* NULL: cancelled, or already told */
    void *arg;
    bool answered; /* c-ares holds no pointer to this any more */
    struct resolution result;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void set_timer(struct resolver *r)
{
    struct timeval room, *wait = ares_timeout(r->channel, NULL, &room);

    if (wait)
        timer_set(r->timer, (int64_t)wait->tv_sec * 1000 + wait->tv_usec / 1000 + 1);
    else
        timer_stop(r->timer);
}

static void on_retry(void *arg)
{
    struct resolver *r = arg;

    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer(r);
}

static void on_socket(void *arg, unsigned ready)
{
    struct socket_watch *s = arg;
    struct resolver *r = s->resolver;
    int fd = s->fd; /* s may be gone after the call */

    ares_process_fd(r->channel, ready & WATCH_READ ? fd : ARES_SOCKET_BAD, ready & WATCH_WRITE ? fd : ARES_SOCKET_BAD);
    set_timer(r);
}

static void drop_socket(struct socket_watch **at)
{
    struct socket_watch *s = *at;

    *at = s->next;
    watch_free(s->watch);
    free(s);
}

/* c-ares says what it waits for on a socket; neither: it is about to close it. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct resolver *r = arg;
    struct socket_watch **at = &r->sockets;
    unsigned want = (readable ? WATCH_READ : 0) | (writable ? WATCH_WRITE : 0);

    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    if (!want && *at) {
        drop_socket(at);
    } else if (*at) {
        watch_want((*at)->watch, want);
    } else if (want) {
        struct socket_watch *s = must(calloc(1, sizeof *s));

        *s = (struct socket_watch){.next = r->sockets, .resolver = r, .fd = fd};
        s->watch = watch_new(r->loop, fd, want, on_socket, s);
        r->sockets = s;
    }
}

static bool set_servers(struct resolver *r, const struct resolver_settings *settings, struct fault *why)
{
    struct ares_addr_port_node *nodes = must(calloc(settings->n_servers, sizeof *nodes));
    int status;

    for (size_t i = 0; i < settings->n_servers; i++) {
        const struct addr *a = &settings->servers[i];

        nodes[i].next = i + 1 < settings->n_servers ? &nodes[i + 1] : NULL;
        nodes[i].family = a->family;
        memcpy(&nodes[i].addr, a->ip, a->family == AF_INET ? 4 : 16);
        nodes[i].udp_port = nodes[i].tcp_port = a->port;
    }
    status = ares_set_servers_ports(r->channel, nodes);
    free(nodes);
    return status == ARES_SUCCESS ||
           fault_set(why, FAULT_SYNTAX, "resolver.servers: c-ares refuses them: %s", ares_strerror(status));
}

struct resolver *resolver_new(struct loop *l, const struct resolver_settings *settings, struct fault *why)
{
    struct resolver *r = must(calloc(1, sizeof *r));
    char lookups[] = "b";
    /* Every one of these is set, for c-ares reads /etc/resolv.conf unless all are. */
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_SERVERS |
               ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST | ARES_OPT_SOCK_STATE_CB | ARES_OPT_EDNSPSZ |
               ARES_OPT_NOROTATE;
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
        /* the second round waits twice as long: three times this in all */
        .timeout = (int)(settings->timeout_ms / 3 / (int64_t)(settings->n_servers ? settings->n_servers : 1)) + 1,
        .tries = TRIES,
        .ndots = 1,
        .lookups = lookups,
        .sock_state_cb = on_socket_state,
        .sock_state_cb_data = r,
        .ednspsz = EDNS_SIZE,
    };
    int status = ares_library_init(ARES_LIB_INIT_ALL);

    if (status == ARES_SUCCESS)
        status = ares_init_options(&r->channel, &options, mask);
    if (status != ARES_SUCCESS) {
        fault_set(why, FAULT_IO, "c-ares does not start: %s", ares_strerror(status));
        free(r);
        return NULL;
    }
    r->loop = l;
    r->askers = askers_new(r->channel, settings->closed, settings->arg);
    r->timer = timer_new(l, on_retry, r);
    r->timeout_ms = settings->timeout_ms;
    r->pending_max = settings->pending_max;
    if (settings->n_servers && set_servers(r, settings, why))
        return r;
    if (!settings->n_servers)
        fault_set(why, FAULT_MISSING, "resolver.servers: name at least one name server");
    resolver_free(r);
    return NULL;
}

void resolver_free(struct resolver *r)
{
    if (!r)
        return;
    r->ending = true;
    ares_destroy(r->channel);
    askers_free(r->askers);
    while (r->sockets)
        drop_socket(&r->sockets);
    timer_free(r->timer);
    free(r);
}

void resolver_rest(struct resolver *r)
{
    ares_cancel(r->channel);
    set_timer(r);
}

size_t resolver_pending(const struct resolver *r)
{
    return r->pending;
}

bool resolver_asks_from(const struct resolver *r, const struct addr *a)
{
    return askers_speak_from(r->askers, a);
}

static void resolve_free(struct resolve *v)
{
    timer_free(v->deadline);
    free(v);
}

static void set_fault(struct resolution *out, int status)
{
    if (status == ARES_ETIMEOUT)
        fault_reason(&out->fault, REASON_NAME_TIMEOUT, "the name servers did not answer in time");
    else if (status == ARES_ENOTFOUND)
        fault_reason(&out->fault, REASON_NAME_NOT_RESOLVED, "no such name (NXDOMAIN)");
    else if (status == ARES_ENODATA || status == ARES_SUCCESS)
        fault_reason(&out->fault, REASON_NAME_NOT_RESOLVED, "the name has no addresses");
    else
        fault_reason(&out->fault, REASON_NAME_NOT_RESOLVED, "look-up failed: %s", ares_strerror(status));
}

static void collect(struct resolution *out, const struct ares_addrinfo *answer)
{
    for (const struct ares_addrinfo_node *n = answer->nodes; n && out->count < RESOLVE_MAX; n = n->ai_next) {
        struct resolved *v = &out->list[out->count];

        addr_from_sockaddr(&v->addr, n->ai_addr);
        v->ttl_s = n->ai_ttl;
        if (v->addr.family == AF_INET || v->addr.family == AF_INET6)
            out->count++;
    }
}

static void deliver(void *arg)
{
    struct resolve *v = arg;

    if (v->done)
        v->done(v->arg, &v->result);
    resolve_free(v);
}

/* May come from inside ares_getaddrinfo, from the loop, or from ares_destroy; so the caller's callback is put off. */
static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *answer)
{
    struct resolve *v = arg;

    (void)timeouts;
    v->answered = true;
    v->resolver->pending--;
    if (v->resolver->ending)
        v->done = NULL;
    if (status == ARES_SUCCESS && answer)
        collect(&v->result, answer);
    if (v->result.count == 0)
        set_fault(&v->result, status);
    if (answer)
        ares_freeaddrinfo(answer);
    timer_stop(v->deadline);
    loop_defer(v->resolver->loop, deliver, v);
}

static void on_deadline(void *arg)
{
    struct resolve *v = arg;
    resolve_done *done = v->done;

    assert(!v->answered);
    set_fault(&v->result, ARES_ETIMEOUT);
    v->done = NULL; /* c-ares cannot cancel one query: it ends this one by itself, and on_answer frees it */
    if (done)
        done(v->arg, &v->result);
}

struct resolve *resolve_start(struct resolver *r, const char *name, resolve_done *done, void *arg, struct fault *why)
{
    /* Not sorted: c-ares would connect() sockets to addresses that nobody has checked. */
    struct ares_addrinfo_hints hints = {
        .ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct resolve *v;

    if (r->pending >= r->pending_max) {
        fault_reason(why, REASON_NAME_NOT_RESOLVED, "%zu look-ups are under way already", r->pending);
        if (why)
            why->kind = FAULT_BUSY;
        return NULL;
    }
    v = must(calloc(1, sizeof *v));
    v->resolver = r;
    v->done = done;
    v->arg = arg;
    v->deadline = timer_new(r->loop, on_deadline, v);
    timer_set(v->deadline, r->timeout_ms);
    r->pending++;
    ares_getaddrinfo(r->channel, name, NULL, &hints, on_answer, v);
    set_timer(r);
    return v;
}

void resolve_cancel(struct resolve *v)
{
    if (!v)
        return;
    v->done = NULL;
    if (!v->answered)
        timer_stop(v->deadline);
}
