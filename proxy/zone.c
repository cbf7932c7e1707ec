/* Owns the table of the dns section and the rule of who is answered what. Sends and records nothing. */
#include "proxy/zone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/place.h"

enum { TTL_MOST_MS = 86400000, SECOND_MS = 1000 };

static const struct conf_key keys[] = {
    {"address", CONF_TEXT, NULL, NULL,
     "where clients ask, by UDP and TCP: 10.0.0.1:53, \"[fd00::1]:53\"; one concrete address, so that answers come from where the "
     "question went", CONF_REQUIRED},
    {"answer", CONF_LIST, NULL, NULL,
     "what listed names resolve to: the address of a transparent listener, or one IPv4 and one IPv6 address; real: their own addresses, "
     "which the porter looks up and checks", CONF_REQUIRED},
    {"sandbox", CONF_NAME, NULL, NULL, "the one sandbox that asks here; absent: clients are told apart by their addresses", 0},
    {"ttl", CONF_TIME, "60s", NULL, "how long clients may keep an answer", 0},
};

const struct conf_section dns_section = {
    .name = "dns", .named = true, .keys = keys, .n_keys = sizeof keys / sizeof *keys,
    .help = "Listeners that answer DNS questions: of listed names alone."};

/* ---- reading ---- */

static bool read_address(const struct conf_item *item, struct zone *z, struct fault *why)
{
    const char *text = conf_text(item, "address");
    struct addr plain;

    if (!addr_parse(slice_of(text), &z->address))
        return conf_refuse(item, "address", -1, why, "dns.%s: expected an address and port such as 10.0.0.1:53, found \"%s\"", z->name, text);
    plain = addr_plain(&z->address);
    if (addr_is_unspecified(&plain))
        return conf_refuse(item, "address", -1, why, "dns.%s: %s is every address, and an answer would come from whichever the route has; "
                           "name one, and a dns.NAME more for each other", z->name, text);
    return true;
}

static bool read_answers(const struct conf_item *item, struct zone *z, struct fault *why)
{
    size_t n = conf_list_count(item, "answer");

    if (n == 1 && strcmp(conf_list_text(item, "answer", 0), "real") == 0) {
        z->real = true;
        return true;
    }
    if (n == 0 || n > DNS_ADDRESSES_MAX)
        return conf_refuse(item, "answer", -1, why, "dns.%s: answer takes 1 to %d addresses, or real", z->name, DNS_ADDRESSES_MAX);
    for (size_t i = 0; i < n; i++) {
        const char *text = conf_list_text(item, "answer", i);

        if (!addr_parse_ip(slice_of(text), &z->answers[i]) || addr_is_unspecified(&z->answers[i]))
            return conf_refuse(item, "answer", (int)i, why, "dns.%s: expected an address such as 10.0.0.1 or fd00::1, or real alone, found "
                               "\"%s\"", z->name, text);
    }
    z->n_answers = n;
    return true;
}

static bool read_ttl(const struct conf_item *item, struct zone *z, struct fault *why)
{
    int64_t ms = conf_number(item, "ttl");

    if (ms > TTL_MOST_MS)
        return conf_refuse(item, "ttl", -1, why, "dns.%s: ttl: a day is the most", z->name);
    z->ttl_s = (uint32_t)(ms / SECOND_MS);
    return true;
}

/* Listeners take TCP, and so do DNS listeners. */
static bool is_apart(const struct conf *c, const struct conf_item *item, const struct zones *before, const struct zone *z, struct fault *why)
{
    struct place here = {.kind = PLACE_TCP, .addr = z->address}, there;

    for (size_t i = 0; i < conf_count(c, "listen"); i++) {
        const struct conf_item *l = conf_item(c, "listen", i);

        if (place_parse(conf_text(l, "address"), &there, NULL) && place_collides(&here, &there))
            return conf_refuse(item, "address", -1, why, "dns.%s: %s is taken already by listen.%s", z->name,
                               conf_text(item, "address"), conf_name(l));
    }
    for (size_t i = 0; i < before->n; i++) {
        there = (struct place){.kind = PLACE_TCP, .addr = before->list[i].address};
        if (place_collides(&here, &there))
            return conf_refuse(item, "address", -1, why, "dns.%s: %s is taken already by dns.%s", z->name, conf_text(item, "address"),
                               before->list[i].name);
    }
    return true;
}

bool zone_asks_itself(const struct conf *c, const char *name, const struct addr *address, struct fault *why)
{
    const struct conf_item *r = conf_section(c, "resolver");
    struct addr server, here = addr_plain(address);

    for (size_t i = 0; i < conf_list_count(r, "servers"); i++) {
        const char *text = conf_list_text(r, "servers", i);

        if (!addr_parse(slice_of(text), &server))
            continue;
        server = addr_plain(&server);
        if (server.port && addr_equals(&server, &here))
            return !conf_refuse(r, "servers", (int)i, why, "resolver.servers: %s is dns.%s, and the gateway would ask itself; name a server that "
                                "knows where listed names are", text, name);
    }
    return false;
}

