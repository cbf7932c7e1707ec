/* The one decision function: steps in a table, taken in order, the first that says no gives the one reason. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "authz/field.h"
#include "authz/path.h"
#include "authz/service.h"

/* No issuer may have more (authz/issuer.c). The verifier, which knows its own, has looked before. */
enum { LEEWAY_MAX_S = 300 };

_Static_assert(sizeof((struct decision *)0)->rule > RULE_LEN_MAX, "a rule fits");

struct inquiry {
    const struct policy *policy;
    const struct identity *identity;
    const struct request *r;
    int64_t now_s;
    bool traced;
    struct decision d;
    /* what the allow rules said */
    const struct rule *rule;
    enum rule_fit fit;
    size_t other;
};

static bool pass(struct inquiry *q, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool pass(struct inquiry *q, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(q->d.detail, sizeof q->d.detail, format, args);
    va_end(args);
    return true;
}

/* The step passed; what it found is only gathered and written down when somebody reads it. */
#define PASS(q, ...) (!(q)->traced || pass(q, __VA_ARGS__))

static bool refuse(struct inquiry *q, enum reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(struct inquiry *q, enum reason reason, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(q->d.detail, sizeof q->d.detail, format, args);
    va_end(args);
    q->d.reason = reason;
    return false;
}

static void set_rule(struct inquiry *q, const struct rule *rule)
{
    memcpy(q->d.rule, rule->text, rule->len + 1);
}

static bool check_token(struct inquiry *q)
{
    if (!q->identity)
        return refuse(q, REASON_TOKEN_MISSING, "there is no leave token");
    if (q->now_s - identity_expires_s(q->identity) > LEEWAY_MAX_S)
        return refuse(q, REASON_TOKEN_EXPIRED, "the token ended %lld seconds ago",
                      (long long)(q->now_s - identity_expires_s(q->identity)));
    return PASS(q, "sandbox %s, issuer %s", identity_sandbox(q->identity), identity_issuer_name(q->identity));
}

static void list_ports(const struct ports *p, char *out, size_t size)
{
    for (size_t i = 0; i < p->count; i++) {
        size_t used = strlen(out);

        snprintf(out + used, size - used, "%s%u", used ? ", " : "", p->list[i]);
    }
}

/* Why no service was found: the host is listed with other ports, or below a suffix and too long, or not at all. */
static bool refuse_destination(struct inquiry *q)
{
    const struct request *r = q->r;
    char ports[64] = "";
    bool too_long = false;

    for (size_t k = 0; k < policy_count(q->policy); k++) {
        const struct service *s = policy_service(q->policy, k);
        bool matches = false;

        for (size_t i = 0; i < s->hosts.count && !matches; i++)
            matches = name_matches(slice_of(s->hosts.list[i]), slice_of(r->host));
        if (!matches)
            continue;
        too_long |= ports_hold(&s->tls, r->port) || ports_hold(&s->plain, r->port);
        list_ports(&s->tls, ports, sizeof ports);
        list_ports(&s->plain, ports, sizeof ports);
    }
    if (too_long)
        return refuse(q, REASON_HOST_NOT_LISTED, "below a suffix, a label is at most 40 characters");
    if (ports[0])
        return refuse(q, REASON_HOST_NOT_LISTED, "port %u of %.60s is not listed (%s)", r->port, r->host, ports);
    return refuse(q, REASON_HOST_NOT_LISTED, "no service lists %.100s", r->host);
}

static bool check_destination(struct inquiry *q)
{
    const struct request *r = q->r;

    q->d.service = policy_find(q->policy, r->host, r->port);
    if (!q->d.service)
        return refuse_destination(q);
    if (r->connect)
        q->d.scheme = ports_hold(&q->d.service->tls, r->port) ? SCHEME_HTTPS : SCHEME_HTTP;
    return PASS(q, "service %s lists %.80s port %u", q->d.service->name, r->host, r->port);
}

static bool check_open(struct inquiry *q)
{
    const struct service *s = q->d.service;
    struct buf why = {0};

    if (service_is_shut(s))
        return refuse(q, REASON_SERVICE_CLOSED, "service %s was closed by hand", s->name);
    if (service_is_waived(s))
        return PASS(q, "audit %s", s->audit);
    if (attested_is_open(&s->attested, q->now_s))
        return PASS(q, "it passed its last audit");
    attested_explain(&s->attested, q->now_s, &why);
    refuse(q, REASON_HANDOFF_UNATTESTED, "service %s is closed: %.*s", s->name, SLICE_ARG(buf_slice(&why)));
    buf_free(&why);
    return false;
}

static bool check_trace(struct inquiry *q)
{
    if (slice_is_nocase(q->r->method, "TRACE"))
        return refuse(q, REASON_TRACE_REFUSED, "TRACE sends the request back to whoever asks");
    return PASS(q, "%.*s", (int)(q->r->method.len < 24 ? q->r->method.len : 24), q->r->method.ptr);
}

static bool check_scope(struct inquiry *q)
{
    const char *scope = q->d.service->scope, *has = identity_scope(q->identity);

    if (!identity_has_scope(q->identity, scope))
        return refuse(q, REASON_SCOPE_MISSING, "service %s wants the scope %.60s; the token has %.40s",
                      q->d.service->name, scope, *has ? has : "no scope");
    return PASS(q, "the token has %s", scope);
}

static bool check_port(struct inquiry *q)
{
    const struct service *s = q->d.service;
    bool tls = q->r->scheme == SCHEME_HTTPS;

    if (!ports_hold(tls ? &s->tls : &s->plain, q->r->port))
        return refuse(q, REASON_SCHEME_NOT_ALLOWED, "port %u of service %s is for %s", q->r->port, s->name,
                      tls ? "plain HTTP" : "TLS");
    return PASS(q, "%u is a %s port", q->r->port, tls ? "TLS" : "plain HTTP");
}

static bool check_target(struct inquiry *q)
{
    uint64_t limit = q->d.service->target;

    if (limit && q->r->target.len > limit)
        return refuse(q, REASON_TARGET_TOO_LONG, "the target has %zu bytes; service %s takes %llu", q->r->target.len,
                      q->d.service->name, (unsigned long long)limit);
    return PASS(q, "%zu byte%s", q->r->target.len, q->r->target.len == 1 ? "" : "s");
}

/* The path as servers read it that decode slashes and drop parameters; true: that is another than what stands there. */
static bool loosen(const struct request *r, struct buf *out)
{
    bool other = path_is_loose(buf_slice(&r->path));

    if (other)
        path_loosen(buf_slice(&r->path), out);
    return other;
}

static const struct rule *find_deny(const struct service *s, const struct request *r)
{
    uint32_t method = methods_bit(&s->rules.methods, r->method);
    struct slice path = buf_slice(&r->path);
    const struct rule *found = NULL;
    struct buf loose = {0};

    if (loosen(r, &loose))
        path = buf_slice(&loose);
    for (size_t i = 0; i < s->rules.deny.count && !found; i++)
        if (rule_denies(&s->rules.deny.list[i], method, r, path))
            found = &s->rules.deny.list[i];
    buf_free(&loose);
    return found;
}

static bool check_deny(struct inquiry *q)
{
    const struct service *s = q->d.service;
    const struct rule *rule = s->rules.deny.count ? find_deny(s, q->r) : NULL;

    if (s->rules.deny.count == 0)
        return PASS(q, "there are none");
    if (!rule)
        return PASS(q, "none of %zu matches", s->rules.deny.count);
    set_rule(q, rule);
    return refuse(q, REASON_DENIED_BY_RULE, "deny \"%.120s\"", rule->text);
}

static bool refuse_by_rules(struct inquiry *q, bool method_known)
{
    const struct request *r = q->r;
    const char *name = q->d.service->name;

    if (q->fit == RULE_OTHER_QUERY)
        return refuse(q, REASON_QUERY_NOT_ALLOWED, "the query is not the one of \"%.100s\"", q->rule->text);
    if (q->fit == RULE_OTHER_METHOD)
        return refuse(q, REASON_METHOD_NOT_ALLOWED, "%.*s is not a method of \"%.80s\"",
                      (int)(r->method.len < 24 ? r->method.len : 24), r->method.ptr, q->rule->text);
    if (!method_known)
        return refuse(q, REASON_METHOD_NOT_ALLOWED, "no rule of %s allows %.*s", name,
                      (int)(r->method.len < 24 ? r->method.len : 24), r->method.ptr);
    return refuse(q, REASON_PATH_NOT_ALLOWED, "no rule of %s matches %.*s", name,
                  (int)(buf_len(&r->path) < 80 ? buf_len(&r->path) : 80), buf_slice(&r->path).ptr);
}

/* Whichever way the server reads it, a preset's rules are to allow it. */
static bool fits_loosely(const struct service *s, uint32_t method, const struct request *r)
{
    struct buf loose = {0};
    bool fits = !loosen(r, &loose);

    for (size_t i = 0; i < s->rules.allow.count && !fits; i++)
        fits = rule_fits_loosely(&s->rules.allow.list[i], method, r, buf_slice(&loose));
    buf_free(&loose);
    return fits;
}

/* The rule that fits, or the one that comes nearest. A capture out of its bind is the next step's. */
static bool check_allow(struct inquiry *q)
{
    const struct service *s = q->d.service;
    uint32_t method = methods_bit(&s->rules.methods, q->r->method), known = 0;

    for (size_t i = 0; i < s->rules.allow.count && q->fit != RULE_FITS; i++) {
        const struct rule *rule = &s->rules.allow.list[i];
        size_t other = 0;
        enum rule_fit fit = rule_judge(rule, method, q->r, &other);

        known |= rule->methods;
        if (fit > q->fit) {
            q->fit = fit;
            q->rule = rule;
            q->other = other;
        }
    }
    if (q->fit == RULE_FITS && q->rule->loose && !fits_loosely(s, method, q->r)) {
        q->fit = RULE_OTHER_PATH;
        q->rule = NULL;
    }
    if (q->fit < RULE_OTHER_BIND && s->observe) {
        q->d.observed = true;
        q->rule = NULL;
        return PASS(q, "none matches; the service is in observe mode");
    }
    if (q->rule)
        set_rule(q, q->rule);
    if (q->fit < RULE_OTHER_BIND)
        return refuse_by_rules(q, method & known);
    return PASS(q, "allow \"%.120s\"", q->rule->text);
}

static bool check_bind(struct inquiry *q)
{
    if (q->fit == RULE_OTHER_BIND)
        return refuse(q, REASON_BIND_NOT_ALLOWED, "{%s} of \"%.80s\" may not be what the path has there",
                      q->rule->binds[q->other]->name, q->rule->text);
    return PASS(q, "%s", q->rule && q->rule->binds[0] ? "every captured segment is listed" : "nothing is captured");
}

/* "[scheme://]host[:port]"; a scheme without a port means its own, neither means any. */
static bool location_covers(const char *location, const struct request *r)
{
    struct slice rest = slice_of(location), host;
    bool tls = slice_starts(rest, SLICE("https://")), plain = slice_starts(rest, SLICE("http://"));
    uint16_t port;

    if ((tls && r->scheme != SCHEME_HTTPS) || (plain && r->scheme != SCHEME_HTTP))
        return false;
    rest = slice_from(rest, tls ? 8 : plain ? 7 : 0);
    return name_split_authority(rest, tls ? 443 : plain ? 80 : r->port, &host, &port, NULL) && port == r->port &&
           name_matches(host, slice_of(r->host));
}

static bool detail_covers(const struct detail *d, const struct request *r)
{
    bool location = d->n_locations == 0, method = d->n_methods == 0, path = d->n_paths == 0;

    for (size_t i = 0; i < d->n_locations && !location; i++)
        location = location_covers(d->locations[i], r);
    for (size_t i = 0; i < d->n_methods && !method; i++)
        method = slice_is(r->method, d->methods[i]);
    for (size_t i = 0; i < d->n_paths && !path; i++)
        path = pattern_matches_path(d->patterns[i], buf_slice(&r->path), NULL);
    return location && method && path;
}

static bool check_details(struct inquiry *q)
{
    if (!identity_has_details(q->identity))
        return PASS(q, "the token has none");
    for (size_t i = 0; i < identity_detail_count(q->identity); i++)
        if (detail_covers(identity_detail(q->identity, i), q->r))
            return PASS(q, "entry %zu covers the request", i + 1);
    return refuse(q, REASON_DETAILS_NOT_ALLOWED, "no http_egress entry of the token covers the request");
}

/* The leave token, where clients know of no proxy: it is ours, and taken away. */
static bool is_carrier(const struct request *r, struct slice name)
{
    return r->carrier.len && slice_equals_nocase(name, r->carrier);
}

static bool check_credentials(struct inquiry *q)
{
    const struct head *h = q->r->head;
    size_t found = 0;

    for (size_t i = 0; h && i < h->n_fields; i++) {
        struct slice name = h->fields[i].name;

        if (!service_is_credential(q->d.service, name) || is_carrier(q->r, name))
            continue;
        if (q->d.service->credentials == CREDENTIALS_REFUSE)
            return refuse(q, REASON_CREDENTIAL_FOREIGN, "the request has the field %.*s",
                          (int)(name.len < 60 ? name.len : 60), name.ptr);
        found++;
    }
    if (found == 0)
        return PASS(q, "the request has none");
    return PASS(q, "%s", service_strips_credentials(q->d.service) ? "they are taken away" : "they are let through");
}

static bool check_upgrade(struct inquiry *q)
{
    if (!q->r->websocket)
        return PASS(q, "none is asked for");
    if (!q->d.service->websocket)
        return refuse(q, REASON_UPGRADE_NOT_ALLOWED, "service %s says nothing of websocket: allow", q->d.service->name);
    if (!slice_is(q->r->method, "GET"))
        return refuse(q, REASON_WEBSOCKET_HANDSHAKE, "a handshake is a GET of HTTP/1.1");
    return PASS(q, "WebSocket");
}

static const struct step {
    const char *name;
    bool (*check)(struct inquiry *q);
    bool tunnels; /* taken for CONNECT too */
} steps[] = {
    {"token", check_token, true}, /* first: who has none learns nothing of what is listed */
    {"destination", check_destination, true},
    {"service open", check_open, true},
    {"method", check_trace, false},
    {"scope", check_scope, true},
    {"port", check_port, false},
    {"target length", check_target, false},
    {"deny rules", check_deny, false},
    {"allow rules", check_allow, false},
    {"bind", check_bind, false},
    {"authorization details", check_details, false},
    {"upgrade", check_upgrade, false},
    {"client credentials", check_credentials, false},
};

struct decision authorize(const struct policy *p, const struct identity *identity, const struct request *r,
                          int64_t now_s, const struct trace *trace)
{
    struct inquiry q = {.policy = p, .identity = identity, .r = r, .now_s = now_s, .traced = trace != NULL,
                        .d.scheme = r->scheme};

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        bool ok;

        if (r->connect && !steps[i].tunnels)
            continue;
        ok = steps[i].check(&q);
        if (trace)
            trace->step(trace->arg, steps[i].name, ok, q.d.detail);
        if (!ok)
            return q.d;
        q.d.detail[0] = '\0';
    }
    q.d.allowed = true;
    q.d.reason = REASON_ALLOWED;
    return q.d;
}
