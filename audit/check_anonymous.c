/* AN: what the service does for somebody without a credential. */
#include <jansson.h>

#include "audit/check.h"
#include "audit/probes.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- AN-1 ---- */

static void send_protected(struct evidence *e)
{
    for (size_t i = 0; i < baseline_count(e); i++)
        ask_once(e, baseline_at(e, i)->none, (struct probe){.path = baseline_at(e, i)->path, .variant = "without a credential"});
}

static bool has_challenge(const struct turn *x)
{
    struct slice value;

    return turn_field(x, "WWW-Authenticate", 0, &value) || turn_field(x, "Proxy-Authenticate", 0, &value);
}

static void judge_no_answer(const struct baseline *b, const struct turn *x, struct finding *f)
{
    struct buf why = {0};

    turn_describe(x, &why);
    finding_worsen(f, VERDICT_INCONCLUSIVE, "GET %s: %.*s%s", b->path, SLICE_ARG(buf_slice(&why)), x->outcome == OUTCOME_TLS ? " (ca-file, and the name in url)" : "");
    buf_free(&why);
}

static void judge_one_protected(const struct baseline *b, const struct turn *x, struct finding *f)
{
    if (!turn_answered(x) && x->outcome != OUTCOME_CLOSED)
        judge_no_answer(b, x, f);
    else if (turn_is_2xx(x) && (!b->good || turn_alike(x, b->good)))
        finding_worsen(f, VERDICT_OPEN, "GET %s without a credential: %d%s", b->path, x->status, b->good ? ", as with one" : "; no credential exists to test");
    else if (turn_is_2xx(x))
        finding_worsen(f, VERDICT_FAIL, "GET %s without a credential: %d", b->path, x->status);
    else if (b->good && turn_alike(x, b->good))
        finding_worsen(f, VERDICT_INCONCLUSIVE, "GET %s: %d with and without the credential: is it good, and is the path there?", b->path, x->status);
    else if (!b->good && x->status != 401 && x->status != 407)
        finding_worsen(f, VERDICT_INCONCLUSIVE, "GET %s: %d, and there is no credential to compare with", b->path, x->status);
    else
        finding_worsen(f, VERDICT_PASS, "GET %s without a credential: %d%s", b->path, x->status, has_challenge(x) ? " with a challenge" : "");
}

static void judge_protected(const struct evidence *e, struct finding *f)
{
    for (size_t i = 0; i < e->n; i++)
        judge_one_protected(baseline_at(e, i), e->list[i], f);
}

/* ---- AN-2 ---- */

enum { TAG_LISTING, TAG_SEARCH, TAG_DIRECTORY };

/* The root, and where the protected paths lie. */
static void send_directories(struct evidence *e)
{
    ask(e, (struct probe){.path = "/", .tag = TAG_DIRECTORY});
    for (size_t i = 0; i < baseline_count(e); i++) {
        const char *path = baseline_at(e, i)->path, *slash = strrchr(path, '/');

        if (path[0] == '/' && slash > path && !strchr(path, '?'))
            ask(e, (struct probe){.path = words(e, "%.*s", (int)(slash + 1 - path), path), .tag = TAG_DIRECTORY});
    }
}

static void send_listings(struct evidence *e)
{
    static const char *const paths[] = {"/v2/_catalog", "/-/all", "/_all_docs", "/simple/", "/packages", "/api/packages", "/repositories"};

    for (size_t i = 0; i < COUNT(paths); i++)
        ask(e, (struct probe){.path = paths[i], .tag = TAG_LISTING});
    for (size_t i = 0; i < target_count(e->target, "listings"); i++)
        ask(e, (struct probe){.path = target_text_at(e->target, "listings", i), .tag = TAG_LISTING});
    ask(e, (struct probe){.path = "/-/v1/search?text=a&size=5", .tag = TAG_SEARCH});
    send_directories(e);
    ask(e, (struct probe){.path = "/", .method = "PROPFIND", .fields = {"Depth: 0"}, .tag = TAG_LISTING});
}

