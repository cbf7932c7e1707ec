/* Owns the processes of the gateway. */
#include "proxy/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pack.h"
#include "base/say.h"
#include "proxy/handout.h"
#include "proxy/lexicon.h"
#include "proxy/notify.h"
#include "proxy/powers.h"
#include "proxy/reload.h"
#include "proxy/sources.h"
#include "proxy/spawn.h"
#include "proxy/suspects.h"

enum { BACKOFF_MIN_MS = 100, BACKOFF_MAX_MS = 5000, STABLE_MS = 30000, STOP_MS = 10000, RETRY_MS = 2000, HELD_MS = 20 };

static struct supervisor *the_supervisor;

static void start_process(struct process *p);

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static bool all_are_up(const struct supervisor *s)
{
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].state != PROCESS_UP)
            return false;
    return true;
}

/* ---- life and death ---- */

static void say_notes(struct slice rest)
{
    struct slice line;

    while (slice_next(&rest, '\n', &line))
        if (line.len)
            say_note("%.*s", SLICE_ARG(line));
}

/* What stands around no role, or not around each that should have it. */
static void note_walls(struct supervisor *s)
{
    struct buf notes = {0};
    unsigned missing = 0;

    for (size_t i = 0; i < s->n_processes; i++)
        missing |= cell_walls(s->processes[i].role) & ~warden_walls(s->processes[i].warden);
    cell_explain(missing, &notes);
    say_notes(buf_slice(&notes));
    buf_append(&s->notes, buf_slice(&notes));
    buf_free(&notes);
}

static void announce(struct supervisor *s)
{
    struct buf line = {0};

    if (s->was_ready || !all_are_up(s))
        return;
    s->was_ready = true;
    note_walls(s);
    for (size_t i = 0; i < s->assets.listening.n; i++)
        buf_printf(&line, " %s %s", s->assets.listening.list[i].name, s->assets.listening.list[i].address);
    say_note("ready%.*s", SLICE_ARG(buf_slice(&line)));
    buf_free(&line);
    notify_ready();
}

static void give_up(struct supervisor *s, int status)
{
    s->exit_status = status;
    s->stopping = true;
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].pid)
            kill(s->processes[i].pid, SIGKILL);
    loop_stop(s->loop);
}

/* A role that cannot start for the first time will not start the second time. */
static void on_failed(struct process *p, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct slice text = unpack_bytes(&u);

    say_error("%s cannot start: %.*s", process_name(p), SLICE_ARG(text));
    pulse_trouble(p, text);
    if (!the_supervisor->was_ready)
        give_up(the_supervisor, 2);
}

void supervisor_answer(const struct asker *who, struct slice answer)
{
    struct buf message = {0};

    if (!who->id)
        return;
    pack_u32(&message, who->id);
    pack_bytes(&message, answer);
    process_tell(who->clerk, MSG_ADMIN_ANSWER, &message, -1);
    buf_free(&message);
}

static void on_admin(struct process *p, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct asker who = {.clerk = p, .id = unpack_u32(&u), .uid = unpack_u32(&u)};
    struct slice request = unpack_bytes(&u);
    struct buf answer = {0};

    if (unpack_done(&u) && orders_take(the_supervisor, &who, request, &answer))
        supervisor_answer(&who, buf_slice(&answer));
    buf_free(&answer);
}

static void on_trouble(struct process *p, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct slice text = unpack_bytes(&u);

    if (unpack_done(&u))
        pulse_trouble(p, text);
}

static void end_process(void *arg)
{
    struct process *p = arg;

    if (p->pid)
        kill(p->pid, SIGKILL);
}

static void accuse(struct process *p, const char *what)
{
    warden_accuse(p->warden, role_name(ROLE_SUPERVISOR), slice_of(what));
}

/* Its cell is closed. That comes before any peer's word, so once for each process, and before READY. */
static void on_closed(struct process *p, struct slice payload, int ear)
{
    struct unpack u = unpack_start(payload);
    unsigned walls = unpack_u32(&u);

    if (unpack_done(&u) && !warden_is_closed(p->warden)) {
        warden_close(p->warden, walls, ear);
        return;
    }
    if (ear >= 0)
        close(ear);
    accuse(p, "a second CLOSED");
}

