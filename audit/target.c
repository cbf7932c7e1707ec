/* Owns what was looked up and read for one service. Must not know checks. */
#include "audit/target.h"

#include <netdb.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "handoff/source.h"

#define NONE "none" /* of fetch and token-endpoint.refresh */

enum { HOST_MAX = 253 };

static bool read_port(struct slice text, uint16_t *out)
{
    uint64_t n;

    if (!slice_decimal(text, UINT16_MAX, &n) || n == 0)
        return false;
    *out = (uint16_t)n;
    return true;
}

/* "host", "host:port", "[v6]:port". */
static bool read_authority(struct slice text, uint16_t standard, struct base_url *out)
{
    ptrdiff_t end = slice_starts(text, SLICE("[")) ? slice_find(text, ']') : slice_find(text, ':');
    struct slice host = text, rest = slice_make("", 0);

    out->at.port = standard;
    if (slice_starts(text, SLICE("["))) {
        if (end < 0)
            return false;
        host = slice_cut(text, 1, (size_t)end);
        rest = slice_from(text, (size_t)end + 1);
    } else if (end >= 0) {
        host = slice_cut(text, 0, (size_t)end);
        rest = slice_from(text, (size_t)end);
    }
    if (host.len == 0 || host.len > HOST_MAX || slice_find(host, '@') >= 0)
        return false;
    if (rest.len && (rest.ptr[0] != ':' || !read_port(slice_from(rest, 1), &out->at.port)))
        return false;
    out->host = text_copy(host);
    for (char *c = out->host; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    return true;
}

static bool read_url(struct slice url, struct base_url *out)
{
    ptrdiff_t slash;
    struct slice path;

    out->tls = slice_starts(url, SLICE("https://"));
    if (!out->tls && !slice_starts(url, SLICE("http://")))
        return false;
    url = slice_from(url, out->tls ? 8 : 7);
    slash = slice_find(url, '/');
    path = slash < 0 ? slice_make("", 0) : slice_from(url, (size_t)slash);
    while (slice_ends(path, SLICE("/")))
        path.len--;
    for (size_t i = 0; i < path.len; i++)
        if (path.ptr[i] <= ' ' || path.ptr[i] == '?' || path.ptr[i] == '#' || (unsigned char)path.ptr[i] >= 0x7f)
            return false;
    out->path = text_copy(path);
    return read_authority(slice_cut(url, 0, slash < 0 ? url.len : (size_t)slash), out->tls ? 443 : 80, out);
}

static bool is_allowed(const struct target *t, const char *key, int i, const struct addr *a, struct fault *why)
{
    struct buf text = {0};
    bool ok = manifest_reaches(t->manifest, a);

    if (!ok) {
        addr_ip_text(&text, a);
        conf_refuse(t->item, key, i, why, "%.*s is not in reach.ranges: nothing is sent there; add it there, if it is yours", SLICE_ARG(buf_slice(&text)));
        if (why)
            why->kind = FAULT_REFUSED;
    }
    buf_free(&text);
    return ok;
}

/* The first address that the machine's resolver gives, and every one of them allowed. */
static bool look_up(const struct target *t, const char *key, int i, struct base_url *u, struct fault *why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    uint16_t port = u->at.port;
    int e = getaddrinfo(u->host, NULL, &hints, &list);
    bool ok = e == 0;

    if (!ok)
        conf_refuse(t->item, key, i, why, "%s cannot be looked up: %s; or say where it is: address", u->host, gai_strerror(e));
    for (const struct addrinfo *a = list; ok && a; a = a->ai_next) {
        struct addr one;

        addr_from_sockaddr(&one, a->ai_addr);
        ok = is_allowed(t, key, i, &one, why);
        if (a == list)
            u->at = one;
    }
    u->at.port = port;
    if (list)
        freeaddrinfo(list);
    return ok;
}

static bool open_url(struct target *t, const char *key, int i, const char *text, struct fault *why)
{
    struct base_url *u = &t->base[t->n_base++];
    const char *fixed = i < 0 ? conf_text(t->item, "address") : NULL;
    uint16_t port;

    if (!read_url(slice_of(text), u))
        return conf_refuse(t->item, key, i, why, "expected http:// or https://, a host and perhaps a port and a path, found \"%.80s\"", text);
    port = u->at.port;
    if (fixed && !addr_parse_ip(slice_of(fixed), &u->at))
        return conf_refuse(t->item, "address", -1, why, "expected an IP address, found \"%.60s\"", fixed);
    if (!fixed && !addr_parse_ip(slice_of(u->host), &u->at)) {
        u->at.port = port;
        return look_up(t, key, i, u, why);
    }
    u->at.port = port;
    return is_allowed(t, fixed ? "address" : key, i, &u->at, why);
}

static bool open_urls(struct target *t, struct fault *why)
{
    size_t n = conf_list_count(t->item, "also");

    if (n > ALSO_MAX)
        return conf_refuse(t->item, "also", -1, why, "more than %d", ALSO_MAX);
    if (!open_url(t, "url", -1, conf_text(t->item, "url"), why))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!open_url(t, "also", (int)i, conf_list_text(t->item, "also", i), why))
            return false;
    return true;
}

