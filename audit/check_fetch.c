/* FU: does it fetch what a parameter, or an answer of its upstream's, names? */
#include <jansson.h>

#include "audit/check.h"
#include "audit/probes.h"
#include "audit/state.h"
#include "base/file.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Fetched is weak, fetched with a credential of the service's fails. */
static void judge_fetched(const struct evidence *e, struct finding *f, const char *what)
{
    char who[120];

    finding_set(f, VERDICT_PASS, "%s is not followed (%zu tried)", what, e->n);
    for (size_t i = 0; i < e->n_hits; i++) {
        const char *field = foreign_credential(e->target, &e->hits[i]);

        if (field)
            finding_worsen(f, VERDICT_FAIL, "%s was fetched from %s with a credential of the service's own (%s)", what, describe_hit(&e->hits[i], who), field);
        else
            finding_worsen(f, VERDICT_WEAK, "%s was fetched from %s, without a credential", what, describe_hit(&e->hits[i], who));
    }
}

/* Fetched at all fails. */
static void judge_called(const struct evidence *e, struct finding *f, const char *what)
{
    char who[120];

    judge_fetched(e, f, what);
    if (e->n_hits && f->verdict == VERDICT_WEAK)
        finding_set(f, VERDICT_FAIL, "%s was fetched from %s", what, describe_hit(&e->hits[0], who));
}

/* ---- FU-1 ---- */

static const char *const parameters[] = {"url", "u", "uri", "remote", "redirect", "callback", "src", "image", "feed", "dest"};
static const char *const fetchers[] = {"/", "/img", "/image", "/proxy", "/fetch", "/preview", "/download"};

static const char *with_parameters(struct evidence *e, const char *path, const char *value)
{
    struct buf query = {0};
    const char *out;

    for (size_t i = 0; i < COUNT(parameters); i++)
        buf_printf(&query, "%c%s=%s", i ? '&' : '?', parameters[i], value);
    out = words(e, "%s%.*s", path, SLICE_ARG(buf_slice(&query)));
    buf_free(&query);
    return out;
}

static void send_parameters(struct evidence *e)
{
    const char *host = outside_host(e), *inside = target_listener(e->target, "inside");

    for (size_t i = 0; host && i < COUNT(fetchers) + target_count(e->target, "fetchers"); i++) {
        const char *path = i < COUNT(fetchers) ? fetchers[i] : target_text_at(e->target, "fetchers", i - COUNT(fetchers));

        const struct turn *x = ask(e, (struct probe){.path = with_parameters(e, path, words(e, "http://%s/%s", host, nonce_new(e))), .who = good_or_nobody(e), .variant = "parameters name the listener"});

        if (inside && !evidence_is_hit(e) && !(x->status == 404 && turn_alike(x, nowhere(e)))) /* where there is nothing, nothing fetches */
            ask(e, (struct probe){.path = with_parameters(e, path, words(e, "http://%s/%s", inside, nonce_new(e))), .who = good_or_nobody(e), .variant = "parameters name the listener, inside"});
    }
}

static void judge_parameters(const struct evidence *e, struct finding *f)
{
    judge_called(e, f, "a URL in a parameter");
}

/* ---- FU-2 ---- */

static const char *tarball_path(struct evidence *e, const struct turn *x)
{
    json_t *json = json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL);
    const char *url = json_string_value(json_object_get(json_object_get(json_object_get(json_object_get(json, "versions"), "1.0.0"), "dist"), "tarball"));
    const char *path = NULL, *at = url ? strstr(url, "://") : NULL;

    if (at && (at = strchr(at + 3, '/')))
        path = words(e, "%s", at);
    json_decref(json);
    return path;
}

/* The upstream's metadata says that the content is at the listener; then the content is asked for, as the service says. */
static void fetch_package(struct evidence *e, const char *host)
{
    const char *n = nonce_new(e), *path = fetched(e, n), *tarball;
    const struct turn *x;

    if (!path)
        return;
    upstream_acts(e, n, ACT_PACKAGE, words(e, "http://%s/%s/-/%s-1.0.0.tgz", host, n, n));
    x = ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .fields = {"Accept: application/json"}, .variant = "a package whose tarball is at the listener"});
    if (!(tarball = tarball_path(e, x)))
        tarball = words(e, "%s/-/%s-1.0.0.tgz", path, strrchr(path, '/') + 1);
    ask(e, (struct probe){.path = tarball, .is_bare = true, .who = good_or_nobody(e), .variant = "its tarball, through the service"});
}

