/* Owns a loaded configuration: in which order it is read, checked and compiled, and what each role gets of it. */
#include "proxy/config.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/issuer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/secret.h"
#include "canary/canary.h"
#include "certs/ca.h"
#include "handoff/assertion.h"
#include "handoff/attestation.h"
#include "net/tls.h"
#include "proxy/config_check.h"
#include "proxy/lexicon.h"
#include "proxy/listen_check.h"

#define SYSTEM_TRUST "/etc/ssl/certs/ca-certificates.crt"

enum { TRUST_MOST = 8 << 20, CERTIFICATE_MOST = 64 << 10 };

void gateway_config_free(struct gateway_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_warnings; i++)
        free(c->warnings[i]);
    free(c->warnings);
    bundle_free(c->files);
    bundle_free(c->patterns);
    bundle_free(c->ca);
    bundle_free(c->assertion);
    bundle_free(c->attestations);
    handoffs_free(c->handoffs);
    policy_free(c->policy);
    conf_free(c->added);
    conf_free(c->conf);
    free(c);
}

char *gateway_state(const struct gateway_config *c, const char *name)
{
    return file_join(c->state, name);
}

/* ---- files ---- */

static bool add_file(struct bundle *files, const char *name, const char *path, size_t most, struct fault *why)
{
    struct buf bytes = {0};
    bool ok = file_read_regular(path, most, &bytes, why);

    if (ok)
        bundle_add(files, name, buf_slice(&bytes));
    buf_wipe(&bytes);
    return ok;
}

/* A file that a key of an item names, under "kind.NAME.suffix"; the fault tells where it is named. */
static bool add_named(struct gateway_config *c, const struct conf_item *item, const char *key, const char *kind,
                      const char *suffix, size_t most, struct fault *why)
{
    struct fault inner = {0};
    char name[128];

    snprintf(name, sizeof name, "%s.%s.%s", kind, conf_name(item), suffix);
    if (file_check_guarded(conf_text(item, key), &inner) && add_file(c->files, name, conf_text(item, key), most, &inner))
        return true;
    return conf_refuse(item, key, -1, why, "%s", inner.text);
}

static bool read_issuers(struct gateway_config *c, struct fault *why)
{
    struct issuers *issuers;

    if (!issuers_read_files(c->conf, c->files, why))
        return false;
    issuers = issuers_compile(c->conf, c->files, why);
    issuers_free(issuers);
    return issuers != NULL;
}

/* What it holds is looked at too: a worker that could not use it would find out only when it is there. */
static bool read_service_trust(struct gateway_config *c, const struct service *s, struct fault *why)
{
    const struct conf_item *item = conf_find(c->conf, "services", service_name(s));
    struct fault inner = {0};
    struct tls_client *trust;
    struct slice pem = {"", 0};
    char name[128];

    if (!add_named(c, item, "ca-file", "service", "ca", TRUST_MOST, why))
        return false;
    snprintf(name, sizeof name, "service.%s.ca", service_name(s));
    bundle_get(c->files, name, &pem);
    trust = tls_client_new(pem, &inner);
    tls_client_free(trust);
    return trust || conf_refuse(item, "ca-file", -1, why, "%s: %s", service_ca_file(s), inner.text);
}

static bool read_issuer_trust(const struct gateway_config *c, const struct conf_item *item, struct fault *why)
{
    struct fault inner = {0};
    struct tls_client *trust;
    struct slice pem = {"", 0};
    char name[128];

    snprintf(name, sizeof name, "issuer.%s.ca", conf_name(item));
    bundle_get(c->files, name, &pem);
    trust = tls_client_new(pem, &inner);
    tls_client_free(trust);
    return trust || conf_refuse(item, "jwks-ca-file", -1, why, "%s: %s", conf_text(item, "jwks-ca-file"), inner.text);
}

