/* Compiles one service from its configuration; owns what it compiled. Knows no other service. Its rules: authz/ruleset.h. */
#include "authz/service.h"

#include <stdlib.h>
#include <string.h>

#include "authz/field.h"
#include "authz/preset.h"
#include "base/text.h"
#include "net/addr.h"

enum { BODY_DEFAULT = 1 << 20 };

static const struct conf_key keys[] = {
    {"preset", CONF_CHOICE, "none", PRESET_CHOICES, "rules, fields and limits of a kind of client; never hosts", 0},
    {"preset-path", CONF_TEXT, "", NULL, "the folder that the preset's rules are for, as /npm; empty: the root of the hosts", 0},
    {"hosts", CONF_LIST, NULL, NULL, "host names, or *.suffix for all names below", CONF_REQUIRED},
    {"ports", CONF_LIST, NULL, NULL, "TLS ports; 443 when neither these nor plain-ports are written", 0},
    {"plain-ports", CONF_LIST, "", NULL, "ports for plain HTTP", 0},
    {"addresses", CONF_LIST, "", NULL, "fixed destinations IP:PORT; no look-up is made", 0},
    {"allow-private", CONF_BOOL, "false", NULL, "addresses of RFC 1918, RFC 6598 and unique local ones are fine", 0},
    {"ca-file", CONF_PATH, NULL, NULL, "PEM file of the only CAs to trust for this service; else the system's", 0},
    {"allow", CONF_LIST, "", NULL,
     "rules \"METHOD[,METHOD] /path[?query]\"; written, they stand for those of the preset", 0},
    {"deny", CONF_LIST, "", NULL, "rules that win over allow, on every reading of the path; added to the preset's", 0},
    {"bind", CONF_MAP, NULL, NULL, "for each {name} captured in allow: the segments it may be", 0},
    {"scope", CONF_TEXT, NULL, NULL, "the scope a leave token must carry", CONF_REQUIRED},
    {"client-credentials", CONF_CHOICE, "refuse", "refuse|strip|allow", "Authorization, Cookie and such from sandboxes",
     0},
    {"credential.from", CONF_TEXT, NULL, NULL,
     "the gateway's own credential here: \"file:NAME\", \"env:NAME\" or \"exec:PROGRAM WORD ...\"; {sandbox}: one for each",
     CONF_SOURCE},
    {"credential.as", CONF_TEXT, NULL, NULL, "how it is sent: bearer (the default), basic (it is USER:PASSWORD) or header:NAME",
     0},
    {"credential.lifetime", CONF_TIME, "60s", NULL,
     "how long it is used before it is had anew; over a minute only what exec: gave is kept", 0},
    {"assert.as", CONF_TEXT, NULL, NULL,
     "a token signed by the gateway for this service alone, sent as bearer or header:NAME", 0},
    {"assert.audience", CONF_TEXT, NULL, NULL, "its aud; else the name of the service", 0},
    {"assert.lifetime", CONF_TIME, "60s", NULL, "at most 60s", 0},
    {"assert.once", CONF_BOOL, "false", NULL, "a new one for each request, for services that take each jti once", 0},
    {"assert.access", CONF_LIST, "", NULL,
     "\"TYPE:NAME:ACTION,ACTION\": its access claim, as container registries read it", 0},
    {"exchange.at", CONF_TEXT, NULL, NULL,
     "https URL of a token endpoint (RFC 8693) that a service lists: it gives the token for this one", 0},
    {"exchange.as", CONF_TEXT, NULL, NULL, "how that token is sent: bearer (the default) or header:NAME", 0},
    {"exchange.client", CONF_TEXT, NULL, NULL, "the client id of this gateway there", 0},
    {"exchange.secret", CONF_TEXT, NULL, NULL, "where its secret is: \"file:NAME\" or \"env:NAME\"", CONF_SOURCE},
    {"exchange.audience", CONF_TEXT, NULL, NULL, "audience to ask for; else the name of the service", 0},
    {"exchange.resource", CONF_TEXT, NULL, NULL, "resource to ask for", 0},
    {"exchange.scope", CONF_TEXT, NULL, NULL, "scope to ask for; else the one the service wants of leave tokens", 0},
    {"ranges", CONF_CHOICE, "auto", "auto|allow|strip",
     "Range of requests; auto strips it where the gateway's own credential goes in, which could come back piece by piece", 0},
    {"inject-plain", CONF_CHOICE, "refused", "refused|accepted", "the gateway's credential over plain HTTP, to be read on the way",
     0},
    {"shared-identity", CONF_CHOICE, "refused", "refused|accepted",
     "one credential for several sandboxes: the service cannot tell them apart", 0},
    {"forward-fields", CONF_LIST, "", NULL, "request fields to forward; empty: the preset's, or all that may be", 0},
    {"body", CONF_SIZE, NULL, NULL, "request body at most; 0 when all rules only read, 1m otherwise, or the preset's",
     0},
    {"target", CONF_SIZE, NULL, NULL, "request target at most; presets: 2k, otherwise limits.target alone", 0},
    {"audit", CONF_TEXT, "", NULL, "\"waived: REASON\" opens the service without an attestation", 0},
    {"audit-max-age", CONF_TIME, "7d", NULL, "how old an audit that passed may be; older, and the service is closed", 0},
    {"accept", CONF_MAP, "", NULL, "weaknesses that are known and accepted: {AN-1: \"REASON until 2026-12-31\"}", 0},
    {"observe", CONF_BOOL, "false", NULL, "allow, and record, what the allow rules do not: methods, paths, queries", 0},
    {"hands-off-to", CONF_LIST, "", NULL,
     "\"HOST\", \"HOST:PORT\" or \"http://HOST\" (or *.suffix): where its answers may send clients on to, beside its own hosts", 0},
    {"handoff-edges", CONF_CHOICE, "observe", "observe|enforce",
     "where its answers send clients on to: record it, or also refuse what hands-off-to does not list", 0},
    {"unscannable", CONF_CHOICE, "refuse", "refuse|allow", "request bodies that cannot be looked into", 0},
    {"websocket", CONF_CHOICE, "refuse", "refuse|allow",
     "GET requests that ask for WebSocket (RFC 6455); what goes through it is scanned frame by frame", 0},
};

