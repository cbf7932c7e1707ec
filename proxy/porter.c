/*
 * The porter: the one role that connects. Owns the resolver and the errands of each worker; answers MSG_DIAL by
 * MSG_DIALLED or MSG_NOT_DIALLED. What else a worker says is a violation: it is heard no more, and the supervisor ends it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pack.h"
#include "net/name.h"
#include "proxy/errand.h"
#include "proxy/guests.h"
#include "proxy/role.h"

enum { ASKS_MAX = 4096, PENDING_MAX = 4096, STAGGER_MS = 250, MARGIN_MS = 250, SERVERS_MAX = 8 };

/*
 * ASKS_MAX: dials of one worker at once. PENDING_MAX: look-ups of all. STAGGER_MS: RFC 8305 5. MARGIN_MS: so much
 * earlier than the worker the porter gives up, that its reason arrives.
 */

struct client;

/* One question of a worker, until it is answered. */
struct ask {
    struct ask *next, **link;
    struct client *client;
    uint32_t id;
    struct errand *errand;
    struct guest *guest;
    bool looks_up; /* its name is not fixed: a look-up until it is answered */
};

/* A worker, as long as its channel lives. */
struct client {
    struct client *next;
    int index;
    struct channel *channel;
    struct ask *asks;
    size_t n_asks;
};

static struct porter {
    struct role_context *context;
    struct errand_office office;
    struct bounds *bounds;
    struct client *clients;
    struct guests *guests;
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
    ask_free(a);
}

static struct ask *ask_new(struct client *c, uint32_t id, struct guest *g, bool looks_up)
{
    struct ask *a = must(calloc(1, sizeof *a));

    *a = (struct ask){.next = c->asks, .link = &c->asks, .client = c, .id = id, .guest = g, .looks_up = looks_up};
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
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u16(&out, (uint16_t)reason);
    pack_bytes(&out, slice_of(detail));
    channel_send(c->channel, MSG_NOT_DIALLED, buf_slice(&out), -1);
    buf_free(&out);
}

static void answer_yes(struct client *c, uint32_t id, int fd, const struct addr *address)
{
    struct buf out = {0}, text = {0};

    addr_text(&text, address);
    pack_u32(&out, id);
    pack_bytes(&out, buf_slice(&text));
    channel_send(c->channel, MSG_DIALLED, buf_slice(&out), fd);
    close(fd);
    buf_free(&text);
    buf_free(&out);
}

static void client_free(struct client *c);

/* Nothing more is read of it; c is gone. */
static void violation(struct client *c, const char *what)
{
    role_violation(porter.context, ROLE_WORKER, c->index, what);
    client_free(c);
}

static void on_errand(void *arg, int fd, const struct addr *address, const struct fault *why)
{
    struct ask *a = arg;

    if (fd >= 0)
        answer_yes(a->client, a->id, fd, address);
    else
        answer_no(a->client, a->id, why->reason, why->text);
    ask_free(a);
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

static bool must_look_up(const char *host, uint16_t port)
{
    const struct service *s = policy_find(porter.context->policy, host, port);

    return s && service_address_count(s) == 0;
}

static void begin_errand(struct client *c, uint32_t id, const struct errand_order *order)
{
    bool looks_up = must_look_up(order->host, order->port);
    enum reason why = REASON_LIMIT_DIALS;
    struct guest *g = NULL;
    struct ask *a;

    if (c->n_asks < ASKS_MAX)
        g = guests_begin(porter.guests, order->sandbox, looks_up, &why);
    if (!g) {
        answer_no(c, id, why, "the porter has as many of this sandbox as may be at once");
        return;
    }
    a = ask_new(c, id, g, looks_up);
    a->errand = errand_start(&porter.office, order, on_errand, a);
}

static void on_dial(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    struct errand_order order = {0};
    char canonical[NAME_MAX_LEN + 1];
    struct slice host;

    order.exchange = unpack_id(&u);
    order.sandbox = unpack_bytes(&u);
    host = unpack_bytes(&u);
    order.port = unpack_u16(&u);
    if (!unpack_done(&u) || !order_is_sound(c, id, host, order.port, canonical)) {
        violation(c, "a malformed DIAL");
        return;
    }
    order.host = canonical;
    begin_errand(c, id, &order);
}

/* One that is unknown was answered while the cancel was on its way. */
static void on_cancel(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct ask *a = ask_find(c, unpack_u32(&u));

    if (!unpack_done(&u))
        violation(c, "a malformed DIAL_CANCEL");
    else if (a)
        ask_drop(a);
}

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct client *c = arg;

    if (fd >= 0) {
        close(fd);
        violation(c, "a descriptor with a question");
    } else if (type == MSG_DIAL)
        on_dial(c, payload);
    else if (type == MSG_DIAL_CANCEL)
        on_cancel(c, payload);
    else
        violation(c, "a message that workers may not send to it");
}

