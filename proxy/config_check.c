#include "proxy/config_check.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/mapping.h"
#include "base/clock.h"
#include "net/addr.h"
#include "net/name.h"
#include "proxy/limits.h"
#include "proxy/listen_check.h"
#include "proxy/zone.h"

enum { WORKERS_MOST = 64 };

static int processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static bool check_gateway(struct gateway_config *c, struct fault *why)
{
    const struct conf_item *g = conf_section(c->conf, "gateway");
    const char *workers = conf_text(g, "workers"), *name = conf_text(g, "name");
    char canonical[NAME_MAX_LEN + 1];
    uint64_t n;

    if (!name_canonical(slice_of(name), canonical, NULL) || strcmp(name, canonical) != 0)
        return conf_refuse(g, "name", -1, why, "gateway.name: expected a host name in lower case, found \"%s\"", name);
    if (strcmp(workers, "auto") == 0) {
        c->workers = processors() > WORKERS_MOST ? WORKERS_MOST : processors();
        return true;
    }
    if (!slice_decimal(slice_of(workers), WORKERS_MOST, &n) || n == 0)
        return conf_refuse(g, "workers", -1, why, "gateway.workers: expected auto or 1 to %d, found \"%s\"",
                           WORKERS_MOST, workers);
    c->workers = (int)n;
    return true;
}

static bool check_resolver(const struct gateway_config *c, struct fault *why)
{
    const struct conf_item *r = conf_section(c->conf, "resolver");

    for (size_t i = 0; i < conf_list_count(r, "servers"); i++) {
        const char *text = conf_list_text(r, "servers", i);
        struct addr a;

        if (!addr_parse(slice_of(text), &a) || a.port == 0)
            return conf_refuse(r, "servers", (int)i, why,
                               "resolver.servers: expected address and port such as 127.0.0.53:53, found \"%s\"", text);
        a = addr_plain(&a);
        if (addr_is_unspecified(&a))
            return conf_refuse(r, "servers", (int)i, why, "resolver.servers: %s is every address, and no server's; name one", text);
    }
    if (conf_list_count(r, "servers") == 0)
        return conf_refuse(r, "servers", -1, why, "resolver.servers: name at least one name server");
    if (conf_number(r, "timeout") < 1)
        return conf_refuse(r, "timeout", -1, why, "resolver.timeout: a look-up needs some time, such as 2s");
    return true;
}

static bool check_admin(const struct gateway_config *c, struct fault *why)
{
    const struct conf_item *admin = conf_section(c->conf, "admin");
    const char *text = conf_text(admin, "address");

    if (!text)
        return true;
    if (strncmp(text, "unix:/", 6) != 0)
        return conf_refuse(admin, "address", -1, why, "admin.address: expected unix:FILE, found \"%s\"", text);
    if (strlen(text + 5) > 107)
        return conf_refuse(admin, "address", -1, why, "admin.address: socket names end at 107 bytes, this has %zu",
                           strlen(text + 5));
    return true;
}

static bool check_canaries(const struct gateway_config *c, struct fault *why)
{
    const struct conf_item *k = conf_section(c->conf, "canaries");
    const char *on_leak = conf_text(k, "on-leak");

    if (strcmp(on_leak, "observe") == 0)
        return conf_refuse(k, "on-leak", -1, why, "canaries.on-leak: observe is not in this version; use block or quarantine");
    return true;
}

static bool check_zones(const struct gateway_config *c, struct fault *why)
{
    struct zones zones;
    bool ok = zones_compile(c->conf, &zones, why);

    zones_clear(&zones);
    return ok;
}

bool config_check(struct gateway_config *c, const char *path, struct fault *why)
{
    return check_gateway(c, why) && check_resolver(c, why) && listen_check(c->conf, c->added, path, why) && check_zones(c, why) &&
           check_canaries(c, why) && check_admin(c, why) && limits_check(c->conf, why);
}

/* ---- credentials ---- */

/* A variable is the gateway's own: who checks a configuration elsewhere has others (warn_identity). */
static bool check_source(const struct source *s, struct fault *why)
{
    return s->kind == SOURCE_ENV || source_check(s, why);
}

