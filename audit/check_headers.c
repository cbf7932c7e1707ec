/* NT: fields that say where a request comes from or who it is, which anybody can write. */
#include "audit/check.h"
#include "audit/probes.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { TAG_PLAIN = 1000 /* beside the number of the baseline */ };

/* One field on a request of nobody's, for every path that needs a credential. */
static void send_field(struct evidence *e, const char *field)
{
    for (size_t i = 0; i < baseline_count(e); i++)
        ask(e, (struct probe){.path = baseline_at(e, i)->path, .fields = {field}, .variant = field, .tag = (int)i});
}

/*
 * All of them in one request, and each by itself only where that changes the answer, be it into another refusal: several at once may
 * be what is refused.
 */
static void send_fields(struct evidence *e, const char *const *fields, size_t n)
{
    for (size_t i = 0; i < baseline_count(e); i++) {
        const struct baseline *b = baseline_at(e, i);
        struct probe all = {.path = b->path, .variant = "all of these fields", .tag = (int)i};
        const struct turn *x;

        memcpy(all.fields, fields, n * sizeof *fields);
        x = ask(e, all);
        for (size_t j = 0; j < n && !turn_alike(x, baseline_none(e, b)); j++)
            ask(e, (struct probe){.path = b->path, .fields = {fields[j]}, .variant = fields[j], .tag = (int)i});
    }
}

/* As nobody is answered without it, so with it. */
static void judge_fields(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no field of %zu changes the answer", e->n);
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];
        const struct baseline *b = baseline_at(e, (size_t)x->tag);
        const struct turn *none = baseline_none(e, b);

        if (turn_alike(x, none) || (turn_is_refusal(x) && turn_is_refusal(none)))
            continue;
        if (is_let_in(b, x))
            finding_worsen(f, VERDICT_FAIL, "\"%s\" opens %s: %d instead of %d", x->variant, b->path, x->status, none->status);
        else if (turn_answered(x) && turn_answered(none))
            finding_worsen(f, VERDICT_WEAK, "\"%s\" changes the answer for %s: %d instead of %d", x->variant, b->path, x->status, none->status);
        else
            finding_worsen(f, VERDICT_INCONCLUSIVE, "\"%s\": no answer to compare", x->variant);
    }
}

