/*
 * The porter: the one role that connects. Owns the resolver and the errands of each worker; answers MSG_DIAL by
 * MSG_DIALLED or MSG_NOT_DIALLED, and the usher's MSG_LOOKUP by MSG_FOUND or MSG_NOT_FOUND. What else a worker says is a violation: it is heard no more, and the supervisor ends it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pack.h"
#include "base/say.h"
#include "net/name.h"
#include "net/routes.h"
#include "proxy/desk.h"
#include "proxy/errand.h"
#include "proxy/guests.h"
#include "proxy/lookup.h"
#include "proxy/role.h"

enum { ASKS_MAX = 4096, UNREAD_MAX = 512, LATE_MS = 5000 };

/*
 * ASKS_MAX: dials of one worker at once. UNREAD_MAX: answers that it may leave unread, for each holds a descriptor. LATE_MS: so long after a change of the policy a question by the one before may
 * still be on its way.
 */

struct client;

/* One question of a worker, until it is answered. */
struct ask {
    struct ask *next, **link;
    struct client *client;
    uint32_t id;
    struct errand *errand; /* of a dial */
    struct lookup *lookup; /* of the usher's */
    struct guest *worker, *guest; /* both hold it: the worker among workers, the sandbox among the worker's */
    bool looks_up; /* its name is not fixed: a look-up until it is answered */
};

/* A worker, as long as its channel lives. */
struct client {
    struct visitor visitor;
    struct ask *asks;
    size_t n_asks;
    struct guests *guests; /* sandboxes, by what it says */
    char label[40]; /* "worker 1"; "": not asked for yet */
};

static struct porter {
    struct role_context *context;
    struct recorder *recorder;
    struct bounds *bounds; /* of every office, as is the next */
    struct routes *routes; /* NULL: the kernel does not say which addresses are this machine's */
    struct allowance *allowance;
    struct revocations *revocations; /* services that are closed by hand */
    struct office *office; /* in force */
    struct office *before; /* the one before it, until no worker decides by its policy any more */
    struct office *next;   /* built */
    int64_t settled_ms;
    struct desk desk;
    struct share dials, lookups;
    struct guests *workers;
} porter;

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void ask_free(struct ask *a)
{
    guest_end(a->guest, a->looks_up);
    guest_end(a->worker, a->looks_up);
    *a->link = a->next;
    if (a->next)
        a->next->link = a->link;
    a->client->n_asks--;
    free(a);
}

/* Nobody waits for it any more. */
static void ask_drop(struct ask *a)
{
    errand_cancel(a->errand);
    lookup_cancel(a->lookup);
    ask_free(a);
}

static struct slice label_of(struct client *c)
{
    if (!c->label[0])
        role_label(c->visitor.role, c->visitor.index, c->label, sizeof c->label);
    return slice_of(c->label);
}

static struct guest *begin_of_worker(struct client *c, bool looks_up, enum reason *why)
{
    return guests_begin(porter.workers, label_of(c), looks_up, why);
}

/* NULL and *why when the worker, or its sandbox, has as many dials as it may. */
static struct ask *ask_new(struct client *c, uint32_t id, struct slice sandbox, bool looks_up, enum reason *why)
{
    struct guest *worker = begin_of_worker(c, looks_up, why), *guest;
    struct ask *a;

    if (!worker)
        return NULL;
    if (!c->guests)
        c->guests = guests_new(&porter.dials, &porter.lookups);
    if (!(guest = guests_begin(c->guests, sandbox, looks_up, why))) {
        guest_end(worker, looks_up);
        return NULL;
    }
    a = must(calloc(1, sizeof *a));
    *a = (struct ask){.next = c->asks, .link = &c->asks, .client = c, .id = id, .worker = worker, .guest = guest,
                      .looks_up = looks_up};
    if (a->next)
        a->next->link = &a->next;
    c->asks = a;
    c->n_asks++;
    return a;
}

static struct ask *ask_find(const struct client *c, uint32_t id)
{
    struct ask *a = c->asks;

    while (a && a->id != id)
        a = a->next;
    return a;
}

static void answer_no(struct client *c, uint32_t id, enum reason reason, const char *detail)
{
    enum role_message type = c->visitor.role == ROLE_USHER ? MSG_NOT_FOUND : MSG_NOT_DIALLED;
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u16(&out, (uint16_t)reason);
    pack_bytes(&out, slice_of(detail));
    desk_answer(&c->visitor, type, &out, -1);
    buf_free(&out);
}

static void answer_yes(struct client *c, uint32_t id, int fd, const struct addr *address)
{
    struct buf out = {0}, text = {0};

    addr_text(&text, address);
    pack_u32(&out, id);
    pack_bytes(&out, buf_slice(&text));
    desk_answer(&c->visitor, MSG_DIALLED, &out, fd);
    close(fd);
    buf_free(&text);
    buf_free(&out);
}

