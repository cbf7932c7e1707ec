/* Owns one errand: look-up, dial, wait for the record, one of them at a time. Knows nothing of messages and workers. */
#include "proxy/errand.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "net/meter.h"

enum { SET_MAX = DIAL_MAX, SANDBOX_MAX = 1024, LEAST_MS = 100 };

enum errand_state {
    ERRAND_BEGIN,   /* nothing: the first turn of the loop */
    ERRAND_RESOLVE, /* the name server */
    ERRAND_DIAL,    /* a service that accepts */
    ERRAND_RECORD,  /* the scribe; then the descriptor is given */
    ERRAND_ENDED,
};

struct errand {
    struct office *office; /* held */
    enum errand_state state;
    errand_done *done; /* NULL: cancelled */
    void *arg;

    struct id exchange;
    char *asked_by, *sandbox, *host;
    uint16_t port;
    char *service; /* its name; NULL: none lists the destination */
    char *issuer;  /* whose keys are fetched; NULL: it is for a service */
    uint64_t mark; /* of the service, or of where the keys are */
    bool late;
    bool fixed, allow_private;
    int64_t begun_ns;

    struct addr set[SET_MAX]; /* checked, and nothing else is dialled */
    size_t n_set;
    struct buf found, left_out; /* for the record: all addresses; those not allowed, and why */

    struct resolve *resolve;
    struct dial *dial;
    struct record_wait wait;
    int fd;
    struct addr address;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void errand_free(struct errand *e)
{
    if (e->fd >= 0)
        close(e->fd);
    office_release(e->office);
    buf_free(&e->found);
    buf_free(&e->left_out);
    free(e->asked_by);
    free(e->sandbox);
    free(e->host);
    free(e->service);
    free(e->issuer);
    free(e);
}

/* The errand is over: its memory goes first, so that done() may do anything. */
static void tell(struct errand *e, const struct fault *why)
{
    errand_done *done = e->done;
    struct addr address = e->address;
    void *arg = e->arg;
    int fd = -1;

    if (!why) {
        fd = e->fd;
        e->fd = -1;
    }
    e->state = ERRAND_ENDED;
    errand_free(e);
    if (done)
        done(arg, fd, fd >= 0 ? &address : NULL, why);
    else if (fd >= 0)
        close(fd);
}

/* ---- what the journal gets ---- */

static struct record_writer begin_record(struct errand *e, enum record_kind kind)
{
    struct record_writer w = recorder_begin(e->office->recorder, kind);

    record_id(&w, FIELD_ID, &e->exchange);
    if (e->issuer)
        record_text(&w, FIELD_ISSUER, slice_of(e->issuer));
    else
        record_text(&w, FIELD_SANDBOX, slice_of(e->sandbox));
    if (e->service)
        record_text(&w, FIELD_SERVICE, slice_of(e->service));
    record_text(&w, FIELD_HOST, slice_of(e->host));
    record_number(&w, FIELD_PORT, e->port);
    if (!slice_starts(slice_of(e->asked_by), SLICE("worker")))
        record_text(&w, FIELD_ASKED_BY, slice_of(e->asked_by));
    if (buf_len(&e->found))
        record_text(&w, FIELD_ADDRESSES, buf_slice(&e->found));
    return w;
}

/* wait NULL: the errand ends here, and the record goes its own way. */
static void record_dial(struct errand *e, const char *outcome, enum reason reason, const char *detail,
                        struct record_wait *wait)
{
    struct record_writer w = begin_record(e, RECORD_DIAL);
    struct meter count;

