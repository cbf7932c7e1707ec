/* Owns everything a worker works with; looks each second whether authority was taken away. */
#include "proxy/worker.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/say.h"
#include "base/text.h"
#include "proxy/exchange.h"
#include "proxy/gate.h"
#include "proxy/terms.h"

/* What a turn of the loop shares out, what each of many gets, and one who is alone. */
enum { TURN_NS = 400 * 1000, LEAST_NS = 50 * 1000, ALONE_NS = 4 * 1000 * 1000 };

enum { ASKS_MAX = 10000, POOL_KEYS = 4096, TICK_MS = 1000, SPARE_FILES = 64, WANTS_MAX = 8 /* in a second */ };

static struct worker worker;
static struct terms *next_terms, *terms_before;
static struct timer *tick;
static int revocations_fd_given = -1, pins_fd_given = -1, spent_fd_given = -1, counters_fd_given = -1, tally_fd_given = -1;

void worker_count(struct worker *w, enum counter c, int64_t by)
{
    w->counters->values[c] += (uint64_t)by;
}

struct tls_client *worker_trust(const struct worker *w, const struct service *s)
{
    struct tls_client *own = w->terms->service_trust[service_index(s)];

    return own ? own : w->terms->system_trust;
}

uint64_t worker_mark(const struct worker *w, const struct service *s)
{
    return w->terms->marks[service_index(s)];
}

static void on_settled(void *arg)
{
    struct worker *w = arg;

    w->counters->values[COUNTER_RECORDS] = recorder_written(w->recorder);
    loop_stop(w->loop);
}

/* The last session is gone: what it leaves for the journal still gets there. */
static void finish_if_done(struct worker *w)
{
    if (!w->stopping || w->finishing || w->n_sessions > 0)
        return;
    w->finishing = true;
    pool_clear(w->pool);
    recorder_settle(w->recorder, on_settled, w);
}

void worker_session_ended(struct worker *w)
{
    gate_session_ended(w);
    finish_if_done(w);
}

/* ---- authority taken away ---- */

/* Also from what may overrun its token: that it has expired does not matter here. */
static enum reason taken_away(const struct worker *w, const struct identity *i)
{
    if (i && revocations_has(w->revocations, i, loop_wall_s(w->loop)))
        return REASON_TOKEN_REVOKED;
    return i && revocations_quarantines(w->revocations, i) ? REASON_SANDBOX_QUARANTINED : REASON_NONE;
}

/* Of the tunnel it stands in, or of its request. */
static enum reason closed_behind(const struct session *s)
{
    const struct service *through = s->tunnel.open ? policy_find(s->worker->role->policy, s->tunnel.host, s->tunnel.port) : NULL;
    const struct service *to = s->exchange ? s->exchange->decision.service : NULL;

    return (through && service_is_shut(through)) || (to && service_is_shut(to)) ? REASON_SERVICE_CLOSED : REASON_NONE;
}

static void cut_revoked(struct worker *w)
{
    struct session *next;

    for (struct session *s = TAILQ_FIRST(&w->sessions); s; s = next) {
        enum reason why = taken_away(w, s->identity);

        next = TAILQ_NEXT(s, link);
        if (!why && s->exchange)
            why = taken_away(w, s->exchange->identity);
        if (!why)
            why = closed_behind(s);
        if (why)
            session_cut(s, why);
    }
}

/* What the supervisor added is seen by each check at once; what is open is cut when it is looked for. */
static void look_at_authority(struct worker *w)
{
    uint64_t version = revocations_version(w->revocations);

    if (version == w->revocations_seen)
        return;
    w->revocations_seen = version;
    cut_revoked(w);
}

static void on_sum(void *arg, const struct party *p, const struct sum *s)
{
    evidence_sum(arg, p, s);
}

static void tell_edges(struct worker *w, bool all)
{
    const struct sight *s;

    while ((s = edges_next(w->edges, loop_now_ms(w->loop), all)))
        evidence_edge(w, NULL, s);
}

/* Who is in the middle of nothing goes, and so does who is in a handshake: no request can have come by it. */
static void let_go(struct worker *w)
{
    struct session *next;

    for (struct session *s = TAILQ_FIRST(&w->sessions); s; s = next) {
        next = TAILQ_NEXT(s, link);
        s->closing = true;
        if (session_may_go(s) || s->state == SESSION_ACCEPT)
            session_cut(s, REASON_GATEWAY_STOPPING);
    }
}

