/* Owns the fetching of each issuer's keys: one call at a time, and when the next one is due. */
#include "proxy/locksmith.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/issuer.h"
#include "base/id.h"
#include "base/say.h"
#include "base/text.h"
#include "proxy/call.h"
#include "proxy/keyring.h"

enum {
    ANSWER_MAX = 256 << 10,
    CALL_MS = 10000,
    RETRY_MS = 1000,       /* after a failure; doubled with each */
    RETRY_MOST_MS = 60000,
    SOONEST_MS = 60000,    /* whatever an answer says of its age */
    WANT_MS = 5000,        /* between two that unknown kids brought about; doubled while they bring nothing new */
    WANT_MOST_MS = 300000,
};

struct job {
    struct job *next;
    const struct keysource *source;
    unsigned algorithms;
    struct call *call;
    struct timer *timer;
    int64_t due_ms;     /* the next call */
    int64_t begun_ms;   /* the last one */
    int64_t want_ms;    /* so long after it the next unknown kid counts */
    int64_t retry_ms;
    bool wanted;        /* the call under way, or the next one, is for an unknown kid */
    int64_t fetched_s;  /* what is in force; 0: nothing */
    size_t n_keys;
    char error[FAULT_TEXT_SIZE]; /* of the last call; "" when it went well */
};

static struct locksmith {
    struct role_context *context;
    struct asks *porter;
    struct recorder *recorder;
    struct keysources *sources;
    struct keyring *ring;
    struct job *jobs;
    bool started;
    struct metrics_issuer *report;
} smith;

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void fetch_in(struct job *j, int64_t ms)
{
    j->due_ms = loop_now_ms(smith.context->loop) + ms;
    timer_set(j->timer, ms);
}

/* ---- how it ends ---- */

static void fail(struct job *j, const char *why)
{
    int64_t most = smaller(RETRY_MOST_MS, j->source->refresh_ms);

    if (strcmp(j->error, why) != 0) /* the same again is said once */
        say_warning("keys of issuer %s: %s: %s", j->source->issuer, j->source->host, why);
    snprintf(j->error, sizeof j->error, "%s", why);
    j->retry_ms = smaller(larger(2 * j->retry_ms, RETRY_MS), most);
    fetch_in(j, j->retry_ms);
}

static void tell_supervisor(const struct job *j, const struct keyset *keys, struct slice set)
{
    struct buf out = {0}, words = {0};

    for (size_t i = 0; i < keyset_count(keys); i++)
        buf_printf(&words, "%s%.60s", i ? ", " : "kid ", key_id(keyset_key(keys, i)));
    pack_bytes(&out, slice_of(j->source->issuer));
    pack_bytes(&out, set);
    pack_bytes(&out, slice_cut(buf_slice(&words), 0, 400));
    channel_send(smith.context->control, MSG_FETCHED_KEYS, buf_slice(&out), -1);
    buf_free(&words);
    buf_free(&out);
}

/* max-age of Cache-Control (RFC 9111 5.2.2.1), as far as it is sooner than what is configured. */
static int64_t next_ms(const struct job *j, const struct head *head)
{
    const struct field *f = head_field(head, "Cache-Control");
    struct slice rest = f ? f->value : slice_make("", 0), one;
    int64_t refresh = j->source->refresh_ms, soonest = smaller(SOONEST_MS, refresh);
    uint64_t s;

    while (f && slice_next(&rest, ',', &one)) {
        one = slice_trim(one);
        if (slice_is_nocase(one, "no-cache") || slice_is_nocase(one, "no-store"))
            return soonest;
        if (slice_starts_nocase(one, SLICE("max-age=")) && slice_decimal(slice_from(one, 8), 1u << 30, &s))
            refresh = smaller(refresh, larger((int64_t)s * 1000, soonest));
    }
    return refresh;
}

static bool is_json(const struct head *head)
{
    static const char *const types[] = {"application/json", "application/jwk-set+json"};
    const struct field *f = head_field(head, "Content-Type");
    struct slice type = f ? f->value : slice_make("", 0), first;

    slice_next(&type, ';', &first);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (slice_is_nocase(slice_trim(first), types[i]))
            return true;
    return false;
}

static bool check_head(const struct head *head, struct fault *why)
{
    const struct field *coding = head_field(head, "Content-Encoding");

    if (head->status >= 300 && head->status < 400)
        return fault_set(why, FAULT_REFUSED, "it answered %d and sends elsewhere; no redirect is followed: name the place in jwks-uri",
                         head->status);
    if (head->status != 200)
        return fault_set(why, FAULT_REFUSED, "it answered %d", head->status);
    if (!is_json(head))
        return fault_set(why, FAULT_REFUSED, "its answer is no application/json");
    if (coding && !slice_is_nocase(coding->value, "identity"))
        return fault_set(why, FAULT_REFUSED, "its answer is encoded although it was asked not to be");
    return true;
}

