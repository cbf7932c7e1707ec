/*
 * The clerk: the role that answers operators. Owns the publish listener and the admin socket, and reads the counters of
 * all workers. What it does not know it asks the supervisor (MSG_ADMIN). It speaks to token endpoints for the keeper
 * (proxy/broker.h), and fetches the keys that issuers publish (proxy/locksmith.h). It sees no bytes of a sandbox.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pack.h"
#include "base/say.h"
#include "base/text.h"
#include "handoff/assertion.h"
#include "proxy/broker.h"
#include "proxy/console.h"
#include "proxy/locksmith.h"
#include "proxy/publish.h"
#include "proxy/report.h"
#include "proxy/role.h"

enum { QUESTIONS_MAX = 256, RELOAD_WAIT_MS = 240000 /* of all its steps */, CALLS_MAX = 512 };

#define STATUS_REQUEST "{\"command\":\"status\"}"

/* Who waits for an answer of the supervisor, and what they make of it. */
enum asker { ASKER_READY, ASKER_STATUS, ASKER_OTHER };

struct question {
    struct question *next;
    uint32_t id;
    enum asker asker;
    uint64_t ticket;
};

static struct clerk {
    struct role_context *context;
    struct publish *publish;
    struct console *console;
    int publish_fd, admin_fd;
    struct asks *porter;
    struct recorder *recorder;
    struct question *questions;
    size_t n_questions;
    uint32_t last_id;
    struct metrics metrics;
    struct metrics_page *pages;
    struct revocations *revocations; /* services that are closed by hand */
    bool stopping; /* nothing but its last records is of interest */
} clerk = {.publish_fd = -1, .admin_fd = -1};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- questions to the supervisor ---- */

/* False when too many are open already: the supervisor is stuck. */
static bool ask_supervisor(enum asker asker, uint64_t ticket, uid_t uid, struct slice request)
{
    struct question *q;
    struct buf out = {0};
    bool sent;

    if (clerk.n_questions >= QUESTIONS_MAX)
        return false;
    q = must(calloc(1, sizeof *q));
    *q = (struct question){.next = clerk.questions, .id = ++clerk.last_id, .asker = asker, .ticket = ticket};
    clerk.questions = q;
    clerk.n_questions++;
    pack_u32(&out, q->id);
    pack_u32(&out, (uint32_t)uid);
    pack_bytes(&out, request);
    sent = channel_send(clerk.context->control, MSG_ADMIN, buf_slice(&out), -1);
    buf_free(&out);
    return sent;
}

static bool take_question(uint32_t id, struct question *out)
{
    for (struct question **at = &clerk.questions; *at; at = &(*at)->next)
        if ((*at)->id == id) {
            struct question *q = *at;

            *out = *q;
            *at = q->next;
            clerk.n_questions--;
            free(q);
            return true;
        }
    return false;
}

/* ---- publish ---- */

static const struct metrics *metrics_now(void)
{
    clerk.metrics.now_s = clock_wall_s();
    clerk.metrics.issuers = locksmith_report(&clerk.metrics.n_issuers);
    clerk.metrics.n_file_issuers = conf_count(clerk.context->conf, "issuers") - clerk.metrics.n_issuers;
    return &clerk.metrics;
}

static void tell_ready(uint64_t ticket, struct slice answer)
{
    struct buf body = {0};
    bool ready = report_ready(&body, answer, metrics_now());

    publish_answer(clerk.publish, ticket,
                   &(struct publish_reply){ready ? 200 : 503, "application/json", buf_slice(&body)});
    buf_free(&body);
}

static void tell_metrics(uint64_t ticket)
{
    struct buf body = {0};

    metrics_write(&body, metrics_now());
    publish_answer(clerk.publish, ticket,
                   &(struct publish_reply){200, "text/plain; version=0.0.4; charset=utf-8", buf_slice(&body)});
    buf_free(&body);
}