static void on_tick(void *arg)
{
    struct worker *w = arg;
    struct session *s, *next;

    for (s = TAILQ_FIRST(&w->sessions); s; s = next) {
        next = TAILQ_NEXT(s, link);
        session_tick(s); /* may close it */
    }
    gate_tick(w);
    pool_tick(w->pool);
    wallet_tick(w->wallet);
    tally_refresh(w->tally, loop_now_ms(w->loop));
    parties_tick(w->parties, loop_now_ms(w->loop), w->stopping);
    tell_edges(w, w->stopping);
    look_at_authority(w);
    if (w->stopping)
        let_go(w); /* what has come to that since: a tunnel whose CONNECT was under way */
    w->counters->values[COUNTER_JOURNAL_OPEN] = recorder_is_open(w->recorder);
    w->counters->values[COUNTER_RECORDS] = recorder_written(w->recorder);
    timer_set(tick, TICK_MS);
}

/* ---- keys that issuers publish ---- */

/* A kid that nobody knows may be a new one. Who makes them up is not worth more than a word now and then. */
static void on_unknown_key(void *arg, const char *issuer)
{
    struct worker *w = arg;
    int64_t now_ms = loop_now_ms(w->loop);
    struct buf message = {0};

    if (now_ms - w->want_ms >= 1000) {
        w->want_ms = now_ms;
        w->wants = 0;
    }
    if (w->wants++ >= WANTS_MAX)
        return;
    pack_bytes(&message, slice_of(issuer));
    channel_send(w->role->control, MSG_WANT_KEYS, buf_slice(&message), -1);
    buf_free(&message);
}

/* Other keys of an issuer: what is open by those that are gone ends as after a reload. */
static bool take_keys(struct worker *w, struct slice message)
{
    struct session *next;
    uint64_t before;
    bool changed;

    if (!keyring_take(w->keyring, message, &changed))
        return false;
    if (next_terms)
        keyring_apply(w->keyring, next_terms->issuers);
    if (!w->terms)
        return true;
    before = issuers_generation(w->terms->issuers);
    keyring_apply(w->keyring, w->terms->issuers);
    if (!w->pool || before == issuers_generation(w->terms->issuers))
        return true;
    for (struct session *s = TAILQ_FIRST(&w->sessions); s; s = next) {
        next = TAILQ_NEXT(s, link);
        session_review(s);
    }
    return true;
}

/* ---- start ---- */

static bool read_authority(struct worker *w, struct fault *why)
{
    if (revocations_fd_given < 0 || pins_fd_given < 0 || spent_fd_given < 0)
        return fault_set(why, FAULT_MISSING, "no revocations, pins or spent tokens were handed over");
    w->revocations = revocations_map(revocations_fd_given, why);
    w->pins = pins_map(pins_fd_given, why);
    w->spent = spent_map(spent_fd_given, why);
    close(spent_fd_given); /* a file of the state: nothing of it is open here */
    if (!w->revocations || !w->pins || !w->spent)
        return false;
    policy_use_revocations(w->role->policy, w->revocations);
    w->verifier = verifier_new(w->terms->issuers, w->gateway, w->revocations, w->limits.token_cache);
    verifier_limit_failures(w->verifier, (unsigned)w->limits.token_failures);
    verifier_use_pins(w->verifier, w->pins);
    verifier_use_spent(w->verifier, w->spent);
    verifier_on_unknown_key(w->verifier, on_unknown_key, w);
    w->revocations_seen = revocations_version(w->revocations);
    return w->verifier != NULL;
}

static bool make_leaves(struct worker *w, struct fault *why)
{
    struct buf message = {0};

    if (!(w->tls_server = tls_server_new(why)) || !(w->leaves = leaves_new(w->limits.leaf_cache, why)))
        return false;
    pack_bytes(&message, leaves_public_key(w->leaves));
    asks_tell(w->keeper, MSG_LEAF_KEY, buf_slice(&message));
    buf_free(&message);
    return true;
}

/* What the worker before this one had open ended with it. */
static void take_over_counters(struct worker *w)
{
    uint64_t *values = w->counters->values;

    values[COUNTER_CONNECTIONS_CLOSED] = values[COUNTER_CONNECTIONS_ACCEPTED];
    values[COUNTER_EXCHANGES_OPEN] = values[COUNTER_WEBSOCKETS_OPEN] = values[COUNTER_POOLED] = 0;
    w->next_conn = values[COUNTER_CONNECTIONS_ACCEPTED];
}

/* Each client connection may need one to a service: descriptors for both, or it waits in the listener's queue. */
static void limit_connections(struct worker *w)
{
    struct rlimit files;
    size_t spare = SPARE_FILES + w->limits.upstream_idle_total, most;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
        return;
    most = files.rlim_cur > spare + 2 ? (files.rlim_cur - spare) / 2 : 1;
    if (w->limits.connections <= most)
        return;
    if (most < w->limits.connections / 2)
        say_warning("%zu connections, not the %zu of limits.connections: the system allows %llu open files (LimitNOFILE)",
                    most, w->limits.connections, (unsigned long long)files.rlim_cur);
    w->limits.connections = most;
}

