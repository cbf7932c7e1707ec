#include "proxy/office.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/say.h"
#include "proxy/outgoing.h"
#include "proxy/quest.h"

enum { PENDING_MAX = 4096, STAGGER_MS = 250, MARGIN_MS = 250, SERVERS_MAX = 8 };

/*
 * PENDING_MAX: look-ups of all workers. STAGGER_MS: RFC 8305 5. MARGIN_MS: so much earlier than the worker the porter
 * gives up, that its reason arrives.
 */

struct names {
    struct resolver *resolver;
    struct quests quests;
    unsigned holds;
    struct buf settings; /* its section as text */
    bool told; /* that it asks itself */
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- the resolver ---- */

static void on_line_closed(void *arg, const struct resolver_line *line)
{
    outgoing_record_line(arg, line);
}

static struct resolver *make_resolver(const struct office_ground *ground, const struct conf_item *section, struct fault *why)
{
    struct addr servers[SERVERS_MAX];
    struct resolver_settings settings = {.servers = servers, .pending_max = PENDING_MAX, .closed = on_line_closed, .arg = ground->recorder};

    settings.timeout_ms = conf_number(section, "timeout");
    for (size_t i = 0; i < conf_list_count(section, "servers"); i++) {
        const char *text = conf_list_text(section, "servers", i);

        if (i == SERVERS_MAX) {
            conf_refuse(section, "servers", (int)i, why, "resolver.servers: at most %d", SERVERS_MAX);
            return NULL;
        }
        if (!addr_parse(slice_of(text), &servers[settings.n_servers++])) {
            conf_refuse(section, "servers", (int)i, why, "%s is no address with a port", text);
            return NULL;
        }
    }
    return resolver_new(ground->loop, &settings, why);
}

static struct names *names_new(const struct office_ground *ground, const struct conf_item *section, const struct office *before,
                               struct fault *why)
{
    struct names *n = must(calloc(1, sizeof *n));

    n->holds = 1;
    quests_init(&n->quests);
    conf_print_item(section, &n->settings);
    if (before && slice_equals(buf_slice(&n->settings), buf_slice(&before->names->settings))) {
        buf_free(&n->settings);
        free(n);
        n = before->names;
        n->holds++;
        return n;
    }
    if ((n->resolver = make_resolver(ground, section, why)))
        return n;
    buf_free(&n->settings);
    free(n);
    return NULL;
}

static void names_release(struct names *n)
{
    if (!n || --n->holds)
        return;
    resolver_free(n->resolver);
    buf_free(&n->settings);
    free(n);
}

struct resolver *office_resolver(const struct office *o)
{
    return o->names->resolver;
}

struct quests *office_quests(const struct office *o)
{
    return &o->names->quests;
}

bool office_asked_itself(struct office *o, const struct addr *from, struct fault *why)
{
    struct names *n = o->names;

    if (!resolver_asks_from(n->resolver, from))
        return false;
    fault_reason(why, REASON_LOOP_DETECTED, "what is asked of resolver.servers comes to a DNS listener of the gateway's own: something rewrites "
                 "addresses on the way (nft list ruleset); except the gateway there, or name a server that is not led here");
    if (!n->told)
        say_warning("%s", why->text);
    n->told = true;
    return true;
}

/* ---- the office ---- */

static void office_free(void *arg)
{
    struct office *o = arg;

    names_release(o->names);
    keysources_free(o->sources);
    free(o);
}

void office_forget(struct office *o)
{
    o->policy = NULL;
    keysources_free(o->sources);
    o->sources = NULL;
}

struct office *office_new(const struct office_ground *ground, const struct conf *conf, const struct policy *policy,
                          const struct office *before, struct fault *why)
{
    int64_t dial_ms = conf_number(conf_section(conf, "limits"), "dial-time");
    struct office *o = must(calloc(1, sizeof *o));

    *o = (struct office){.loop = ground->loop, .recorder = ground->recorder, .policy = policy, .bounds = ground->bounds,
                         .allowance = ground->allowance, .stagger_ms = STAGGER_MS, .holds = 1};
    o->timeout_ms = dial_ms > 2 * MARGIN_MS ? dial_ms - MARGIN_MS : dial_ms;
    if ((o->sources = keysources_compile(conf, why)) && (o->names = names_new(ground, conf_section(conf, "resolver"), before, why)))
        return o;
    office_free(o);
    return NULL;
}

void office_rest(struct office *o)
{
    if (o)
        resolver_rest(o->names->resolver);
}

struct office *office_hold(struct office *o)
{
    assert(o->holds > 0);
    o->holds++;
    return o;
}

void office_release(struct office *o)
{
    if (o && --o->holds == 0)
        loop_defer(o->loop, office_free, o);
}
