/* Owns the sockets that are being connected. Knows nothing of names, services or what may be dialled. */
#include "net/dial.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct attempt {
    struct dial *dial;
    struct addr addr;
    struct watch *watch;
    int fd; /* -1: not begun, or failed */
};

struct dial {
    struct loop *loop;
    struct timer *stagger, *deadline;
    int64_t stagger_ms;
    dial_done *done;
    void *arg;
    bool over; /* told or cancelled; memory goes at the end of the turn */
    size_t count, begun, pending;
    int error;       /* the errno that says most so far */
    size_t error_at; /* the attempt that had it */
    struct attempt attempts[DIAL_MAX];
};

static void begin_next(struct dial *d);

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

void dial_order(const struct addr *list, size_t n, struct addr *out)
{
    size_t six = 0, four = 0;

    for (size_t i = 0; i < n; i++) {
        bool want_six = i % 2 == 0;

        while (six < n && list[six].family != AF_INET6)
            six++;
        while (four < n && list[four].family == AF_INET6)
            four++;
        if ((want_six && six < n) || four >= n)
            out[i] = list[six++];
        else
            out[i] = list[four++];
    }
}

static void attempt_drop(struct attempt *a)
{
    watch_free(a->watch);
    a->watch = NULL;
    if (a->fd >= 0) {
        close(a->fd);
        a->dial->pending--;
    }
    a->fd = -1;
}

static void bury(void *arg)
{
    free(arg);
}

/* Everything is closed now; the memory goes later, for an attempt's callback may be what called this. */
static void end(struct dial *d)
{
    for (size_t i = 0; i < d->begun; i++)
        attempt_drop(&d->attempts[i]);
    timer_free(d->stagger);
    timer_free(d->deadline);
    d->stagger = d->deadline = NULL;
    d->over = true;
    loop_defer(d->loop, bury, d);
}

static void fail(struct dial *d, enum reason reason, const char *text)
{
    struct fault why = {0};
    struct buf where = {0};

    addr_text(&where, &d->attempts[d->error_at].addr);
    fault_reason(&why, reason, "%.*s: %s%s", SLICE_ARG(buf_slice(&where)), text,
                 d->count > 1 ? " (no other address of it answers either)" : "");
    buf_free(&where);
    end(d);
    d->done(d->arg, -1, NULL, &why);
}

/* A refusal says more than a route that is missing; the first of equals is kept. */
static void note_error(struct attempt *a, int error)
{
    struct dial *d = a->dial;

    if (d->error && !(error == ECONNREFUSED && d->error != ECONNREFUSED))
        return;
    d->error = error;
    d->error_at = (size_t)(a - d->attempts);
}

/* Ours, not the service's: out of descriptors, memory or local ports. */
static bool is_exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == EADDRNOTAVAIL;
}

static void give_up(struct dial *d)
{
    enum reason reason = is_exhausted(d->error)     ? REASON_GATEWAY_EXHAUSTED
                         : d->error == ECONNREFUSED ? REASON_CONNECT_REFUSED
                         : d->error == ETIMEDOUT    ? REASON_CONNECT_TIMEOUT
                                                    : REASON_CONNECT_FAILED;

    fail(d, reason, strerror(d->error));
}

/* A socket on this host can connect to itself when source and target port happen to be one: nobody listens there. */
static bool is_own_end(int fd)
{
    struct sockaddr_storage near, far;
    socklen_t near_len = sizeof near, far_len = sizeof far;
    struct addr a, b;

    if (getsockname(fd, (struct sockaddr *)&near, &near_len) < 0 ||
        getpeername(fd, (struct sockaddr *)&far, &far_len) < 0)
        return false;
    addr_from_sockaddr(&a, (struct sockaddr *)&near);
    addr_from_sockaddr(&b, (struct sockaddr *)&far);
    return addr_equals(&a, &b);
}

static void win(struct attempt *a)
{
    struct dial *d = a->dial;
    struct addr addr = a->addr;
    int fd = a->fd;

    watch_free(a->watch);
    a->watch = NULL;
    a->fd = -1;
    d->pending--;
    end(d);
    d->done(d->arg, fd, &addr, NULL);
}

static void attempt_failed(struct attempt *a, int error)
{
    note_error(a, error);
    attempt_drop(a);
}

static void on_connected(void *arg, unsigned ready)
{
    struct attempt *a = arg;
    struct dial *d = a->dial;
    int error = 0;
    socklen_t len = sizeof error;

    (void)ready;
    if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (!error && is_own_end(a->fd))
        error = ECONNREFUSED;
    if (!error) {
        win(a);
        return;
    }
    attempt_failed(a, error);
    begin_next(d);
}

/* False: failed at once. An immediate success waits for the watch too, so that success has one way. */
static bool attempt_begin(struct attempt *a)
{
    struct sockaddr_storage to;
    socklen_t len = addr_to_sockaddr(&a->addr, &to);
    int one = 1;

    a->fd = socket(a->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (a->fd < 0) {
        note_error(a, errno);
        return false;
    }
    a->dial->pending++;
    setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(a->fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS) {
        attempt_failed(a, errno);
        return false;
    }
    a->watch = watch_new(a->dial->loop, a->fd, WATCH_WRITE, on_connected, a);
    return true;
}

/* Begin the next address that does not fail at once; none left and none pending: that was it. */
static void begin_next(struct dial *d)
{
    bool begun = false;

    while (!begun && d->begun < d->count)
        begun = attempt_begin(&d->attempts[d->begun++]);
    if (d->begun < d->count)
        timer_set(d->stagger, d->stagger_ms);
    else
        timer_stop(d->stagger);
    if (d->pending == 0)
        give_up(d);
}

static void on_stagger(void *arg)
{
    begin_next(arg);
}

static void on_deadline(void *arg)
{
    struct dial *d = arg;

    for (size_t i = 0; i < d->begun; i++)
        if (d->attempts[i].fd >= 0)
            d->error_at = i;
    fail(d, REASON_CONNECT_TIMEOUT, "no answer in time");
}

static void begin(void *arg)
{
    struct dial *d = arg;

    if (!d->over)
        begin_next(d);
}

struct dial *dial_start(struct loop *l, const struct addr *list, size_t n, const struct dial_settings *settings,
                        dial_done *done, void *arg)
{
    struct dial *d = must(calloc(1, sizeof *d));
    struct addr order[DIAL_MAX];

    assert(n >= 1 && n <= DIAL_MAX);
    d->loop = l;
    d->stagger_ms = settings->stagger_ms;
    d->done = done;
    d->arg = arg;
    d->count = n;
    dial_order(list, n, order);
    for (size_t i = 0; i < n; i++)
        d->attempts[i] = (struct attempt){.dial = d, .addr = order[i], .fd = -1};
    d->stagger = timer_new(l, on_stagger, d);
    d->deadline = timer_new(l, on_deadline, d);
    timer_set(d->deadline, settings->timeout_ms);
    loop_defer(l, begin, d);
    return d;
}

void dial_cancel(struct dial *d)
{
    if (d && !d->over)
        end(d);
}
