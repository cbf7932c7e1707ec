#include "proxy/gate.h"

#include <assert.h>
#include <errno.h>
#include <linux/vm_sockets.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/say.h"
#include "base/text.h"
#include "proxy/session.h"
#include "proxy/terms.h"

enum { BATCH = 64, PAUSE_MS = 100, EXHAUSTED_MS = 2000, DROP = 8 };

struct listener {
    struct listener *next;
    char *name;          /* of a bound one: of bound */
    struct bound *bound; /* NULL: shared, as the configuration has it */
    int fd;
    struct addr address; /* TCP: its own */
    struct watch *watch; /* NULL: added, and not open yet */
};

static struct gate {
    struct worker *worker;
    struct listener *listeners;
    struct listener *gone; /* their names stay: records of their connections repeat them */
    struct bound *next;    /* of the listener that is added next */
    struct timer *pause;
    struct lane lane; /* accepting takes turns with everybody */
    bool paused, closed, full; /* full: of memory */
    int64_t exhausted_until_ms; /* 0: not */
} gate;

static void set_accepting(bool on)
{
    for (struct listener *l = gate.listeners; l; l = l->next)
        if (l->watch)
            watch_want(l->watch, on ? WATCH_READ : 0);
}

/* ---- room ---- */

/* The connection that has shown no token for longest goes, if it had half of header-time to. */
static bool evict_one(struct worker *w)
{
    struct session *oldest = TAILQ_FIRST(&w->strangers);

    if (!oldest || loop_now_ms(w->loop) - oldest->began_ms < w->limits.header_ms / 2)
        return false;
    session_evict(oldest);
    return true;
}

static bool has_room(struct worker *w)
{
    return !gate.full && (w->n_sessions < w->limits.connections || evict_one(w));
}

void gate_session_ended(struct worker *w)
{
    if (!gate.closed && !gate.paused && !gate.full && w->n_sessions + 1 == w->limits.connections)
        set_accepting(true);
}

/* ---- out of descriptors or memory ---- */

void gate_exhausted(struct worker *w, int error)
{
    if (!gate.exhausted_until_ms)
        say_warning("%s: no new connections until that is over", strerror(error));
    gate.exhausted_until_ms = loop_now_ms(w->loop) + EXHAUSTED_MS;
    w->counters->values[COUNTER_EXHAUSTED] = (uint64_t)error;
}

/*
 * Nobody says no when memory runs out: the kernel promises it to everybody, and then ends somebody. So who holds much stops
 * taking more by itself. What is open goes on, each connection within its own bounds.
 */
static void look_at_memory(struct worker *w)
{
    struct mallinfo2 held = mallinfo2();
    bool was_full = gate.full;

    gate.full = held.uordblks + held.hblkhd > w->limits.memory;
    if (gate.full) {
        gate_exhausted(w, ENOMEM);
        pool_shrink(w->pool, DROP);
        for (int i = 0; i < DROP && evict_one(w); i++)
            continue;
    }
    if (gate.full != was_full && !gate.closed && !gate.paused)
        set_accepting(!gate.full && w->n_sessions < w->limits.connections);
}

void gate_tick(struct worker *w)
{
    look_at_memory(w);
    if (!gate.exhausted_until_ms || loop_now_ms(w->loop) < gate.exhausted_until_ms)
        return;
    gate.exhausted_until_ms = 0;
    w->counters->values[COUNTER_EXHAUSTED] = 0;
    say_note("there are descriptors and memory again");
}

static void pause_for_a_while(void)
{
    gate.paused = true;
    set_accepting(false);
    timer_set(gate.pause, PAUSE_MS);
}

/* Until a session ends; or, while there are strangers, until one has had its time. */
static void wait_for_room(const struct worker *w)
{
    if (TAILQ_EMPTY(&w->strangers))
        set_accepting(false);
    else
        pause_for_a_while();
}

/* No spinning: what can go goes, and a little later it is tried again. */
static void pause_accepting(int error)
{
    struct worker *w = gate.worker;

    gate_exhausted(w, error);
    pool_shrink(w->pool, DROP);
    for (int i = 0; i < DROP && evict_one(w); i++)
        continue;
    pause_for_a_while();
}