/* Into force. True when it is another set than before. */
static bool keep(struct job *j, struct slice body, struct fault *why, bool *changed)
{
    struct keyset *keys = keyset_parse(body, "its answer", j->algorithms, KEYSET_PUBLISHED, why);
    struct buf set = {0};
    bool ok = keys != NULL;

    if (ok)
        keyset_print(keys, &set);
    if (ok && buf_len(&set) > KEYRING_SET_MAX)
        ok = fault_set(why, FAULT_LIMIT, "its keys take more than %d bytes", KEYRING_SET_MAX);
    if (ok) {
        j->fetched_s = loop_wall_s(smith.context->loop);
        j->n_keys = keyset_count(keys);
        *changed = keyring_put(smith.ring, slice_of(j->source->issuer), slice_of(j->source->uri), j->fetched_s, buf_slice(&set));
        tell_supervisor(j, keys, buf_slice(&set));
    }
    keyset_free(keys);
    buf_free(&set);
    return ok;
}

static void succeed(struct job *j, const struct head *head, bool changed)
{
    if (j->error[0])
        say_note("keys of issuer %s were fetched again", j->source->issuer);
    j->error[0] = '\0';
    j->retry_ms = 0;
    j->want_ms = changed || !j->wanted ? WANT_MS : smaller(2 * j->want_ms, WANT_MOST_MS);
    fetch_in(j, next_ms(j, head));
}

static void on_answer(void *arg, const struct head *head, struct slice body, const char *text)
{
    struct job *j = arg;
    struct fault why = {0};
    bool changed = false;

    j->call = NULL;
    if (!head)
        fail(j, text);
    else if (!check_head(head, &why) || !keep(j, body, &why, &changed))
        fail(j, why.text);
    else
        succeed(j, head, changed);
    j->wanted = false;
}

/* ---- a call ---- */

static struct tls_client *trust_of(const struct keysource *k, struct fault *why)
{
    struct slice pem = {"", 0};
    char name[128];

    snprintf(name, sizeof name, "issuer.%s.ca", k->issuer);
    bundle_get(smith.context->files, k->ca_file ? name : "ca.system", &pem);
    return tls_client_new(pem, why);
}

static void write_request(const struct keysource *k, struct buf *out)
{
    buf_printf(out, "GET %s HTTP/1.1\r\nHost: %s", k->target, k->host);
    if (k->port != 443)
        buf_printf(out, ":%u", k->port);
    buf_text(out, "\r\nAccept: application/jwk-set+json, application/json\r\nAccept-Encoding: identity\r\n"
                  "User-Agent: exeat/" EXEAT_VERSION "\r\nConnection: close\r\n\r\n");
}

static void fetch(struct job *j)
{
    struct id id = id_new(loop_wall_ns(smith.context->loop) / 1000000);
    struct call_order order = {.porter = smith.porter, .recorder = smith.recorder, .issuer = j->source->issuer, .dial = MSG_DIAL_KEYS,
                               .host = j->source->host, .answer_max = ANSWER_MAX, .wait_ms = CALL_MS};
    struct buf dial = {0}, request = {0};
    struct fault why = {0};

    timer_stop(j->timer);
    j->begun_ms = loop_now_ms(smith.context->loop);
    if (!(order.trust = trust_of(j->source, &why))) {
        fail(j, why.text);
        return;
    }
    pack_u64(&dial, smith.context->generation);
    buf_append(&dial, slice_make(id.bytes, sizeof id.bytes));
    pack_bytes(&dial, slice_of(j->source->issuer));
    write_request(j->source, &request);
    order.dial_body = buf_slice(&dial);
    order.request = buf_slice(&request);
    j->call = call_start(smith.context->loop, &order, on_answer, j);
    buf_free(&dial);
    buf_free(&request);
}

static void on_timer(void *arg)
{
    struct job *j = arg;

    if (!j->call)
        fetch(j);
}

/* ---- jobs ---- */

static struct job *job_new(const struct keysource *k)
{
    struct job *j = must(calloc(1, sizeof *j));

    j->want_ms = WANT_MS;
    j->timer = timer_new(smith.context->loop, on_timer, j);
    j->source = k;
    return j;
}

static void job_free(struct job *j)
{
    call_cancel(j->call);
    timer_free(j->timer);
    free(j);
}

static struct job *find(struct slice issuer)
{
    struct job *j = smith.jobs;

    while (j && !slice_is(issuer, j->source->issuer))
        j = j->next;
    return j;
}

/* What of it may verify: algorithms are the issuer's, which the supervisor has compiled before. */
static unsigned algorithms_of(const struct conf_item *item)
{
    unsigned bits = 0;

    for (size_t i = 0; i < conf_list_count(item, "algorithms"); i++) {
        enum algorithm a;

        if (algorithm_find(slice_of(conf_list_text(item, "algorithms", i)), &a))
            bits |= 1u << a;
    }
    return bits;
}