static bool read_form(const struct target *t, const char *key, const char *text, struct credential *c, struct fault *why)
{
    static const char *const names[] = {[CREDENTIAL_BEARER] = "bearer",
                                        [CREDENTIAL_BASIC] = "basic",
                                        [CREDENTIAL_PROXY_BEARER] = "proxy-bearer",
                                        [CREDENTIAL_PROXY_BASIC] = "proxy-basic"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_is(slice_of(text), names[i])) {
            c->form = (enum credential_form)i;
            return true;
        }
    if (slice_starts(slice_of(text), SLICE("header:")) && text[7]) {
        c->form = CREDENTIAL_FIELD;
        c->field = text + 7;
        return true;
    }
    return conf_refuse(t->item, key, -1, why, "expected bearer, basic, proxy-bearer, proxy-basic or header:NAME, found \"%.40s\"", text);
}

static bool read_credential(const struct target *t, const char *from, const char *as, struct credential *c, struct fault *why)
{
    const char *text = conf_text(t->item, from);
    struct source source;

    if (!text)
        return true;
    if (as && !read_form(t, as, conf_text(t->item, as), c, why))
        return false;
    if (!source_parse(text, &source, why) || source.kind == SOURCE_EXEC || source_is_per_sandbox(&source))
        return conf_refuse(t->item, from, -1, why, "expected file:NAME or env:NAME");
    if ((c->secret = source_read(&source, "", why)))
        return true;
    fault_prefix(why, "%s", from);
    return false;
}

/* The client of the token endpoint, and its refresh token unless that is none. */
static bool read_tokens(struct target *t, struct fault *why)
{
    const char *refresh = conf_text(t->item, "token-endpoint.refresh");
    struct credential c = {0};
    struct slice path;
    unsigned base;

    if (conf_text(t->item, "token-endpoint.url") && !target_finds(t, slice_of(conf_text(t->item, "token-endpoint.url")), &base, &path))
        return conf_refuse(t->item, "token-endpoint.url", -1, why, "it is not below url or also: nothing is sent there");
    if (!read_credential(t, "token-endpoint.client", NULL, &t->client, why))
        return false;
    if (!refresh || strcmp(refresh, NONE) == 0)
        return true;
    if (!read_credential(t, "token-endpoint.refresh", NULL, &c, why))
        return false;
    t->refresh = c.secret;
    return true;
}

static bool add_place(struct target *t, const struct conf_item *section, int i, struct addr a, bool is_upstream, struct fault *why)
{
    if (t->n_places == PLACES_MAX)
        return conf_refuse(section, "addresses", i, why, "more than %d places to listen at", PLACES_MAX);
    if (!manifest_reaches(t->manifest, &a))
        return conf_refuse(section, "addresses", i, why, "it is not in reach.ranges; add it there, if it is yours");
    t->places[t->n_places++] = (struct place_of_ours){a, is_upstream};
    return true;
}

