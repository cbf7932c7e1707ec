/* Owns the programs that print credentials, what they printed last, and (proxy/holders.h) who holds which identity. */
#include "proxy/sources.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pack.h"
#include "base/say.h"
#include "base/table.h"
#include "base/text.h"
#include "proxy/handout.h"
#include "proxy/holders.h"
#include "proxy/spawn.h"

enum { RUN_MS = 8000, AGAIN_MS = 2000, RUNS_MAX = 16, WAITING_MAX = 256, KEPT_MAX = 4096 };

/*
 * RUN_MS: less than a worker waits (limits.dial-time), so that the reason arrives. AGAIN_MS: so long after it failed a program
 * is not run again, however often a sandbox asks.
 */

struct inquirer {
    pid_t keeper; /* another one knows nothing of the question */
    uint32_t id;
    int64_t lifetime_s; /* of the service it asks for: two may have the same program */
};

/* A program under way, and what it printed last. */
struct run {
    struct sources *owner;
    char *key;
    pid_t pid; /* 0: none runs */
    int fd;    /* its output; -1 when it has ended */
    struct watch *watch;
    struct timer *timer;
    struct buf output;
    int status;
    bool exited;
    struct inquirer waiting[WAITING_MAX];
    size_t n_waiting;
    struct secret *value; /* NULL: none */
    int64_t made_s;       /* when it was printed */
    int64_t until_s;      /* the longest that anybody was told to use it */
    struct fault failure; /* of the last run */
    int64_t again_ms;     /* until then it stands for the next */
};

struct sources {
    struct supervisor *supervisor;
    struct holders *holders;
    struct table *runs;    /* by identity */
    size_t running;
};

/* What the keeper asks. */
struct question {
    struct process *keeper;
    uint32_t id;
    const struct handoff *handoff;
    char *sandbox;
    struct slice issuer;
    int64_t until_s;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct sources *sources_new(struct supervisor *s)
{
    struct sources *out = must(calloc(1, sizeof *out));

    out->supervisor = s;
    out->runs = table_new();
    return out;
}

bool sources_open(struct sources *s, struct fault *why)
{
    char *path = gateway_state(s->supervisor->config, "holders");

    s->holders = holders_open(path, loop_wall_s(s->supervisor->loop), why);
    free(path);
    return s->holders != NULL;
}

/* ---- answers ---- */

static void answer_yes(struct process *keeper, uint32_t id, int64_t until_s, struct slice credential, struct slice secret)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, (uint64_t)until_s);
    pack_bytes(&out, credential);
    pack_bytes(&out, secret);
    process_tell(keeper, MSG_FETCHED, &out, -1);
    buf_wipe(&out);
}

static void answer_no(struct process *keeper, uint32_t id, enum reason reason, const char *detail)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u16(&out, (uint16_t)reason);
    pack_bytes(&out, slice_of(detail));
    process_tell(keeper, MSG_NOT_FETCHED, &out, -1);
    buf_free(&out);
}

/* ---- who holds an identity ---- */

/* What tells one credential from another: where it is kept, and for a source of each sandbox whose it is. */
static char *identity_of(const struct question *q)
{
    const struct source *source = &q->handoff->source;
    struct buf out = {0};

    buf_printf(&out, "%d:%s", (int)source->kind, source->rest);
    if (source_is_per_sandbox(source))
        buf_printf(&out, "\n%s", q->sandbox);
    return buf_take_text(&out);
}

/* May this sandbox have it? REASON_NONE, or why not, with words for people. */
static enum reason refusal(struct sources *s, const struct question *q, const char *identity, struct fault *why)
{
    int64_t now_s = loop_wall_s(s->supervisor->loop);
    struct fault unwritten = {0};
    struct buf who = {0};
    enum holders_answer answer = HOLDERS_YES;

    buf_printf(&who, "%.*s\n%s", SLICE_ARG(q->issuer), q->sandbox);
    if (!q->handoff->shared)
        answer = holders_take(s->holders, slice_of(identity), buf_slice(&who), q->until_s, now_s, &unwritten);
    buf_free(&who);
    switch (answer) {
    case HOLDERS_ANOTHER:
        fault_reason(why, REASON_IDENTITY_SHARED, "another sandbox holds it until its leave token is over");
        break;
    case HOLDERS_FULL:
        fault_reason(why, REASON_IDENTITY_SHARED, "as many identities are held as can be remembered");
        break;
    case HOLDERS_UNWRITTEN:
        say_warning("who holds a credential cannot be written down: %s", unwritten.text);
        fault_reason(why, REASON_CREDENTIAL_UNAVAILABLE, "who holds it cannot be written down");
        break;
    case HOLDERS_YES:
        break;
    }
    return why->reason;
}

/* ---- programs ---- */