static void on_violation(struct process *by, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint8_t role = unpack_u8(&u);
    uint16_t index = unpack_u16(&u);
    struct slice what = unpack_bytes(&u);

    if (!unpack_done(&u) || role >= N_ROLES || !handout_serves(by->role, (enum role)role)) {
        accuse(by, "a VIOLATION that is not its to tell");
        return;
    }
    for (size_t i = 0; i < the_supervisor->n_processes; i++) {
        struct process *p = &the_supervisor->processes[i];

        if (p->role == role && p->index == index && p->pid)
            warden_accuse(p->warden, role_name(by->role), what);
    }
}

static void on_ready(struct process *p)
{
    if (p->state != PROCESS_STARTING || !warden_is_closed(p->warden)) {
        accuse(p, "READY out of turn");
        return;
    }
    p->state = PROCESS_UP;
    if (p->troubled != p->pid)
        p->trouble[0] = '\0';
    announce(the_supervisor);
    reload_on_ready(the_supervisor->reload, p);
}

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct process *p = arg;

    if (fd >= 0 && type != MSG_CLOSED) {
        close(fd);
        accuse(p, "a descriptor");
    } else if (type == MSG_CLOSED) {
        on_closed(p, payload, fd);
    } else if (type == MSG_READY) {
        on_ready(p);
    } else if (type == MSG_PONG) {
        pulse_answered(p);
    } else if (type == MSG_TROUBLE) {
        on_trouble(p, payload);
    } else if (type == MSG_FAILED && p->state == PROCESS_STARTING) {
        on_failed(p, payload);
    } else if (type == MSG_VIOLATION) {
        on_violation(p, payload);
    } else if (type == MSG_ADMIN && p->role == ROLE_CLERK) {
        on_admin(p, payload);
    } else if (type == MSG_FETCH && p->role == ROLE_KEEPER && sources_fetch(the_supervisor->sources, p, payload)) {
        return;
    } else if (type == MSG_FETCHED_KEYS && p->role == ROLE_CLERK && keybox_fetched(the_supervisor, payload)) {
        return;
    } else if (type == MSG_LEAKED && p->role == ROLE_WORKER && quarantine_leak(the_supervisor, payload)) {
        return;
    } else if (type == MSG_WANT_KEYS && p->role == ROLE_WORKER && keybox_wanted(the_supervisor, payload)) {
        return;
    } else if (type == MSG_DID) {
        reload_on_did(the_supervisor->reload, p, payload);
    } else if (type == MSG_CANNOT) {
        reload_on_cannot(the_supervisor->reload, p, payload);
    } else {
        accuse(p, "a message that is not in it");
    }
}

static void on_end(void *arg)
{
    struct process *p = arg;

    channel_free(p->control);
    p->control = NULL;
}

static const struct channel_handler handler = {on_message, on_end};

static bool spawn(struct supervisor *s, struct process *p, int *control, struct fault *why)
{
    struct spawn_plan plan = {.role = p->role,
                              .index = p->index,
                              .uid = p->uid,
                              .gid = p->gid,
                              .apart = cell_walls(p->role) & CELL_NETWORK,
                              .debug = s->debug};
    pid_t pid = -1;

    if (p->role != ROLE_SCRIBE || assets_find_journal(&s->assets, p->uid, p->gid, why))
        pid = spawn_role(&plan, control, why);
    p->pid = pid > 0 ? pid : 0;
    p->pinged = false;
    p->silent = 0;
    return pid > 0;
}

static void launch(struct supervisor *s, struct process *p)
{
    struct fault why = {0};
    int control;

    if (p->role == ROLE_WORKER)
        assets_mend(&s->assets, p->index);
    if (!spawn(s, p, &control, &why)) {
        say_error("%s cannot be started: %s", process_name(p), why.text);
        pulse_trouble(p, slice_of(why.text));
        timer_set(p->timer, RETRY_MS);
        return;
    }
    p->state = PROCESS_STARTING;
    p->started_ms = loop_now_ms(s->loop);
    p->control = channel_new(s->loop, control, &handler, p);
    p->generation = s->generation;
    handout_config(p, MSG_CONFIG, s->config, s->generation);
    handout_assets(s, p);
    if (p->role == ROLE_SCRIBE)
        handout_ourselves(s, p);
}