/* Trust for the services and for where issuers publish keys: their own files, and the system's when one needs it. */
static bool read_trust(struct gateway_config *c, struct fault *why)
{
    bool needs_system = false;

    for (size_t i = 0; i < policy_count(c->policy); i++) {
        const struct service *s = policy_service(c->policy, i);

        needs_system |= service_trusts_system(s);
        if (service_ca_file(s) && !read_service_trust(c, s, why))
            return false;
    }
    for (size_t i = 0; i < conf_count(c->conf, "issuers"); i++) {
        const struct conf_item *item = conf_item(c->conf, "issuers", i);

        if (conf_has(item, "jwks-uri") && !conf_has(item, "jwks-ca-file"))
            needs_system = true;
        else if (conf_has(item, "jwks-uri") && !read_issuer_trust(c, item, why))
            return false;
    }
    if (!needs_system || add_file(c->files, "ca.system", SYSTEM_TRUST, TRUST_MOST, why))
        return true;
    fault_prefix(why, "no trust for services without ca-file, or issuers without jwks-ca-file (install ca-certificates)");
    return false;
}

static struct slice listener_file(const struct gateway_config *c, const struct conf_item *l, const char *suffix)
{
    struct slice bytes = {"", 0};
    char name[128];

    snprintf(name, sizeof name, "listen.%s.%s", conf_name(l), suffix);
    bundle_get(c->files, name, &bytes);
    return bytes;
}

static bool read_listener_key(struct gateway_config *c, const struct conf_item *l, struct fault *why)
{
    struct fault inner = {0};
    struct secret *key = secret_read_file(conf_text(l, "tls.key"), CERTIFICATE_MOST, &inner);
    char name[128];

    if (!key)
        return conf_refuse(l, "tls.key", -1, why, "%s", inner.text);
    snprintf(name, sizeof name, "listen.%s.key", conf_name(l));
    bundle_add(c->files, name, secret_slice(key));
    secret_free(key);
    return true;
}

/* Put together once: a worker that could not use them would find out only when it is there. */
static bool read_listener(struct gateway_config *c, const struct conf_item *l, struct fault *why)
{
    struct fault inner = {0};
    struct tls_door *door;

    if (!conf_has(l, "tls.cert"))
        return true;
    if (!add_named(c, l, "tls.cert", "listen", "cert", CERTIFICATE_MOST, why) || !read_listener_key(c, l, why) ||
        (conf_has(l, "tls.client-ca") && !add_named(c, l, "tls.client-ca", "listen", "client-ca", TRUST_MOST, why)))
        return false;
    door = tls_door_new(listener_file(c, l, "cert"), listener_file(c, l, "key"), listener_file(c, l, "client-ca"), &inner);
    tls_door_free(door);
    return door || conf_refuse(l, "tls.cert", -1, why, "listen.%s: tls: %s", conf_name(l), inner.text);
}

static bool read_listeners(struct gateway_config *c, struct fault *why)
{
    for (size_t i = 0; i < conf_count(c->conf, "listen"); i++)
        if (!read_listener(c, conf_item(c->conf, "listen", i), why))
            return false;
    return true;
}

/* The registry; where its name is the default's, it may be absent. */
static bool read_canaries(struct gateway_config *c, struct fault *why)
{
    const struct conf_item *item = conf_section(c->conf, "canaries");
    const char *path = conf_text(item, "file");
    struct registry *registry = NULL;
    struct fault inner = {0};
    struct secret *text = secret_read_file(path, CANARY_FILE_MAX, &inner);

    if (!text && inner.kind == FAULT_MISSING && !conf_is_written(item, "file"))
        return true;
    if (!text)
        return conf_refuse(item, "file", -1, why, "%s", inner.text);
    if ((registry = registry_parse(secret_slice(text), path, why)))
        bundle_add(c->files, "canaries.json", secret_slice(text));
    secret_free(text);
    if (!registry)
        return false;
    registry_free(registry);
    return true;
}

/* What audits say of each service: `explain` and `config check` answer by it too. */
static bool read_attestations(struct gateway_config *c, struct fault *why)
{
    return attestation_add_files(conf_text(conf_section(c->conf, "gateway"), "state"), c->conf, c->policy, c->attestations, why) &&
           attestation_use(c->policy, c->conf, c->attestations, clock_wall_s(), why);
}