const struct conf_section services_section = {
    .name = "services",
    .named = true,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .help = "What may be reached: nothing else is.",
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

void texts_add(struct texts *t, char *text)
{
    t->list = must(reallocarray(t->list, t->count + 1, sizeof *t->list));
    t->list[t->count++] = text;
}

void texts_free(struct texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->list[i]);
    free(t->list);
    *t = (struct texts){0};
}

bool ports_hold(const struct ports *p, uint16_t port)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i] == port)
            return true;
    return false;
}

static char *copy(const char *text)
{
    return text ? text_copy(slice_of(text)) : NULL;
}

/* A name, or "*." and a suffix of at least two labels. */
static bool read_host(const struct conf_item *item, int i, struct texts *hosts, struct fault *why)
{
    struct slice text = slice_of(conf_list_text(item, "hosts", (size_t)i));
    bool suffix = slice_starts(text, SLICE("*."));
    char name[2 + NAME_MAX_LEN + 1] = "*.";
    struct fault bad = {0};

    if (!suffix && slice_find(text, '*') >= 0)
        return conf_refuse(item, "hosts", i, why, "expected a name or *.suffix, found \"%.*s\"", SLICE_ARG(text));
    if (!name_canonical(slice_from(text, suffix ? 2 : 0), name + 2, &bad))
        return conf_refuse(item, "hosts", i, why, "\"%.*s\": %s", SLICE_ARG(text), bad.text);
    if (suffix && !strchr(name + 2, '.'))
        return conf_refuse(item, "hosts", i, why, "%s is too wide: a suffix has at least two labels", name);
    texts_add(hosts, copy(suffix ? name : name + 2));
    for (size_t k = 0; k + 1 < hosts->count; k++)
        if (strcmp(hosts->list[k], hosts->list[hosts->count - 1]) == 0)
            return conf_refuse(item, "hosts", i, why, "%s is listed twice", hosts->list[k]);
    return true;
}

