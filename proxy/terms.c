#include "proxy/terms.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "proxy/lexicon.h"

/* The file, or nothing. */
static struct slice file_of(const struct bundle *files, const char *name)
{
    struct slice bytes = {"", 0};

    bundle_get(files, name, &bytes);
    return bytes;
}

bool terms_share_file(const struct terms *a, const struct terms *b, const char *name)
{
    return slice_equals(file_of(a->files, name), file_of(b->files, name));
}

/* ---- trust ---- */

static void name_ca(char out[128], const struct service *s)
{
    snprintf(out, 128, "service.%s.ca", service_name(s));
}

/* Of the service with this name among before's, when its file says the same. */
static struct tls_client *trust_before(const struct terms *t, const struct service *s, const struct terms *before)
{
    char name[128];

    name_ca(name, s);
    for (size_t i = 0; before && i < policy_count(before->policy); i++)
        if (before->service_trust[i] && strcmp(service_name(policy_service(before->policy, i)), service_name(s)) == 0 &&
            terms_share_file(t, before, name))
            return tls_client_ref(before->service_trust[i]);
    return NULL;
}

static bool read_service_trust(struct terms *t, const struct service *s, const struct terms *before, struct fault *why)
{
    struct tls_client **trust = &t->service_trust[service_index(s)];
    struct slice pem;
    char name[128];

    name_ca(name, s);
    if ((*trust = trust_before(t, s, before)))
        return true;
    if (!bundle_get(t->files, name, &pem))
        return fault_set(why, FAULT_MISSING, "%s: not handed over", name);
    if ((*trust = tls_client_new(pem, why)))
        return true;
    fault_prefix(why, "services.%s.ca-file", service_name(s));
    return false;
}

static bool read_system_trust(struct terms *t, const struct terms *before, struct fault *why)
{
    struct slice pem;

    if (!bundle_get(t->files, "ca.system", &pem))
        return fault_set(why, FAULT_MISSING, "no system certificates: install ca-certificates, or set ca-file");
    if (before && before->system_trust && terms_share_file(t, before, "ca.system"))
        t->system_trust = tls_client_ref(before->system_trust);
    else
        t->system_trust = tls_client_new(pem, why);
    return t->system_trust != NULL;
}

static bool read_trust(struct terms *t, const struct terms *before, struct fault *why)
{
    bool needs_system = false;

    if (!(t->service_trust = calloc(policy_count(t->policy) + 1, sizeof(struct tls_client *))))
        abort();
    for (size_t i = 0; i < policy_count(t->policy); i++) {
        const struct service *s = policy_service(t->policy, i);

        needs_system |= service_trusts_system(s);
        if (service_ca_file(s) && !read_service_trust(t, s, before, why))
            return false;
    }
    return !needs_system || read_system_trust(t, before, why);
}

/* ---- marks ---- */

static uint64_t mark_of(const struct terms *t, const struct service *s)
{
    unsigned char digest[32];
    struct buf text = {0};
    char name[128];
    uint64_t mark;

    name_ca(name, s);
    pack_u64(&text, service_mark(s));
    pack_bytes(&text, file_of(t->files, service_ca_file(s) ? name : "ca.system"));
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    buf_free(&text);
    memcpy(&mark, digest, sizeof mark);
    return mark;
}

static void make_marks(struct terms *t)
{
    if (!(t->marks = calloc(policy_count(t->policy) + 1, sizeof *t->marks)))
        abort();
    for (size_t i = 0; i < policy_count(t->policy); i++)
        t->marks[i] = mark_of(t, policy_service(t->policy, i));
}

/* ---- canaries ---- */

static bool read_sift(struct terms *t, const struct terms *before, struct fault *why)
{
    if (!policy_lists_suffix(t->policy))
        return true;
    if (before && before->sift && before->scanner == t->scanner)
        t->sift = sift_ref(before->sift);
    else
        t->sift = sift_over(t->scanner, t->canaries, lexicon_of(t->files).names, why);
    return t->sift != NULL;
}

