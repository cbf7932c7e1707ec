/* Owns the one reload that is under way, and who waits for it and for the next. */
#include "proxy/reload.h"

#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pack.h"
#include "base/say.h"
#include "proxy/handout.h"
#include "proxy/lexicon.h"
#include "proxy/notify.h"

enum { COMPILE_MS = 180000, PREPARE_MS = 30000, RECORD_MS = 5000, STEP_MS = 10000, STORM_MS = 100 };

enum reload_step { RELOAD_IDLE, RELOAD_COMPILE, RELOAD_PREPARE, RELOAD_RECORD, RELOAD_WIDEN, RELOAD_SWAP, RELOAD_NARROW };

#define ROLES(role) (1u << ROLE_##role)
static const unsigned everybody = ROLES(WORKER) | ROLES(PORTER) | ROLES(KEEPER) | ROLES(SCRIBE) | ROLES(CLERK) | ROLES(USHER);

/* What each step waits for: the answer to this message from these roles, so long. */
static const struct {
    enum role_message message;
    unsigned roles;
    int64_t wait_ms;
} steps[] = {
    [RELOAD_COMPILE] = {0, 0, COMPILE_MS},
    [RELOAD_PREPARE] = {MSG_RELOAD, everybody, PREPARE_MS},
    [RELOAD_RECORD] = {0, 0, RECORD_MS},
    [RELOAD_WIDEN] = {MSG_SWITCH, ROLES(PORTER) | ROLES(KEEPER), STEP_MS},
    [RELOAD_SWAP] = {MSG_SWITCH, ROLES(WORKER) | ROLES(CLERK) | ROLES(SCRIBE) | ROLES(USHER), STEP_MS},
    [RELOAD_NARROW] = {MSG_SETTLE, everybody, STEP_MS},
};

struct waiter {
    struct waiter *next;
    struct asker who;
};