/* The public halves of the keys of assertions (RFC 7517 5). */
static void tell_keys(uint64_t ticket)
{
    struct slice jwks = SLICE("{\"keys\":[]}\n");

    bundle_get(clerk.context->files, ASSERTION_JWKS, &jwks);
    publish_answer(clerk.publish, ticket, &(struct publish_reply){200, "application/jwk-set+json", jwks});
}

static void on_publish(void *arg, uint64_t ticket, struct slice path)
{
    (void)arg;
    if (slice_is(path, "/metrics")) {
        tell_metrics(ticket);
    } else if (slice_is(path, "/readyz")) {
        if (!ask_supervisor(ASKER_READY, ticket, 0, SLICE(STATUS_REQUEST)))
            tell_ready(ticket, SLICE(""));
    } else if (slice_is(path, "/jwks.json")) {
        tell_keys(ticket);
    } else if (slice_is(path, "/healthz")) {
        publish_answer(clerk.publish, ticket,
                       &(struct publish_reply){200, "text/plain; charset=utf-8", SLICE("ok\n")});
    } else {
        publish_answer(clerk.publish, ticket,
                       &(struct publish_reply){404, "text/plain; charset=utf-8",
                                               SLICE("there are /healthz, /readyz, /metrics and /jwks.json\n")});
    }
}

/* ---- admin ---- */

static void tell_status(uint64_t ticket, struct slice answer)
{
    struct buf line = {0};

    report_status(&line, answer, metrics_now());
    console_answer(clerk.console, ticket, buf_slice(&line));
    buf_free(&line);
}

static void on_admin(void *arg, uint64_t ticket, uid_t uid, struct slice line)
{
    enum asker asker = report_is(line, "status") ? ASKER_STATUS : ASKER_OTHER;

    (void)arg;
    if (report_is(line, "reload"))
        console_wait(clerk.console, ticket, RELOAD_WAIT_MS);
    if (!ask_supervisor(asker, ticket, uid, line))
        console_answer(clerk.console, ticket, SLICE("{\"ok\":false,\"error\":\"the supervisor does not answer\"}"));
}

static void on_answer(struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    struct slice answer = unpack_bytes(&u);
    struct question q;

    if (!unpack_done(&u))
        role_distrust(clerk.context, "malformed MSG_ADMIN_ANSWER");
    if (!take_question(id, &q))
        return;
    if (q.asker == ASKER_READY)
        tell_ready(q.ticket, answer);
    else if (q.asker == ASKER_STATUS)
        tell_status(q.ticket, answer);
    else
        console_answer(clerk.console, q.ticket, answer);
}

/* ---- what the supervisor hands over ---- */

/* A page comes again when its role was restarted. */
static void add_page(struct slice role, const struct counters *page)
{
    for (size_t i = 0; i < clerk.metrics.n_pages; i++)
        if (slice_is(role, clerk.pages[i].role)) {
            counters_unmap(clerk.pages[i].counters);
            clerk.pages[i].counters = page;
            return;
        }
    clerk.pages = must(realloc(clerk.pages, (clerk.metrics.n_pages + 1) * sizeof *clerk.pages));
    clerk.pages[clerk.metrics.n_pages++] = (struct metrics_page){text_copy(role), page};
    clerk.metrics.pages = clerk.pages;
}

static void take_shared(struct slice name, int fd)
{
    struct fault why = {0};
    struct slice prefix = SLICE("counters/");
    const struct counters *page;

    if (slice_is(name, "revocations") && !(clerk.revocations = revocations_map(fd, &why)))
        say_warning("revocations: %s", why.text);
    if (slice_starts(name, prefix)) {
        page = counters_map(fd, false, &why);
        if (page)
            add_page(slice_from(name, prefix.len), page);
        else
            say_warning("%.*s: %s", SLICE_ARG(name), why.text);
    }
    close(fd);
}