bool zones_compile(const struct conf *c, struct zones *out, struct fault *why)
{
    size_t n = conf_count(c, "dns");

    *out = (struct zones){.list = calloc(n + 1, sizeof *out->list)};
    if (!out->list)
        abort();
    for (; out->n < n; out->n++) {
        const struct conf_item *item = conf_item(c, "dns", out->n);
        struct zone *z = &out->list[out->n];

        z->name = conf_name(item);
        z->sandbox = conf_text(item, "sandbox");
        if (read_address(item, z, why) && read_answers(item, z, why) && read_ttl(item, z, why) && is_apart(c, item, out, z, why) &&
            !zone_asks_itself(c, z->name, &z->address, why))
            continue;
        zones_clear(out);
        return false;
    }
    return true;
}

void zones_clear(struct zones *z)
{
    free(z->list);
    *z = (struct zones){0};
}

const struct zone *zones_find(const struct zones *z, struct slice name)
{
    for (size_t i = 0; i < z->n; i++)
        if (slice_is(name, z->list[i].name))
            return &z->list[i];
    return NULL;
}

/* ---- judging ---- */

static void step(const struct trace *t, const char *name, bool ok, const char *detail)
{
    if (t)
        t->step(t->arg, name, ok, detail);
}

static struct zone_verdict refuse(struct zone_verdict *v, const struct trace *trace, const char *name, enum reason reason)
{
    v->kind = ZONE_REFUSED;
    v->reason = reason;
    step(trace, name, false, v->detail);
    return *v;
}

static bool is_transfer(uint16_t type)
{
    return type == DNS_AXFR || type == DNS_IXFR;
}

/* A client adds what its search list has: what would be left of the name without it? */
static bool is_searched(const struct policy *p, struct zone_verdict *v)
{
    char shorter[NAME_MAX_LEN + 1], *dot;

    memcpy(shorter, v->host, sizeof shorter);
    while ((dot = strrchr(shorter, '.'))) {
        *dot = '\0';
        if (!policy_find_host(p, shorter))
            continue;
        snprintf(v->detail, sizeof v->detail, "%.80s is listed: the rest is from the client's search list", shorter);
        return true;
    }
    return false;
}

static enum zone_kind kind_for(const struct zone *z, uint16_t type)
{
    struct addr addresses[DNS_ADDRESSES_MAX];

    if (type == DNS_ANY)
        return ZONE_LITTLE;
    if (type != DNS_A && type != DNS_AAAA)
        return ZONE_NOTHING;
    if (z->real)
        return ZONE_LOOK_UP;
    return zone_addresses(z, type, addresses) ? ZONE_ADDRESSES : ZONE_NOTHING;
}

static const char *const kind_words[] = {
    [ZONE_REFUSED] = "refused",
    [ZONE_ADDRESSES] = "the steering addresses",
    [ZONE_NOTHING] = "nothing of this type",
    [ZONE_LITTLE] = "as little as RFC 8482 has for ANY",
    [ZONE_LOOK_UP] = "what the porter looks up and checks",
};

struct zone_verdict zone_judge(const struct zone *z, const struct policy *p, const struct dns_question *q, const struct trace *trace)
{
    struct zone_verdict v = {0};
    struct fault why = {0};

    if (q->class != DNS_IN || is_transfer(q->type)) {
        snprintf(v.detail, sizeof v.detail, q->class != DNS_IN ? "class %u" : "a zone transfer", (unsigned)q->class);
        return refuse(&v, trace, "question", REASON_QUESTION_NOT_SUPPORTED);
    }
    if (!dns_question_host(q, v.host, &why)) {
        v.host[0] = '\0';
        snprintf(v.detail, sizeof v.detail, "%.*s", (int)sizeof v.detail - 1, why.text);
        return refuse(&v, trace, "name", REASON_HOST_INVALID);
    }
    step(trace, "name", true, v.host);
    if (!(v.service = policy_find_host(p, v.host))) {
        if (!is_searched(p, &v))
            snprintf(v.detail, sizeof v.detail, "no service lists %.120s", v.host);
        return refuse(&v, trace, "listed", REASON_HOST_NOT_LISTED);
    }
    v.below_suffix = service_is_below_suffix(v.service, v.host);
    step(trace, "listed", true, service_name(v.service));
    v.kind = kind_for(z, q->type);
    v.reason = REASON_ALLOWED;
    step(trace, "answer", true, kind_words[v.kind]);
    return v;
}

enum dns_code zone_code(enum reason r)
{
    if (r == REASON_ALLOWED)
        return DNS_NOERROR;
    if (r == REASON_QUESTION_MALFORMED)
        return DNS_FORMERR;
    if (r == REASON_HOST_NOT_LISTED || r == REASON_HOST_INVALID || r == REASON_ADDRESS_DENIED)
        return DNS_NXDOMAIN;
    if (r != REASON_QUESTION_NOT_SUPPORTED && reason_get(r)->status >= 500)
        return DNS_SERVFAIL;
    return DNS_REFUSED;
}

size_t zone_addresses(const struct zone *z, uint16_t type, struct addr *out)
{
    size_t n = 0;

    for (size_t i = 0; i < z->n_answers; i++)
        if (z->answers[i].family == (type == DNS_A ? AF_INET : AF_INET6))
            out[n++] = z->answers[i];
    return n;
}
