/* Owns the services and the index that finds one by host and port. Decides nothing: see authorize.c. */
#include "authz/policy.h"

#include <stdlib.h>
#include <string.h>

#include "authz/field.h"
#include "authz/service.h"
#include "base/table.h"
#include "base/text.h"

/* Longer labels below a suffix are a way to carry data out by names. */
enum { SUFFIX_LABEL_MAX = 40 };

struct policy {
    struct service **services;
    size_t count;
    struct table *index; /* host or "*.suffix", and port -> struct service */
    bool has_suffixes;
    struct texts hosts; /* all of them, sorted, each once */
    uint64_t generation;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct key {
    char bytes[2 + NAME_MAX_LEN + sizeof(uint16_t)];
};

/* What stands for (prefix host, port) in the index. */
static struct slice key_make(struct key *key, const char *prefix, const char *host, uint16_t port)
{
    size_t front = strlen(prefix), len = strlen(host);

    memcpy(key->bytes, &port, sizeof port);
    memcpy(key->bytes + sizeof port, prefix, front);
    memcpy(key->bytes + sizeof port + front, host, len);
    return slice_make(key->bytes, sizeof port + front + len);
}

static const struct service *look_up(const struct policy *p, const char *prefix, const char *host, uint16_t port)
{
    struct key key;

    return table_get(p->index, key_make(&key, prefix, host, port));
}

/* The nearest suffix above host: for a.b.c first "*.b.c", then "*.c". */
static const struct service *find_suffix(const struct policy *p, const char *host, uint16_t port)
{
    const struct service *s = NULL;
    const char *dot;

    for (const char *label = host; !s && (dot = strchr(label, '.')); label = dot + 1) {
        if (dot - label > SUFFIX_LABEL_MAX)
            return NULL;
        s = look_up(p, "*", dot, port);
    }
    return s;
}

const struct service *policy_find(const struct policy *p, const char *host, uint16_t port)
{
    const struct service *s = look_up(p, "", host, port);

    return s || !p->has_suffixes ? s : find_suffix(p, host, port);
}

/* No service lists port 0 (authz/service.c): it stands for whatever port. */
enum { ANY_PORT = 0 };

const struct service *policy_find_host(const struct policy *p, const char *host)
{
    return policy_find(p, host, ANY_PORT);
}

/* What is done with each host and port; entry i of the hosts that item, the configuration of s, lists. */
typedef bool host_visit(struct policy *p, struct service *s, int i, uint16_t port, const struct conf_item *item,
                        struct fault *why);

static bool index_host(struct policy *p, struct service *s, int i, uint16_t port, const struct conf_item *item,
                       struct fault *why)
{
    const char *host = s->hosts.list[i];
    struct key key;
    const struct service *other = table_put(p->index, key_make(&key, "", host, port), s);

    if (other)
        return conf_refuse(item, "hosts", i, why, "service %s lists %s port %u too", other->name, host, port);
    p->has_suffixes |= host[0] == '*';
    if (!look_up(p, "", host, ANY_PORT))
        table_put(p->index, key_make(&key, "", host, ANY_PORT), s);
    return true;
}

/* A suffix below the suffix of another service: which of the two is meant would be a guess. */
static bool check_suffix(struct policy *p, struct service *s, int i, uint16_t port, const struct conf_item *item,
                         struct fault *why)
{
    const char *host = s->hosts.list[i];
    const struct service *other;