static void on_errand(void *arg, int fd, const struct addr *address, const struct fault *why)
{
    struct ask *a = arg;
    struct client *c = a->client;

    if (fd >= 0)
        answer_yes(c, a->id, fd, address);
    else
        answer_no(c, a->id, why->reason, why->text);
    ask_free(a);
    if (fd < 0 && why->reason == REASON_DIAL_UNLISTED)
        desk_bears_unlisted(&c->visitor);
}

static struct id unpack_id(struct unpack *u)
{
    struct id id = {0};

    if (u->left.len < sizeof id.bytes)
        u->bad = true;
    if (u->bad)
        return id;
    memcpy(id.bytes, u->left.ptr, sizeof id.bytes);
    u->left = slice_from(u->left, sizeof id.bytes);
    return id;
}

/* A worker names hosts as name_canonical() does, and each question by an id of its own. */
static bool order_is_sound(const struct client *c, uint32_t id, struct slice host, uint16_t port, char *canonical)
{
    return port && !ask_find(c, id) && name_canonical(host, canonical, NULL) && slice_is(host, canonical);
}

/* By the policy that the worker decided by, while it is here; by ours otherwise. */
static struct office *office_for(uint64_t generation, bool *late)
{
    if (porter.before && policy_generation(porter.before->policy) == generation)
        return porter.before;
    *late = generation < policy_generation(porter.office->policy) && porter.settled_ms &&
            loop_now_ms(porter.context->loop) - porter.settled_ms < LATE_MS;
    return porter.office;
}

static bool must_look_up(const struct policy *policy, const char *host, uint16_t port)
{
    const struct service *s = policy_find(policy, host, port);

    return s && service_address_count(s) == 0;
}

static bool keys_must_look_up(const struct office *o, struct slice issuer)
{
    const struct keysource *k = keysources_named(o->sources, issuer);

    return k && k->n_addresses == 0;
}

static void begin_errand(struct client *c, uint32_t id, struct office *office, const struct errand_order *order)
{
    bool looks_up = order->host ? must_look_up(office->policy, order->host, order->port) : keys_must_look_up(office, order->issuer);
    enum reason why = REASON_LIMIT_DIALS;
    struct ask *a = NULL;

    if (c->n_asks < ASKS_MAX && channel_waiting(c->visitor.channel) < UNREAD_MAX)
        a = ask_new(c, id, order->sandbox, looks_up, &why);
    if (!a) {
        answer_no(c, id, why, "the porter has as many of this sandbox, or of its worker, as may be at once");
        return;
    }
    a->errand = errand_start(office, order, on_errand, a);
}

static void on_dial(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    uint64_t generation = unpack_u64(&u);
    struct errand_order order = {0};
    char canonical[NAME_MAX_LEN + 1];
    struct slice host;

    order.asked_by = label_of(c);
    order.exchange = unpack_id(&u);
    order.sandbox = unpack_bytes(&u);
    host = unpack_bytes(&u);
    order.port = unpack_u16(&u);
    if (!unpack_done(&u) || !order_is_sound(c, id, host, order.port, canonical)) {
        desk_expel(&c->visitor, "a malformed DIAL");
        return;
    }
    order.host = canonical;
    begin_errand(c, id, office_for(generation, &order.late), &order);
}

static void on_dial_keys(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    uint64_t generation = unpack_u64(&u);
    struct errand_order order = {0};

    order.asked_by = label_of(c);
    order.exchange = unpack_id(&u);
    order.issuer = unpack_bytes(&u);
    if (!unpack_done(&u) || ask_find(c, id)) {
        desk_expel(&c->visitor, "a malformed DIAL_KEYS");
        return;
    }
    begin_errand(c, id, office_for(generation, &order.late), &order);
}

/* ---- look-ups ---- */

static void answer_found(struct client *c, uint32_t id, const struct lookup_found *found)
{
    struct buf out = {0}, text = {0};

    pack_u32(&out, id);
    pack_u32(&out, found->ttl_s);
    pack_u16(&out, (uint16_t)found->n);
    for (size_t i = 0; i < found->n; i++) {
        buf_clear(&text);
        addr_ip_text(&text, &found->list[i]);
        pack_bytes(&out, buf_slice(&text));
    }
    desk_answer(&c->visitor, MSG_FOUND, &out, -1);
    buf_free(&text);
    buf_free(&out);
}