/* What all sandboxes share can be looked at before the first asks. */
static bool check_value(const struct handoff *h, struct fault *why)
{
    struct secret *value;
    bool ok;

    if (h->source.kind != SOURCE_FILE || source_is_per_sandbox(&h->source))
        return true;
    value = source_read(&h->source, "", why);
    ok = value && handoff_check(h, secret_slice(value), why);
    secret_free(value);
    return ok;
}

bool config_check_sources(const struct gateway_config *c, struct fault *why)
{
    struct fault bad = {0};

    for (size_t i = 0; i < policy_count(c->policy); i++) {
        const struct handoff *h = handoffs_of(c->handoffs, policy_service(c->policy, i));

        if (h && h->kind == HANDOFF_INJECT && !(check_source(&h->source, &bad) && check_value(h, &bad)))
            return conf_refuse(h->item, "credential.from", -1, why, "%s", bad.text);
        if (h && h->secret.kind != SOURCE_NONE && !check_source(&h->secret, &bad))
            return conf_refuse(h->item, "exchange.secret", -1, why, "%s", bad.text);
    }
    return true;
}

/* ---- going over to another one ---- */

static bool is_same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Its first randomness is not to be had in the porter's cell. */
static bool is_same_resolver(const struct gateway_config *a, const struct gateway_config *b)
{
    struct buf one = {0}, other = {0};
    bool same;

    conf_print_item(conf_section(a->conf, "resolver"), &one);
    conf_print_item(conf_section(b->conf, "resolver"), &other);
    same = slice_equals(buf_slice(&one), buf_slice(&other));
    buf_free(&one);
    buf_free(&other);
    return same;
}

bool gateway_check_change(const struct gateway_config *now, const struct gateway_config *next, struct fault *why)
{
    static const char *const bound[][2] = {{"gateway", "name"},      {"gateway", "state"},   {"gateway", "user-prefix"},
                                           {"journal", "directory"}, {"publish", "address"}, {"admin", "address"}};
    const struct conf_item *item = conf_section(next->conf, "gateway");

    if (now->workers != next->workers)
        return conf_refuse(item, "workers", -1, why, "gateway.workers: %d run; another number takes a restart",
                           now->workers);
    if (!is_same_resolver(now, next))
        return conf_refuse(conf_section(next->conf, "resolver"), "servers", -1, why,
                           "resolver: other servers or another timeout take a restart");
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        const char *section = bound[i][0], *key = bound[i][1];
        const char *old = conf_text(conf_section(now->conf, section), key);

        item = conf_section(next->conf, section);
        if (!is_same_text(old, conf_text(item, key)))
            return conf_refuse(item, key, -1, why, "%s.%s: %s is in force; to change it takes a restart", section, key,
                               old && *old ? old : "none");
    }
    return true;
}

/* ---- warnings ---- */