struct reload {
    struct supervisor *s;
    const char *path;
    enum reload_step step;
    uint64_t generation, last_generation;
    struct gateway_config *next, *before; /* before: in force until the record; kept until all have settled */
    struct listeners plan, left;
    struct timer *late, *again;
    struct lexicon_work work;
    struct record_wait record;
    struct waiter *waiters, *later; /* of this one, and of the next */
    char error[FAULT_TEXT_SIZE + 80];
    int64_t last_at_s, ended_ms;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- who waits ---- */

static void answer(struct reload *r, const struct waiter *w, const struct fault *why)
{
    json_t *body;
    char *line;

    if (!w->who.clerk)
        return;
    if (why)
        body = json_pack("{s:b, s:s, s:b, s:I}", "ok", 0, "error", why->text, "configuration",
                         why->kind == FAULT_SYNTAX || why->kind == FAULT_MISSING, "generation",
                         (json_int_t)r->s->generation);
    else
        body = json_pack("{s:b, s:I}", "ok", 1, "generation", (json_int_t)r->s->generation);
    line = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (line)
        supervisor_answer(&w->who, slice_of(line));
    free(line);
    json_decref(body);
}

static void answer_all(struct reload *r, const struct fault *why)
{
    struct waiter *w;

    while ((w = r->waiters)) {
        r->waiters = w->next;
        answer(r, w, why);
        free(w);
    }
}

static const struct asker *first_person(const struct reload *r)
{
    for (const struct waiter *w = r->waiters; w; w = w->next)
        if (w->who.clerk)
            return &w->who;
    return NULL;
}

/* ---- the record ---- */

static void write_record(struct reload *r, const char *outcome, const struct fault *why, struct record_wait *wait)
{
    const struct asker *person = first_person(r);
    struct record_writer w = recorder_begin(r->s->recorder, RECORD_RELOAD);
    unsigned char digest[32];

    if (r->next) {
        gateway_digest(r->next, digest);
        record_hex(&w, FIELD_HASH, slice_make(digest, sizeof digest));
    }
    record_text(&w, FIELD_OUTCOME, slice_of(outcome));
    if (why)
        record_text(&w, FIELD_DETAIL, slice_of(why->text));
    record_text(&w, FIELD_BY, person ? SLICE("admin") : SLICE("signal"));
    if (person)
        record_number(&w, FIELD_UID, (int64_t)person->uid);
    recorder_end(r->s->recorder, &w, wait);
}

/* ---- the end ---- */

/* A storm of signals is one reload in STORM_MS; a person is not made to wait. */
static void begin_soon(struct reload *r)
{
    int64_t wait = r->last_at_s ? r->ended_ms + STORM_MS - loop_now_ms(r->s->loop) : 0;

    for (const struct waiter *w = r->later; w; w = w->next)
        if (w->who.clerk)
            wait = 0;
    timer_set(r->again, wait > 0 ? wait : 0);
}

static void end(struct reload *r)
{
    r->step = RELOAD_IDLE;
    timer_stop(r->late);
    r->last_at_s = clock_wall_s();
    r->ended_ms = loop_now_ms(r->s->loop);
    notify_ready();
    if (r->later)
        begin_soon(r);
}

static void tell_abandon(struct reload *r)
{
    struct buf message = {0};

    pack_u64(&message, r->generation);
    for (size_t i = 0; i < r->s->n_processes; i++)
        process_tell(&r->s->processes[i], MSG_ABANDON, &message, -1);
    buf_free(&message);
}

/* What is open from now on. */
static void tell_own(struct reload *r)
{
    for (size_t i = 0; i < r->s->n_processes; i++)
        if (r->s->processes[i].role == ROLE_PORTER)
            handout_own(&r->s->processes[i], &r->s->assets.listening, NULL);
}

static void fail(struct reload *r, const struct fault *why)
{
    lexicon_stop(&r->work);
    recorder_cancel(r->s->recorder, &r->record);
    recorder_stamp(r->s->recorder, r->s->generation);
    if (r->step != RELOAD_IDLE)
        tell_abandon(r);
    write_record(r, "refused", why, NULL);
    say_error("not reloaded: %s; generation %llu stays in force", why->text, (unsigned long long)r->s->generation);
    snprintf(r->error, sizeof r->error, "%s", why->text);
    listening_abandon(&r->plan);
    if (r->step != RELOAD_IDLE)
        tell_own(r);
    gateway_config_free(r->next);
    r->next = NULL;
    answer_all(r, why);
    end(r);
}

static void say_notes(const struct listeners *l)
{
    struct buf lines = {0};
    struct slice rest, line;

    listening_note(l, &lines);
    rest = buf_slice(&lines);
    while (slice_next(&rest, '\n', &line))
        if (line.len)
            say_note("%.*s", SLICE_ARG(line));
    buf_free(&lines);
}

static void succeed(struct reload *r)
{
    listening_close(&r->left);
    tell_own(r);
    gateway_config_free(r->before);
    r->before = NULL;
    r->error[0] = '\0';
    for (size_t i = 0; i < r->s->config->n_warnings; i++)
        say_warning("%s", r->s->config->warnings[i]);
    closure_remind(r->s);
    say_notes(&r->s->assets.listening);
    say_note("reloaded: generation %llu is in force", (unsigned long long)r->generation);
    answer_all(r, NULL);
    end(r);
}

/* ---- the steps ---- */

static bool takes_part(const struct reload *r, const struct process *p)
{
    return steps[r->step].roles >> p->role & 1;
}

static void hand_listeners(struct reload *r, struct process *p)
{
    for (size_t i = 0; p->role != ROLE_CLERK && i < r->plan.n; i++)
        if (handout_is_for(p, &r->plan.list[i]) && listening_is_news(&r->s->assets.listening, &r->plan.list[i]))
            handout_listener(p, &r->plan.list[i]);
}

static void ask_process(struct reload *r, struct process *p)
{
    struct buf message = {0};

    p->did = false;
    if (r->step == RELOAD_PREPARE) {
        hand_listeners(r, p);
        if (p->role == ROLE_PORTER)
            handout_own(p, &r->s->assets.listening, &r->plan);
        handout_config(p, MSG_RELOAD, r->next, r->generation);
        return;
    }
    if (r->step == RELOAD_SWAP || r->step == RELOAD_WIDEN)
        p->did = p->generation == r->generation; /* it died meanwhile, and began with the new one */
    if (p->did)
        return;
    pack_u64(&message, r->generation);
    process_tell(p, steps[r->step].message, &message, -1);
    buf_free(&message);
}

static void advance(struct reload *r);

static void enter(struct reload *r, enum reload_step step)
{
    r->step = step;
    timer_set(r->late, steps[step].wait_ms);
    for (size_t i = 0; i < r->s->n_processes; i++) {
        struct process *p = &r->s->processes[i];

        p->did = false;
        if (takes_part(r, p) && p->state == PROCESS_UP)
            ask_process(r, p);
    }
    advance(r);
}

static void on_recorded(void *arg, bool ok);

static void begin_record(struct reload *r)
{
    r->step = RELOAD_RECORD;
    timer_set(r->late, steps[RELOAD_RECORD].wait_ms);
    recorder_stamp(r->s->recorder, r->generation);
    r->record = (struct record_wait){.on_recorded = on_recorded, .arg = r};
    write_record(r, "accepted", NULL, &r->record);
}

static void on_recorded(void *arg, bool ok)
{
    struct reload *r = arg;
    struct fault why = {0};

    if (!ok) {
        fault_set(&why, FAULT_IO, "the journal takes no records, and without one nothing changes");
        fail(r, &why);
        return;
    }
    r->before = r->s->config;
    r->s->config = r->next;
    r->next = NULL;
    r->s->generation = r->generation;
    listening_adopt(&r->s->assets.listening, &r->plan, &r->left);
    enter(r, RELOAD_WIDEN);
}

static bool all_did(const struct reload *r)
{
    for (size_t i = 0; i < r->s->n_processes; i++)
        if (takes_part(r, &r->s->processes[i]) && !r->s->processes[i].did)
            return false;
    return true;
}

static void advance(struct reload *r)
{
    if (r->step == RELOAD_IDLE || r->step == RELOAD_COMPILE || r->step == RELOAD_RECORD || !all_did(r))
        return;
    switch (r->step) {
    case RELOAD_PREPARE:
        begin_record(r);
        break;
    case RELOAD_WIDEN:
        enter(r, RELOAD_SWAP);
        break;
    case RELOAD_SWAP:
        enter(r, RELOAD_NARROW);
        break;
    default:
        succeed(r);
    }
}

/* Before the record a slow role ends the reload; after it, the role: it starts again, with the new set. */
static void on_late(void *arg)
{
    struct reload *r = arg;
    struct fault why = {0};

    if (r->s->stopping)
        return;
    if (r->step == RELOAD_COMPILE)
        fault_set(&why, FAULT_TIMEOUT, "the canaries were not compiled in %d s", COMPILE_MS / 1000);
    if (r->step == RELOAD_RECORD)
        fault_set(&why, FAULT_TIMEOUT, "the journal did not take the record in time");
    for (size_t i = 0; i < r->s->n_processes; i++) {
        struct process *p = &r->s->processes[i];

        if (!takes_part(r, p) || p->did)
            continue;
        if (r->step == RELOAD_PREPARE) {
            fault_set(&why, FAULT_TIMEOUT, "%s did not build it in %d s", process_name(p), PREPARE_MS / 1000);
        } else if (p->pid) {
            say_error("%s does not go over to another configuration: ending it", process_name(p));
            kill(p->pid, SIGKILL);
        }
    }
    if (why.kind)
        fail(r, &why);
    else
        timer_set(r->late, steps[r->step].wait_ms);
}

/* ---- the beginning ---- */

/* All that can be refused without asking a role. */
static bool load(struct reload *r, struct fault *why)
{
    struct supervisor *s = r->s;
    bool issued = false;

    if (s->stopping)
        return fault_set(why, FAULT_BUSY, "the gateway is stopping");
    if (!(r->next = gateway_config_load(r->path, why)) || !gateway_check_change(s->config, r->next, why) ||
        !listening_plan(&r->plan, &s->assets.listening, r->next, (size_t)s->assets.n_workers, why) ||
        !gateway_ensure_ca(r->next, &issued, why))
        return false;
    if (issued)
        say_note("the CA's intermediate was issued anew for the listed hosts");
    return true;
}

static void begin_compile(struct reload *r)
{
    struct fault why = {0};

    if (lexicon_share(r->next, r->s->config)) {
        enter(r, RELOAD_PREPARE);
        return;
    }
    r->step = RELOAD_COMPILE;
    timer_set(r->late, steps[RELOAD_COMPILE].wait_ms);
    if (!lexicon_start(&r->work, r->next, &why))
        fail(r, &why);
}

static void begin(struct reload *r)
{
    struct fault why = {0};

    assert(r->step == RELOAD_IDLE && !r->waiters);
    r->waiters = r->later;
    r->later = NULL;
    notify_reloading();
    if (!load(r, &why)) {
        fail(r, &why);
        return;
    }
    r->generation = ++r->last_generation;
    begin_compile(r);
}

void reload_on_child(struct reload *r, pid_t pid, int status)
{
    struct fault why = {0};

    if (r->step != RELOAD_COMPILE || pid != r->work.pid)
        return;
    if (lexicon_finish(&r->work, status, r->next, &why))
        enter(r, RELOAD_PREPARE);
    else
        fail(r, &why);
}

static void begin_later(void *arg)
{
    struct reload *r = arg;

    if (r->step == RELOAD_IDLE && r->later)
        begin(r);
}

void reload_ask(struct reload *r, const struct asker *who)
{
    struct waiter *w = must(calloc(1, sizeof *w));

    w->who = *who;
    w->next = r->later;
    r->later = w;
    if (r->step == RELOAD_IDLE)
        begin_soon(r);
}

/* ---- what processes say ---- */

void reload_on_ready(struct reload *r, struct process *p)
{
    if (r->step == RELOAD_PREPARE) {
        ask_process(r, p);
    } else if (r->step != RELOAD_IDLE) {
        p->did = true;
        advance(r);
    }
}

void reload_on_death(struct reload *r, struct process *p)
{
    p->did = false;
    for (struct waiter *w = r->waiters; w && p->role == ROLE_CLERK; w = w->next)
        w->who.id = 0; /* nobody there has asked any more; recorded all the same */
    for (struct waiter *w = r->later; w && p->role == ROLE_CLERK; w = w->next)
        w->who.id = 0;
}

void reload_on_did(struct reload *r, struct process *p, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint16_t message = unpack_u16(&u);
    uint64_t generation = unpack_u64(&u);

    if (!unpack_done(&u) || r->step == RELOAD_IDLE || generation != r->generation || message != steps[r->step].message ||
        !takes_part(r, p))
        return; /* of one that was given up */
    if (message == MSG_SWITCH)
        p->generation = generation;
    p->did = true;
    advance(r);
}

void reload_on_cannot(struct reload *r, struct process *p, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint64_t generation = unpack_u64(&u);
    struct slice text = unpack_bytes(&u);
    struct fault why = {0};

    if (!unpack_done(&u) || r->step != RELOAD_PREPARE || generation != r->generation)
        return;
    fault_set(&why, FAULT_REFUSED, "%s cannot take it: %.*s", process_name(p), SLICE_ARG(text));
    fail(r, &why);
}

bool reload_is_busy(const struct reload *r)
{
    return r->step != RELOAD_IDLE;
}

bool reload_holds_starts(const struct reload *r)
{
    return r->step == RELOAD_RECORD;
}

const char *reload_last_error(const struct reload *r, int64_t *at_s)
{
    *at_s = r->last_at_s;
    return r->last_at_s ? r->error : NULL;
}

struct reload *reload_new(struct supervisor *s, const char *path)
{
    struct reload *r = must(calloc(1, sizeof *r));

    *r = (struct reload){.s = s, .path = path, .last_generation = s->generation};
    r->late = timer_new(s->loop, on_late, r);
    r->again = timer_new(s->loop, begin_later, r);
    return r;
}

void reload_free(struct reload *r)
{
    struct waiter *w;

    if (!r)
        return;
    while ((w = r->waiters ? r->waiters : r->later)) {
        *(r->waiters ? &r->waiters : &r->later) = w->next;
        free(w);
    }
    lexicon_stop(&r->work);
    listening_abandon(&r->plan);
    listening_close(&r->left);
    gateway_config_free(r->next);
    gateway_config_free(r->before);
    timer_free(r->late);
    timer_free(r->again);
    free(r);
}