static bool read_hosts(const struct conf_item *item, struct service *s, struct fault *why)
{
    for (size_t i = 0; i < conf_list_count(item, "hosts"); i++)
        if (!read_host(item, (int)i, &s->hosts, why))
            return false;
    return s->hosts.count || conf_refuse(item, "hosts", -1, why, "expected at least one host");
}

static bool read_port_list(const struct conf_item *item, const char *key, struct ports *p, struct fault *why)
{
    for (size_t i = 0; i < conf_list_count(item, key); i++) {
        struct slice text = slice_of(conf_list_text(item, key, i));
        uint64_t port;

        if (!slice_decimal(text, UINT16_MAX, &port) || port == 0)
            return conf_refuse(item, key, (int)i, why, "expected a port from 1 to 65535, found \"%.*s\"",
                               SLICE_ARG(text));
        if (ports_hold(p, (uint16_t)port))
            return conf_refuse(item, key, (int)i, why, "port %u is listed twice", (unsigned)port);
        if (p->count == SERVICE_PORTS_MAX)
            return conf_refuse(item, key, (int)i, why, "more than %d ports", SERVICE_PORTS_MAX);
        p->list[p->count++] = (uint16_t)port;
    }
    return true;
}

static bool read_ports(const struct conf_item *item, struct service *s, struct fault *why)
{
    if (!read_port_list(item, "ports", &s->tls, why) || !read_port_list(item, "plain-ports", &s->plain, why))
        return false;
    for (size_t i = 0; i < s->plain.count; i++)
        if (ports_hold(&s->tls, s->plain.list[i]))
            return conf_refuse(item, "plain-ports", (int)i, why, "port %u is a TLS port too (ports)",
                               s->plain.list[i]);
    if (!conf_is_written(item, "ports") && s->plain.count == 0)
        s->tls = (struct ports){{443}, 1};
    if (s->tls.count + s->plain.count == 0)
        return conf_refuse(item, "ports", -1, why, "expected at least one port");
    return true;
}

static bool read_addresses(const struct conf_item *item, struct service *s, struct fault *why)
{
    for (size_t i = 0; i < conf_list_count(item, "addresses"); i++) {
        const char *text = conf_list_text(item, "addresses", i);
        enum addr_class class;
        struct addr a;

        if (!addr_parse(slice_of(text), &a) || a.port == 0)
            return conf_refuse(item, "addresses", (int)i, why,
                               "expected IP:PORT such as 10.1.2.3:8443 or [2001:db8::1]:443, found \"%s\"", text);
        class = addr_classify(&a);
        if (class == ADDR_METADATA || class == ADDR_SPECIAL)
            return conf_refuse(item, "addresses", (int)i, why, "%s is a %s address and never reachable", text,
                               addr_class_name(class));
        if (class == ADDR_PRIVATE && !s->allow_private)
            return conf_refuse(item, "addresses", (int)i, why, "%s is private: say allow-private: true", text);
        texts_add(&s->addresses, copy(text));
    }
    return true;
}

/* RFC 6749 3.3: one scope-token. */
static bool read_scope(const struct conf_item *item, struct service *s, struct fault *why)
{
    const char *scope = conf_text(item, "scope");

    for (const char *p = scope; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f || *p == '"' || *p == '\\')
            return conf_refuse(item, "scope", -1, why, "expected one scope such as npm:read, found \"%s\"", scope);
    if (*scope == '\0')
        return conf_refuse(item, "scope", -1, why, "expected a scope such as npm:read");
    s->scope = copy(scope);
    return true;
}

static bool check_field(const struct conf_item *item, int i, const char *name, const struct service *s,
                        struct fault *why)
{
    unsigned meaning = field_meaning(slice_of(name));