/* Is it a list of things: JSON with something in it, or a page that lists a directory? An empty search is none, an empty catalogue is. */
static bool is_listing(const struct turn *x, bool may_be_empty)
{
    json_t *json = json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL), *value;
    const char *name;
    static const char *const titles[] = {"Index of ", "Simple index", "Directory listing ", "[To Parent Directory]", "<title>Directory: "};
    bool found = x->status == 207;

    for (size_t i = 0; i < COUNT(titles); i++)
        found = found || text_holds(buf_slice(&x->body), slice_of(titles[i]));
    if (json_is_array(json))
        found = may_be_empty || json_array_size(json) > 0;
    json_object_foreach (json, name, value)
        found = found || (json_is_array(value) && (may_be_empty || json_array_size(value) > 0));
    if (json_is_object(json) && may_be_empty && json_object_size(json) > 1)
        found = true;
    json_decref(json);
    return found;
}

/* Whatever it looks like: a directory's page that links to what is protected in it lists it. */
static bool links_to_protected(const struct evidence *e, const struct turn *x)
{
    static const char *const before[] = {"href=\"", "href='", "href=", "href=\"./"};
    bool found = false;

    for (size_t i = 0; x->tag == TAG_DIRECTORY && i < baseline_count(e); i++) {
        const char *path = baseline_at(e, i)->path, *slash = strrchr(path, '/');

        for (size_t j = 0; slash && slash[1] && j < COUNT(before); j++) {
            struct buf whole = {0}, relative = {0};

            buf_printf(&whole, "%s%s", before[j], path);
            buf_printf(&relative, "%s%s", before[j], slash + 1);
            found = found || text_holds(buf_slice(&x->body), buf_slice(&whole)) || text_holds(buf_slice(&x->body), buf_slice(&relative));
            buf_free(&whole);
            buf_free(&relative);
        }
    }
    return found;
}

static void judge_listings(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no listing is answered without a credential");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (turn_is_2xx(x) && !is_ours(x) && (links_to_protected(e, x) || (!turn_alike(x, nowhere(e)) && is_listing(x, x->tag == TAG_LISTING))))
            finding_worsen(f, VERDICT_FAIL, "%s %s lists what others have: %d", x->method, x->shown, x->status);
    }
}

/* ---- AN-3 ---- */

static void send_upload(struct evidence *e)
{
    struct written w = {0};

    send_git_push(e, WHO_NOBODY);
    if (!write_begin(e, "write", WHO_NOBODY, &w))
        return;
    write_undo(e, &w);
}

static void judge_upload(const struct evidence *e, struct finding *f)
{
    judge_write(e, f, "an upload without a credential");
}

/* ---- AN-4 ---- */

static void send_registration(struct evidence *e)
{
    static const char *const paths[] = {"/register", "/signup", "/api/register", "/api/v1/users"};
    const char *n = nonce_new(e);
    const char *user = words(e, "{\"name\":\"%s\",\"username\":\"%s\",\"password\":\"%s-Aa1\",\"email\":\"%s@example.invalid\",\"type\":\"user\",\"roles\":[],\"date\":\"2026-01-01T00:00:00.000Z\"}",
                             n, n, n, n);
    const struct turn *x =
        ask(e, (struct probe){.method = "PUT", .path = words(e, "/-/user/org.couchdb.user:%s", n), .body = slice_of(user), .body_type = "application/json"});
    bool is_in = turn_is_2xx(x);

    for (size_t i = 0; i < COUNT(paths) && !is_in && e->target->dialect == DIALECT_HTTP; i++)
        is_in = turn_is_2xx(ask(e, (struct probe){.method = "POST", .path = paths[i], .body = slice_of(user), .body_type = "application/json"}));
    if (is_in)
        remove_account(e, n, e->list[e->n - 1]);
}

static void judge_registration(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "nobody can make an account for themselves");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (slice_is(slice_of(x->method), "DELETE") || turn_is_refusal(x))
            continue;
        if (turn_is_2xx(x) && !turn_alike(x, nowhere(e)))
            finding_worsen(f, VERDICT_FAIL, "%s %.40s made an account: %d%s", x->method, x->shown, x->status,
                           turn_holds(x, "token") ? ", and gave it a token" : "");
        else if (!turn_is_2xx(x))
            finding_worsen(f, VERDICT_INCONCLUSIVE, "%s %.40s: %d does not say whether it would", x->method, x->shown, x->status);
    }
}

/* ---- AN-5 ---- */