/* After limit_connections. */
static bool read_tally(struct worker *w, struct fault *why)
{
    if (tally_fd_given < 0)
        return fault_set(why, FAULT_MISSING, "no tally was handed over");
    if (!tally_own(w->tally, tally_fd_given, why))
        return false;
    close(tally_fd_given);
    w->edges = edges_new();
    w->parties = parties_new(w->tally, w->lanes, on_sum, w);
    lanes_show(w->lanes, tally_at_work(w->tally));
    w->quota = (struct quota){&w->limits, w->tally, tally_workers(w->tally)};
    return true;
}

/* Our own tally is written, those of other workers only read. */
static void take_tally(struct worker *w, struct slice name, int fd)
{
    char own[40];
    struct fault why = {0};

    snprintf(own, sizeof own, "tally/worker %d", w->role->index);
    if (slice_is(name, own)) {
        tally_fd_given = fd;
        return;
    }
    if (!tally_add(w->tally, fd, &why))
        say_warning("%s", why.text);
    close(fd);
}

/* What on_peer and on_resource need before start. */
static struct worker *prepare(struct role_context *c)
{
    struct worker *w = &worker;

    if (w->loop)
        return w;
    w->role = c;
    w->loop = c->loop;
    TAILQ_INIT(&w->sessions);
    TAILQ_INIT(&w->strangers);
    w->porter = asks_new(c->loop, ASKS_MAX);
    w->keeper = asks_new(c->loop, ASKS_MAX);
    w->wallet = wallet_new(c->loop, w->keeper);
    w->keyring = keyring_new();
    w->tally = tally_new();
    w->lanes = lanes_new(c->loop, TURN_NS, LEAST_NS, ALONE_NS, NULL);
    lane_init(&w->idle, w->lanes);
    w->recorder = recorder_new(c->loop);
    recorder_stamp(w->recorder, c->generation);
    return w;
}

/* Into force; verifier, pool and leaves are told by who calls. */
static void use_terms(struct worker *w, struct terms *t)
{
    w->terms = t;
    w->limits = t->limits;
    w->messages = (struct message_limits){w->limits.head, w->limits.target, w->limits.fields};
    w->scanner = t->scanner;
    w->gateway = conf_text(conf_section(t->conf, "gateway"), "name");
    limit_connections(w);
}

static struct pool_limits pool_limits(struct worker *w)
{
    return (struct pool_limits){w->limits.upstream_idle, w->limits.upstream_idle_total, POOL_KEYS,
                                w->limits.upstream_idle_ms, &w->idle};
}

static bool start(struct role_context *c, struct fault *why)
{
    struct role_set set = {c->generation, c->files, c->conf, c->policy};
    struct worker *w = prepare(c);
    struct pool_limits pool;
    struct terms *terms = terms_new(&set, NULL, why);

    if (!terms)
        return false;
    keyring_apply(w->keyring, terms->issuers);
    use_terms(w, terms);
    snprintf(w->via, sizeof w->via, "1.1 %s", w->gateway);
    if (counters_fd_given < 0 || !(w->counters = counters_map(counters_fd_given, true, why)))
        return fault_set(why, FAULT_MISSING, "no counters were handed over");
    take_over_counters(w);
    if (!read_tally(w, why) || !read_authority(w, why) || !make_leaves(w, why))
        return false;
    pool = pool_limits(w);
    w->pool = pool_new(c->loop, &pool, &w->messages, &w->counters->values[COUNTER_POOLED]);
    pool_tell_ends(w->pool, evidence_upstream, w);
    tick = timer_new(c->loop, on_tick, w);
    on_tick(w);
    gate_open(w);
    return true;
}

/* ---- another configuration ---- */

static bool prepare_terms(struct role_context *c, const struct role_set *next, struct fault *why)
{
    (void)c;
    policy_use_revocations(next->policy, worker.revocations);
    if ((next_terms = terms_new(next, worker.terms, why)))
        keyring_apply(worker.keyring, next_terms->issuers);
    return next_terms != NULL;
}

static void abandon_terms(struct role_context *c)
{
    (void)c;
    terms_free(next_terms);
    next_terms = NULL;
    gate_abandon();
}

static bool is_marked(void *arg, uint64_t mark)
{
    const struct terms *t = arg;

    for (size_t i = 0; i < policy_count(t->policy); i++)
        if (t->marks[i] == mark)
            return true;
    return false;
}

/* Caches stay, but for what is not true any more. */
static void renew_caches(struct worker *w)
{
    struct pool_limits pool = pool_limits(w);

    verifier_use_issuers(w->verifier, w->terms->issuers);
    verifier_limit_cache(w->verifier, w->limits.token_cache);
    if (w->limits.token_failures != terms_before->limits.token_failures)
        verifier_limit_failures(w->verifier, (unsigned)w->limits.token_failures);
    pool_use_limits(w->pool, &pool, &w->messages);
    pool_keep(w->pool, is_marked, w->terms);
    leaves_limit(w->leaves, w->limits.leaf_cache);
    if (!terms_share_file(w->terms, terms_before, "ca.intermediate.pem"))
        leaves_forget(w->leaves);
}