/* ---- loading ---- */

static void read_names(struct gateway_config *c)
{
    const struct conf_item *g = conf_section(c->conf, "gateway");

    c->name = conf_text(g, "name");
    c->state = conf_text(g, "state");
    c->user_prefix = conf_text(g, "user-prefix");
    c->admin = conf_text(conf_section(c->conf, "admin"), "address");
    c->publish = conf_text(conf_section(c->conf, "publish"), "address");
}

struct gateway_config *gateway_config_load(const char *path, struct fault *why)
{
    struct gateway_config *c = calloc(1, sizeof *c);
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    if (!c)
        abort();
    c->files = bundle_new();
    c->attestations = bundle_new();
    if (!file_exists(path)) {
        fault_set(why, FAULT_MISSING, "%s: no such file; name yours with -c FILE, or make one: exeat init DIR", path);
        gateway_config_free(c);
        return NULL;
    }
    if (!(c->conf = conf_load(path, sections, n, why)) ||
        !(c->added = listen_added_load(conf_text(conf_section(c->conf, "gateway"), "state"), why)) || !config_check(c, path, why) ||
        !(c->policy = policy_compile(c->conf, why)) || !(c->handoffs = handoffs_compile(c->conf, c->policy, why)) ||
        !config_check_sources(c, why) || !read_issuers(c, why) || !read_trust(c, why) || !read_listeners(c, why) ||
        !read_canaries(c, why) || !read_attestations(c, why)) {
        gateway_config_free(c);
        return NULL;
    }
    read_names(c);
    config_warn(c);
    return c;
}

/* ---- the CA ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Every listed host, each once, ordered; *hosts is given (its texts are the policy's). */
static size_t listed_hosts(const struct policy *p, const char ***hosts)
{
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < policy_count(p); i++)
        n += service_host_count(policy_service(p, i));
    if (!(*hosts = calloc(n + 1, sizeof **hosts)))
        abort();
    n = 0;
    for (size_t i = 0; i < policy_count(p); i++)
        for (size_t j = 0; j < service_host_count(policy_service(p, i)); j++)
            (*hosts)[n++] = service_host(policy_service(p, i), j);
    qsort(*hosts, n, sizeof **hosts, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp((*hosts)[i], (*hosts)[kept - 1]) != 0)
            (*hosts)[kept++] = (*hosts)[i];
    return kept;
}

/* Who can write there can put another CA in its place. */
static bool check_state(const struct gateway_config *c, const char *ca, struct fault *why)
{
    if (!file_exists(c->state))
        return fault_set(why, FAULT_MISSING, "%s: no such directory; it is what gateway.state names", c->state);
    return file_check_guarded(c->state, why) && file_check_guarded(ca, why);
}

bool gateway_check_ca(const struct gateway_config *c, struct fault *why)
{
    char *directory = gateway_state(c, "ca");
    const char **hosts;
    size_t n = listed_hosts(c->policy, &hosts);
    bool ok = check_state(c, directory, why) && ca_check(directory, hosts, n, why);

    free(hosts);
    free(directory);
    return ok;
}

/* Roles that start again later get what this configuration was begun with, whatever became of the files. */
static bool read_ca(struct gateway_config *c, const char *directory, struct fault *why)
{
    bundle_free(c->ca);
    c->ca = bundle_new();
    return ca_add_files(directory, c->ca, why);
}

static bool read_assertion(struct gateway_config *c, struct fault *why)
{
    char *directory = gateway_state(c, ASSERTION_DIRECTORY);
    bool ok = true;

    bundle_free(c->assertion);
    c->assertion = bundle_new();
    if (handoffs_sign(c->handoffs))
        ok = assertion_ensure(directory, why) && assertion_add_files(directory, c->assertion, why);
    free(directory);
    return ok;
}

bool gateway_ensure_ca(struct gateway_config *c, bool *issued, struct fault *why)
{
    char *directory = gateway_state(c, "ca");
    const char **hosts;
    size_t n = listed_hosts(c->policy, &hosts);
    bool ok = check_state(c, directory, why) &&
              ca_ensure_intermediate(directory, c->name, hosts, n, issued, why) && read_ca(c, directory, why) &&
              read_assertion(c, why);

    free(hosts);
    free(directory);
    return ok;
}