/* What the supervisor handed over counts as fetched then. */
static void look_at_ring(struct job *j)
{
    struct keyset *keys;
    struct slice set;

    if (!keyring_find(smith.ring, slice_of(j->source->issuer), slice_of(j->source->uri), &j->fetched_s, &set))
        return;
    if ((keys = keyset_parse(set, j->source->uri, j->algorithms, KEYSET_PUBLISHED, NULL)))
        j->n_keys = keyset_count(keys);
    else
        j->fetched_s = 0;
    keyset_free(keys);
}

static void schedule(struct job *j, bool at_once)
{
    int64_t age_ms = (loop_wall_s(smith.context->loop) - j->fetched_s) * 1000;
    bool is_fresh = j->fetched_s && age_ms >= 0 && age_ms < j->source->refresh_ms;

    if (smith.started && !j->call)
        fetch_in(j, is_fresh && !at_once ? j->source->refresh_ms - age_ms : 0);
}

/* A job goes on where the words about it are the same. */
static struct job *job_for(struct job *before, const struct keysource *k)
{
    while (before && (strcmp(before->source->issuer, k->issuer) != 0 || before->source->mark != k->mark))
        before = before->next;
    return before;
}

static struct job *take_over(struct job **before, struct job *j)
{
    struct job **at = before;

    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    return j;
}

static void make_jobs(struct keysources *sources)
{
    struct job *before = smith.jobs, *j;

    smith.jobs = NULL;
    for (size_t i = 0; i < keysources_count(sources); i++) {
        const struct keysource *k = keysources_get(sources, i);

        bool is_new;

        j = job_for(before, k);
        is_new = !j;
        j = j ? take_over(&before, j) : job_new(k);
        j->source = k;
        j->algorithms = algorithms_of(k->item);
        j->next = smith.jobs;
        smith.jobs = j;
        look_at_ring(j);
        schedule(j, is_new);
    }
    while ((j = before)) {
        before = j->next;
        job_free(j);
    }
}

/* The supervisor has compiled the same before. */
void locksmith_use(void)
{
    struct fault why = {0};
    struct keysources *sources = keysources_compile(smith.context->conf, &why);

    if (!sources) {
        say_error("no keys can be fetched: %s", why.text);
        return;
    }
    make_jobs(sources);
    keysources_free(smith.sources);
    smith.sources = sources;
    keyring_keep(smith.ring, smith.context->conf);
}

void locksmith_open(struct role_context *context, struct asks *porter, struct recorder *recorder)
{
    if (smith.context)
        return;
    smith.context = context;
    smith.porter = porter;
    smith.recorder = recorder;
    smith.ring = keyring_new();
    locksmith_use();
}

void locksmith_start(void)
{
    smith.started = true;
    for (struct job *j = smith.jobs; j; j = j->next)
        schedule(j, false);
}

bool locksmith_take(struct slice message)
{
    bool changed;

    if (!keyring_take(smith.ring, message, &changed))
        return false;
    for (struct job *j = smith.jobs; j; j = j->next)
        look_at_ring(j);
    return true;
}

bool locksmith_want(struct slice message)
{
    struct unpack u = unpack_start(message);
    struct job *j = find(unpack_bytes(&u));
    int64_t now_ms = loop_now_ms(smith.context->loop);

    if (!unpack_done(&u))
        return false;
    if (!j || !smith.started || j->call || j->wanted || j->error[0]) /* then it is tried again anyhow */
        return true;
    j->wanted = true;
    fetch_in(j, larger(smaller(j->begun_ms + j->want_ms, j->due_ms) - now_ms, 0));
    return true;
}

void locksmith_close(void)
{
    struct job *j;

    while ((j = smith.jobs)) {
        smith.jobs = j->next;
        job_free(j);
    }
    keysources_free(smith.sources);
    keyring_free(smith.ring);
    free(smith.report);
    smith = (struct locksmith){0};
}

/* ---- how things stand ---- */

const struct metrics_issuer *locksmith_report(size_t *n)
{
    size_t i = 0;

    *n = smith.sources ? keysources_count(smith.sources) : 0;
    free(smith.report);
    smith.report = must(calloc(*n + 1, sizeof *smith.report));
    for (const struct job *j = smith.jobs; j; j = j->next)
        smith.report[i++] = (struct metrics_issuer){
            .name = j->source->issuer,
            .uri = j->source->uri,
            .keys = j->fetched_s ? j->n_keys : 0,
            .fetched_s = j->fetched_s,
            .until_s = j->fetched_s ? j->fetched_s + j->source->max_age_s : 0,
            .good = j->fetched_s && loop_wall_s(smith.context->loop) < j->fetched_s + j->source->max_age_s,
            .error = j->error,
        };
    return smith.report;
}