static void warn(struct gateway_config *c, const struct conf_item *item, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void warn(struct gateway_config *c, const struct conf_item *item, const char *key, const char *format, ...)
{
    struct buf text = {0};
    va_list args;

    conf_place(item, key, &text);
    buf_text(&text, ": ");
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    c->warnings = realloc(c->warnings, (c->n_warnings + 1) * sizeof *c->warnings);
    if (!c->warnings)
        abort();
    c->warnings[c->n_warnings++] = buf_take_text(&text);
}

/* Who is sent on to a place that nobody lists is refused there: a name that was forgotten, or one that nobody needs. */
static void warn_destinations(struct gateway_config *c, const struct service *s, const struct conf_item *item)
{
    const struct destination *d;

    for (size_t i = 0; (d = service_destination(s, i)); i++)
        if (d->host[0] != '*' && !policy_find(c->policy, d->host, d->port ? d->port : d->plain ? 80 : 443))
            warn(c, item, "hands-off-to", "services.%s sends clients on to %s, which no service lists: they are refused there",
                 service_name(s), d->host);
}

static void warn_closed(struct gateway_config *c, const struct conf_item *item, const struct service *s, int64_t now_s)
{
    struct buf reason = {0};

    attested_explain(service_attested(s), now_s, &reason);
    warn(c, item, "audit", "services.%s is closed: %.*s; see: exeat audit --help", service_name(s),
         SLICE_ARG(buf_slice(&reason)));
    buf_free(&reason);
}

static void warn_accepted(struct gateway_config *c, const struct conf_item *item, const struct acceptance *a, int64_t now_s)
{
    struct buf day = {0};

    attested_day(a->until_s - 1, &day);
    warn(c, item, "accept", "services.%s accepts %s %s %.*s: %s", conf_name(item), a->check,
         a->until_s <= now_s ? "no more since" : "until", SLICE_ARG(buf_slice(&day)), a->reason);
    buf_free(&day);
}

/* Whoever may write anywhere writes where others read. */
static void warn_rules(struct gateway_config *c, const struct conf_item *item)
{
    for (size_t i = 0; i < conf_list_count(item, "allow"); i++) {
        struct slice path = slice_of(conf_list_text(item, "allow", i)), methods, method;
        bool writes = false;

        slice_next(&path, ' ', &methods);
        while (slice_next(&methods, ',', &method))
            writes = writes || !(slice_is(method, "GET") || slice_is(method, "HEAD") || slice_is(method, "OPTIONS"));
        if (writes && slice_is(slice_trim(path), "/**"))
            warn(c, item, "allow", "services.%s may be written to anywhere, by allow \"%s\": name the paths", conf_name(item),
                 conf_list_text(item, "allow", i));
    }
}

static void warn_services(struct gateway_config *c)
{
    const int64_t now_s = clock_wall_s();
    const struct acceptance *accepted;

    for (size_t i = 0; i < policy_count(c->policy); i++) {
        const struct service *s = policy_service(c->policy, i);
        const struct conf_item *item = conf_find(c->conf, "services", service_name(s));

        if (service_is_waived(s))
            warn(c, item, "audit", "services.%s is open without an audit (%s)", service_name(s), service_audit(s));
        else if (!service_is_open(s, now_s))
            warn_closed(c, item, s, now_s);
        for (size_t a = 0; (accepted = service_acceptance(s, a)); a++)
            warn_accepted(c, item, accepted, now_s);
        if (conf_bool(item, "observe"))
            warn(c, item, "observe", "services.%s only observes: its rules refuse nothing", service_name(s));
        if (strcmp(conf_text(item, "unscannable"), "allow") == 0)
            warn(c, item, "unscannable", "services.%s takes contents that cannot be looked into: a secret may be in them", service_name(s));
        warn_rules(c, item);
        if (service_allows_websocket(s) && service_enforces_edges(s))
            warn(c, item, "websocket", "services.%s: handoff-edges: enforce does not reach into its WebSockets", service_name(s));
        warn_destinations(c, s, item);
    }
}

static void warn_variable(struct gateway_config *c, const struct handoff *h, const struct source *s, const char *key)
{
    struct fault why = {0};

    if (s->kind == SOURCE_ENV && !source_check(s, &why))
        warn(c, h->item, key, "services.%s: %s", h->service, why.text);
}

static void warn_identity(struct gateway_config *c, const struct handoff *h)
{
    warn_variable(c, h, &h->source, "credential.from");
    warn_variable(c, h, &h->secret, "exchange.secret");
    if (strcmp(conf_text(h->item, "inject-plain"), "accepted") == 0)
        warn(c, h->item, "inject-plain", "services.%s: the gateway's credential may go out over plain HTTP", h->service);
    if (h->kind != HANDOFF_INJECT || source_is_per_sandbox(&h->source))
        return;
    if (h->shared)
        warn(c, h->item, "shared-identity", "services.%s cannot tell sandboxes apart: all use one credential", h->service);
    else
        warn(c, h->item, "credential.from", "services.%s has one credential, which one sandbox at a time may use; keep one "
             "for each with {sandbox}, or say shared-identity: accepted", h->service);
}

static void warn_handoffs(struct gateway_config *c)
{
    for (size_t i = 0; i < policy_count(c->policy); i++) {
        const struct handoff *h = handoffs_of(c->handoffs, policy_service(c->policy, i));

        if (h)
            warn_identity(c, h);
    }
}

/* Whoever sees such a token can use it, from where it was seen first. */
static void warn_listeners(struct gateway_config *c)
{
    for (size_t i = 0; i < conf_count(c->conf, "listen"); i++) {
        const struct conf_item *l = conf_item(c->conf, "listen", i);
        struct place p;
        bool parsed = place_parse(conf_text(l, "address"), &p, NULL);

        assert(parsed);
        if (parsed && !conf_has(l, "sandbox") && addr_classify(&p.addr) != ADDR_LOOPBACK)
            warn(c, l, "address", "listen.%s is shared by sandboxes: tokens without cnf are held only to the address "
                 "that shows them first; give each sandbox a listener of its own (sandbox: NAME), or a certificate (tls.client-ca)",
                 conf_name(l));
    }
}

static bool has_transparent(const struct conf *c)
{
    for (size_t i = 0; i < conf_count(c, "listen"); i++)
        if (strcmp(conf_text(conf_item(c, "listen", i), "mode"), "transparent") == 0)
            return true;
    return false;
}

/* An explicit listener refuses who does not know that it is a proxy. */
static void warn_steering(struct gateway_config *c)
{
    for (size_t i = 0; i < conf_count(c->conf, "dns") && !has_transparent(c->conf); i++) {
        const struct conf_item *d = conf_item(c->conf, "dns", i);

        if (strcmp(conf_list_text(d, "answer", 0), "real") != 0)
            warn(c, d, "answer", "dns.%s leads clients to %s, and no listener here is transparent; add one there: listen.NAME: "
                 "{ address: \"%s:443\", mode: transparent }", conf_name(d), conf_list_text(d, "answer", 0), conf_list_text(d, "answer", 0));
    }
}

/* Somebody else decides who gets a token of such an issuer; which of them are ours only its map can say. */
static void warn_map(struct gateway_config *c, const struct conf_item *item)
{
    struct mapping *m;
    bool compiled = mapping_compile(item, &m, NULL);

    assert(compiled);
    if (compiled && !m && conf_has(item, "jwks-uri"))
        warn(c, item, "jwks-uri", "issuers.%s has no map: whoever gets a token there for this gateway has the scopes it names", conf_name(item));
    for (size_t i = 0; compiled && i < mapping_count(m); i++)
        if (mapping_is_wide(m, i))
            warn(c, item, "map", "issuers.%s: \"%.80s\" says nothing of whose it is: all who use that issuer can fulfil it",
                 conf_name(item), mapping_text(m, i));
    mapping_free(m);
}

/* Two issuers that take sub as it is: to Exeat their sandboxes of one name are told apart, to services and in files they are not. */
static void warn_issuers(struct gateway_config *c)
{
    const char *plain = NULL;

    for (size_t i = 0; i < conf_count(c->conf, "issuers"); i++) {
        const struct conf_item *item = conf_item(c->conf, "issuers", i);
        bool foreign = conf_has(item, "jwks-uri") || conf_has(item, "map");

        warn_map(c, item);
        if (foreign && !conf_has(item, "sandbox"))
            warn(c, item, "sandbox", "issuers.%s names sandboxes by sub, which many jobs share: say which claims name one job, "
                 "such as sandbox: \"{project_id}:{job_id}\"", conf_name(item));
        if (foreign || conf_has(item, "sandbox"))
            continue;
        if (plain)
            warn(c, item, "sandbox", "issuers.%s and issuers.%s may name the same sandbox, and services cannot tell theirs apart: say "
                 "sandbox: \"{sub}\" for one of them", plain, conf_name(item));
        plain = conf_name(item);
    }
}

void config_warn(struct gateway_config *c)
{
    struct slice canaries;

    warn_services(c);
    warn_issuers(c);
    warn_handoffs(c);
    warn_listeners(c);
    warn_steering(c);
    if (!bundle_get(c->files, "canaries.json", &canaries))
        warn(c, conf_section(c->conf, "canaries"), "file", "there are no canaries: no planted secret can be caught; "
             "see: exeat canary new --help");
}