/* ---- what each role gets ---- */

static void copy(struct bundle *to, const struct bundle *from, const char *name)
{
    struct slice bytes;

    if (bundle_get(from, name, &bytes))
        bundle_add(to, name, bytes);
}

static void copy_named(struct bundle *to, const struct gateway_config *c, const char *section, const char *kind,
                       const char *suffix)
{
    for (size_t i = 0; i < conf_count(c->conf, section); i++) {
        char name[128];

        snprintf(name, sizeof name, "%s.%s.%s", kind, conf_name(conf_item(c->conf, section, i)), suffix);
        copy(to, c->files, name);
    }
}

static void copy_as(struct bundle *to, const char *name, const struct bundle *from, const char *original)
{
    struct slice bytes;

    if (bundle_get(from, original, &bytes))
        bundle_add(to, name, bytes);
}

static void fill_canaries(struct bundle *b, const struct gateway_config *c)
{
    copy(b, c->files, "canaries.json");
    lexicon_copy(b, c->patterns);
}

static void fill_worker(struct bundle *b, const struct gateway_config *c)
{
    attestation_copy(b, c->attestations, c->conf);
    copy_named(b, c, "issuers", "issuer", "jwks");
    copy_named(b, c, "listen", "listen", "cert");
    copy_named(b, c, "listen", "listen", "key");
    copy_named(b, c, "listen", "listen", "client-ca");
    copy_named(b, c, "services", "service", "ca");
    fill_canaries(b, c);
    copy(b, c->files, "ca.system");
    copy_as(b, "ca.root.pem", c->ca, "ca/root.pem");
    copy_as(b, "ca.intermediate.pem", c->ca, "ca/intermediate.pem");
}

static void fill_keeper(struct bundle *b, const struct gateway_config *c)
{
    copy(b, c->ca, "ca/intermediate.pem");
    copy(b, c->ca, "ca/intermediate.key");
    copy(b, c->ca, "ca/root.pem");
    if (handoffs_any(c->handoffs))
        copy_named(b, c, "issuers", "issuer", "jwks");
    copy(b, c->assertion, ASSERTION_SIGNING);
}

static bool fetches_keys(const struct gateway_config *c)
{
    for (size_t i = 0; i < conf_count(c->conf, "issuers"); i++)
        if (conf_has(conf_item(c->conf, "issuers", i), "jwks-uri"))
            return true;
    return false;
}

static void fill_clerk(struct bundle *b, const struct gateway_config *c)
{
    attestation_copy(b, c->attestations, c->conf);
    if (c->assertion)
        copy(b, c->assertion, ASSERTION_JWKS);
    copy_named(b, c, "issuers", "issuer", "ca");
    if (handoffs_exchange(c->handoffs))
        copy_named(b, c, "services", "service", "ca");
    if (handoffs_exchange(c->handoffs) || fetches_keys(c))
        copy(b, c->files, "ca.system");
}

struct bundle *gateway_bundle(const struct gateway_config *c, enum role role)
{
    struct bundle *b = bundle_new();
    struct buf text = {0};

    assert(c->ca || (role != ROLE_WORKER && role != ROLE_KEEPER));
    conf_print(c->conf, false, &text);
    bundle_add(b, "proxy.conf", buf_slice(&text));
    buf_free(&text);
    if (role == ROLE_WORKER)
        fill_worker(b, c);
    else if (role == ROLE_KEEPER)
        fill_keeper(b, c);
    else if (role == ROLE_USHER && conf_count(c->conf, "dns"))
        fill_canaries(b, c);
    else if (role == ROLE_CLERK)
        fill_clerk(b, c);
    return b;
}

void gateway_digest(const struct gateway_config *c, unsigned char digest[32])
{
    struct buf text = {0};

    conf_print(c->conf, false, &text);
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    buf_free(&text);
}