static void client_free(struct client *c)
{
    struct client **at = &porter.clients;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    while (c->asks)
        ask_drop(c->asks);
    channel_free(c->channel);
    free(c);
}

static void on_end(void *arg)
{
    client_free(arg);
}

static const struct channel_handler worker_handler = {.on_message = on_message, .on_end = on_end};

static void add_worker(struct role_context *context, int index, int fd)
{
    struct client *c;

    for (c = porter.clients; c && c->index != index; c = c->next)
        continue;
    if (c)
        client_free(c);
    c = must(calloc(1, sizeof *c));
    c->index = index;
    c->next = porter.clients;
    porter.clients = c;
    c->channel = channel_new(context->loop, fd, &worker_handler, c);
}

/* ---- the role ---- */

static void take_context(struct role_context *c)
{
    if (porter.context)
        return;
    porter.context = c;
    porter.office.loop = c->loop;
    porter.office.recorder = recorder_new(c->loop);
}

static void porter_on_peer(struct role_context *c, enum role peer, int index, int fd)
{
    take_context(c);
    if (peer == ROLE_SCRIBE)
        recorder_attach(porter.office.recorder, fd);
    else if (peer == ROLE_WORKER)
        add_worker(c, index, fd);
    else
        close(fd);
}

static void porter_on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    (void)c, (void)type, (void)name, (void)flag;
    close(fd); /* the porter needs none */
}

static void porter_on_control(struct role_context *c, enum role_message type, struct slice payload)
{
    (void)type, (void)payload;
    role_distrust(c, "a message the porter does not know");
}

static void porter_stop(struct role_context *c)
{
    while (porter.clients)
        client_free(porter.clients);
    loop_stop(c->loop);
}

static void add_listener(const char *text, const struct addr *interfaces, size_t n)
{
    struct addr a;

    if (text && addr_parse(slice_of(text), &a))
        bounds_add_listener(porter.bounds, &a, interfaces, n);
}

/* Everything the gateway itself listens on. */
static void set_bounds(const struct conf *conf)
{
    size_t n;
    struct addr *interfaces = bounds_interfaces(&n);

    porter.bounds = bounds_new();
    for (size_t i = 0; i < conf_count(conf, "listen"); i++)
        add_listener(conf_text(conf_item(conf, "listen", i), "address"), interfaces, n);
    add_listener(conf_text(conf_section(conf, "publish"), "address"), interfaces, n);
    free(interfaces);
    porter.office.bounds = porter.bounds;
}

static bool make_resolver(struct role_context *c, struct fault *why)
{
    const struct conf_item *section = conf_section(c->conf, "resolver");
    struct addr servers[SERVERS_MAX];
    struct resolver_settings settings = {.servers = servers, .pending_max = PENDING_MAX};

    settings.timeout_ms = conf_number(section, "timeout");
    for (size_t i = 0; i < conf_list_count(section, "servers"); i++) {
        const char *text = conf_list_text(section, "servers", i);

        if (i == SERVERS_MAX)
            return conf_refuse(section, "servers", (int)i, why, "resolver.servers: at most %d", SERVERS_MAX);
        if (!addr_parse(slice_of(text), &servers[settings.n_servers++]))
            return conf_refuse(section, "servers", (int)i, why, "%s is no address with a port", text);
    }
    porter.office.resolver = resolver_new(c->loop, &settings, why);
    return porter.office.resolver != NULL;
}

/* The list of interfaces and the resolver's first randomness are not to be had in the cell. */
static bool porter_gather(struct role_context *c, struct fault *why)
{
    set_bounds(c->conf);
    return make_resolver(c, why);
}

static struct share read_share(const struct conf_item *limits, const char *own, const char *common)
{
    return (struct share){.own = (uint64_t)conf_number(limits, own), .common = (uint64_t)conf_number(limits, common)};
}

static bool porter_start(struct role_context *c, struct fault *why)
{
    const struct conf_item *limits = conf_section(c->conf, "limits");
    struct share dials = read_share(limits, "sandbox-dials", "dials");
    struct share lookups = read_share(limits, "sandbox-lookups", "lookups");
    int64_t dial_ms = conf_number(limits, "dial-time");

    porter.guests = guests_new(&dials, &lookups);
    (void)why;
    take_context(c);
    porter.office.policy = c->policy;
    porter.office.timeout_ms = dial_ms > 2 * MARGIN_MS ? dial_ms - MARGIN_MS : dial_ms;
    porter.office.stagger_ms = STAGGER_MS;
    return true;
}

const struct role_ops porter_ops = {
    .gather = porter_gather,
    .start = porter_start,
    .on_peer = porter_on_peer,
    .on_resource = porter_on_resource,
    .on_control = porter_on_control,
    .stop = porter_stop,
};