/* ---- accepting ---- */

enum accepted { ACCEPTED, ACCEPT_NONE, ACCEPT_AGAIN, ACCEPT_PAUSED };

/* On a vsock every guest of the machine can knock. */
static bool is_its_guest(const struct listener *l, const struct sockaddr_storage *sa)
{
    struct sockaddr_vm peer;

    if (!l->bound || !l->bound->cid)
        return true;
    memcpy(&peer, sa, sizeof peer);
    if (sa->ss_family == AF_VSOCK && peer.svm_cid == l->bound->cid)
        return true;
    if (!l->bound->warned)
        say_warning("listen.%s: refused the guest with CID %u: it is for CID %u alone", l->name, peer.svm_cid, l->bound->cid);
    l->bound->warned = true;
    return false;
}

static bool is_transparent(const struct listener *l)
{
    if (l->bound && l->bound->is_added)
        return l->bound->is_transparent;
    return terms_is_transparent(gate.worker->terms, l->name);
}

static enum accepted accept_one(const struct listener *l)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;
    int fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
    struct addr source;

    if (fd < 0) {
        if (errno == EAGAIN)
            return ACCEPT_NONE;
        if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
            return ACCEPT_AGAIN; /* of that one connection (accept(2)): the next may be well */
        pause_accepting(errno);
        return ACCEPT_PAUSED;
    }
    if (!is_its_guest(l, &sa)) {
        close(fd);
        return ACCEPTED;
    }
    if (sa.ss_family == AF_INET || sa.ss_family == AF_INET6) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    }
    addr_from_sockaddr(&source, (struct sockaddr *)&sa);
    session_start(gate.worker, fd, l->name, l->bound, &source, is_transparent(l) ? &l->address : NULL);
    return ACCEPTED;
}

static void on_listener(void *arg, unsigned ready)
{
    const struct listener *l = arg;

    (void)ready;
    for (int i = 0; i < BATCH && !lane_is_out(&gate.lane); i++) { /* what waits is told again in the next turn */
        enum accepted how;

        lane_enter(&gate.lane);
        if (!has_room(gate.worker)) {
            wait_for_room(gate.worker);
            return;
        }
        how = accept_one(l);
        if (how == ACCEPT_NONE || how == ACCEPT_PAUSED)
            return;
    }
}

/* The kernel looks for a free descriptor before it looks for a connection: accept itself says whether it is over. */
static void on_pause_over(void *arg)
{
    (void)arg;
    gate.paused = false;
    for (struct listener *l = gate.listeners; l && !gate.closed && !gate.paused; l = l->next)
        on_listener(l, WATCH_READ);
    if (!gate.closed && !gate.paused && !gate.full && gate.worker->n_sessions < gate.worker->limits.connections)
        set_accepting(true);
}

/* ---- begin and end ---- */

void gate_bind(struct bound *b)
{
    bound_unref(gate.next);
    gate.next = b;
}

static struct addr address_of(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;
    struct addr a = {0};

    if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
        addr_from_sockaddr(&a, (struct sockaddr *)&sa);
    return a;
}

void gate_add(struct slice name, int fd)
{
    struct listener *l = calloc(1, sizeof *l);

    if (!l)
        abort();
    *l = (struct listener){.next = gate.listeners, .fd = fd};
    if (gate.next && slice_is(name, gate.next->name)) {
        l->bound = gate.next;
        l->name = l->bound->name;
        gate.next = NULL;
    } else {
        l->name = text_copy(name);
    }
    l->address = address_of(fd);
    gate.listeners = l;
}

bool gate_is_own(const struct addr *a)
{
    for (const struct listener *l = gate.listeners; l; l = l->next)
        if (addr_equals(a, &l->address))
            return true;
    return false;
}