static void send_packages(struct evidence *e)
{
    const char *outside = outside_host(e), *inside = target_listener(e->target, "inside");

    if (e->target->dialect != DIALECT_NPM) {
        evidence_na(e, "the kinds of metadata that it serves are not known (kind in the manifest)");
        return;
    }
    if (outside)
        fetch_package(e, outside);
    if (outside && inside)
        fetch_package(e, inside);
}

static void judge_packages(const struct evidence *e, struct finding *f)
{
    judge_fetched(e, f, "content that metadata put elsewhere");
}

/* ---- FU-3 ---- */

/* "POST /hooks {...{url}...}" of the manifest's, and what such things are often called. */
static void send_hook(struct evidence *e, const char *text, const char *url)
{
    struct slice rest = slice_of(text), method, path;
    const struct turn *x;
    struct slice value;

    if (!strstr(text, "{url}") || !slice_next(&rest, ' ', &method) || !slice_next(&rest, ' ', &path) || rest.len == 0) {
        evidence_missing(e, "hooks: expected METHOD, path and content with {url} in it, found \"%.80s\"", text);
        return;
    }
    x = ask(e, (struct probe){.method = words(e, "%.*s", SLICE_ARG(method)), .path = words(e, "%.*s", SLICE_ARG(path)), .who = good_or_nobody(e), .variant = "its URL names the listener",
                              .body = slice_of(fill_in(e, rest, "{url}", url)), .body_type = rest.ptr[0] == '{' ? "application/json" : "application/x-www-form-urlencoded"});
    if (!turn_is_2xx(x) || turn_alike(x, nowhere(e)))
        return;
    if (turn_field(x, "Location", 0, &value) && value.len && value.ptr[0] == '/')
        ask(e, (struct probe){.method = "DELETE", .path = words(e, "%.*s", SLICE_ARG(value)), .who = good_or_nobody(e), .variant = "clean up"});
    else
        evidence_left(e, "what %.*s made", SLICE_ARG(path));
}

static void send_hooks(struct evidence *e)
{
    static const char *const known[] = {"POST /hooks {\"url\":\"{url}\"}", "POST /webhooks {\"url\":\"{url}\"}", "POST /api/webhooks {\"target_url\":\"{url}\",\"url\":\"{url}\"}",
                                        "POST /api/v1/repos/migrate {\"clone_addr\":\"{url}\",\"repo_name\":\"exeat-audit\"}", "POST /api/import {\"url\":\"{url}\",\"remote\":\"{url}\"}",
                                        "POST /mirror url={url}&remote={url}"};
    const char *host = outside_host(e), *inside = target_listener(e->target, "inside");
    size_t n = target_count(e->target, "hooks");

    for (size_t i = 0; host && i < COUNT(known) + n; i++) {
        const char *text = i < COUNT(known) ? known[i] : target_text_at(e->target, "hooks", i - COUNT(known));

        send_hook(e, text, words(e, "http://%s/%s", host, nonce_new(e)));
        if (inside && i >= COUNT(known) && !evidence_is_hit(e))
            send_hook(e, text, words(e, "http://%s/%s", inside, nonce_new(e)));
    }
}

static void judge_hooks(const struct evidence *e, struct finding *f)
{
    judge_called(e, f, "a URL of a webhook, an import or a mirror");
}

/* ---- FU-4, FU-5, FU-6 ---- */

static void send_acting(struct evidence *e, enum act act, const char *tail, bool is_before_all, const char *variant)
{
    const char *n, *to, *host = inside_host(e);

    if (!host && !(host = outside_host(e)))
        return;
    n = nonce_new(e);
    to = words(e, "http://%s/%s%s", host, n, tail);
    upstream_acts(e, n, act, to);
    if (is_before_all)
        upstream_acts_otherwise(e, act, to);
    if (fetched(e, n))
        ask(e, (struct probe){.path = fetched(e, n), .who = good_or_nobody(e), .variant = variant});
    if (is_before_all)
        upstream_acts_otherwise(e, ACT_PAGE, "");
}

