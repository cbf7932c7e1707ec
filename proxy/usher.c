#include "proxy/usher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "proxy/lexicon.h"

#define NAME_PREFIX "dns."

enum { TICK_MS = 1000, ASKS_MAX = 4096 };

/* A socket that came and is not in use yet. */
struct arrival {
    struct arrival *next;
    char *name;
    bool takes_tcp;
    int fd;
};

static struct usher usher;
static struct outlet *outlets;
static struct arrival *arrivals;
static struct timer *tick;
static struct prepared {
    struct zones zones;
    struct sift *sift;
} next_set, before_set;

static void on_sum(void *arg, const struct patron *p, const struct sum *s)
{
    inquiry_sum(arg, p, s);
}

static void take_context(struct role_context *c)
{
    if (usher.role)
        return;
    usher.role = c;
    TAILQ_INIT(&usher.inquiries);
    TAILQ_INIT(&usher.talks);
    usher.recorder = recorder_new(c->loop);
    recorder_stamp(usher.recorder, c->generation);
    usher.porter = asks_new(c->loop, ASKS_MAX);
    usher.patrons = patrons_new(on_sum, &usher);
}

static void on_peer(struct role_context *c, enum role peer, int index, int fd)
{
    (void)index;
    take_context(c);
    if (peer == ROLE_SCRIBE)
        recorder_attach(usher.recorder, fd);
    else if (peer == ROLE_PORTER)
        asks_attach(usher.porter, fd);
    else
        role_distrust(c, "a peer the usher has nothing to say to");
}

/* ---- sockets ---- */

static void arrive(struct slice name, bool takes_tcp, int fd)
{
    struct arrival *a = calloc(1, sizeof *a);

    if (!a)
        abort();
    *a = (struct arrival){.next = arrivals, .name = text_copy(name), .takes_tcp = takes_tcp, .fd = fd};
    arrivals = a;
}

static void arrival_free(struct arrival *a, bool closes)
{
    if (closes)
        close(a->fd);
    free(a->name);
    free(a);
}

static void on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    struct fault why = {0};

    if (type == MSG_LISTENER && slice_starts(name, SLICE(NAME_PREFIX))) {
        arrive(slice_from(name, strlen(NAME_PREFIX)), flag, fd);
        return;
    }
    if (type != MSG_SHARED || !slice_is(name, "counters/usher") || !(usher.counters = counters_map(fd, true, &why)))
        role_distrust(c, "a resource the usher has no use for");
    close(fd);
}

/* What came for this name; NULL: nothing new. */
static struct outlet *outlet_of_arrivals(const struct zone *z)
{
    struct outlet *o = NULL;
    struct arrival *a;

    for (struct arrival **at = &arrivals; (a = *at);) {
        if (strcmp(a->name, z->name) != 0) {
            at = &a->next;
            continue;
        }
        if (!o)
            o = outlet_new(&usher, slice_of(z->name));
        outlet_add(o, a->fd, a->takes_tcp);
        *at = a->next;
        arrival_free(a, false);
    }
    return o;
}

static struct outlet *take_out(const char *name)
{
    for (struct outlet **at = &outlets; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0) {
            struct outlet *o = *at;

            *at = o->next;
            return o;
        }
    return NULL;
}

static void close_all(struct outlet *list)
{
    struct outlet *o;

    while ((o = list)) {
        list = o->next;
        outlet_close(o);
    }
}

static void drop_arrivals(void)
{
    struct arrival *a;

    while ((a = arrivals)) {
        arrivals = a->next;
        arrival_free(a, true);
    }
}

/* Each zone by the sockets that came for it, or by those it had; what is left of those is closed. False: one has none. */
static bool open_outlets(void)
{
    struct outlet *open = NULL;
    bool ok = true;

    for (size_t i = 0; i < usher.zones.n; i++) {
        const struct zone *z = &usher.zones.list[i];
        struct outlet *old = take_out(z->name), *o = outlet_of_arrivals(z);

        if (o && old)
            outlet_close(old);
        if (!o && !(o = old)) {
            ok = false;
            continue;
        }
        outlet_open(o, z);
        o->next = open;
        open = o;
    }
    close_all(outlets);
    outlets = open;
    drop_arrivals();
    return ok;
}