/* Who still holds its output when it has ended belongs to it. */
static void run_stop(struct run *r)
{
    bool lives = r->pid && (!r->exited || r->fd >= 0);

    watch_free(r->watch);
    r->watch = NULL;
    timer_stop(r->timer);
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    if (lives)
        kill(-r->pid, SIGKILL);
    if (r->pid)
        r->owner->running--;
    r->pid = 0;
    buf_wipe(&r->output);
}

static struct process *keeper_of(const struct run *r, const struct inquirer *a)
{
    struct supervisor *s = r->owner->supervisor;

    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].role == ROLE_KEEPER && s->processes[i].pid == a->keeper && a->keeper)
            return &s->processes[i];
    return NULL;
}

static void answer_value(struct run *r, struct process *keeper, const struct inquirer *a)
{
    int64_t until_s = r->made_s + a->lifetime_s;

    r->until_s = until_s > r->until_s ? until_s : r->until_s;
    answer_yes(keeper, a->id, until_s, secret_slice(r->value), slice_make("", 0));
}

static void answer_all(struct run *r, const struct fault *why)
{
    size_t n = r->n_waiting;

    r->n_waiting = 0;
    for (size_t i = 0; i < n; i++) {
        struct process *keeper = keeper_of(r, &r->waiting[i]);

        if (keeper && why)
            answer_no(keeper, r->waiting[i].id, REASON_CREDENTIAL_UNAVAILABLE, why->text);
        else if (keeper)
            answer_value(r, keeper, &r->waiting[i]);
    }
}

static void run_fail(struct run *r, const char *text)
{
    struct slice program = slice_of(strchr(r->key, ':') + 1), first;

    slice_next(&program, ' ', &first);
    fault_set(&r->failure, FAULT_IO, "the program %.*s %s", SLICE_ARG(slice_cut(first, 0, 100)), text);
    r->again_ms = loop_now_ms(r->owner->supervisor->loop) + AGAIN_MS;
    say_warning("%s", r->failure.text);
    run_stop(r);
    answer_all(r, &r->failure);
}

/* Its output has ended and so has it. */
static void run_finish(struct run *r)
{
    struct slice text = buf_slice(&r->output);
    char ended[60];

    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status) != 0) {
        snprintf(ended, sizeof ended, WIFEXITED(r->status) ? "ended with status %d" : "was ended by signal %d",
                 WIFEXITED(r->status) ? WEXITSTATUS(r->status) : WTERMSIG(r->status));
        run_fail(r, ended);
        return;
    }
    if (text.len && text.ptr[text.len - 1] == '\n')
        text.len--;
    secret_free(r->value);
    r->value = secret_new(text);
    r->made_s = r->until_s = loop_wall_s(r->owner->supervisor->loop);
    run_stop(r);
    answer_all(r, NULL);
}

static void on_output(void *arg, unsigned ready)
{
    struct run *r = arg;
    ssize_t got = read(r->fd, buf_reserve(&r->output, CREDENTIAL_MAX + 2), CREDENTIAL_MAX + 2);

    (void)ready;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        buf_commit(&r->output, (size_t)got);
    if (buf_len(&r->output) > CREDENTIAL_MAX + 1) {
        run_fail(r, "printed more than a credential has");
        return;
    }
    if (got > 0)
        return;
    watch_free(r->watch);
    r->watch = NULL;
    close(r->fd);
    r->fd = -1;
    if (r->exited)
        run_finish(r);
}

static void on_late(void *arg)
{
    run_fail(arg, "did not end in time");
}

static bool run_start(struct run *r, const struct question *q)
{
    const char *prefix = r->owner->supervisor->config->user_prefix;
    char **words = source_words(&q->handoff->source, q->sandbox);
    struct fault why = {0};

    r->pid = spawn_program(words, prefix, &r->fd, &why);
    source_words_free(words);
    if (r->pid < 0) {
        r->pid = 0;
        run_fail(r, why.text);
        return false;
    }
    r->owner->running++;
    r->exited = false;
    r->watch = watch_new(r->owner->supervisor->loop, r->fd, WATCH_READ, on_output, r);
    timer_set(r->timer, RUN_MS);
    return true;
}

static void run_free(struct run *r)
{
    run_stop(r);
    timer_free(r->timer);
    secret_free(r->value);
    free(r->key);
    free(r);
}

struct sweep {
    int64_t now_s;
    struct slice over;
};

static void find_idle(void *arg, struct slice key, void *value)
{
    const struct run *r = value;
    struct sweep *s = arg;

    if (!r->pid && r->until_s <= s->now_s)
        s->over = key;
}

static struct run *run_of(struct sources *s, const char *identity)
{
    struct run *r = table_get(s->runs, slice_of(identity));
    struct sweep sweep = {.now_s = loop_wall_s(s->supervisor->loop)};

