/*
 * The scribe: the only process that writes the journal. Owns the writer and one peer for every role that sends records;
 * stamps who sent what from which channel it came. What goes over the channels is written in proxy/role.h (MSG_RECORDS).
 *
 * In a turn all records that came are added; at its end there is one write, and one answer to each sender.
 */
#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pack.h"
#include "base/say.h"
#include "journal/log.h"
#include "proxy/counters.h"
#include "proxy/role.h"

enum { HEARTBEAT_MS = 60 * 1000, RETRY_MS = 500, STOP_MS = 500, STEP_MS = 1000, COUNTERS_MAX = 256 };

struct scribe;

struct peer {
    struct peer *next;
    struct scribe *scribe;
    enum role role;
    int index;
    char name[32];
    int fd;                  /* until the role starts; then -1 */
    struct channel *channel; /* NULL: gone, kept for its refused records */
    bool numbered;           /* the first message has come */
    uint64_t seen;           /* last role_seq that came */
    uint64_t answered;       /* last role_seq an answer was given to */
    uint64_t refused_first, refused; /* not written since the journal closed */
};

struct scribe {
    struct role_context *context;
    int directory_fd;
    struct log_writer *log; /* NULL before the role starts */
    bool open;
    bool booted;      /* boot and config are written */
    bool torn;        /* to be told */
    bool said_closed; /* to people */
    char trouble[FAULT_TEXT_SIZE]; /* what was said */
    bool stopping;
    uint64_t own_seq, own_written; /* role_seq of our own records: added, on disk */
    struct peer *peers;
    struct peer *supervisor; /* its records come over the control channel */
    struct timer *heartbeat, *retry, *stop;
    struct buf record, answer;
    struct record_view view;
    struct counters *counters[COUNTERS_MAX];
    size_t n_counters;
    struct counters *end; /* its records: the last seq on disk, as scribes before this one left it */
    int64_t clock_ms;     /* wall clock less monotonic clock */
};

static struct scribe scribe = {.directory_fd = -1};

/* Which kinds each role may send. Boot, heartbeat and shutdown are the scribe's own. */
#define MAY(kind) (1U << RECORD_##kind)
static const unsigned may_send[N_ROLES] = {
    [ROLE_SUPERVISOR] = MAY(RELOAD) | MAY(AUDIT) | MAY(LISTENER) | MAY(REVOCATION) | MAY(KEYS) | MAY(FINDING) | MAY(LOST),
    [ROLE_WORKER] = MAY(DECISION) | MAY(RESULT) | MAY(FINDING) | MAY(CONNECTION) | MAY(UPSTREAM) | MAY(LIMIT) | MAY(EDGE) | MAY(LOST),
    [ROLE_PORTER] = MAY(DIAL) | MAY(LOOKUP) | MAY(UPSTREAM) | MAY(FINDING) | MAY(LIMIT) | MAY(LOST),
    [ROLE_KEEPER] = MAY(CERTIFICATE) | MAY(GRANT) | MAY(FINDING) | MAY(LOST),
    [ROLE_USHER] = MAY(QUESTION) | MAY(FINDING) | MAY(LIMIT) | MAY(LOST),
    [ROLE_CLERK] = MAY(UPSTREAM) | MAY(FINDING) | MAY(LOST),
};
_Static_assert(N_RECORD_KINDS <= 32, "may_send has 32 bits");

/* ---- our own records ---- */

static struct record_writer begin_own(struct scribe *s, enum record_kind kind)
{
    buf_clear(&s->record);
    return record_begin(&s->record, kind);
}

static void end_own(struct scribe *s, struct record_writer *w)
{
    struct slice batch;
    bool bad, ok;

    record_number(w, FIELD_GENERATION, (int64_t)s->context->generation);
    record_end(w);
    batch = buf_slice(&s->record);
    ok = record_read(&batch, &s->view, &bad);
    assert(ok);
    log_add(s->log, "scribe", ++s->own_seq, &s->view);
}

static void add_boot(struct scribe *s)
{
    struct record_writer w = begin_own(s, RECORD_BOOT);

    record_text(&w, FIELD_GATEWAY, slice_of(conf_text(conf_section(s->context->conf, "gateway"), "name")));
    record_text(&w, FIELD_EXEAT_VERSION, SLICE(EXEAT_VERSION));
    end_own(s, &w);
}