    if (e->address.family) {
        struct buf text = {0};

        addr_text(&text, &e->address);
        record_text(&w, FIELD_ADDRESS, buf_slice(&text));
        buf_free(&text);
    }
    if (e->fd >= 0 && meter_read(e->fd, &count)) {
        struct buf text = {0};

        addr_text(&text, &count.local);
        record_text(&w, FIELD_LOCAL, buf_slice(&text));
        buf_free(&text);
    }
    record_text(&w, FIELD_OUTCOME, slice_of(outcome));
    record_reason(&w, FIELD_REASON, reason);
    if (*detail)
        record_text(&w, FIELD_DETAIL, slice_of(detail));
    record_number(&w, FIELD_DURATION_US, (clock_mono_ns() - e->begun_ns) / 1000);
    recorder_end(e->office->recorder, &w, wait);
}

/* Some addresses were left out and others remain: the exchange goes on, and somebody should look. */
static void record_left_out(struct errand *e)
{
    struct record_writer w = begin_record(e, RECORD_FINDING);

    record_reason(&w, FIELD_REASON, REASON_ADDRESS_DENIED);
    record_text(&w, FIELD_DETAIL, buf_slice(&e->left_out));
    recorder_end(e->office->recorder, &w, NULL);
}

/* ---- how it ends ---- */

static void refuse(struct errand *e, enum reason recorded, const struct fault *why)
{
    record_dial(e, "refused", recorded, why->text, NULL);
    tell(e, why);
}

static void fail(struct errand *e, const struct fault *why)
{
    record_dial(e, "failed", why->reason, why->text, NULL);
    tell(e, why);
}

static void on_recorded(void *arg, bool ok)
{
    struct errand *e = arg;
    struct fault why = {0};

    if (!ok)
        fault_reason(&why, REASON_RECORD_UNAVAILABLE, "the dial could not be recorded; the connection was closed");
    tell(e, ok ? NULL : &why);
}

static void on_dialled(void *arg, int fd, const struct addr *address, const struct fault *why)
{
    struct errand *e = arg;

    e->dial = NULL;
    if (fd < 0) {
        fail(e, why);
        return;
    }
    e->fd = fd;
    e->address = *address;
    e->state = ERRAND_RECORD;
    e->wait = (struct record_wait){.on_recorded = on_recorded, .arg = e};
    record_dial(e, "complete", REASON_ALLOWED, "", &e->wait);
}

/* ---- which addresses ---- */

static void list_address(struct buf *out, const struct addr *a, const char *why)
{
    if (buf_len(out))
        buf_text(out, ", ");
    addr_text(out, a);
    if (why)
        buf_printf(out, " (%s)", why);
}

/* Into the set, or left out and noted. */
static void consider(struct errand *e, const struct addr *a)
{
    enum bounds_source source = e->fixed            ? BOUNDS_FIXED
                                : e->allow_private ? BOUNDS_RESOLVED_PRIVATE
                                                   : BOUNDS_RESOLVED;
    const char *why = bounds_refuse(e->office->bounds, a, source);

    list_address(&e->found, a, NULL);
    if (why)
        list_address(&e->left_out, a, why);
    else if (e->n_set < SET_MAX)
        e->set[e->n_set++] = *a;
}

static int64_t time_left(const struct errand *e)
{
    int64_t left = e->office->timeout_ms - (clock_mono_ns() - e->begun_ns) / 1000000;

    return left > LEAST_MS ? left : LEAST_MS;
}

static void dial_set(struct errand *e)
{
    struct dial_settings settings = {.timeout_ms = time_left(e), .stagger_ms = e->office->stagger_ms};
    struct fault why = {0};

    if (e->n_set == 0) {
        fault_reason(&why, REASON_ADDRESS_DENIED, "%s: %.*s", e->host, SLICE_ARG(buf_slice(&e->left_out)));
        refuse(e, why.reason, &why);
        return;
    }
    if (buf_len(&e->left_out))
        record_left_out(e);
    e->state = ERRAND_DIAL;
    e->dial = dial_start(e->office->loop, e->set, e->n_set, &settings, on_dialled, e);
}

static void on_resolved(void *arg, const struct resolution *r)
{
    struct errand *e = arg;

    e->resolve = NULL;
    if (r->count == 0) {
        struct fault why = r->fault;

        fault_prefix(&why, "%s", e->host);
        fail(e, &why);
        return;
    }
    for (size_t i = 0; i < r->count; i++) {
        struct addr a = r->list[i].addr;

        a.port = e->port;
        consider(e, &a);
    }
    dial_set(e);
}

static void take_fixed(struct errand *e, const struct service *s)
{
    struct addr a;

    for (size_t i = 0; i < service_address_count(s); i++)
        if (addr_parse(slice_of(service_address(s, i)), &a))
            consider(e, &a);
    dial_set(e);
}

/* ---- the beginning ---- */

/* Names below a suffix are somebody's words. */
static bool may_ask(struct errand *e, const struct service *s)
{
    const struct allowance_charge charge = {slice_of(e->asked_by), slice_of(e->sandbox), e->host, e->exchange};
    struct fault why = {0};
    bool is_first;

    if (!service_is_below_suffix(s, e->host) || allowance_take(e->office->allowance, &charge, &is_first, &why))
        return true;
    if (is_first)
        record_dial(e, "refused", why.reason, why.text, NULL);
    tell(e, &why);
    return false;
}

static void look_up(struct errand *e)
{
    struct fault why = {0};

    e->state = ERRAND_RESOLVE;
    e->resolve = resolve_start(office_resolver(e->office), e->host, on_resolved, e, &why);
    if (!e->resolve)
        fail(e, &why);
}

static void choose(struct errand *e, const struct service *s)
{
    e->service = text_copy(slice_of(service_name(s)));
    e->mark = service_mark(s);
    e->fixed = service_address_count(s) > 0;
    e->allow_private = service_allows_private(s);
    if (e->fixed)
        take_fixed(e, s);
    else if (may_ask(e, s))
        look_up(e);
}

static void go_for_keys(struct errand *e, const struct keysource *k)
{
    e->host = text_copy(slice_of(k->host));
    e->port = k->port;
    e->mark = k->mark;
    e->fixed = k->n_addresses > 0;
    e->allow_private = k->allow_private;
    for (size_t i = 0; i < k->n_addresses; i++) {
        struct addr a = keysource_address(k, i);

        consider(e, &a);
    }
    if (e->fixed)
        dial_set(e);
    else
        look_up(e);
}

static void begin_for_keys(struct errand *e)
{
    const struct keysource *k = keysources_named(e->office->sources, slice_of(e->issuer));
    struct fault why = {0};

    if (k) {
        go_for_keys(e, k);
        return;
    }
    e->host = text_copy(slice_of(""));
    fault_reason(&why, e->late ? REASON_HOST_NOT_LISTED : REASON_DIAL_UNLISTED, "no issuer is called %.63s and publishes keys", e->issuer);
    refuse(e, why.reason, &why);
}

static void begin(void *arg)
{
    struct errand *e = arg;
    const struct service *s;
    struct fault why = {0};

    if (!e->done) {
        errand_free(e);
        return;
    }
    if (!recorder_is_open(e->office->recorder)) {
        fault_reason(&why, REASON_RECORD_UNAVAILABLE, "the journal does not accept records; nothing was dialled");
        refuse(e, why.reason, &why);
        return;
    }
    if (e->issuer) {
        begin_for_keys(e);
        return;
    }
    s = policy_find(e->office->policy, e->host, e->port);
    if (!s) {
        /* The worker has the same policy: one that asks for this has lost its mind, or its owner. */
        fault_reason(&why, e->late ? REASON_HOST_NOT_LISTED : REASON_DIAL_UNLISTED, "no service lists %s:%u", e->host,
                     e->port);
        refuse(e, why.reason, &why);
        return;
    }
    if (service_is_shut(s)) {
        fault_reason(&why, REASON_SERVICE_CLOSED, "service %s was closed by hand", service_name(s));
        refuse(e, why.reason, &why);
        return;
    }
    choose(e, s);
}

bool errand_move(struct errand *e, struct office *now)
{
    const struct keysource *k = e->issuer ? keysources_named(now->sources, slice_of(e->issuer)) : NULL;
    const struct service *s;

    if (e->state != ERRAND_BEGIN && e->issuer)
        return k && k->mark == e->mark;
    if (e->state != ERRAND_BEGIN) {
        s = policy_find(now->policy, e->host, e->port);
        return s && service_mark(s) == e->mark;
    }
    office_hold(now);
    office_release(e->office);
    e->office = now;
    e->late = true;
    return true;
}

struct errand *errand_start(struct office *office, const struct errand_order *order, errand_done *done, void *arg)
{
    struct errand *e = must(calloc(1, sizeof *e));

    assert(done);
    e->office = office_hold(office);
    e->late = order->late;
    e->done = done;
    e->arg = arg;
    e->exchange = order->exchange;
    e->asked_by = text_copy(order->asked_by);
    e->sandbox = text_copy(slice_cut(order->sandbox, 0, SANDBOX_MAX));
    if (order->host)
        e->host = text_copy(slice_of(order->host));
    else
        e->issuer = text_copy(slice_cut(order->issuer, 0, SANDBOX_MAX));
    e->port = order->port;
    e->begun_ns = clock_mono_ns();
    e->fd = -1;
    loop_defer(office->loop, begin, e);
    return e;
}

void errand_cancel(struct errand *e)
{
    if (!e)
        return;
    e->done = NULL;
    if (e->state == ERRAND_BEGIN)
        return; /* begin() frees it */
    if (e->state == ERRAND_RECORD) {
        recorder_cancel(e->office->recorder, &e->wait);
    } else {
        resolve_cancel(e->resolve);
        dial_cancel(e->dial);
        record_dial(e, "cut", REASON_CLIENT_CLOSED, "the worker no longer wants it", NULL);
    }
    errand_free(e);
}
