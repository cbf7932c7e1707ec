/* Owns the libevent base. Knows descriptors and times, nothing of what flows. */
#include "net/loop.h"

#include <assert.h>
#include <event2/event.h>
#include <event2/event_struct.h> /* EVLIST_ACTIVE: no function tells it from "added" */
#include <stdlib.h>

#include "base/clock.h"

/* A turn whose beginning lies further back knows nothing of what is there now. */
#define MOMENT_NS (500 * 1000)

struct task {
    void (*run)(void *arg);
    void *arg;
};

struct tasks {
    struct task *list;
    size_t count, cap;
};

struct signal_watch {
    struct signal_watch *next;
    struct event *event;
    void (*on)(void *arg, int signal);
    void *arg;
};

struct loop {
    struct event_base *base;
    struct tasks deferred, running, each_turn;
    struct signal_watch *signals;
    bool stopped;
    bool busy;  /* a descriptor was ready in this turn */
    bool fresh; /* the clocks below were read in this turn */
    int64_t mono_ns, mono_ms, wall_ns;
};

struct watch {
    struct loop *loop;
    struct event *event; /* memory of libevent's, made once */
    int fd;
    unsigned want;
    void (*on)(void *arg, unsigned ready);
    void *arg;
};

struct timer {
    struct loop *loop;
    struct event *event;
    int64_t due_ms;   /* 0: not set */
    int64_t armed_ms; /* when libevent will call; 0: not armed */
    void (*on)(void *arg);
    void *arg;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct loop *loop_new(void)
{
    struct loop *l = must(calloc(1, sizeof *l));
    struct event_config *config = must(event_config_new());

    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV);
    l->base = must(event_base_new_with_config(config));
    event_config_free(config);
    return l;
}

static void run_deferred(struct loop *l);

void loop_free(struct loop *l)
{
    if (!l)
        return;
    while (l->deferred.count)
        run_deferred(l);
    while (l->signals) {
        struct signal_watch *s = l->signals;

        l->signals = s->next;
        event_free(s->event);
        free(s);
    }
    event_base_free(l->base);
    free(l->deferred.list);
    free(l->running.list);
    free(l->each_turn.list);
    free(l);
}

static void tasks_add(struct tasks *t, struct task task)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 16;
        t->list = must(realloc(t->list, t->cap * sizeof *t->list));
    }
    t->list[t->count++] = task;
}

static void run_deferred(struct loop *l)
{
    struct tasks now = l->deferred;

    l->deferred = l->running;
    l->running = now;
    for (size_t i = 0; i < l->running.count; i++)
        l->running.list[i].run(l->running.list[i].arg);
    l->running.count = 0;
}

void loop_run(struct loop *l)
{
    while (!l->stopped) {
        l->busy = false;
        l->fresh = false; /* the clocks may have been read before the wait */
        event_base_loop(l->base, EVLOOP_ONCE | (l->deferred.count ? EVLOOP_NONBLOCK : 0));
        run_deferred(l);
        for (size_t i = 0; i < l->each_turn.count; i++)
            l->each_turn.list[i].run(l->each_turn.list[i].arg);
    }
    l->stopped = false;
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
}

bool loop_is_busy(const struct loop *l)
{
    return l->busy && !l->stopped; /* no look follows the last turn */
}

static void read_clocks(struct loop *l)
{
    if (l->fresh)
        return;
    l->mono_ns = clock_mono_ns();
    l->mono_ms = l->mono_ns / 1000000;
    l->wall_ns = clock_wall_ns();
    l->fresh = true;
}

int64_t loop_now_ms(const struct loop *l)
{
    read_clocks((struct loop *)l);
    return l->mono_ms;
}

int64_t loop_wall_ns(const struct loop *l)
{
    read_clocks((struct loop *)l);
    return l->wall_ns;
}

int64_t loop_wall_s(const struct loop *l)
{
    return loop_wall_ns(l) / 1000000000;
}

void loop_defer(struct loop *l, void (*run)(void *arg), void *arg)
{
    tasks_add(&l->deferred, (struct task){run, arg});
}