static void add_config(struct scribe *s)
{
    struct record_writer w = begin_own(s, RECORD_CONFIG);
    unsigned char hash[LOG_HASH_SIZE];
    struct slice text;

    if (bundle_get(s->context->files, "proxy.conf", &text) &&
        EVP_Digest(text.ptr, text.len, hash, NULL, EVP_sha256(), NULL))
        record_hex(&w, FIELD_HASH, slice_make(hash, sizeof hash));
    end_own(s, &w);
}

static void add_torn(struct scribe *s)
{
    struct record_writer w = begin_own(s, RECORD_LOST);

    record_text(&w, FIELD_DETAIL, SLICE("the last line was torn by a crash; it was never acknowledged, and is kept beside "
                                        "the segment as .torn"));
    end_own(s, &w);
}

static void add_heartbeat(struct scribe *s)
{
    struct record_writer w = begin_own(s, RECORD_HEARTBEAT);
    int64_t accepted = 0, closed = 0;

    for (size_t i = 0; i < s->n_counters; i++) {
        closed += (int64_t)s->counters[i]->values[COUNTER_CONNECTIONS_CLOSED];
        accepted += (int64_t)s->counters[i]->values[COUNTER_CONNECTIONS_ACCEPTED];
    }
    if (s->n_counters) {
        record_number(&w, FIELD_ACCEPTED, accepted);
        record_number(&w, FIELD_CLOSED, closed);
        record_number(&w, FIELD_OPEN, accepted - closed);
    }
    end_own(s, &w);
}

static void add_refused(struct scribe *s, const struct peer *p)
{
    struct record_writer w = begin_own(s, RECORD_LOST);

    record_text(&w, FIELD_DETAIL, SLICE("refused while the journal was closed; results among them are sent again"));
    record_text(&w, FIELD_ROLE, slice_of(p->name));
    record_number(&w, FIELD_LOST_FIRST, (int64_t)p->refused_first);
    record_number(&w, FIELD_LOST_RECORDS, (int64_t)p->refused);
    end_own(s, &w);
}

static int64_t clock_difference(const struct scribe *s)
{
    return loop_wall_ns(s->context->loop) / 1000000 - loop_now_ms(s->context->loop);
}

/* Who sets the clock moves the time stamps: that is told before the first record that bears the new time. */
static void note_clock(struct scribe *s)
{
    int64_t now = clock_difference(s), step = now - s->clock_ms;
    struct record_writer w;
    char detail[100];

    s->clock_ms = now;
    if (step < STEP_MS && step > -STEP_MS)
        return;
    snprintf(detail, sizeof detail, "the wall clock was set %s by %.3f s", step < 0 ? "back" : "forward",
             (double)(step < 0 ? -step : step) / 1000);
    say_warning("%s", detail);
    w = begin_own(s, RECORD_FINDING);
    record_text(&w, FIELD_DETAIL, slice_of(detail));
    end_own(s, &w);
}

/* ---- answers ---- */

static void answer(struct peer *p, enum role_message type, const char *text)
{
    struct buf *payload = &p->scribe->answer;

    p->answered = p->seen;
    buf_clear(payload);
    pack_u64(payload, p->seen);
    if (type == MSG_REFUSED)
        pack_bytes(payload, slice_of(text));
    if (p->channel)
        channel_send(p->channel, type, buf_slice(payload), -1);
}

/* Everything unanswered of p will never be written (results come again, under new numbers). */
static void refuse(struct peer *p, const char *text)
{
    if (p->seen > p->answered) {
        if (!p->refused)
            p->refused_first = p->answered + 1;
        p->refused += p->seen - p->answered;
    }
    answer(p, MSG_REFUSED, text);
}

/* ---- open and closed ---- */