static void send_addresses(struct evidence *e)
{
    static const char *const names[] = {"X-Forwarded-For", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP"};
    static const char *const addresses[] = {"127.0.0.1", "10.1.2.3", "192.168.1.1"};

    for (size_t j = 0; j < COUNT(addresses); j++) {
        const char *fields[COUNT(names)];
        size_t n = j == 0 ? COUNT(names) : 2;

        for (size_t i = 0; i < n; i++)
            fields[i] = words(e, "%s: %s", names[i], addresses[j]);
        send_fields(e, fields, n);
    }
}

static void send_forwarded(struct evidence *e)
{
    send_field(e, "Forwarded: for=127.0.0.1;host=localhost;proto=https");
    send_field(e, "Forwarded: for=10.1.2.3");
}

static void send_users(struct evidence *e)
{
    static const char *const fields[] = {"Remote-User: admin", "X-Remote-User: admin", "X-WEBAUTH-USER: admin", "X-Forwarded-User: admin",
                                         "X-Forwarded-Email: admin@example.invalid", "X-Forwarded-Groups: admin", "X-Auth-Request-User: admin"};

    send_fields(e, fields, COUNT(fields));
}

static void send_certificates(struct evidence *e)
{
    static const char *const fields[] = {"Client-Cert: :MIIB:", "X-SSL-Client-Verify: SUCCESS", "X-Client-DN: CN=admin", "X-SSL-Client-S-DN: CN=admin"};

    send_fields(e, fields, COUNT(fields));
}

static void send_stable(struct evidence *e)
{
    static const char *const fields[] = {"Via: 1.1 exeat-audit", "X-Forwarded-Proto: https", "Upgrade-Insecure-Requests: 1"};

    send_fields(e, fields, COUNT(fields));
}

/* ---- NT-3 ---- */

/* As a host: behind // in a body or a field, or as the host of Location, Link, realm. */
static bool names_host(const struct turn *x, const char *nonce)
{
    struct buf link = {0};
    bool found;

    buf_printf(&link, "//%s.example", nonce);
    found = text_holds(buf_slice(&x->head), buf_slice(&link)) || text_holds(buf_slice(&x->body), buf_slice(&link));
    buf_free(&link);
    return found;
}

static bool needs_each(const struct turn *all, const char *nonce)
{
    return !turn_answered(all) || names_host(all, nonce) || all->status / 100 == 4;
}

static void send_names_on(struct evidence *e, const char *method, const char *path, enum who who)
{
    static const char *const names[] = {"X-Forwarded-Host", "X-Outside-Url", "X-Host"};
    const char *nonce = nonce_new(e), *host = words(e, "%s.example", nonce);
    struct probe all = {.method = method, .path = path, .who = who, .variant = "all of these fields", .fields = {"Accept: application/json, */*"}};
    const struct turn *x;

    /* All in one; which of them it was is asked only when it was one, or when so many are refused. */
    for (size_t i = 0; i < COUNT(names); i++)
        all.fields[1 + i] = words(e, "%s: %s%s", names[i], i == 1 ? "http://" : "", host);
    all.fields[1 + COUNT(names)] = words(e, "Forwarded: host=%s", host);
    x = ask(e, all);
    for (size_t i = 0; i < COUNT(names) && needs_each(x, nonce); i++)
        ask(e, (struct probe){.method = method, .path = path, .who = who, .variant = names[i],
                              .fields = {"Accept: application/json, */*", words(e, "%s: %s%s", names[i], i == 1 ? "http://" : "", host)}});
    if (needs_each(x, nonce))
        ask(e, (struct probe){.method = method, .path = path, .who = who, .variant = "Forwarded", .fields = {"Accept: application/json, */*", words(e, "Forwarded: host=%s", host)}});
    if (path[0] == '/')
        ask(e, (struct probe){.method = method, .path = path, .who = who, .host = host, .variant = "Host", .fields = {"Accept: application/json, */*"}});
}

static void send_names(struct evidence *e)
{
    struct written w = {0};
    const char *path;

    for (size_t i = 0; i < baseline_count(e) && i < 2; i++)
        send_names_on(e, "GET", baseline_at(e, i)->path, good_or_nobody(e));
    send_names_on(e, "GET", baseline_at(e, 0)->path, WHO_NOBODY);
    if (target_text(e->target, "fetch") && (path = fetched(e, nonce_new(e))))
        send_names_on(e, "GET", path, good_or_nobody(e));
    /* A registry says where to upload; what is begun there is cancelled. */
    if (e->target->dialect == DIALECT_OCI && e->audit_writes && write_begin(e, "write", good_or_nobody(e), &w)) {
        write_undo(e, &w);
        if (turn_is_2xx(w.answer))
            send_names_on(e, "POST", words(e, "/v2/%s/blobs/uploads/", w.name), good_or_nobody(e));
    }
}

static void judge_names(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "links, Location and realm name the service's own host whatever the request says");
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < e->n_nonces; j++)
            if (names_host(e->list[i], e->nonces[j]) && !is_ours(e->list[i]))
                finding_worsen(f, VERDICT_FAIL, "%s %.80s: the host that %s names stands in the answer's links", e->list[i]->method, e->list[i]->shown, e->list[i]->variant);
}

/* ---- NT-5 ---- */

static void send_rewrites(struct evidence *e)
{
    static const char *const names[] = {"X-Original-URL", "X-Rewrite-URL", "X-Original-URI"};
    const char *path = words(e, "/%s", nonce_new(e));

    ask(e, (struct probe){.path = path, .variant = "plain", .tag = TAG_PLAIN});
    for (size_t i = 0; i < baseline_count(e); i++)
        for (size_t j = 0; j < COUNT(names); j++)
            ask(e, (struct probe){.path = path, .variant = names[j], .fields = {words(e, "%s: %s", names[j], baseline_at(e, i)->path)}, .tag = (int)i});
}

static void judge_rewrites(const struct evidence *e, struct finding *f)
{
    const struct turn *plain = e->list[0];

    finding_set(f, VERDICT_PASS, "no field chooses another path");
    for (size_t i = 1; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (turn_alike(x, plain) || (turn_is_refusal(x) && turn_is_refusal(plain)))
            continue;
        finding_worsen(f, turn_is_2xx(x) ? VERDICT_FAIL : VERDICT_WEAK, "%s serves another path: %d instead of %d", x->variant, x->status, plain->status);
    }
}

/* ---- NT-7 ---- */

static void send_places(struct evidence *e)
{
    size_t n = target_count(e->target, "sources");

    if (n < 2) {
        evidence_missing(e, "the manifest has not two addresses to ask from (sources)");
        return;
    }
    for (size_t i = 0; i < baseline_count(e); i++)
        for (size_t j = 0; j < n; j++)
            ask(e, (struct probe){.path = baseline_at(e, i)->path, .source = target_text_at(e->target, "sources", j), .variant = words(e, "from %s", target_text_at(e->target, "sources", j)), .tag = (int)i});
}