void loop_each_turn(struct loop *l, void (*run)(void *arg), void *arg)
{
    tasks_add(&l->each_turn, (struct task){run, arg});
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct watch *w = arg;
    unsigned ready = (what & EV_READ ? WATCH_READ : 0) | (what & EV_WRITE ? WATCH_WRITE : 0) |
                     (what & EV_CLOSED ? WATCH_CLOSED | WATCH_READ : 0);

    (void)fd;
    if (!w->loop->busy)
        read_clocks(w->loop); /* the kernel has answered just now */
    w->loop->busy = true;
    w->on(w->arg, ready);
}

struct watch *watch_new(struct loop *l, int fd, unsigned want, void (*on)(void *arg, unsigned ready), void *arg)
{
    struct watch *w = must(calloc(1, sizeof *w + event_get_struct_event_size()));

    w->loop = l;
    w->event = (struct event *)(w + 1);
    w->fd = fd;
    w->on = on;
    w->arg = arg;
    watch_want(w, want);
    return w;
}

void watch_want(struct watch *w, unsigned want)
{
    short what = EV_PERSIST;

    if (w->want == want)
        return;
    if (w->want)
        event_del(w->event);
    w->want = want;
    if (!want)
        return;
    if (want & WATCH_READ)
        what |= EV_READ;
    if (want & WATCH_WRITE)
        what |= EV_WRITE;
    if (want & WATCH_EDGE)
        what |= EV_ET | (want & WATCH_READ ? EV_CLOSED : 0);
    if (event_assign(w->event, w->loop->base, w->fd, what, on_ready, w) < 0 || event_add(w->event, NULL) < 0)
        abort();
}

bool watch_is_silent(const struct watch *w)
{
    const struct loop *l = w->loop;

    if (!(w->want & WATCH_READ) || !l->busy || w->event->ev_evcallback.evcb_flags & (EVLIST_ACTIVE | EVLIST_ACTIVE_LATER))
        return false;
    return clock_mono_ns() - l->mono_ns < MOMENT_NS;
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    watch_want(w, 0);
    free(w);
}

static void arm(struct timer *t, int64_t now)
{
    int64_t left = t->due_ms > now ? t->due_ms - now : 0;
    struct timeval wait = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};

    t->armed_ms = t->due_ms;
    if (event_add(t->event, &wait) < 0)
        abort();
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct timer *t = arg;
    int64_t now = loop_now_ms(t->loop);

    (void)fd;
    (void)what;
    t->armed_ms = 0;
    if (t->due_ms == 0)
        return;
    if (t->due_ms > now) {
        arm(t, now);
        return;
    }
    t->due_ms = 0;
    t->on(t->arg);
}

struct timer *timer_new(struct loop *l, void (*on)(void *arg), void *arg)
{
    struct timer *t = must(calloc(1, sizeof *t + event_get_struct_event_size()));

    t->loop = l;
    t->event = (struct event *)(t + 1);
    t->on = on;
    t->arg = arg;
    if (event_assign(t->event, l->base, -1, 0, on_time, t) < 0)
        abort();
    return t;
}

void timer_set(struct timer *t, int64_t ms_from_now)
{
    int64_t now = loop_now_ms(t->loop);

    t->due_ms = now + (ms_from_now > 0 ? ms_from_now : 1);
    if (t->armed_ms == 0 || t->armed_ms > t->due_ms)
        arm(t, now);
}

void timer_stop(struct timer *t)
{
    t->due_ms = 0;
}

void timer_free(struct timer *t)
{
    if (!t)
        return;
    event_del(t->event);
    free(t);
}

static void on_signal(evutil_socket_t signal, short what, void *arg)
{
    struct signal_watch *s = arg;

    (void)what;
    s->on(s->arg, (int)signal);
}

void loop_on_signal(struct loop *l, int signal, void (*on)(void *arg, int signal), void *arg)
{
    struct signal_watch *s = must(calloc(1, sizeof *s));

    s->on = on;
    s->arg = arg;
    s->event = must(evsignal_new(l->base, signal, on_signal, s));
    event_add(s->event, NULL);
    s->next = l->signals;
    l->signals = s;
}