static void start_process(struct process *p)
{
    struct supervisor *s = the_supervisor;

    launch(s, p);
    for (size_t i = 0; i < s->n_processes; i++)
        if (&s->processes[i] != p && handout_is_wired(p->role, s->processes[i].role))
            handout_channel(p, &s->processes[i]);
    process_tell(p, MSG_GO, NULL, -1);
}

static void on_backoff_over(void *arg)
{
    struct process *p = arg;

    if (reload_holds_starts(the_supervisor->reload))
        timer_set(p->timer, HELD_MS);
    else if (!the_supervisor->stopping)
        start_process(p);
}

static int64_t backoff(const struct process *p)
{
    int64_t wait = BACKOFF_MIN_MS;

    for (unsigned i = 1; i < p->restarts && wait < BACKOFF_MAX_MS; i++)
        wait *= 2;
    return wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS;
}

static void tell_death(struct supervisor *s, const struct process *p, int status)
{
    char how[80];

    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    say_error("%s (pid %d) %s; starting it again", process_name(p), (int)p->pid, how);
    pulse_death(s, p, how);
}

static void next_of_stop(struct supervisor *s);

static void on_death(struct supervisor *s, struct process *p, int status)
{
    if (!s->stopping)
        tell_death(s, p, status);
    if (!s->stopping && p->role == ROLE_WORKER)
        quarantine_crash(s, p);
    channel_free(p->control);
    warden_leave(p->warden, WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    p->control = NULL;
    p->pid = 0;
    p->state = PROCESS_DOWN;
    reload_on_death(s->reload, p);
    if (s->stopping) {
        next_of_stop(s);
        return;
    }
    if (loop_now_ms(s->loop) - p->started_ms > STABLE_MS)
        p->restarts = 0;
    p->restarts++;
    timer_set(p->timer, backoff(p));
}

static void on_child(void *arg, int signal)
{
    struct supervisor *s = arg;
    int status;
    pid_t pid;

    (void)signal;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        sources_on_child(s->sources, pid, status);
        reload_on_child(s->reload, pid, status);
        for (size_t i = 0; i < s->n_processes; i++)
            if (s->processes[i].pid == pid)
                on_death(s, &s->processes[i], status);
    }
}

/* ---- stopping: those who take work first, the scribe last ---- */

static const enum role stop_order[] = {ROLE_WORKER, ROLE_USHER, ROLE_CLERK, ROLE_PORTER, ROLE_KEEPER, ROLE_SCRIBE};

static void next_of_stop(struct supervisor *s)
{
    for (size_t k = 0; k < sizeof stop_order / sizeof *stop_order; k++) {
        bool running = false;

        for (size_t i = 0; i < s->n_processes; i++) {
            struct process *p = &s->processes[i];

            if (p->role != stop_order[k] || !p->pid)
                continue;
            running = true;
            if (!p->told_stop)
                process_tell(p, MSG_STOP, NULL, -1);
            p->told_stop = true;
        }
        if (running)
            return;
    }
    loop_stop(s->loop);
}

static void on_stop_late(void *arg)
{
    struct supervisor *s = arg;

    say_warning("open exchanges did not end in %d s; cutting them", STOP_MS / 1000);
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].pid && s->processes[i].told_stop)
            kill(s->processes[i].pid, SIGKILL);
    timer_set(s->stop_timer, STOP_MS);
}

static void on_terminate(void *arg, int signal)
{
    struct supervisor *s = arg;

    (void)signal;
    if (s->stopping)
        return;
    s->stopping = true;
    say_note("stopping");
    notify_stopping();
    timer_set(s->stop_timer, STOP_MS);
    next_of_stop(s);
}

static void on_hangup(void *arg, int signal)
{
    struct supervisor *s = arg;

    (void)signal;
    reload_ask(s->reload, &(struct asker){0});
}

/* ---- start ---- */