static void adopt(struct role_context *c, const struct role_set *before)
{
    struct worker *w = &worker;
    struct session *next;

    (void)before;
    terms_before = w->terms;
    recorder_stamp(w->recorder, c->generation);
    use_terms(w, next_terms);
    next_terms = NULL;
    keyring_keep(w->keyring, c->conf);
    renew_caches(w);
    for (struct session *s = TAILQ_FIRST(&w->sessions); s; s = next) {
        next = TAILQ_NEXT(s, link);
        session_review(s);
        if (!terms_ask_alike(terms_before, w->terms, s->listener)) /* who came in might not today */
            session_drain(s);
    }
    gate_renew(c->conf);
}

static void settle(struct role_context *c)
{
    (void)c;
    terms_free(terms_before);
    terms_before = NULL;
}

static void on_peer(struct role_context *c, enum role peer, int index, int fd)
{
    struct worker *w = prepare(c);

    (void)index;
    if (peer == ROLE_SCRIBE) {
        recorder_attach(w->recorder, fd);
    } else if (peer == ROLE_PORTER) {
        asks_attach(w->porter, fd);
    } else if (peer == ROLE_KEEPER) {
        asks_attach(w->keeper, fd);
        if (w->leaves) { /* a restarted keeper learns the key anew */
            struct buf message = {0};

            pack_bytes(&message, leaves_public_key(w->leaves));
            asks_tell(w->keeper, MSG_LEAF_KEY, buf_slice(&message));
            buf_free(&message);
        }
    } else {
        close(fd);
    }
}

static void on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    (void)flag;
    prepare(c);
    if (type == MSG_LISTENER) {
        gate_add(name, fd);
    } else if (type == MSG_SHARED && slice_is(name, "revocations")) {
        revocations_fd_given = fd;
    } else if (type == MSG_SHARED && slice_is(name, "pins")) {
        pins_fd_given = fd;
    } else if (type == MSG_SHARED && slice_is(name, "spent")) {
        spent_fd_given = fd;
    } else if (type == MSG_SHARED && slice_starts(name, SLICE("tally/"))) {
        take_tally(&worker, name, fd);
    } else if (type == MSG_SHARED && slice_starts(name, SLICE("counters/"))) {
        counters_fd_given = fd;
    } else {
        close(fd);
    }
}

static bool take_binding(struct unpack *u)
{
    struct slice name = unpack_bytes(u), sandbox = unpack_bytes(u);
    struct bound *b = bound_new(name, sandbox);

    b->carries = unpack_u8(u);
    b->is_added = unpack_u8(u);
    b->is_transparent = unpack_u8(u);
    b->cid = unpack_u32(u);
    gate_bind(b);
    return unpack_done(u);
}

static bool take_word(struct worker *w, enum role_message type, struct unpack *u)
{
    struct slice name, token;

    if (type == MSG_BOUND)
        return take_binding(u);
    if (type == MSG_AUTHORITY) {
        if (w->revocations)
            look_at_authority(w);
        return unpack_done(u);
    }
    name = unpack_bytes(u);
    token = type == MSG_TOKEN ? unpack_bytes(u) : slice_make("", 0);
    if (!unpack_done(u))
        return false;
    if (type == MSG_TOKEN)
        gate_token(name, token);
    else if (w->pool && type == MSG_OPEN) /* before, all that is there opens at the start */
        gate_open_added(name);
    else if (type == MSG_UNLISTEN)
        gate_remove(name);
    return true;
}

static void on_control(struct role_context *c, enum role_message type, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct worker *w = prepare(c);

    if (type == MSG_KEYS ? !take_keys(w, payload) : type < MSG_BOUND || type > MSG_AUTHORITY || !take_word(w, type, &u))
        role_distrust(c, "an unknown message");
}

/* Open exchanges may finish; the others go now, and those when they have. */
static void stop(struct role_context *c)
{
    struct worker *w = &worker;

    if (!w->pool) {
        loop_stop(c->loop);
        return;
    }
    w->stopping = true;
    gate_close();
    parties_tick(w->parties, loop_now_ms(w->loop), true);
    tell_edges(w, true);
    let_go(w);
    finish_if_done(w);
}

const struct role_ops worker_ops = {
    .start = start,
    .on_peer = on_peer,
    .on_resource = on_resource,
    .on_control = on_control,
    .stop = stop,
    .prepare = prepare_terms,
    .abandon = abandon_terms,
    .adopt = adopt,
    .settle = settle,
};