/* realm="..." of a Bearer challenge. */
static bool find_realm(const struct turn *x, struct slice *realm)
{
    struct slice value;
    ptrdiff_t at;

    if (!turn_field(x, "WWW-Authenticate", 0, &value) || !slice_starts_nocase(value, SLICE("Bearer")) ||
        (at = slice_search(value, SLICE("realm=\""))) < 0)
        return false;
    value = slice_from(value, (size_t)at + 7);
    if ((at = slice_find(value, '"')) < 0)
        return false;
    *realm = slice_cut(value, 0, (size_t)at);
    return slice_search(*realm, SLICE("://")) > 0;
}

static void send_token_endpoint(struct evidence *e)
{
    struct slice realm, path;
    unsigned base;

    if (!find_realm(baseline_at(e, 0)->none, &realm)) {
        evidence_na(e, "no challenge names a token endpoint");
        return;
    }
    if (!target_finds(e->target, realm, &base, &path)) {
        evidence_missing(e, "the token endpoint that the challenge names is not in the manifest (url, also)");
        return;
    }
    ask(e, (struct probe){.base = base, .path = words(e, "%.*s?service=registry&scope=repository:%s:pull,push", SLICE_ARG(path), nonce_new(e))});
}

static void judge_token_endpoint(const struct evidence *e, struct finding *f)
{
    const struct turn *x = e->list[0];
    json_t *json = json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL);
    const char *token = json_string_value(json_object_get(json, "token"));

    if (!token)
        token = json_string_value(json_object_get(json, "access_token"));
    if (turn_is_2xx(x) && token && token_grants(slice_of(token)))
        finding_set(f, VERDICT_FAIL, "the token endpoint gave a token to somebody without a credential");
    else if (turn_is_2xx(x) && !token)
        finding_set(f, VERDICT_INCONCLUSIVE, "the token endpoint answered %d without a token", x->status);
    else
        finding_set(f, VERDICT_PASS, token ? "the token endpoint gave a token that grants nothing" : "the token endpoint refused: %d", x->status);
    json_decref(json);
}

/* ---- AN-6 ---- */

static void send_logins(struct evidence *e)
{
    static const char *const known[] = {"admin:admin", "admin:password", "admin:", "root:", "root:root", "guest:guest", "test:test"};
    size_t n = target_count(e->target, "logins");

    if (is_open(baseline_at(e, 0))) {
        evidence_na(e, "the service asks for no login (AN-1)");
        return;
    }
    for (size_t i = 0; i < (n ? n : COUNT(known)); i++) {
        struct buf coded = {0};
        const char *login = n ? target_text_at(e->target, "logins", i) : known[i];

        text_base64(&coded, slice_of(login));
        ask(e, (struct probe){.path = baseline_at(e, 0)->path, .variant = words(e, "login %.*s", (int)strcspn(login, ":"), login),
                              .fields = {words(e, "Authorization: Basic %.*s", SLICE_ARG(buf_slice(&coded)))}});
        buf_free(&coded);
    }
}

static void judge_logins(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "%zu vendor's logins were refused", e->n);
    for (size_t i = 0; i < e->n; i++)
        if (is_let_in(baseline_at(e, 0), e->list[i]))
            finding_worsen(f, VERDICT_FAIL, "%s opens it", e->list[i]->variant);
}

/* ---- AN-7 ---- */

static void ask_admin(struct evidence *e, const char *text)
{
    struct slice path = slice_of(text);
    unsigned base = 0;

    if (slice_search(path, SLICE("://")) > 0 && e->target->dialect != DIALECT_PROXY && !target_finds(e->target, slice_of(text), &base, &path)) {
        evidence_missing(e, "%.80s is not below url or also", text);
        return;
    }
    ask(e, (struct probe){.base = base, .path = words(e, "%.*s", SLICE_ARG(path)), .variant = base ? "on another port" : NULL});
}

static void send_admin(struct evidence *e)
{
    static const char *const paths[] = {"/metrics",      "/debug/pprof/", "/server-status",    "/nginx_status", "/stub_status", "/basic_status",
                                        "/acng-report.html", "/squid-internal-mgr/menu", "/admin", "/status", "/actuator/env"};
    struct buf authority = {0};

    for (size_t i = 0; i < COUNT(paths); i++)
        ask_admin(e, paths[i]);
    if (e->target->dialect == DIALECT_PROXY) {
        ask_admin(e, "http://tinyproxy.stats/");
        target_authority(e->target, 0, &authority);
        ask_admin(e, words(e, "http://%.*s/squid-internal-mgr/menu", SLICE_ARG(buf_slice(&authority))));
        buf_free(&authority);
    }
    for (size_t i = 0; i < target_count(e->target, "admin"); i++)
        ask_admin(e, target_text_at(e->target, "admin", i));
}