    if (!field_is_name(slice_of(name)))
        return conf_refuse(item, "forward-fields", i, why, "\"%s\" is not a field name", name);
    if (meaning & FIELD_HOP)
        return conf_refuse(item, "forward-fields", i, why, "%s is never forwarded", name);
    if (meaning & FIELD_CREDENTIAL && s->credentials != CREDENTIALS_ALLOW)
        return conf_refuse(item, "forward-fields", i, why, "%s is a credential: say client-credentials: allow", name);
    return true;
}

static void add_field(struct service *s, const char *name)
{
    struct slice copied = slice_make(copy(name), strlen(name));

    s->fields = must(reallocarray(s->fields, s->n_fields + 1, sizeof *s->fields));
    s->fields[s->n_fields++] = copied;
}

static bool read_fields(const struct conf_item *item, struct service *s, struct fault *why)
{
    for (size_t i = 0; i < conf_list_count(item, "forward-fields"); i++) {
        const char *name = conf_list_text(item, "forward-fields", i);

        if (!check_field(item, (int)i, name, s, why))
            return false;
        add_field(s, name);
    }
    if (s->n_fields == 0 && s->preset)
        for (const char *const *name = s->preset->fields; *name; name++)
            add_field(s, *name);
    return true;
}

static void read_limits(const struct conf_item *item, struct service *s)
{
    if (conf_is_written(item, "body"))
        s->body = (uint64_t)conf_number(item, "body");
    else if (s->preset)
        s->body = s->preset->body;
    else
        s->body = ruleset_only_reads(&s->rules) ? 0 : BODY_DEFAULT;
    if (conf_is_written(item, "target"))
        s->target = (uint64_t)conf_number(item, "target");
    else
        s->target = s->preset ? s->preset->target : 0;
}

static bool read_audit(const struct conf_item *item, struct service *s, struct fault *why)
{
    struct slice audit = slice_of(conf_text(item, "audit"));

    if (audit.len && (!slice_starts(audit, SLICE("waived:")) || slice_trim(slice_from(audit, 7)).len == 0))
        return conf_refuse(item, "audit", -1, why, "expected \"waived: REASON\", found \"%.*s\"; left out, an audit must have passed (exeat audit)", SLICE_ARG(audit));
    s->audit = text_copy(audit);
    s->audit_max_age_ms = conf_number(item, "audit-max-age");
    return acceptances_read(item, &s->accepts, why);
}

static bool read_destinations(const struct conf_item *item, struct service *s, struct fault *why)
{
    size_t n = conf_list_count(item, "hands-off-to");

    s->destinations = must(calloc(n + 1, sizeof *s->destinations));
    for (size_t i = 0; i < n; i++) {
        const char *text = conf_list_text(item, "hands-off-to", i);
        struct fault bad = {0};

        if (!destination_parse(slice_of(text), &s->destinations[s->n_destinations++], &bad))
            return conf_refuse(item, "hands-off-to", (int)i, why, "\"%.80s\": %s", text, bad.text);
    }
    return true;
}

static enum service_credentials read_credentials(const struct conf_item *item)
{
    const char *text = conf_text(item, "client-credentials");

    if (strcmp(text, "strip") == 0)
        return CREDENTIALS_STRIP;
    return strcmp(text, "allow") == 0 ? CREDENTIALS_ALLOW : CREDENTIALS_REFUSE;
}

/* "bearer", "basic", "header:NAME" -> the field's name; NULL: none of these. */
static const char *field_of(const char *as)
{
    if (strcmp(as, "bearer") == 0 || strcmp(as, "basic") == 0)
        return "Authorization";
    return strncmp(as, "header:", 7) == 0 ? as + 7 : NULL;
}

