/* Owns what the owner allows: the tables of keys, and the ranges. Must not know checks. */
#include "audit/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "authz/preset.h"
#include "base/text.h"

enum { RANGES_MAX = 64 };

static const struct conf_key owner_keys[] = {
    {"name", CONF_TEXT, NULL, NULL, "who owns the services", CONF_REQUIRED},
    {"statement", CONF_TEXT, NULL, NULL, "that they are theirs and may be tested; printed in every report", CONF_REQUIRED},
};

static const struct conf_key reach_keys[] = {
    {"ranges", CONF_LIST, "[\"127.0.0.0/8\", \"::1/128\"]", NULL, "where packets may go: addresses with a prefix length", 0},
    {"rate", CONF_COUNT, "5", NULL, "requests a second", 0},
    {"requests", CONF_COUNT, "300", NULL, "requests in all, for each service", 0},
    {"timeout", CONF_TIME, "10s", NULL, "how long one answer may take", 0},
};

static const struct conf_key listener_keys[] = {
    {"addresses", CONF_LIST, "[]", NULL, "where the audit listens while it runs", 0},
    {"ports", CONF_LIST, "[80]", NULL, "on which ports of each", 0},
    {"outside", CONF_TEXT, NULL, NULL, "a name that the service resolves to one of them", 0},
    {"inside", CONF_TEXT, NULL, NULL, "a name that it resolves to a loopback or private one of them", 0},
    {"bare", CONF_TEXT, NULL, NULL, "one of them, asked for without a name", 0},
    {"zone", CONF_TEXT, NULL, NULL, "a DNS zone that is delegated to the audit (FU-7, CN-6), in lower case", 0},
    {"zone-address", CONF_TEXT, NULL, NULL, "where it answers for that zone, by UDP: an address with a port", 0},
    {"settle", CONF_TIME, "500ms", NULL, "how long a late fetch is waited for at the end", 0},
};

static const struct conf_key upstream_keys[] = {
    {"host", CONF_TEXT, NULL, NULL, "the name of the service's upstream, which the audit plays", 0},
    {"addresses", CONF_LIST, "[]", NULL, "where it listens as the upstream: addresses with ports", 0},
};