static void plan_processes(struct supervisor *s)
{
    static const enum role singles[] = {ROLE_SCRIBE, ROLE_KEEPER, ROLE_PORTER, ROLE_CLERK, ROLE_USHER};
    size_t n = sizeof singles / sizeof *singles;

    s->n_processes = n + (size_t)s->assets.n_workers;
    s->processes = must(calloc(s->n_processes, sizeof *s->processes));
    for (size_t i = 0; i < s->n_processes; i++) {
        struct process *p = &s->processes[i];

        p->role = i < n ? singles[i] : ROLE_WORKER;
        p->index = i < n ? 0 : (int)(i - n);
        p->timer = timer_new(s->loop, on_backoff_over, p);
        p->warden = warden_new(s->loop, s->recorder, p->role, p->index, end_process, p);
    }
}

static bool choose_users(struct supervisor *s, struct fault *why)
{
    const char *prefix = conf_text(conf_section(s->config->conf, "gateway"), "user-prefix");
    bool all_named = true;

    if (geteuid() != 0) {
        buf_text(&s->notes, "not started as root: all roles share one user\n");
        return true;
    }
    for (size_t i = 0; i < s->n_processes; i++) {
        struct process *p = &s->processes[i];
        bool named;

        if (!spawn_user(prefix, p->role, &p->uid, &p->gid, &named))
            return fault_set(why, FAULT_REFUSED, "no user of its own for the %s: create %s-%s", role_name(p->role),
                             prefix, role_name(p->role));
        all_named = all_named && named;
        if (p->role == ROLE_SCRIBE && !assets_give_journal(&s->assets, p->uid, p->gid, why))
            return false;
    }
    if (!all_named)
        buf_printf(&s->notes, "users %s-worker and so on do not exist: roles run as spare numbers\n", prefix);
    return true;
}

static void start_all(struct supervisor *s)
{
    for (size_t i = 0; i < s->n_processes; i++)
        launch(s, &s->processes[i]);
    for (size_t i = 0; i < s->n_processes; i++)
        for (size_t j = i + 1; j < s->n_processes; j++)
            if (handout_is_wired(s->processes[i].role, s->processes[j].role))
                handout_channel(&s->processes[i], &s->processes[j]);
    for (size_t i = 0; i < s->n_processes; i++)
        process_tell(&s->processes[i], MSG_GO, NULL, -1);
}

static void clear(struct supervisor *s)
{
    for (size_t i = 0; i < s->n_processes; i++) {
        channel_free(s->processes[i].control);
        timer_free(s->processes[i].timer);
        warden_free(s->processes[i].warden);
    }
    free(s->processes);
    timer_free(s->stop_timer);
    timer_free(s->pulse);
    reload_free(s->reload);
    suspects_free(s->suspects);
    sources_free(s->sources);
    keyring_free(s->keyring);
    assets_close(&s->assets);
    recorder_free(s->recorder);
    loop_free(s->loop);
    buf_free(&s->notes);
    gateway_config_free(s->config);
}

int supervisor_run(struct gateway_config *config, const char *path, bool debug)
{
    struct supervisor s = {.config = config, .generation = 1, .debug = debug};
    struct fault why = {0};

    powers_shed();
    the_supervisor = &s;
    s.loop = loop_new();
    s.started_ms = loop_now_ms(s.loop);
    s.recorder = recorder_new(s.loop);
    recorder_stamp(s.recorder, s.generation);
    s.reload = reload_new(&s, path);
    s.suspects = suspects_new();
    s.sources = sources_new(&s);
    keybox_open(&s);
    s.stop_timer = timer_new(s.loop, on_stop_late, &s);
    signal(SIGPIPE, SIG_IGN);
    if (!assets_open(&s.assets, config, &why) || !sources_open(s.sources, &why) || !lexicon_make(config, &why)) {
        say_error("%s", why.text);
        clear(&s);
        return why.kind == FAULT_SYNTAX ? 2 : 3;
    }
    listening_note(&s.assets.listening, &s.notes);
    powers_shed_openers();
    plan_processes(&s);
    if (!choose_users(&s, &why)) {
        say_error("%s", why.text);
        clear(&s);
        return 3;
    }
    loop_on_signal(s.loop, SIGCHLD, on_child, &s);
    loop_on_signal(s.loop, SIGTERM, on_terminate, &s);
    loop_on_signal(s.loop, SIGINT, on_terminate, &s);
    loop_on_signal(s.loop, SIGHUP, on_hangup, &s);
    say_notes(buf_slice(&s.notes));
    start_all(&s);
    pulse_start(&s);
    loop_run(s.loop);
    clear(&s);
    return s.exit_status;
}
