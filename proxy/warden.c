/* Owns the ear of one jail and the counts of what it heard. Whom to end, and how, is the supervisor's. */
#include "proxy/warden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "net/jail.h"

/* PATIENCE: refusals of one process, none of them hostile by itself, until it is ended. COUNTS_MAX: names told apart. */
enum { PATIENCE = 256, COUNTS_MAX = 24, BURST = 16 };

#define MESSAGE "message"

struct warden {
    struct loop *loop;
    struct recorder *recorder;
    char name[40];
    void (*end)(void *arg);
    void *arg;

    int ear; /* -1: none */
    struct watch *watch;
    unsigned walls;
    bool closed, ending; /* this process's */
    unsigned refused_now;

    uint64_t refused, ended; /* of all its processes */
    struct warden_count counts[COUNTS_MAX];
    size_t n_counts;
};

struct warden *warden_new(struct loop *l, struct recorder *recorder, enum role role, int index, void (*end)(void *arg),
                          void *arg)
{
    struct warden *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    *w = (struct warden){.loop = l, .recorder = recorder, .end = end, .arg = arg, .ear = -1};
    role_label(role, index, w->name, sizeof w->name);
    return w;
}

static void deafen(struct warden *w)
{
    watch_free(w->watch);
    w->watch = NULL;
    if (w->ear >= 0)
        close(w->ear);
    w->ear = -1;
}

void warden_free(struct warden *w)
{
    if (!w)
        return;
    deafen(w);
    free(w);
}

/* ---- what is counted and told ---- */

/* True when it is the first of its kind. The last place is for all that found none of its own. */
static bool count(struct warden *w, const char *what)
{
    struct warden_count *c = w->counts, *last = &w->counts[COUNTS_MAX - 1];

    w->refused++;
    w->refused_now++;
    while (c < last && c->times && strcmp(c->what, what) != 0)
        c++;
    if (!c->times) {
        snprintf(c->what, sizeof c->what, "%s", c == last ? "other calls" : what);
        w->n_counts++;
    }
    return c->times++ == 0;
}

static void record(struct warden *w, const char *what, struct slice detail)
{
    struct record_writer r = recorder_begin(w->recorder, RECORD_FINDING);

    record_reason(&r, FIELD_REASON, REASON_ROLE_VIOLATION);
    record_text(&r, FIELD_OFFENDER, slice_of(w->name));
    record_text(&r, FIELD_CALL, slice_of(what));
    record_text(&r, FIELD_DETAIL, detail);
    recorder_end(w->recorder, &r, NULL);
}

static void end(struct warden *w)
{
    if (w->ending)
        return;
    w->ending = true;
    w->ended++;
    w->end(w->arg);
}

/* ---- calls ---- */

static void tell_call(struct warden *w, const char *call, bool ends)
{
    struct buf detail = {0};

    buf_printf(&detail, "the kernel refused it %s%s", call, ends ? "; it is ended" : "");
    say_error("%s asked for %s, which its cell does not have: refused%s", w->name, call,
              ends ? "; ending it, for nobody honest does that" : "");
    record(w, call, buf_slice(&detail));
    buf_free(&detail);
}

static void on_refusal(struct warden *w, const struct jail_refusal *refusal)
{
    bool is_new = count(w, refusal->call), ends = refusal->is_hostile || w->refused_now > PATIENCE;

    if (is_new || ends)
        tell_call(w, refusal->call, ends);
    if (ends)
        end(w);
    else
        jail_answer(w->ear, refusal);
}

static void on_ear(void *arg, unsigned ready)
{
    struct warden *w = arg;

    (void)ready;
    for (int i = 0; i < BURST && w->ear >= 0 && !w->ending; i++) {
        struct jail_refusal refusal;
        int heard = jail_hear(w->ear, &refusal);

        if (heard < 0)
            deafen(w);
        if (heard <= 0)
            return;
        on_refusal(w, &refusal);
    }
    if (w->ending && w->watch)
        watch_want(w->watch, 0);
}

/* ---- the process ---- */

void warden_close(struct warden *w, unsigned walls, int ear)
{
    deafen(w);
    w->closed = true;
    w->walls = walls;
    w->ear = ear;
    if (ear >= 0)
        w->watch = watch_new(w->loop, ear, WATCH_READ, on_ear, w);
}

void warden_leave(struct warden *w, bool by_kernel)
{
    deafen(w);
    if (by_kernel && !w->ending) {
        count(w, "a call");
        w->ended++;
        record(w, "a call", SLICE("the kernel ended it for a call that its cell does not have"));
    }
    w->closed = w->ending = false;
    w->refused_now = 0;
}

void warden_accuse(struct warden *w, const char *by, struct slice what)
{
    struct buf detail = {0};

    if (w->ending)
        return;
    count(w, MESSAGE);
    buf_printf(&detail, "it sent the %s what its table does not allow: %.*s; it is ended", by, SLICE_ARG(what));
    say_error("%s sent the %s what its table does not allow: %.*s; ending it", w->name, by, SLICE_ARG(what));
    record(w, MESSAGE, buf_slice(&detail));
    buf_free(&detail);
    end(w);
}

bool warden_is_closed(const struct warden *w)
{
    return w->closed;
}

unsigned warden_walls(const struct warden *w)
{
    return w->walls;
}

uint64_t warden_refused(const struct warden *w)
{
    return w->refused;
}

uint64_t warden_ended(const struct warden *w)
{
    return w->ended;
}

const struct warden_count *warden_counts(const struct warden *w, size_t *n)
{
    *n = w->n_counts;
    return w->counts;
}