/* A page like the one for a path that nobody has is no page of administration: some answer everything alike. */
static void judge_admin(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no page of administration is answered without a credential");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (turn_is_2xx(x) && !turn_alike(x, nowhere(e)) && !is_ours(x))
            finding_worsen(f, VERDICT_FAIL, "GET %.120s%s: %d without a credential", x->shown, x->variant[0] ? " on another port" : "", x->status);
    }
}

/* ---- AN-8 ---- */

static void send_resource_metadata(struct evidence *e)
{
    struct slice value;

    if (!turn_field(baseline_at(e, 0)->none, "WWW-Authenticate", 0, &value) || !slice_starts_nocase(value, SLICE("Bearer")))
        evidence_na(e, "the service asks for no bearer token");
    else
        ask(e, (struct probe){.path = "/.well-known/oauth-protected-resource"});
}

static void judge_resource_metadata(const struct evidence *e, struct finding *f)
{
    const struct turn *x = e->list[0];
    json_t *json = json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL);
    const char *server = json_string_value(json_array_get(json_object_get(json, "authorization_servers"), 0));

    if (turn_is_2xx(x) && server && !is_declared(e->target, host_of_url(slice_of(server))))
        finding_set(f, VERDICT_WEAK, "it sends clients to another host for tokens: %.100s", server);
    else if (turn_is_2xx(x) && json_string_value(json_object_get(json, "resource")))
        finding_set(f, VERDICT_PASS, "it says which resource it is");
    else
        finding_set(f, VERDICT_WEAK, "it does not say which resource it is, and whose tokens it takes: %d", x->status);
    json_decref(json);
}

static const struct check checks[] = {
    {"AN-1", SEVERITY_CRITICAL, 0, send_protected, judge_protected, "Does it demand a credential?", "RFC 9110 11.6.1, RFC 6750 3",
     "Demand a credential for every path, and answer 401 with WWW-Authenticate before anything is looked up.",
     "Inject a credential of the gateway's (credential), so that only sandboxes with a leave token are answered; or accept it with a date."},
    {"AN-2", SEVERITY_HIGH, 0, send_listings, judge_listings, "Does it list what others have?", "",
     "Switch listings, search and browsing off, or demand a credential for them.", "deny: [\"GET /v2/_catalog\", \"GET /-/all\"]: listings out of the rules."},
    {"AN-3", SEVERITY_CRITICAL, RUN_WRITES, send_upload, judge_upload, "Can anybody upload?", "RFC 9110 9.3.4",
     "Let nobody write without a credential that is meant for writing.", "allow: only GET and HEAD; body: 0."},
    {"AN-4", SEVERITY_CRITICAL, RUN_WRITES, send_registration, judge_registration, "Can anybody make an account?", "",
     "Switch self-registration off (verdaccio: max_users: -1).", "deny: the registration path; client-credentials: refuse, so that a made account's token goes nowhere."},
    {"AN-5", SEVERITY_CRITICAL, 0, send_token_endpoint, judge_token_endpoint, "Does the token endpoint give tokens to anybody?", "CVE-2026-42018",
     "Give a token without access entries, or none, to who has no credential.", "Do not list the token endpoint's host; use exchange."},
    {"AN-6", SEVERITY_HIGH, RUN_NAMED, send_logins, judge_logins, "Do a vendor's default logins work?", "",
     "Change or remove the logins that it came with.", "client-credentials: refuse (the default)."},
    {"AN-7", SEVERITY_HIGH, 0, send_admin, judge_admin, "Are pages of administration open?", "",
     "Bind metrics, profiling and reports to another address, or demand a credential.", "allow: the paths that clients need, and nothing else."},
    {"AN-8", SEVERITY_INFO, 0, send_resource_metadata, judge_resource_metadata, "Does it say which resource it is?", "RFC 9728",
     "Publish /.well-known/oauth-protected-resource.", ""},
};

const struct check_group check_anonymous = {"AN", "anonymous access", checks, COUNT(checks)};