/* Some bind their password to the realm that they saw when they started, and remember the first that they see after: then only the manifest knows it. */
static void send_realm(struct evidence *e)
{
    const char *realm = target_text(e->target, "realm"), *n, *path;

    if (!realm) {
        send_acting(e, ACT_CHALLENGE, "/token", true, "the upstream's realm is at the listener");
        return;
    }
    n = nonce_new(e);
    if (!inside_host(e) || !(path = fetched(e, n)))
        return;
    upstream_acts(e, n, ACT_CHALLENGE, realm);
    upstream_acts_otherwise(e, ACT_CHALLENGE, realm);
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "the upstream's realm is at the listener, as when the service started"});
    upstream_acts_otherwise(e, ACT_PAGE, "");
}

static void judge_realm(const struct evidence *e, struct finding *f)
{
    judge_fetched(e, f, "a realm of the upstream's");
}

static void send_next(struct evidence *e)
{
    send_acting(e, ACT_LINK_NEXT, "/next", false, "the upstream's next page is at the listener");
}

static void judge_next(const struct evidence *e, struct finding *f)
{
    judge_fetched(e, f, "a next page of the upstream's");
}

static void send_redirects(struct evidence *e)
{
    send_acting(e, ACT_REDIRECT, "_1.0_all.deb", false, "the upstream answers 302");
    send_acting(e, ACT_REDIRECT_307, "_1.0_all.deb", false, "the upstream answers 307");
}

static void judge_redirects(const struct evidence *e, struct finding *f)
{
    judge_called(e, f, "a redirect of the upstream's");
}

/* ---- FU-7 ---- */

/* A name whose first address is the upstream's, which the service may fetch from, and whose later ones are the listener's. */
static void send_rebinding(struct evidence *e)
{
    const struct target *t = e->target;
    struct buf pair = {0};

    for (int upstream = 1; upstream >= 0; upstream--)
        for (size_t i = 0; i < t->n_places; i++)
            if (t->places[i].is_upstream == (upstream == 1)) {
                addr_ip_text(&pair, &t->places[i].at);
                buf_text(&pair, upstream ? " " : "");
                break;
            }
    if (slice_find(buf_slice(&pair), ' ') <= 0)
        evidence_missing(e, "it needs the upstream's address and the listener's (upstream.addresses, listener.addresses)");
    for (size_t i = 0; !e->missing[0] && i < COUNT(fetchers) + target_count(t, "fetchers"); i++) {
        const char *path = i < COUNT(fetchers) ? fetchers[i] : target_text_at(t, "fetchers", i - COUNT(fetchers)), *n = nonce_new(e), *host = zone_host(e, n);

        if (!host)
            break;
        upstream_acts(e, n, ACT_REBIND, words(e, "%.*s", SLICE_ARG(buf_slice(&pair))));
        ask(e, (struct probe){.path = with_parameters(e, path, words(e, "http://%s/%s", host, n)), .who = good_or_nobody(e), .variant = "a name whose address changes"});
    }
    buf_free(&pair);
}

static void judge_rebinding(const struct evidence *e, struct finding *f)
{
    size_t names = 0, visits = 0;

    for (size_t i = 0; i < e->n_hits; i++)
        if (e->hits[i].is_name)
            names++;
        else
            visits++;
    if (visits)
        finding_set(f, VERDICT_FAIL, "a name is looked up to be checked, and again to be used: its second address was fetched from");
    else if (e->n_upstream_hits)
        finding_set(f, VERDICT_PASS, "the address that was checked is the one that was used");
    else if (names)
        finding_set(f, VERDICT_PASS, "the name is looked up, and nothing is fetched from a second address");
    else
        finding_set(f, VERDICT_PASS, "names of the caller's choice are not looked up (%zu tried)", e->n);
}

/* ---- FU-8 ---- */

static void send_files(struct evidence *e)
{
    static const char *const forms[] = {"file://%s", "File://%s", "file:%s", "jar:file:%s!/", "dict:%s"};
    const char *planted = target_text(e->target, "planted");

    if (!planted) {
        evidence_missing(e, "the manifest has no planted file to look for");
        return;
    }
    for (size_t i = 0; i < COUNT(forms); i++)
        for (size_t j = 0; j < 4 + target_count(e->target, "fetchers"); j++) {
            const char *path = j < 4 ? fetchers[j] : target_text_at(e->target, "fetchers", j - 4), *percent = strstr(forms[i], "%s");

            ask(e, (struct probe){.path = with_parameters(e, path, words(e, "%.*s%s%s", (int)(percent - forms[i]), forms[i], planted, percent + 2)), .who = good_or_nobody(e), .variant = forms[i]});
        }
}