static const struct conf_key service_keys[] = {
    {"url", CONF_TEXT, NULL, NULL, "its base", CONF_REQUIRED},
    {"address", CONF_TEXT, NULL, NULL, "its IP address, when the name in url is not to be looked up", 0},
    {"also", CONF_LIST, "[]", NULL, "other base URLs that belong to it", 0},
    {"kind", CONF_CHOICE, "http", "http|proxy|npm|oci", "how it is spoken to", 0},
    {"ca-file", CONF_PATH, NULL, NULL, "the CA that its certificate is verified with", 0},
    {"methods", CONF_LIST, "[]", NULL, "methods that may be sent; none named: all of the catalogue", 0},
    {"protected", CONF_LIST, "[]", NULL, "paths that need a credential", 0},
    {"credential.from", CONF_PATH, NULL, NULL, "a good credential, file: or env:", CONF_SOURCE},
    {"credential.as", CONF_TEXT, "bearer", NULL, "bearer, basic, proxy-bearer, proxy-basic or header:NAME", 0},
    {"tenant2.from", CONF_PATH, NULL, NULL, "another tenant's", CONF_SOURCE},
    {"tenant2.as", CONF_TEXT, "bearer", NULL, "as credential.as", 0},
    {"gateway-token.from", CONF_PATH, NULL, NULL, "a leave token, which the service must not take", CONF_SOURCE},
    {"fetch", CONF_TEXT, NULL, NULL, "path of something it gets from the upstream, with {nonce}; none: it has no upstream", 0},
    {"realm", CONF_TEXT, NULL, NULL, "the realm, at the listener, that the upstream named when the service started", 0},
    {"listings", CONF_LIST, "[]", NULL, "further listings", 0},
    {"admin", CONF_LIST, "[]", NULL, "further pages of administration: paths, or URLs below also", 0},
    {"fetchers", CONF_LIST, "[]", NULL, "paths that take URLs as parameters", 0},
    {"hooks", CONF_LIST, "[]", NULL, "requests that make webhooks, imports, mirrors: METHOD, path, and content with {url} (FU-3)", 0},
    {"redirectors", CONF_LIST, "[]", NULL, "paths that redirect to a URL in a parameter", 0},
    {"logins", CONF_LIST, "[]", NULL, "default logins to try, USER:PASSWORD (AN-6)", 0},
    {"sources", CONF_LIST, "[]", NULL, "addresses of this machine to ask from (NT-7, RP-9)", 0},
    {"planted", CONF_PATH, NULL, NULL, "a file on the service's machine whose text must not come out (FU-8)", 0},
    {"whoami", CONF_TEXT, NULL, NULL, "a path that says who asks", 0},
    {"hands-to", CONF_LIST, "[]", NULL, "hosts that its answers may send clients on to", 0},
    {"write", CONF_TEXT, NULL, NULL, "the name of what may be written; {nonce} is replaced", 0},
    {"write2", CONF_TEXT, NULL, NULL, "the same for the second tenant", 0},
    {"issuer.key", CONF_PATH, NULL, NULL, "the staging issuer's private key, PEM", 0},
    {"issuer.certificate", CONF_PATH, NULL, NULL, "its certificate, PEM", 0},
    {"issuer.kid", CONF_TEXT, NULL, NULL, "the key's id", 0},
    {"issuer.form", CONF_CHOICE, "kid", "kid|x5c|jwk", "how the header names the key", 0},
    {"issuer.type", CONF_TEXT, "JWT", NULL, "the typ of a good token", 0},
    {"issuer.issuer", CONF_TEXT, NULL, NULL, "iss of a good token", 0},
    {"issuer.audience", CONF_TEXT, NULL, NULL, "aud of a good token", 0},
    {"issuer.subject", CONF_TEXT, "exeat-audit", NULL, "sub of a good token", 0},
    {"issuer.claims", CONF_TEXT, "{}", NULL, "further claims, a JSON object", 0},
    {"issuer.path", CONF_TEXT, NULL, NULL, "where tokens are tried; the first of protected", 0},
    {"issuer.others", CONF_LIST, "[]", NULL, "paths that a good token for issuer.path must not open", 0},
    {"issuer.jwks", CONF_PATH, NULL, NULL, "the public key as verifiers publish it", 0},
    {"token-endpoint.url", CONF_TEXT, NULL, NULL, "where its tokens are given: a path, or a URL below url or also", 0},
    {"token-endpoint.form", CONF_CHOICE, "oauth", "oauth|docker", "how it is asked: OAuth's form, or container registries' query", 0},
    {"token-endpoint.client", CONF_PATH, NULL, NULL, "the client that asks, USER:PASSWORD", CONF_SOURCE},
    {"token-endpoint.scope", CONF_TEXT, NULL, NULL, "a scope that the client may have", 0},
    {"token-endpoint.wider", CONF_TEXT, "admin", NULL, "one that it may not", 0},
    {"token-endpoint.resource", CONF_TEXT, NULL, NULL, "what the service is called there (docker: service)", 0},
    {"token-endpoint.refresh", CONF_TEXT, NULL, NULL, "a refresh token, used up by the audit; none: it gives none", CONF_SOURCE},
    {"token-endpoint.revoke", CONF_TEXT, NULL, NULL, "where tokens are revoked (RFC 7009)", 0},
    {"token-endpoint.window", CONF_TIME, "2s", NULL, "how long a revoked token may still work", 0},
    {"clients.preset", CONF_CHOICE, NULL, PRESET_CHOICES, "what its real clients need, as a preset of proxy.conf; npm: npm-read, oci: oci-pull", 0},
    {"clients.preset-path", CONF_TEXT, NULL, NULL, "the folder that the preset is for; the path of url", 0},
    {"clients.allow", CONF_LIST, "[]", NULL, "or as rules: \"GET,HEAD /pool/**\"", 0},
    {"accept", CONF_MAP, NULL, NULL, "weaknesses that are accepted: {AN-1: \"reason until 2027-06-30\"}", 0},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))