static bool read_listener(struct target *t, struct fault *why)
{
    const struct conf_item *l = manifest_section(t->manifest, "listener");

    for (size_t i = 0; i < conf_list_count(l, "addresses"); i++)
        for (size_t j = 0; j < conf_list_count(l, "ports"); j++) {
            struct addr a;

            if (!addr_parse_ip(slice_of(conf_list_text(l, "addresses", i)), &a))
                return conf_refuse(l, "addresses", (int)i, why, "expected an IP address");
            if (!read_port(slice_of(conf_list_text(l, "ports", j)), &a.port))
                return conf_refuse(l, "ports", (int)j, why, "expected a port");
            if (!add_place(t, l, (int)i, a, false, why))
                return false;
        }
    return true;
}

static bool read_upstream(struct target *t, struct fault *why)
{
    const struct conf_item *u = manifest_section(t->manifest, "upstream");

    for (size_t i = 0; i < conf_list_count(u, "addresses"); i++) {
        struct addr a;

        if (!addr_parse(slice_of(conf_list_text(u, "addresses", i)), &a) || a.port == 0)
            return conf_refuse(u, "addresses", (int)i, why, "expected an IP address with a port");
        if (!add_place(t, u, (int)i, a, true, why))
            return false;
    }
    return true;
}

static bool read_zone(struct target *t, struct fault *why)
{
    const struct conf_item *l = manifest_section(t->manifest, "listener");
    const char *at = conf_text(l, "zone-address");

    t->zone = conf_text(l, "zone");
    if (!t->zone != !at)
        return conf_refuse(l, t->zone ? "zone" : "zone-address", -1, why, "listener.zone and listener.zone-address go together");
    if (!at)
        return true;
    if (!addr_parse(slice_of(at), &t->zone_at) || t->zone_at.port == 0)
        return conf_refuse(l, "zone-address", -1, why, "expected an IP address with a port, found \"%.60s\"", at);
    return manifest_reaches(t->manifest, &t->zone_at) || conf_refuse(l, "zone-address", -1, why, "it is not in reach.ranges; add it there, if it is yours");
}

static bool has_nonce(const struct target *t, const char *key, struct fault *why)
{
    const char *text = conf_text(t->item, key);

    if (!text || strcmp(text, NONE) == 0 || slice_search(slice_of(text), SLICE("{nonce}")) >= 0)
        return true;
    return conf_refuse(t->item, key, -1, why, "it has no {nonce} in it: what is asked for must be told from everything else (or write none)");
}

static enum dialect dialect_of(const char *kind)
{
    static const char *const names[] = {
        [DIALECT_HTTP] = "http", [DIALECT_PROXY] = "proxy", [DIALECT_NPM] = "npm", [DIALECT_OCI] = "oci"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_is(slice_of(kind), names[i]))
            return (enum dialect)i;
    return DIALECT_HTTP;
}

struct target *target_open(const struct manifest *m, const char *service, struct fault *why)
{
    struct target *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->manifest = m;
    if (!(t->item = manifest_find(m, service))) {
        fault_set(why, FAULT_USAGE, "the manifest has no service \"%.60s\"", service);
        goto out;
    }
    t->name = conf_name(t->item);
    t->dialect = dialect_of(conf_text(t->item, "kind"));
    if (open_urls(t, why) && has_nonce(t, "fetch", why) && read_listener(t, why) && read_upstream(t, why) && read_zone(t, why) &&
        read_credential(t, "credential.from", "credential.as", &t->first, why) &&
        read_credential(t, "tenant2.from", "tenant2.as", &t->second, why) &&
        read_credential(t, "gateway-token.from", NULL, &t->gateway, why) && read_tokens(t, why))
        return t;
out:
    target_free(t);
    return NULL;
}

void target_free(struct target *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_base; i++) {
        free(t->base[i].host);
        free(t->base[i].path);
    }
    secret_free(t->first.secret);
    secret_free(t->second.secret);
    secret_free(t->gateway.secret);
    secret_free(t->client.secret);
    secret_free(t->refresh);
    free(t);
}

const char *target_text(const struct target *t, const char *key)
{
    return strcmp(key, "fetch") == 0 && target_has_no_upstream(t) ? NULL : conf_text(t->item, key);
}