    if (r)
        return r;
    if (table_count(s->runs) >= KEPT_MAX) {
        table_each(s->runs, find_idle, &sweep);
        if (sweep.over.len == 0)
            return NULL;
        r = table_get(s->runs, sweep.over);
        table_remove(s->runs, slice_of(r->key));
        run_free(r);
    }
    r = must(calloc(1, sizeof *r));
    *r = (struct run){.owner = s, .key = text_copy(slice_of(identity)), .fd = -1};
    r->timer = timer_new(s->supervisor->loop, on_late, r);
    table_put(s->runs, slice_of(identity), r);
    return r;
}

static void fetch_program(struct sources *s, const struct question *q, const char *identity)
{
    const struct inquirer from = {q->keeper->pid, q->id, q->handoff->lifetime_s};
    struct run *r = run_of(s, identity);

    if (r && r->value && r->made_s + from.lifetime_s > loop_wall_s(s->supervisor->loop)) {
        answer_value(r, q->keeper, &from);
        return;
    }
    if (r && !r->pid && r->again_ms > loop_now_ms(s->supervisor->loop)) {
        answer_no(q->keeper, q->id, REASON_CREDENTIAL_UNAVAILABLE, r->failure.text);
        return;
    }
    if (!r || r->n_waiting == WAITING_MAX || (!r->pid && s->running >= RUNS_MAX)) {
        answer_no(q->keeper, q->id, REASON_CREDENTIAL_UNAVAILABLE, "too many programs run or are waited for");
        return;
    }
    r->waiting[r->n_waiting++] = from;
    if (!r->pid)
        run_start(r, q);
}

/* ---- questions ---- */

static void fetch_now(const struct question *q, const struct source *source, bool is_client)
{
    struct fault why = {0};
    struct secret *value = source_read(source, q->sandbox, &why);
    struct slice nothing = slice_make("", 0), text = value ? secret_slice(value) : nothing;

    if (value)
        answer_yes(q->keeper, q->id, 0, is_client ? nothing : text, is_client ? text : nothing);
    else
        answer_no(q->keeper, q->id, REASON_CREDENTIAL_UNAVAILABLE, why.text);
    secret_free(value);
}

static void fetch_credential(struct sources *s, const struct question *q)
{
    const struct source *source = &q->handoff->source;
    struct fault why = {0};
    char *identity;

    if (source_is_per_sandbox(source) && !source_takes(slice_of(q->sandbox))) {
        answer_no(q->keeper, q->id, REASON_CREDENTIAL_UNAVAILABLE, "the sandbox's name cannot stand in a file's name");
        return;
    }
    identity = identity_of(q);
    if (refusal(s, q, identity, &why))
        answer_no(q->keeper, q->id, why.reason, why.text);
    else if (source->kind == SOURCE_EXEC)
        fetch_program(s, q, identity);
    else
        fetch_now(q, source, false);
    free(identity);
}

bool sources_fetch(struct sources *s, struct process *keeper, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct question q = {.keeper = keeper, .id = unpack_u32(&u)};
    struct slice service = unpack_bytes(&u), sandbox;

    q.issuer = unpack_bytes(&u);
    sandbox = unpack_bytes(&u);
    q.until_s = (int64_t)unpack_u64(&u);
    if (!unpack_done(&u))
        return false;
    q.handoff = handoffs_named(s->supervisor->config->handoffs, service);
    q.sandbox = text_copy(sandbox);
    if (!q.handoff)
        answer_no(keeper, q.id, REASON_POLICY_CHANGED, "the service has no credential any more");
    else if (q.handoff->kind == HANDOFF_INJECT)
        fetch_credential(s, &q);
    else if (q.handoff->secret.kind != SOURCE_NONE)
        fetch_now(&q, &q.handoff->secret, true);
    else
        answer_yes(keeper, q.id, 0, slice_make("", 0), slice_make("", 0));
    free(q.sandbox);
    return true;
}

struct child {
    pid_t pid;
    struct run *run;
};

static void find_child(void *arg, struct slice key, void *value)
{
    struct child *c = arg;
    struct run *r = value;

    (void)key;
    if (r->pid == c->pid)
        c->run = r;
}

void sources_on_child(struct sources *s, pid_t pid, int status)
{
    struct child c = {.pid = pid};

    if (s->running == 0)
        return;
    table_each(s->runs, find_child, &c);
    if (!c.run)
        return;
    c.run->exited = true;
    c.run->status = status;
    if (c.run->fd < 0)
        run_finish(c.run);
}

/* ---- the end ---- */

static void take_any(void *arg, struct slice key, void *value)
{
    (void)key;
    *(void **)arg = value;
}

void sources_free(struct sources *s)
{
    struct run *r;
    void *found = NULL;

    if (!s)
        return;
    while (table_count(s->runs)) {
        table_each(s->runs, take_any, &found);
        r = found;
        table_remove(s->runs, slice_of(r->key));
        run_free(r);
    }
    table_free(s->runs);
    holders_free(s->holders);
    free(s);
}