static bool read_canaries(struct terms *t, const struct terms *before, struct fault *why)
{
    struct registry *canaries;
    struct slice json;

    if (before && terms_share_file(t, before, "canaries.json")) {
        t->scanner = scanner_ref(before->scanner);
        t->canaries = before->canaries;
        return true;
    }
    canaries = bundle_get(t->files, "canaries.json", &json) ? registry_parse(json, "canaries.json", why) : registry_new();
    if (!canaries)
        return false;
    if ((t->scanner = scanner_unpack(canaries, lexicon_of(t->files).scan, why)))
        scanner_own(t->scanner, canaries);
    else
        registry_free(canaries);
    t->canaries = t->scanner ? canaries : NULL;
    return t->scanner != NULL;
}

/* ---- TLS of listeners ---- */

static struct slice listener_file(const struct terms *t, const struct conf_item *l, const char *suffix)
{
    char name[128];

    snprintf(name, sizeof name, "listen.%s.%s", conf_name(l), suffix);
    return file_of(t->files, name);
}

static bool read_doors(struct terms *t, struct fault *why)
{
    size_t n = conf_count(t->conf, "listen");

    if (!(t->doors = calloc(n + 1, sizeof(struct tls_door *))))
        abort();
    for (size_t i = 0; i < n; i++) {
        const struct conf_item *l = conf_item(t->conf, "listen", i);

        if (conf_has(l, "tls.cert") &&
            !(t->doors[i] = tls_door_new(listener_file(t, l, "cert"), listener_file(t, l, "key"),
                                         listener_file(t, l, "client-ca"), why)))
            return false;
    }
    return true;
}

struct tls_door *terms_door(const struct terms *t, const char *listener)
{
    for (size_t i = 0; i < conf_count(t->conf, "listen"); i++)
        if (t->doors[i] && strcmp(conf_name(conf_item(t->conf, "listen", i)), listener) == 0)
            return t->doors[i];
    return NULL;
}

bool terms_ask_alike(const struct terms *a, const struct terms *b, const char *listener)
{
    char name[128];

    snprintf(name, sizeof name, "listen.%s.client-ca", listener);
    return !terms_door(a, listener) == !terms_door(b, listener) && terms_share_file(a, b, name);
}

static void read_modes(struct terms *t)
{
    size_t n = conf_count(t->conf, "listen");

    if (!(t->transparent = calloc(n + 1, sizeof *t->transparent)))
        abort();
    for (size_t i = 0; i < n; i++)
        t->transparent[i] = strcmp(conf_text(conf_item(t->conf, "listen", i), "mode"), "transparent") == 0;
}

bool terms_is_transparent(const struct terms *t, const char *listener)
{
    for (size_t i = 0; i < conf_count(t->conf, "listen"); i++)
        if (t->transparent[i] && strcmp(conf_name(conf_item(t->conf, "listen", i)), listener) == 0)
            return true;
    return false;
}

/* ---- all of it ---- */

struct terms *terms_new(const struct role_set *set, const struct terms *before, struct fault *why)
{
    struct terms *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    *t = (struct terms){.files = set->files, .conf = set->conf, .policy = set->policy};
    t->limits = limits_read(set->conf);
    read_modes(t);
    t->quarantines_leaks = strcmp(conf_text(conf_section(set->conf, "canaries"), "on-leak"), "quarantine") == 0;
    if ((t->issuers = issuers_compile(set->conf, set->files, why)) && read_canaries(t, before, why) &&
        read_sift(t, before, why) && read_trust(t, before, why) && read_doors(t, why)) {
        lexicon_drop(set->files);
        make_marks(t);
        return t;
    }
    terms_free(t);
    return NULL;
}

void terms_free(struct terms *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->service_trust && i < policy_count(t->policy); i++)
        tls_client_free(t->service_trust[i]);
    tls_client_free(t->system_trust);
    for (size_t i = 0; t->doors && i < conf_count(t->conf, "listen"); i++)
        tls_door_free(t->doors[i]);
    free(t->doors);
    free(t->transparent);
    free(t->service_trust);
    free(t->marks);
    sift_free(t->sift);
    scanner_free(t->scanner);
    issuers_free(t->issuers);
    free(t);
}