static void peer_free(struct peer *p)
{
    for (struct peer **at = &p->scribe->peers; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    if (p != p->scribe->supervisor)
        channel_free(p->channel);
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

static void tell_trouble(struct scribe *s, const char *text)
{
    if (s->said_closed && strcmp(s->trouble, text) == 0)
        return;
    snprintf(s->trouble, sizeof s->trouble, "%s", text);
    role_trouble(s->context, text);
    if (text[0])
        say_error("the journal takes no records: %s. Until it does, the gateway refuses every request", text);
    else if (s->said_closed)
        say_note("the journal takes records again");
    s->said_closed = text[0] != '\0';
}

static void close_journal(struct scribe *s, const struct fault *why)
{
    log_drop(s->log);
    s->own_seq = s->own_written;
    timer_set(s->retry, RETRY_MS);
    tell_trouble(s, why->text);
    if (s->open)
        for (struct peer *p = s->peers; p; p = p->next)
            refuse(p, why->text);
    s->open = false;
    if (why->kind == FAULT_REFUSED)
        exit(3); /* the chain cannot go on from here; a new scribe looks at what is there */
}

/* What was refused has been told in the journal now. */
static void open_journal(struct scribe *s)
{
    tell_trouble(s, "");
    s->booted = s->open = true;
    for (struct peer *p = s->peers; p; p = p->next) {
        p->refused = 0;
        answer(p, MSG_RECORDED, NULL);
    }
}

static bool flush(struct scribe *s)
{
    struct fault why = {0};

    if (!log_flush(s->log, &why)) {
        close_journal(s, &why);
        return false;
    }
    s->own_written = s->own_seq;
    if (s->end)
        s->end->values[COUNTER_RECORDS] = log_seq(s->log);
    return true;
}

/* Try to write: what tells of the start, or of the time the journal was closed. */
static void try_to_open(void *arg)
{
    struct scribe *s = arg;

    note_clock(s);
    if (s->torn)
        add_torn(s);
    if (!s->booted) {
        add_boot(s);
        add_config(s);
    } else {
        add_heartbeat(s);
    }
    for (struct peer *p = s->peers; p; p = p->next)
        if (p->refused)
            add_refused(s, p);
    if (!flush(s))
        return;
    s->torn = false;
    open_journal(s);
}

/* Peers that are gone stay until their records have their answer and their refusals are told. */
static void answer_all(struct scribe *s)
{
    struct peer *next;

    for (struct peer *p = s->peers; p; p = next) {
        next = p->next;
        if (p->seen != p->answered)
            answer(p, MSG_RECORDED, NULL);
        if (!p->channel && p->fd < 0 && !p->refused)
            peer_free(p);
    }
}

static void finish_stop(void *arg)
{
    struct scribe *s = arg;

    s->stopping = false;
    loop_stop(s->context->loop);
    if (!s->open)
        return;
    struct record_writer w = begin_own(s, RECORD_SHUTDOWN);
    end_own(s, &w);
    flush(s);
}

static bool anybody_is_there(const struct scribe *s)
{
    for (const struct peer *p = s->peers; p; p = p->next)
        if (p->channel && p->role != ROLE_SUPERVISOR)
            return true;
    return false;
}

static void finish_turn(void *arg)
{
    struct scribe *s = arg;

    if (!s->log)
        return;
    if (s->open)
        flush(s);
    answer_all(s);
    if (s->stopping && !anybody_is_there(s))
        finish_stop(s);
}

static void on_heartbeat(void *arg)
{
    struct scribe *s = arg;

    if (s->open) {
        note_clock(s);
        add_heartbeat(s);
    }
    timer_set(s->heartbeat, HEARTBEAT_MS);
}

/* ---- what peers send ---- */

/* It is heard no more, and the supervisor ends it. What it had sent in order before is written and answered to nobody. */
static void violation(struct peer *p, const char *what)
{
    struct role_context *c = p->scribe->context;

    if (p->role == ROLE_SUPERVISOR)
        role_distrust(c, what);
    role_violation(c, p->role, p->index, what);
    channel_free(p->channel);
    p->channel = NULL;
}

/* Check and, while the journal is open, add every record of the batch: its records, or what is wrong with them. */
static const char *take_batch(struct peer *p, struct slice batch, uint64_t role_seq, uint32_t *n)
{
    struct scribe *s = p->scribe;
    bool bad;

    for (*n = 0; record_read(&batch, &s->view, &bad); ++*n) {
        if (!(may_send[p->role] >> s->view.kind & 1))
            return "a record of a kind it may not write";
        if (s->open)
            log_add(s->log, p->name, role_seq + *n, &s->view);
    }
    return bad ? "a damaged record" : NULL;
}

static void take_records(struct peer *p, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint64_t first = unpack_u64(&u);
    uint32_t count = unpack_u32(&u), taken;
    const char *wrong;

    if (u.bad || !count || first == 0 || first > INT64_MAX || (p->numbered && first != p->seen + 1)) {
        violation(p, "records out of sequence");
        return;
    }
    if (p->scribe->open)
        note_clock(p->scribe);
    if (!p->numbered)
        p->seen = p->answered = first - 1;
    p->numbered = true;
    wrong = take_batch(p, u.left, first, &taken);
    p->seen += taken;
    if (!wrong && taken != count)
        wrong = "another number of records than it says";
    if (wrong)
        violation(p, wrong);
    if (!p->scribe->open)
        refuse(p, "the journal is closed");
}

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct peer *p = arg;

    if (fd >= 0)
        close(fd);
    if (type != MSG_RECORDS || fd >= 0)
        violation(p, "a message that is not RECORDS");
    else
        take_records(p, payload);
}

static void on_end(void *arg)
{
    struct peer *p = arg;

    channel_free(p->channel);
    p->channel = NULL;
}

/* ---- the role ---- */

static struct peer *peer_new(struct scribe *s, enum role role, int index, int fd)
{
    struct peer *p = calloc(1, sizeof *p), **end = &s->peers;

    if (!p)
        abort();
    p->scribe = s;
    p->role = role;
    p->index = index;
    p->fd = fd;
    role_label(role, index, p->name, sizeof p->name);
    while (*end)
        end = &(*end)->next;
    *end = p;
    return p;
}

static void listen_to(struct peer *p)
{
    static const struct channel_handler handler = {on_message, on_end};
    struct scribe *s = p->scribe;

    p->channel = channel_new(s->context->loop, p->fd, &handler, p);
    p->fd = -1;
    if (!s->open)
        answer(p, MSG_REFUSED, "the journal is closed");
}

static void on_peer(struct role_context *c, enum role peer, int index, int fd)
{
    struct scribe *s = &scribe;
    struct peer *p;

    if (!may_send[peer])
        role_distrust(c, "a peer that has no records");
    p = peer_new(s, peer, index, fd);
    if (s->log)
        listen_to(p);
}

static void on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    struct scribe *s = &scribe;
    struct fault why = {0};

    (void)flag;
    if (type == MSG_DIRECTORY && slice_is(name, "journal") && s->directory_fd < 0) {
        s->directory_fd = fd;
        return;
    }
    if (type != MSG_SHARED)
        role_distrust(c, "a resource the scribe has no use for");
    if (slice_is(name, "journal-end"))
        s->end = counters_map(fd, true, &why);
    if (slice_starts(name, SLICE("counters/")) && s->n_counters < COUNTERS_MAX) {
        s->counters[s->n_counters] = counters_map(fd, false, &why);
        s->n_counters += s->counters[s->n_counters] != NULL;
    }
    close(fd);
}