static void on_lookup_done(void *arg, const struct lookup_found *found, const struct fault *why)
{
    struct ask *a = arg;

    a->lookup = NULL;
    if (found)
        answer_found(a->client, a->id, found);
    else
        answer_no(a->client, a->id, why->reason, why->text);
    ask_free(a);
}

static void begin_lookup(struct client *c, uint32_t id, struct office *office, const struct lookup_order *order)
{
    enum reason reason = REASON_LIMIT_LOOKUPS;
    struct fault why = {0};
    struct ask *a = c->n_asks < ASKS_MAX ? ask_new(c, id, order->asker, true, &reason) : NULL;

    if (!a) {
        answer_no(c, id, REASON_LIMIT_LOOKUPS, "the porter has as many look-ups for this client as may be at once");
        return;
    }
    if ((a->lookup = lookup_start(office, order, on_lookup_done, a, &why)))
        return;
    answer_no(c, id, why.reason, why.text);
    ask_free(a);
    if (why.reason == REASON_DIAL_UNLISTED)
        desk_bears_unlisted(&c->visitor);
}

static void on_look_up(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    uint64_t generation = unpack_u64(&u);
    struct lookup_order order = {0};
    char canonical[NAME_MAX_LEN + 1];
    struct slice from, host;

    order.asked_by = label_of(c);
    order.question = unpack_id(&u);
    order.asker = unpack_bytes(&u);
    from = unpack_bytes(&u);
    host = unpack_bytes(&u);
    order.v6 = unpack_u8(&u);
    if (!unpack_done(&u) || !order_is_sound(c, id, host, 1, canonical) || !addr_parse(from, &order.from)) {
        desk_expel(&c->visitor, "a malformed LOOKUP");
        return;
    }
    order.host = canonical;
    begin_lookup(c, id, office_for(generation, &order.late), &order);
}

/* One that is unknown was answered while the cancel was on its way. */
static void on_cancel(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct ask *a = ask_find(c, unpack_u32(&u));

    if (!unpack_done(&u))
        desk_expel(&c->visitor, "a malformed DIAL_CANCEL");
    else if (a)
        ask_drop(a);
}

static void on_message(struct visitor *v, uint16_t type, struct slice payload)
{
    struct client *c = (struct client *)v;

    if (type == MSG_DIAL && v->role != ROLE_USHER)
        on_dial(c, payload);
    else if (type == MSG_LOOKUP && v->role == ROLE_USHER)
        on_look_up(c, payload);
    else if (type == MSG_DIAL_KEYS && v->role == ROLE_CLERK)
        on_dial_keys(c, payload);
    else if (type == MSG_DIAL_CANCEL)
        on_cancel(c, payload);
    else
        desk_expel(v, "a message that it does not take");
}

static void on_leave(struct visitor *v)
{
    struct client *c = (struct client *)v;

    while (c->asks)
        ask_drop(c->asks);
    guests_free(c->guests);
}

static const struct desk_rules rules = {.size = sizeof(struct client), .on_message = on_message, .on_leave = on_leave};

/* ---- the role ---- */

/* Asked where a port is one that we listen on at every address. */
static bool is_here(void *arg, const struct addr *a)
{
    (void)arg;
    return routes_end_here(porter.routes, a);
}

static void open_routes(void)
{
    struct fault why = {0};

    if (!(porter.routes = routes_open(&why)))
        say_warning("%s; to the port of a listener on 0.0.0.0 or [::] nobody is connected, wherever it is: name the addresses it is for", why.text);
}

static void take_context(struct role_context *c)
{
    if (porter.context)
        return;
    porter.context = c;
    desk_open(&porter.desk, c, &rules);
    porter.recorder = recorder_new(c->loop);
    recorder_stamp(porter.recorder, c->generation);
    open_routes();
    porter.allowance = allowance_new(c->loop, porter.recorder);
}

static void porter_on_peer(struct role_context *c, enum role peer, int index, int fd)
{
    take_context(c);
    if (peer == ROLE_SCRIBE)
        recorder_attach(porter.recorder, fd);
    else if (peer == ROLE_WORKER || peer == ROLE_CLERK || peer == ROLE_USHER)
        desk_seat(&porter.desk, peer, index, fd);
    else
        close(fd);
}

static void porter_on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    struct fault why = {0};

    (void)c, (void)flag;
    if (type == MSG_SHARED && slice_is(name, "revocations") && !(porter.revocations = revocations_map(fd, &why)))
        say_warning("revocations: %s", why.text);
    close(fd);
}

/* What is under way is held against the new list from here on. */
static bool set_bounds(struct slice payload)
{
    struct bounds *b = bounds_read(payload);

    if (!b)
        return false;
    if (porter.bounds) {
        bounds_replace(porter.bounds, b);
        return true;
    }
    porter.bounds = b;
    bounds_ask(b, is_here, NULL);
    return true;
}