static void judge_places(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "nobody is answered alike from every address");
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = i + 1; j < e->n; j++) {
            const struct turn *a = e->list[i], *b = e->list[j];

            if (a->tag != b->tag || turn_alike(a, b))
                continue;
            if (turn_is_2xx(a) != turn_is_2xx(b))
                finding_worsen(f, VERDICT_FAIL, "%s: %d %s, %d %s: the address alone opens it", a->shown, a->status, a->variant, b->status, b->variant);
            else
                finding_worsen(f, VERDICT_INCONCLUSIVE, "%s: the answers differ by address", a->shown);
        }
}

/* ---- NT-8 ---- */

enum { TAG_QUERY = 1, TAG_QUERY_PLAIN };

static void send_override(struct evidence *e)
{
    const char *path = words(e, "/%s", nonce_new(e));

    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "plain GET"});
    ask(e, (struct probe){.path = words(e, "%s?_exeat_=PUT", path), .who = good_or_nobody(e), .variant = "a query that overrides nothing", .tag = TAG_QUERY_PLAIN});
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "X-HTTP-Method-Override", .fields = {"X-HTTP-Method-Override: PUT"}});
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "X-Method-Override", .fields = {"X-Method-Override: PUT"}});
    ask(e, (struct probe){.path = words(e, "%s?_method=PUT", path), .who = good_or_nobody(e), .variant = "_method", .tag = TAG_QUERY});
}

/* With a query it is held against any other query: some services refuse them all. */
static void judge_override(const struct evidence *e, struct finding *f)
{
    size_t at = 0;
    const struct turn *query = tagged(e, TAG_QUERY_PLAIN, &at);

    finding_set(f, VERDICT_PASS, "a GET stays a GET");
    for (size_t i = 1; i < e->n; i++) {
        const struct turn *x = e->list[i], *plain = x->tag == TAG_QUERY ? query : e->list[0];

        if (x == query || turn_alike(x, plain) || (turn_is_refusal(x) && turn_is_refusal(plain)))
            continue;
        finding_worsen(f, turn_is_2xx(x) ? VERDICT_FAIL : VERDICT_WEAK, "%s: %d instead of %d", x->variant, x->status, plain->status);
    }
}

#define STRIP "The gateway drops what only a gateway may say (Forwarded, X-Forwarded-* and their kin); forward-fields: what else may pass."

static const struct check checks[] = {
    {"NT-1", SEVERITY_HIGH, 0, send_addresses, judge_fields, "Does a claimed address open it?", "RFC 9700 4.13",
     "Believe X-Forwarded-For from named proxies alone (nginx: set_real_ip_from), and never grant by address.", STRIP},
    {"NT-2", SEVERITY_MEDIUM, 0, send_forwarded, judge_fields, "Does Forwarded open it?", "RFC 7239 8.1", "Believe Forwarded from named proxies alone.", STRIP},
    {"NT-3", SEVERITY_MEDIUM, 0, send_names, judge_names, "Does it take its own name from the request?", "RFC 9110 7.2",
     "Set its public name (verdaccio: VERDACCIO_PUBLIC_URL; registry: http.host, relativeurls).", "The gateway sends the listed host as Host, and drops X-Forwarded-Host."},
    {"NT-4", SEVERITY_CRITICAL, 0, send_users, judge_fields, "Does a claimed user open it?", "RFC 9700 4.13", "Take the user from the credential; drop Remote-User and its like at the edge.", STRIP},
    {"NT-5", SEVERITY_HIGH, 0, send_rewrites, judge_rewrites, "Does a field choose another path?", "", "Do not route by X-Original-URL and its like.", STRIP},
    {"NT-6", SEVERITY_HIGH, 0, send_certificates, judge_fields, "Does a claimed certificate open it?", "RFC 9440", "Take Client-Cert only from the proxy that verified it, which drops the client's own.", STRIP},
    {"NT-7", SEVERITY_HIGH, 0, send_places, judge_places, "Does an address alone open it?", "NIST SP 800-207", "Demand a credential from every address.", "Inject a credential; then the gateway's address is worth nothing by itself."},
    {"NT-8", SEVERITY_MEDIUM, 0, send_override, judge_override, "Can a GET be made a PUT?", "", "Switch method overrides off.", STRIP},
    {"NT-9", SEVERITY_LOW, 0, send_stable, judge_fields, "Do other fields change what is allowed?", "", "Decide by the credential alone.", STRIP},
};

const struct check_group check_headers = {"NT", "ambient network trust", checks, COUNT(checks)};