static void on_control(struct role_context *c, enum role_message type, struct slice payload)
{
    struct scribe *s = &scribe;

    if (type != MSG_RECORDS || !s->log)
        role_distrust(c, "a message the scribe does not take");
    if (!s->supervisor) {
        s->supervisor = peer_new(s, ROLE_SUPERVISOR, 0, -1);
        s->supervisor->channel = c->control;
    }
    take_records(s->supervisor, payload);
}

static bool start(struct role_context *c, struct fault *why)
{
    struct scribe *s = &scribe;
    struct log_settings settings = log_settings(conf_section(c->conf, "journal"));

    s->context = c;
    s->clock_ms = clock_difference(s);
    settings.written = s->end ? s->end->values[COUNTER_RECORDS] : 0;
    if (s->directory_fd < 0)
        return fault_set(why, FAULT_MISSING, "the journal's directory was not handed over");
    if (!(s->log = log_open(s->directory_fd, &settings, &s->torn, why))) {
        fault_prefix(why, "journal");
        return false;
    }
    s->heartbeat = timer_new(c->loop, on_heartbeat, s);
    s->retry = timer_new(c->loop, try_to_open, s);
    s->stop = timer_new(c->loop, finish_stop, s);
    timer_set(s->heartbeat, HEARTBEAT_MS);
    try_to_open(s);
    for (struct peer *p = s->peers; p; p = p->next)
        listen_to(p);
    loop_each_turn(c->loop, finish_turn, s);
    return true;
}

/* Everybody who sends was stopped before: what they sent last is still to be read. */
static void stop(struct role_context *c)
{
    struct scribe *s = &scribe;

    s->context = c;
    if (!s->log) {
        loop_stop(c->loop);
        return;
    }
    s->stopping = true;
    timer_set(s->stop, STOP_MS);
}

static void adopt(struct role_context *c, const struct role_set *before)
{
    struct log_settings settings = log_settings(conf_section(c->conf, "journal"));

    (void)before;
    log_use_settings(scribe.log, &settings);
}

const struct role_ops scribe_ops = {
    .start = start,
    .adopt = adopt,
    .on_peer = on_peer,
    .on_resource = on_resource,
    .on_control = on_control,
    .stop = stop,
};