static void porter_on_control(struct role_context *c, enum role_message type, struct slice payload)
{
    if (type != MSG_OWN || !set_bounds(payload))
        role_distrust(c, "a message the porter does not know");
}

static void on_settled(void *arg)
{
    struct role_context *c = arg;

    loop_stop(c->loop);
}

static void porter_stop(struct role_context *c)
{
    take_context(c);
    desk_close(&porter.desk);
    allowance_close(porter.allowance);
    office_rest(porter.before);
    office_rest(porter.office);
    office_rest(porter.next);
    recorder_settle(porter.recorder, on_settled, c);
}

static struct share read_share(const struct conf_item *limits, const char *own, const char *common)
{
    return (struct share){.own = (uint64_t)conf_number(limits, own), .common = (uint64_t)conf_number(limits, common)};
}

static void read_shares(const struct conf *conf)
{
    const struct conf_item *limits = conf_section(conf, "limits");
    struct share dials = read_share(limits, "dials", "dials"), lookups = read_share(limits, "lookups", "lookups");

    porter.dials = read_share(limits, "sandbox-dials", "dials");
    porter.lookups = read_share(limits, "sandbox-lookups", "lookups");
    allowance_use(porter.allowance, (size_t)conf_number(limits, "sandbox-names"), (size_t)conf_number(limits, "names"));
    if (!porter.workers)
        porter.workers = guests_new(&dials, &lookups);
    guests_use(porter.workers, &dials, &lookups);
    for (struct visitor *v = porter.desk.first; v; v = v->next)
        if (((struct client *)v)->guests)
            guests_use(((struct client *)v)->guests, &porter.dials, &porter.lookups);
}

static struct office *open_office(const struct conf *conf, const struct policy *policy, const struct office *before, struct fault *why)
{
    const struct office_ground ground = {porter.context->loop, porter.recorder, porter.bounds, porter.allowance};

    return office_new(&ground, conf, policy, before, why);
}

/* The resolver's first randomness is not to be had in the cell. */
static bool porter_gather(struct role_context *c, struct fault *why)
{
    take_context(c);
    if (!porter.bounds)
        return fault_set(why, FAULT_MISSING, "nobody has said where the gateway listens");
    if (!porter.revocations)
        return fault_set(why, FAULT_MISSING, "no revocations were handed over");
    policy_use_revocations(c->policy, porter.revocations);
    porter.office = open_office(c->conf, c->policy, NULL, why);
    read_shares(c->conf);
    return porter.office != NULL;
}

/* All is there already: a worker may ask before this role is told to go. */
static bool porter_start(struct role_context *c, struct fault *why)
{
    (void)c, (void)why;
    return true;
}

/* ---- another configuration ---- */

static bool porter_prepare(struct role_context *c, const struct role_set *next, struct fault *why)
{
    (void)c;
    policy_use_revocations(next->policy, porter.revocations);
    porter.next = open_office(next->conf, next->policy, porter.office, why);
    return porter.next != NULL;
}

static void porter_abandon(struct role_context *c)
{
    (void)c;
    office_release(porter.next);
    porter.next = NULL;
}

static void porter_adopt(struct role_context *c, const struct role_set *before)
{
    (void)before;
    read_shares(c->conf);
    porter.before = porter.office;
    porter.office = porter.next;
    porter.next = NULL;
    recorder_stamp(porter.recorder, c->generation);
}

/* What a worker asked by the policy before and would not ask today ends here, whatever the worker makes of it. */
static void settle_client(struct client *c)
{
    struct ask *next;

    for (struct ask *a = c->asks; a; a = next) {
        next = a->next;
        if (a->lookup ? lookup_stands(a->lookup, porter.office) : errand_move(a->errand, porter.office))
            continue;
        errand_cancel(a->errand);
        lookup_cancel(a->lookup);
        answer_no(c, a->id, REASON_POLICY_CHANGED, "the service is another one now");
        ask_free(a);
    }
}

static void porter_settle(struct role_context *c)
{
    for (struct visitor *v = porter.desk.first; v; v = v->next)
        settle_client((struct client *)v);
    office_forget(porter.before);
    office_release(porter.before);
    porter.before = NULL;
    porter.settled_ms = loop_now_ms(c->loop);
}

const struct role_ops porter_ops = {
    .gather = porter_gather,
    .start = porter_start,
    .on_peer = porter_on_peer,
    .on_resource = porter_on_resource,
    .on_control = porter_on_control,
    .stop = porter_stop,
    .prepare = porter_prepare,
    .abandon = porter_abandon,
    .adopt = porter_adopt,
    .settle = porter_settle,
};