static void judge_files(const struct evidence *e, struct finding *f)
{
    struct buf text = {0};
    struct fault why = {0};

    finding_set(f, VERDICT_PASS, "no parameter opens a file");
    if (!file_read_regular(target_text(e->target, "planted"), 4096, &text, &why)) {
        finding_set(f, VERDICT_INCONCLUSIVE, "the planted file cannot be read here: %s", why.text);
        return;
    }
    for (size_t i = 0; i < e->n; i++)
        if (text_holds(buf_slice(&e->list[i]->body), slice_trim(slice_cut(buf_slice(&text), 0, 64))))
            finding_worsen(f, VERDICT_FAIL, "%s in a parameter gave the file's text", e->list[i]->variant);
    buf_free(&text);
}

/* ---- FU-9 ---- */

static void send_nothing(struct evidence *e)
{
    if (!e->audit->beacon)
        evidence_missing(e, "it needs the listener (--beacon, and listener.addresses in the manifest)");
}

#define DOOR "allow: paths without such parameters; deny: fetching endpoints. What the service then fetches is out of the gateway's sight; put its own egress behind a listener of the gateway."

static const struct check checks[] = {
    {"FU-1", SEVERITY_CRITICAL, RUN_LISTENER, send_parameters, judge_parameters, "Does it fetch a URL in a parameter?", "CVE-2026-126984", "Take names, not URLs; where a URL is needed, compare its host with a list after looking it up.", DOOR},
    {"FU-2", SEVERITY_CRITICAL, RUN_WRITES | RUN_LISTENER, send_packages, judge_packages, "Does it fetch content from where metadata say?", "CVE-2026-33540",
     "Fetch content from the upstream's host alone; update (verdaccio 6.10 sends no credential along).", DOOR},
    {"FU-3", SEVERITY_HIGH, RUN_WRITES | RUN_LISTENER, send_hooks, judge_hooks, "Do webhooks, imports and mirrors go anywhere?", "", "Allow hosts by a list for webhooks, imports and mirrors.", DOOR},
    {"FU-4", SEVERITY_CRITICAL, RUN_LISTENER | RUN_LAST, send_realm, judge_realm, "Does it log in where its upstream's realm says?", "CVE-2026-33540, CVE-2026-48978",
     "Update (registry 3.1.0); refuse a realm on another host; give it no upstream password.", "Put the service's own egress behind a listener of the gateway, with its upstream alone listed."},
    {"FU-5", SEVERITY_HIGH, RUN_LISTENER, send_next, judge_next, "Does it follow its upstream's next page anywhere?", "CVE-2026-88887", "Follow Link: rel=next on the same origin alone.", DOOR},
    {"FU-6", SEVERITY_HIGH, RUN_LISTENER, send_redirects, judge_redirects, "Does it follow its upstream's redirects?", "CVE-2026-104636", "Do not follow redirects (apt-cacher-ng: RedirMax: 0), or check each target again.", DOOR},
    {"FU-7", SEVERITY_HIGH, RUN_NAMED | RUN_LISTENER, send_rebinding, judge_rebinding, "Does it use the address that it checked?", "CVE-2026-70357, CVE-2026-101029", "Look a name up once, check the address, connect to that one.", DOOR},
    {"FU-8", SEVERITY_HIGH, 0, send_files, judge_files, "Does a parameter open files?", "CVE-2026-90959", "Allow http and https alone.", DOOR},
    {"FU-9", SEVERITY_CRITICAL, RUN_LISTENER, send_nothing, judge_credentials_at_listener, "Which credentials came with all that?", "CVE-2026-33540", "Bind each credential to its host; update (verdaccio 6.10, registry 3.1.0).",
     "Give the service no credential of its own; let the gateway inject it on the service's way out."},
};

const struct check_group check_fetch = {"FU", "fetch by URL", checks, COUNT(checks)};