/* Completes "no key ...; %s lists them". */
#define MANUAL "this is read as an audit's manifest, and docs/handoff.md"
static const struct conf_section owner_section = {"owner", false, owner_keys, COUNT(owner_keys), "Who owns the services.", MANUAL};
static const struct conf_section reach_section = {"reach", false, reach_keys, COUNT(reach_keys), "Where packets may go, and how many.", MANUAL};
static const struct conf_section listener_section = {"listener", false, listener_keys, COUNT(listener_keys), "Where the audit listens.", MANUAL};
static const struct conf_section upstream_section = {"upstream", false, upstream_keys, COUNT(upstream_keys), "Where it plays the upstream.", MANUAL};
static const struct conf_section services_section = {"services", true, service_keys, COUNT(service_keys), "What may be audited.", MANUAL};

const struct conf_section *const manifest_sections[] = {&owner_section, &reach_section, &listener_section, &upstream_section,
                                                        &services_section};
const size_t manifest_n_sections = COUNT(manifest_sections);

struct range {
    struct addr at;
    unsigned bits;
};

struct manifest {
    struct conf *conf;
    struct range ranges[RANGES_MAX];
    size_t n_ranges;
};

static bool read_range(struct slice text, struct range *out)
{
    struct slice rest = text, ip;
    uint64_t bits;

    if (!slice_next(&rest, '/', &ip) || !addr_parse_ip(ip, &out->at))
        return false;
    if (!slice_decimal(rest, out->at.family == AF_INET ? 32 : 128, &bits))
        return false;
    out->bits = (unsigned)bits;
    return true;
}

static bool is_in(const struct range *r, const struct addr *a)
{
    if (a->family != r->at.family)
        return false;
    for (unsigned i = 0; i < r->bits; i++)
        if ((a->ip[i / 8] ^ r->at.ip[i / 8]) & (0x80u >> i % 8))
            return false;
    return true;
}

/* A range of everything is a range that names nothing. */
static bool read_ranges(struct manifest *m, struct fault *why)
{
    const struct conf_item *reach = conf_section(m->conf, "reach");
    size_t n = conf_list_count(reach, "ranges");

    for (size_t i = 0; i < n; i++) {
        const char *text = conf_list_text(reach, "ranges", i);
        struct range *r = &m->ranges[m->n_ranges];

        if (m->n_ranges == RANGES_MAX)
            return conf_refuse(reach, "ranges", (int)i, why, "more than %d ranges", RANGES_MAX);
        if (!read_range(slice_of(text), r))
            return conf_refuse(reach, "ranges", (int)i, why, "expected an address with a prefix length such as 10.1.0.0/16, found \"%.40s\"", text);
        if (r->bits < 8)
            return conf_refuse(reach, "ranges", (int)i, why, "a range of less than 8 bits names nothing: write which addresses are yours");
        m->n_ranges++;
    }
    return true;
}

bool manifest_reaches(const struct manifest *m, const struct addr *a)
{
    if (addr_classify(a) == ADDR_METADATA)
        return false;
    for (size_t i = 0; i < m->n_ranges; i++)
        if (is_in(&m->ranges[i], a))
            return true;
    return false;
}

bool manifest_is_loopback(const struct manifest *m)
{
    for (size_t i = 0; i < m->n_ranges; i++)
        if (addr_classify(&m->ranges[i].at) != ADDR_LOOPBACK)
            return false;
    return true;
}

static struct manifest *manifest_of(struct conf *conf, struct fault *why)
{
    struct manifest *m;

    if (!conf)
        return NULL;
    if (!(m = calloc(1, sizeof *m)))
        abort();
    m->conf = conf;
    if (read_ranges(m, why))
        return m;
    manifest_free(m);
    return NULL;
}

struct manifest *manifest_load(const char *path, struct fault *why)
{
    return manifest_of(conf_load(path, manifest_sections, manifest_n_sections, why), why);
}

struct manifest *manifest_parse(struct slice text, const char *name, const char *directory, struct fault *why)
{
    return manifest_of(conf_parse(text, name, directory, manifest_sections, manifest_n_sections, why), why);
}

void manifest_free(struct manifest *m)
{
    if (!m)
        return;
    conf_free(m->conf);
    free(m);
}

const struct conf_item *manifest_section(const struct manifest *m, const char *section)
{
    return conf_section(m->conf, section);
}

const char *manifest_service_name(const struct manifest *m, size_t i)
{
    return i < conf_count(m->conf, "services") ? conf_name(conf_item(m->conf, "services", i)) : NULL;
}

const struct conf_item *manifest_find(const struct manifest *m, const char *name)
{
    return conf_find(m->conf, "services", name);
}