bool target_has_no_upstream(const struct target *t)
{
    const char *text = t->item ? conf_text(t->item, "fetch") : NULL;

    return text && strcmp(text, NONE) == 0;
}

size_t target_count(const struct target *t, const char *key)
{
    return conf_list_count(t->item, key);
}

const char *target_text_at(const struct target *t, const char *key, size_t i)
{
    return conf_list_text(t->item, key, i);
}

const char *target_listener(const struct target *t, const char *key)
{
    return conf_text(manifest_section(t->manifest, "listener"), key);
}

const char *target_upstream(const struct target *t)
{
    return conf_text(manifest_section(t->manifest, "upstream"), "host");
}

bool target_sends(const struct target *t, const char *method)
{
    size_t n = conf_list_count(t->item, "methods");

    for (size_t i = 0; i < n; i++)
        if (slice_is(slice_of(conf_list_text(t->item, "methods", i)), method))
            return true;
    return n == 0;
}

/* "reason until 2027-06-30": the end of that day, in UTC. Without a date it is accepted for nothing. */
static bool is_accepted(const char *text, int64_t now_s)
{
    struct slice s = slice_of(text);
    struct buf day = {0};
    int64_t ns = 0;
    bool ok = s.len > 10;

    buf_append(&day, slice_from(s, s.len > 10 ? s.len - 10 : 0));
    buf_text(&day, "T23:59:59Z");
    ok = ok && clock_parse(buf_slice(&day), &ns) && ns / 1000000000 >= now_s &&
         slice_ends(slice_cut(s, 0, s.len - 10), SLICE(" until "));
    buf_free(&day);
    return ok;
}

bool target_accepts(const struct target *t, const char *check, int64_t now_s, const char **reason)
{
    for (size_t i = 0; i < conf_map_count(t->item, "accept"); i++)
        if (slice_is(slice_of(conf_map_name(t->item, "accept", i)), check) && conf_map_list_count(t->item, "accept", i)) {
            *reason = conf_map_list_text(t->item, "accept", i, 0);
            return is_accepted(*reason, now_s);
        }
    return false;
}

bool target_finds(const struct target *t, struct slice url, unsigned *base, struct slice *path)
{
    struct buf own = {0};
    bool found = slice_search(url, SLICE("://")) < 0;

    *base = 0;
    *path = url;
    for (unsigned i = 0; i < t->n_base && !found; i++) {
        buf_clear(&own);
        target_url(t, i, &own);
        if ((found = slice_starts_nocase(url, buf_slice(&own)) && (url.len == buf_len(&own) || strchr("/?", url.ptr[buf_len(&own)])))) {
            *base = i;
            *path = slice_from(url, buf_len(&own));
        }
    }
    buf_free(&own);
    return found;
}

void target_authority(const struct target *t, size_t i, struct buf *out)
{
    const struct base_url *u = &t->base[i];
    bool v6 = slice_find(slice_of(u->host), ':') >= 0;

    buf_printf(out, v6 ? "[%s]" : "%s", u->host);
    if (u->at.port != (u->tls ? 443 : 80))
        buf_printf(out, ":%u", u->at.port);
}

void target_url(const struct target *t, size_t i, struct buf *out)
{
    buf_text(out, t->base[i].tls ? "https://" : "http://");
    target_authority(t, i, out);
    buf_text(out, t->base[i].path);
}

void credential_field(const struct credential *c, struct buf *out)
{
    bool is_basic = c->form == CREDENTIAL_BASIC || c->form == CREDENTIAL_PROXY_BASIC;
    bool is_proxy = c->form == CREDENTIAL_PROXY_BEARER || c->form == CREDENTIAL_PROXY_BASIC;

    if (!c->secret)
        return;
    if (c->form == CREDENTIAL_FIELD)
        buf_printf(out, "%s: ", c->field);
    else
        buf_printf(out, "%sAuthorization: %s ", is_proxy ? "Proxy-" : "", is_basic ? "Basic" : "Bearer");
    if (is_basic)
        text_base64(out, secret_slice(c->secret));
    else
        buf_append(out, secret_slice(c->secret));
}