    if (host[0] != '*')
        return true;
    other = find_suffix(p, host + 2, port);
    if (other && other != s)
        return conf_refuse(item, "hosts", i, why, "service %s lists a suffix above %s, port %u", other->name, host,
                           port);
    return true;
}

/* Each host of each service with each of its ports. */
static bool each_host(struct policy *p, const struct conf *c, host_visit *visit, struct fault *why)
{
    for (size_t k = 0; k < p->count; k++) {
        struct service *s = p->services[k];
        const struct conf_item *item = conf_item(c, "services", k);

        for (size_t i = 0; i < s->hosts.count; i++) {
            for (size_t n = 0; n < s->tls.count; n++)
                if (!visit(p, s, (int)i, s->tls.list[n], item, why))
                    return false;
            for (size_t n = 0; n < s->plain.count; n++)
                if (!visit(p, s, (int)i, s->plain.list[n], item, why))
                    return false;
        }
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void collect_hosts(struct policy *p)
{
    struct texts all = {0};

    for (size_t k = 0; k < p->count; k++)
        for (size_t i = 0; i < p->services[k]->hosts.count; i++)
            texts_add(&all, p->services[k]->hosts.list[i]);
    if (all.count)
        qsort(all.list, all.count, sizeof *all.list, by_text);
    for (size_t i = 0; i < all.count; i++)
        if (i == 0 || strcmp(all.list[i - 1], all.list[i]) != 0)
            texts_add(&p->hosts, text_copy(slice_of(all.list[i])));
    free(all.list);
}

struct policy *policy_compile(const struct conf *c, struct fault *why)
{
    struct policy *p = must(calloc(1, sizeof *p));
    size_t n = conf_count(c, "services");

    p->index = table_new();
    p->services = must(calloc(n + 1, sizeof *p->services));
    for (; p->count < n; p->count++)
        if (!(p->services[p->count] = service_compile(conf_item(c, "services", p->count), p->count, why)))
            goto out;
    if (!each_host(p, c, index_host, why) || !each_host(p, c, check_suffix, why))
        goto out;
    collect_hosts(p);
    return p;
out:
    policy_free(p);
    return NULL;
}

void policy_free(struct policy *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        service_free(p->services[i]);
    free(p->services);
    table_free(p->index);
    texts_free(&p->hosts);
    free(p);
}

uint64_t policy_generation(const struct policy *p)
{
    return p->generation;
}

void policy_set_generation(struct policy *p, uint64_t generation)
{
    p->generation = generation;
}

void policy_set_attested(struct policy *p, size_t index, const struct attested *a)
{
    p->services[index]->attested = *a;
}

void policy_use_revocations(struct policy *p, const struct revocations *r)
{
    for (size_t i = 0; i < p->count; i++) {
        p->services[i]->revocations = r;
        p->services[i]->closed = revocation_service_mark(slice_of(p->services[i]->name));
    }
}

const char *const *policy_hosts(const struct policy *p, size_t *n)
{
    *n = p->hosts.count;
    return (const char *const *)p->hosts.list;
}

size_t policy_count(const struct policy *p)
{
    return p->count;
}

const struct service *policy_service(const struct policy *p, size_t i)
{
    return p->services[i];
}

bool policy_lists_suffix(const struct policy *p)
{
    for (size_t i = 0; i < policy_count(p); i++)
        for (size_t h = 0; h < service_host_count(policy_service(p, i)); h++)
            if (service_host(policy_service(p, i), h)[0] == '*')
                return true;
    return false;
}

const char *service_name(const struct service *s)
{
    return s->name;
}

size_t service_index(const struct service *s)
{
    return s->index;
}

uint64_t service_mark(const struct service *s)
{
    return s->mark;
}

bool service_is_tls_port(const struct service *s, uint16_t port)
{
    return ports_hold(&s->tls, port);
}

uint16_t service_tls_port(const struct service *s, size_t i)
{
    return i < s->tls.count ? s->tls.list[i] : 0;
}

bool service_is_plain_port(const struct service *s, uint16_t port)
{
    return ports_hold(&s->plain, port);
}

uint16_t service_plain_port(const struct service *s, size_t i)
{
    return i < s->plain.count ? s->plain.list[i] : 0;
}

size_t service_host_count(const struct service *s)
{
    return s->hosts.count;
}

const char *service_host(const struct service *s, size_t i)
{
    return s->hosts.list[i];
}

bool service_lists_name(const struct service *s, const char *host)
{
    for (size_t i = 0; i < s->hosts.count; i++)
        if (strcmp(s->hosts.list[i], host) == 0)
            return true;
    return false;
}

bool service_is_below_suffix(const struct service *s, const char *host)
{
    return !service_lists_name(s, host);
}

size_t service_address_count(const struct service *s)
{
    return s->addresses.count;
}

const char *service_address(const struct service *s, size_t i)
{
    return s->addresses.list[i];
}

bool service_allows_private(const struct service *s)
{
    return s->allow_private;
}

const char *service_ca_file(const struct service *s)
{
    return s->ca_file;
}

bool service_trusts_system(const struct service *s)
{
    return s->tls.count && !service_ca_file(s);
}

const char *service_scope(const struct service *s)
{
    return s->scope;
}

uint64_t service_body_limit(const struct service *s)
{
    return s->body;
}

uint64_t service_target_limit(const struct service *s)
{
    return s->target;
}

bool service_allows_unscannable(const struct service *s)
{
    return s->unscannable;
}

bool service_allows_websocket(const struct service *s)
{
    return s->websocket;
}

bool service_strips_credentials(const struct service *s)
{
    return s->credentials == CREDENTIALS_STRIP;
}

bool service_allows_credentials(const struct service *s)
{
    return s->credentials == CREDENTIALS_ALLOW;
}

const char *service_audit(const struct service *s)
{
    return s->audit;
}

const struct attested *service_attested(const struct service *s)
{
    return &s->attested;
}

bool service_is_open(const struct service *s, int64_t now_s)
{
    return !service_is_shut(s) && (service_is_waived(s) || attested_is_open(&s->attested, now_s));
}

bool service_is_shut(const struct service *s)
{
    return s->revocations && revocations_closes(s->revocations, s->closed);
}

int64_t service_audit_max_age_s(const struct service *s)
{
    return s->audit_max_age_ms / 1000;
}

const unsigned char *service_digest(const struct service *s)
{
    return s->digest;
}

const struct acceptance *service_acceptance(const struct service *s, size_t i)
{
    return i < s->accepts.count ? &s->accepts.list[i] : NULL;
}

bool service_is_waived(const struct service *s)
{
    return s->audit[0] != '\0';
}

bool service_observes(const struct service *s)
{
    return s->observe;
}

const char *service_own_field(const struct service *s)
{
    return s->own_field;
}

bool service_is_own_place(const struct policy *p, const struct service *s, bool is_tls, const char *host, uint16_t port)
{
    return policy_find(p, host, port) == s && (is_tls ? service_is_tls_port(s, port) : service_is_plain_port(s, port));
}

bool service_sends_on_to(const struct policy *p, const struct service *s, bool is_tls, const char *host, uint16_t port, bool was_plain)
{
    if ((is_tls || was_plain) && service_is_own_place(p, s, is_tls, host, port))
        return true;
    for (size_t i = 0; i < s->n_destinations; i++)
        if (destination_holds(&s->destinations[i], is_tls, slice_of(host), port, was_plain))
            return true;
    return false;
}

bool service_enforces_edges(const struct service *s)
{
    return s->enforces_edges;
}

const struct destination *service_destination(const struct service *s, size_t i)
{
    return i < s->n_destinations ? &s->destinations[i] : NULL;
}

bool service_reads_answers(const struct service *s)
{
    return (s->own_field || s->enforces_edges) && !s->unscannable;
}

bool service_asserts_once(const struct service *s)
{
    return s->asserts_once;
}

static bool is_own(const struct service *s, struct slice name)
{
    return s->own_field && field_is_same(name, slice_of(s->own_field));
}

bool service_strips_ranges(const struct service *s)
{
    return s->strips_ranges;
}

bool service_is_credential(const struct service *s, struct slice name)
{
    return field_meaning(name) & FIELD_CREDENTIAL || is_own(s, name);
}

bool service_forwards_field(const struct service *s, struct slice name)
{
    unsigned meaning = field_meaning(name);

    if (meaning & FIELD_HOP || is_own(s, name))
        return false;
    if (meaning & FIELD_CREDENTIAL)
        return s->credentials == CREDENTIALS_ALLOW;
    if (service_reads_answers(s) && slice_is_nocase(name, "accept-encoding"))
        return false;
    if (s->strips_ranges && (slice_is_nocase(name, "range") || slice_is_nocase(name, "if-range")))
        return false; /* RFC 9110 14.2: whoever gets it may ignore it */
    if (slice_equals_nocase(name, SLICE("Host")) || slice_equals_nocase(name, SLICE("Content-Length")))
        return true;
    for (size_t i = 0; i < s->n_fields; i++)
        if (slice_equals_nocase(name, s->fields[i]))
            return true;
    return s->n_fields == 0 && !(meaning & FIELD_AMBIENT);
}