/* A field that means something to the message itself, or to who is between, is no place for a credential. */
static bool may_hold_credential(const char *name)
{
    static const char *const others[] = {"host", "content-length", "content-type", "content-encoding", "accept-encoding",
                                         "expect", "range", "date"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (field_is_same(slice_of(name), slice_of(others[i])))
            return false;
    return field_is_name(slice_of(name)) && !(field_meaning(slice_of(name)) & FIELD_HOP);
}

/* At most one of the three ways; each is switched on by the key that it cannot do without. */
static bool read_own_field(const struct conf_item *item, struct service *s, struct fault *why)
{
    static const char *const ways[][2] = {
        {"credential.from", "credential.as"}, {"assert.as", "assert.as"}, {"exchange.at", "exchange.as"}};
    const char *name;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *as = conf_text(item, ways[i][1]);

        if (!conf_has(item, ways[i][0]) && as)
            return conf_refuse(item, ways[i][1], -1, why, "it says nothing without %s", ways[i][0]);
        if (!conf_has(item, ways[i][0]))
            continue;
        as = as ? as : "bearer";
        if (s->own_field)
            return conf_refuse(item, ways[i][0], -1, why, "a service has one of credential, assert and exchange");
        if (!(name = field_of(as)) || (i > 0 && strcmp(as, "basic") == 0))
            return conf_refuse(item, ways[i][1], -1, why, "expected bearer%s or header:NAME, found \"%.60s\"",
                               i ? "" : ", basic", as);
        if (!may_hold_credential(name))
            return conf_refuse(item, ways[i][1], -1, why, "the field \"%.60s\" cannot hold a credential", name);
        s->own_field = copy(name);
    }
    s->asserts_once = conf_has(item, "assert.as") && conf_bool(item, "assert.once");
    s->strips_ranges = strcmp(conf_text(item, "ranges"), "strip") == 0 || (s->own_field && strcmp(conf_text(item, "ranges"), "auto") == 0);
    return true;
}

static bool check_own_field(const struct conf_item *item, const struct service *s, struct fault *why)
{
    if (!s->own_field)
        return true;
    if (s->credentials == CREDENTIALS_ALLOW)
        return conf_refuse(item, "client-credentials", -1, why,
                           "allow, where the gateway has a credential of its own: which of the two would count?");
    if (s->plain.count && strcmp(conf_text(item, "inject-plain"), "accepted") != 0)
        return conf_refuse(item, "plain-ports", -1, why, "the gateway's credential could be read on the way; leave plain "
                           "ports out, or say inject-plain: accepted");
    return true;
}

struct service *service_compile(const struct conf_item *item, size_t index, struct fault *why)
{
    struct service *s = must(calloc(1, sizeof *s));

    s->name = copy(conf_name(item));
    s->index = index;
    s->preset = preset_find(conf_text(item, "preset"));
    s->allow_private = conf_bool(item, "allow-private");
    s->ca_file = copy(conf_text(item, "ca-file"));
    s->credentials = read_credentials(item);
    s->observe = conf_bool(item, "observe");
    s->unscannable = strcmp(conf_text(item, "unscannable"), "allow") == 0;
    s->websocket = strcmp(conf_text(item, "websocket"), "allow") == 0;
    s->enforces_edges = strcmp(conf_text(item, "handoff-edges"), "enforce") == 0;
    if (read_hosts(item, s, why) && read_destinations(item, s, why) && read_ports(item, s, why) && read_addresses(item, s, why) &&
        read_scope(item, s, why) && read_own_field(item, s, why) && check_own_field(item, s, why) && ruleset_read(&s->rules, item, s->preset, why) &&
        read_fields(item, s, why) && read_audit(item, s, why)) {
        read_limits(item, s);
        service_make_marks(s, item);
        return s;
    }
    service_free(s);
    return NULL;
}

void service_free(struct service *s)
{
    if (!s)
        return;
    free(s->name);
    texts_free(&s->hosts);
    texts_free(&s->addresses);
    for (size_t i = 0; i < s->n_fields; i++)
        free((char *)s->fields[i].ptr);
    free(s->fields);
    free(s->ca_file);
    free(s->own_field);
    free(s->scope);
    ruleset_clear(&s->rules);
    free(s->destinations);
    free(s->audit);
    acceptances_clear(&s->accepts);
    free(s);
}