static void open_one(struct listener *l)
{
    if (l->watch)
        return;
    l->watch = watch_new(gate.worker->loop, l->fd, WATCH_READ, on_listener, l);
    if (gate.closed || gate.paused || gate.worker->n_sessions >= gate.worker->limits.connections)
        watch_want(l->watch, 0);
}

static void open_added(void)
{
    for (struct listener *l = gate.listeners; l; l = l->next)
        open_one(l);
}

/* ---- bound listeners ---- */

static void renew_sessions(const struct bound *b)
{
    struct session *next;

    for (struct session *s = TAILQ_FIRST(&gate.worker->sessions); s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (s->bound == b)
            session_renew(s);
    }
}

void gate_token(struct slice name, struct slice token)
{
    for (struct listener *l = gate.listeners; l; l = l->next)
        if (l->bound && slice_is(name, l->name) && bound_set_token(l->bound, token) && gate.worker)
            renew_sessions(l->bound);
}

void gate_open(struct worker *w)
{
    gate.worker = w;
    lane_init(&gate.lane, w->lanes);
    gate.pause = timer_new(w->loop, on_pause_over, NULL);
    open_added();
}

/* ---- another configuration ---- */

static bool is_same_socket(int a, int b)
{
    uint64_t one, other;
    socklen_t len = sizeof one;

    return getsockopt(a, SOL_SOCKET, SO_COOKIE, &one, &len) == 0 &&
           getsockopt(b, SOL_SOCKET, SO_COOKIE, &other, &len) == 0 && one == other;
}

static bool is_for_the_same(const struct listener *a, const struct listener *b)
{
    return strcmp(a->bound ? a->bound->sandbox : "", b->bound ? b->bound->sandbox : "") == 0;
}

/* The listener that has its socket, and its sandbox, under another name now; NULL: none, its connections are to end. */
static struct listener *heir_of(const struct listener *l)
{
    struct listener *other = gate.listeners;

    while (other && (other == l || !other->watch || !is_same_socket(other->fd, l->fd) || !is_for_the_same(other, l)))
        other = other->next;
    return other;
}

static void close_listener(struct listener **at)
{
    struct listener *l = *at, *heir = heir_of(l);
    struct session *next;

    *at = l->next;
    watch_free(l->watch);
    l->watch = NULL;
    close(l->fd);
    for (struct session *s = gate.worker ? TAILQ_FIRST(&gate.worker->sessions) : NULL; s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (s->listener == l->name && heir)
            session_move(s, heir->name, heir->bound);
        else if (s->listener == l->name)
            session_drain(s);
    }
    if (l->bound) { /* its name lives as long as a session of it does */
        bound_unref(l->bound);
        free(l);
        return;
    }
    l->next = gate.gone;
    gate.gone = l;
}

void gate_open_added(struct slice name)
{
    for (struct listener *l = gate.listeners; l; l = l->next)
        if (slice_is(name, l->name))
            open_one(l);
}

void gate_remove(struct slice name)
{
    for (struct listener **at = &gate.listeners; *at;)
        if (slice_is(name, (*at)->name))
            close_listener(at);
        else
            at = &(*at)->next;
}

void gate_abandon(void)
{
    for (struct listener **at = &gate.listeners; *at;)
        if (!(*at)->watch)
            close_listener(at);
        else
            at = &(*at)->next;
}

/* Is another one in front, added later, with this name; or is the name configured no more? */
static bool is_superseded(const struct listener *l, const struct conf *conf)
{
    for (const struct listener *other = gate.listeners; other != l; other = other->next)
        if (strcmp(other->name, l->name) == 0)
            return true;
    return !(l->bound && l->bound->is_added) && !conf_find(conf, "listen", l->name);
}

void gate_renew(const struct conf *conf)
{
    const struct worker *w = gate.worker;

    open_added();
    for (struct listener **at = &gate.listeners; *at;)
        if (is_superseded(*at, conf))
            close_listener(at);
        else
            at = &(*at)->next;
    set_accepting(!gate.closed && !gate.paused && !gate.full && w->n_sessions < w->limits.connections);
}

void gate_close(void)
{
    gate.closed = true;
    set_accepting(false);
}