/* ---- start and stop ---- */

static bool prepare_set(const struct role_set *set, struct prepared *out, struct fault *why)
{
    const struct lexicon ready = lexicon_of(set->files);
    struct slice json = {"", 0};

    *out = (struct prepared){0};
    if (!zones_compile(set->conf, &out->zones, why))
        return false;
    if (out->zones.n)
        bundle_get(set->files, "canaries.json", &json);
    out->sift = sift_new(json, ready.scan, ready.names, why);
    lexicon_drop(set->files);
    if (out->sift)
        return true;
    zones_clear(&out->zones);
    return false;
}

static void prepared_free(struct prepared *p)
{
    zones_clear(&p->zones);
    sift_free(p->sift);
    *p = (struct prepared){0};
}

static void use_set(struct role_context *c, struct prepared *p)
{
    usher.zones = p->zones;
    usher.sift = p->sift;
    usher.limits = limits_read(c->conf);
    *p = (struct prepared){0};
}

static void on_tick(void *arg)
{
    struct usher *u = arg;

    inquiries_tick(u);
    talks_tick(u);
    patrons_tick(u->patrons, loop_now_ms(u->role->loop), u->stopping);
    u->counters->values[COUNTER_JOURNAL_OPEN] = recorder_is_open(u->recorder);
    u->counters->values[COUNTER_RECORDS] = recorder_written(u->recorder);
    timer_set(tick, TICK_MS);
}

/* Spellings of many canaries take their time: while nobody waits, and files can be read. */
static bool gather(struct role_context *c, struct fault *why)
{
    const struct role_set set = {c->generation, c->files, c->conf, c->policy};

    take_context(c);
    return prepare_set(&set, &next_set, why);
}

static bool start(struct role_context *c, struct fault *why)
{
    if (!usher.counters)
        return fault_set(why, FAULT_MISSING, "no counters were handed over");
    use_set(c, &next_set);
    usher.counters->values[COUNTER_DNS_CONNECTIONS] = 0;
    if (!open_outlets())
        return fault_set(why, FAULT_MISSING, "a DNS listener's sockets were not handed over");
    tick = timer_new(c->loop, on_tick, &usher);
    on_tick(&usher);
    return true;
}

static void on_settled(void *arg)
{
    struct role_context *c = arg;

    loop_stop(c->loop);
}

static void stop(struct role_context *c)
{
    take_context(c);
    usher.stopping = true;
    close_all(outlets);
    outlets = NULL;
    patrons_tick(usher.patrons, loop_now_ms(c->loop), true);
    recorder_settle(usher.recorder, on_settled, c);
}

/* ---- another configuration ---- */

static bool prepare(struct role_context *c, const struct role_set *next, struct fault *why)
{
    (void)c;
    return prepare_set(next, &next_set, why);
}

static void abandon(struct role_context *c)
{
    (void)c;
    prepared_free(&next_set);
    drop_arrivals();
}

static void adopt(struct role_context *c, const struct role_set *before)
{
    (void)before;
    before_set = (struct prepared){usher.zones, usher.sift};
    use_set(c, &next_set);
    recorder_stamp(usher.recorder, c->generation);
    if (!open_outlets())
        role_distrust(c, "a DNS listener without sockets");
}

static void settle(struct role_context *c)
{
    (void)c;
    prepared_free(&before_set);
}

const struct role_ops usher_ops = {
    .gather = gather,
    .start = start,
    .on_peer = on_peer,
    .on_resource = on_resource,
    .stop = stop,
    .prepare = prepare,
    .abandon = abandon,
    .adopt = adopt,
    .settle = settle,
};