static void keep_fd(int *place, int fd)
{
    if (*place >= 0)
        close(*place);
    *place = fd;
}

/* The set came before the first peer, and before anything that is about it. */
static void open_shop(struct role_context *c)
{
    if (clerk.porter)
        return;
    clerk.porter = asks_new(c->loop, CALLS_MAX);
    clerk.recorder = recorder_new(c->loop);
    recorder_stamp(clerk.recorder, c->generation);
    broker_open(c, clerk.porter, clerk.recorder);
    locksmith_open(c, clerk.porter, clerk.recorder);
}

static void clerk_on_peer(struct role_context *c, enum role peer, int index, int fd)
{
    (void)index;
    if (clerk.stopping) {
        close(fd);
        return;
    }
    open_shop(c);
    if (peer == ROLE_KEEPER)
        broker_attach_keeper(fd);
    else if (peer == ROLE_PORTER)
        asks_attach(clerk.porter, fd);
    else if (peer == ROLE_SCRIBE)
        recorder_attach(clerk.recorder, fd);
    else
        close(fd);
}

static void clerk_on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    (void)c, (void)flag;
    if (type == MSG_LISTENER && slice_is(name, "publish"))
        keep_fd(&clerk.publish_fd, fd);
    else if (type == MSG_LISTENER && slice_is(name, "admin"))
        keep_fd(&clerk.admin_fd, fd);
    else if (type == MSG_SHARED)
        take_shared(name, fd);
    else
        close(fd);
}

/* ---- the role ---- */

/* What is told of the configuration in force; its memory is the role's. */
static void use_conf(const struct role_context *c)
{
    clerk.metrics.generation = c->generation;
    clerk.metrics.policy = c->policy;
    policy_use_revocations(c->policy, clerk.revocations);
}

static bool clerk_start(struct role_context *c, struct fault *why)
{
    (void)why;
    clerk.context = c;
    open_shop(c);
    locksmith_start();
    clerk.metrics.version = EXEAT_VERSION;
    use_conf(c);
    if (clerk.publish_fd >= 0)
        clerk.publish = publish_new(c->loop, clerk.publish_fd, on_publish, NULL);
    if (clerk.admin_fd >= 0)
        clerk.console = console_new(c->loop, clerk.admin_fd, on_admin, NULL);
    clerk.publish_fd = clerk.admin_fd = -1;
    return true;
}

static void clerk_adopt(struct role_context *c, const struct role_set *before)
{
    (void)before;
    if (clerk.stopping)
        return;
    use_conf(c);
    recorder_stamp(clerk.recorder, c->generation);
    broker_use();
    locksmith_use();
}

static void clerk_on_control(struct role_context *c, enum role_message type, struct slice payload)
{
    bool known = true;

    if (clerk.stopping)
        return;
    open_shop(c);
    if (type == MSG_ADMIN_ANSWER)
        on_answer(payload);
    else if (type == MSG_KEYS)
        known = locksmith_take(payload);
    else if (type == MSG_WANT_KEYS)
        known = locksmith_want(payload);
    else
        known = false;
    if (!known)
        role_distrust(c, "a message the clerk does not know");
}

static void on_settled(void *arg)
{
    struct role_context *c = arg;

    loop_stop(c->loop);
}

static void clerk_stop(struct role_context *c)
{
    open_shop(c);
    clerk.stopping = true;
    broker_close();
    locksmith_close();
    asks_free(clerk.porter);
    clerk.porter = NULL;
    publish_free(clerk.publish);
    console_free(clerk.console);
    clerk.publish = NULL;
    clerk.console = NULL;
    recorder_settle(clerk.recorder, on_settled, c);
}

const struct role_ops clerk_ops = {
    .start = clerk_start,
    .on_peer = clerk_on_peer,
    .on_resource = clerk_on_resource,
    .on_control = clerk_on_control,
    .stop = clerk_stop,
    .adopt = clerk_adopt,
};
