/* RD: where its answers send the client on to. Those hosts are the real allowlist. */
#include <jansson.h>
#include <stdio.h>

#include "audit/check.h"
#include "audit/probes.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- URLs in answers ---- */

/* The first undeclared host in this field; empty: none. Values may hold several URLs, or one without quotes. */
static struct slice foreign_in(const struct target *t, struct slice value)
{
    ptrdiff_t at;

    while ((at = slice_search(value, SLICE("//"))) >= 0) {
        struct slice host = host_of_url(at > 0 && value.ptr[at - 1] == ':' ? slice_from(value, (size_t)at - 1) : slice_from(value, (size_t)at));

        if (host.len && !is_declared(t, host))
            return host;
        value = slice_from(value, (size_t)at + 2);
    }
    return slice_make("", 0);
}

/* In Alt-Svc a host stands in quotes: h2="alt.example:443". */
static struct slice foreign_alternative(const struct target *t, struct slice value)
{
    ptrdiff_t at = slice_search(value, SLICE("=\""));
    struct slice host = at < 0 ? slice_make("", 0) : slice_from(value, (size_t)at + 2);

    at = slice_find(host, ':');
    host = slice_cut(host, 0, at < 0 ? 0 : (size_t)at);
    return is_declared(t, host) ? slice_make("", 0) : host;
}

static struct slice foreign_handoff(const struct target *t, const struct turn *x, const char **field)
{
    static const char *const names[] = {"Location", "Content-Location", "Refresh", "Link"};
    struct slice value, host = {"", 0};

    for (size_t i = 0; i < COUNT(names); i++)
        for (size_t n = 0; host.len == 0 && turn_field(x, names[i], n, &value); n++) {
            host = foreign_in(t, value);
            *field = names[i];
        }
    if (host.len == 0 && turn_field(x, "Alt-Svc", 0, &value)) {
        host = foreign_alternative(t, value);
        *field = "Alt-Svc";
    }
    return slice_cut(host, 0, 100);
}

/* ---- RD-1, and what RD-2, RD-5, RD-7 look at too ---- */

static void send_ordinary(struct evidence *e)
{
    static const enum act redirects[] = {ACT_REDIRECT, ACT_REDIRECT_307};
    const char *host, *path = target_text(e->target, "fetch") ? fetched(e, nonce_new(e)) : NULL;

    for (size_t i = 0; i < baseline_count(e); i++)
        ask_once(e, has_good(e) ? baseline_at(e, i)->good : baseline_at(e, i)->none, (struct probe){.path = baseline_at(e, i)->path, .who = good_or_nobody(e), .variant = "as clients ask"});
    if (!path)
        return;
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "fetched from the upstream"});
    if (!(host = target_listener(e->target, "inside")) && !(host = target_listener(e->target, "outside")))
        return;
    /* Some drop the credential with the method, and keep both with a 307. */
    for (size_t i = 0; i < COUNT(redirects); i++) {
        const char *n = nonce_new(e);

        upstream_acts(e, n, redirects[i], words(e, "http://%s/pool/main/e/%s_1.0_all.deb", host, n));
        ask(e, (struct probe){.path = fetched(e, n), .who = good_or_nobody(e), .variant = "the upstream redirects to the listener"});
    }
}

static void judge_handoff(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "its answers name no host beside the declared ones");
    for (size_t i = 0; i < e->n; i++) {
        const char *field = "";
        struct slice host = foreign_handoff(e->target, e->list[i], &field);

        if (host.len)
            finding_worsen(f, VERDICT_WEAK, "%s of an answer sends the client to %.*s (%s)", field, SLICE_ARG(host), e->list[i]->variant);
    }
}

/* ---- RD-2 ---- */

static void judge_signed(const struct evidence *e, struct finding *f)
{
    static const char *const marks[] = {"X-Amz-Signature=", "X-Goog-Signature=", "sig=", "Signature="};
    struct slice value;

    finding_set(f, VERDICT_PASS, "it hands out no signed URL");
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < COUNT(marks); j++) {
            uint64_t s = 0;
            ptrdiff_t at;
            struct slice digits;
            size_t len = 0;

            if (!turn_field(e->list[i], "Location", 0, &value) || !text_holds(value, slice_of(marks[j])))
                continue;
            at = slice_search(value, SLICE("Expires="));
            digits = slice_from(value, at < 0 ? value.len : (size_t)at + 8);
            while (len < digits.len && digits.ptr[len] >= '0' && digits.ptr[len] <= '9')
                len++;
            if (!slice_decimal(slice_cut(digits, 0, len), 1u << 30, &s) || s == 0)
                finding_worsen(f, VERDICT_INCONCLUSIVE, "it hands out a signed URL without a lifetime to read");
            else
                finding_worsen(f, s > 3600 ? VERDICT_WEAK : VERDICT_PASS, "it hands out signed URLs that are good for %llu s", (unsigned long long)s);
        }
}

/* ---- RD-3 ---- */

enum { TAG_BODY, TAG_FOREIGN };

static const char *config_digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; /* of "{}" */

/* An image one of whose layers is to be had elsewhere (OCI foreign layers). */
static void push_foreign_layer(struct evidence *e)
{
    const char *host = target_listener(e->target, "outside"), *n, *name, *manifest, *path;
    const struct turn *x;
    struct slice at;

    if (!e->audit_writes || !(name = writable(e, "write", &n)))
        return;
    x = ask(e, (struct probe){.method = "POST", .path = words(e, "/v2/%s/blobs/uploads/", name), .who = good_or_nobody(e), .variant = "begin an upload"});
    if (!turn_is_2xx(x) || !turn_field(x, "Location", 0, &at))
        return;
    if (slice_search(at, SLICE("://")) > 0) {
        at = slice_from(at, (size_t)slice_search(at, SLICE("://")) + 3);
        at = slice_from(at, (size_t)slice_find(at, '/'));
    }
    ask(e, (struct probe){.method = "PUT", .is_bare = true, .path = words(e, "%.*s%cdigest=%s", SLICE_ARG(at), slice_find(at, '?') < 0 ? '?' : '&', config_digest), .who = good_or_nobody(e),
                          .body = SLICE("{}"), .body_type = "application/octet-stream", .variant = "the image's configuration"});
    manifest = words(e,
                     "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\"config\":{\"mediaType\":\"application/vnd.docker.container.image.v1+json\","
                     "\"size\":2,\"digest\":\"%s\"},\"layers\":[{\"mediaType\":\"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip\",\"size\":10,\"digest\":"
                     "\"sha256:%064d\",\"urls\":[\"http://%s/%s\"]}]}",
                     config_digest, 1, host ? host : "elsewhere.example", n);
    path = words(e, "/v2/%s/manifests/%s", name, n);
    x = ask(e, (struct probe){.method = "PUT", .path = path, .who = good_or_nobody(e), .body = slice_of(manifest), .body_type = "application/vnd.docker.distribution.manifest.v2+json",
                              .variant = "an image with a layer elsewhere"});
    if (!turn_is_2xx(x))
        return;
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .fields = {"Accept: application/vnd.docker.distribution.manifest.v2+json"}, .tag = TAG_FOREIGN, .variant = "the image"});
    if (turn_field(x, "Docker-Content-Digest", 0, &at)) {
        const char *gone = words(e, "/v2/%s/manifests/%.*s", name, SLICE_ARG(at));

        ask(e, (struct probe){.method = "DELETE", .path = gone, .who = good_or_nobody(e), .variant = "clean up"});
        if (turn_is_2xx(ask(e, (struct probe){.path = gone, .who = good_or_nobody(e), .variant = "is it gone?"})))
            evidence_left(e, "the image %s", n);
    }
}

static void send_bodies(struct evidence *e)
{
    const char *n, *host = target_listener(e->target, "outside");

    for (size_t i = 0; i < baseline_count(e); i++)
        ask(e, (struct probe){.path = baseline_at(e, i)->path, .who = good_or_nobody(e), .fields = {"Accept: application/json, */*"}, .tag = TAG_BODY, .variant = "as clients ask"});
    if (e->target->dialect == DIALECT_OCI)
        push_foreign_layer(e);
    if (e->target->dialect == DIALECT_NPM && host && target_text(e->target, "fetch") && fetched(e, (n = nonce_new(e)))) {
        upstream_acts(e, n, ACT_PACKAGE, words(e, "http://%s/%s/-/x-1.0.0.tgz", host, n));
        ask(e, (struct probe){.path = fetched(e, n), .who = good_or_nobody(e), .fields = {"Accept: application/json"}, .tag = TAG_BODY, .variant = "a package whose tarball is elsewhere"});
    }
}

/* Keys whose URLs clients follow by themselves. */
static bool is_followed(const char *name)
{
    static const char *const names[] = {"tarball", "dl", "api", "urls", "url", "href", "download_url", "browser_download_url"};

    for (size_t i = 0; i < COUNT(names); i++)
        if (slice_is(slice_of(name), names[i]))
            return true;
    return false;
}

static void look_into(const struct target *t, json_t *value, bool followed, unsigned depth, char host[80])
{
    const char *name, *text = json_string_value(value);
    json_t *child;
    size_t i;

    if (host[0] || depth > 12)
        return;
    if (text && followed && foreign_in(t, slice_of(text)).len)
        snprintf(host, 80, "%.*s", SLICE_ARG(foreign_in(t, slice_of(text))));
    if (json_is_array(value))
        json_array_foreach (value, i, child)
            look_into(t, child, followed, depth + 1, host);
    json_object_foreach (value, name, child)
        look_into(t, child, is_followed(name), depth + 1, host);
}

static void judge_bodies(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "what clients would fetch next is on declared hosts");
    for (size_t i = 0; i < e->n; i++) {
        json_t *json = json_loadb(buf_slice(&e->list[i]->body).ptr, buf_len(&e->list[i]->body), 0, NULL);
        char host[80] = "";

        look_into(e->target, json, false, 0, host);
        if (host[0])
            finding_worsen(f, e->list[i]->tag == TAG_FOREIGN ? VERDICT_FAIL : VERDICT_WEAK, "%s: its content sends clients on to %s", e->list[i]->variant, host);
        json_decref(json);
    }
}

/* ---- RD-4 ---- */

static void send_redirectors(struct evidence *e)
{
    static const char *const paths[] = {"/login", "/redirect", "/logout"};
    static const char *const forms[] = {"http://%s/%s", "//%s/%s", "/\\%s/%s"};
    const char *host = outside_host(e);
    size_t n = target_count(e->target, "redirectors");

    for (size_t i = 0; host && i < COUNT(paths) + n; i++)
        for (size_t j = 0; j < COUNT(forms); j++) {
            struct buf to = {0};
            const char *where;

            buf_printf(&to, "%.*s%s/%s", (int)(strstr(forms[j], "%s") - forms[j]), forms[j], host, nonce_new(e));
            where = words(e, "%.*s", SLICE_ARG(buf_slice(&to)));
            ask(e, (struct probe){.path = words(e, "%s?next=%s&url=%s&return=%s&goto=%s&redirect=%s", i < COUNT(paths) ? paths[i] : target_text_at(e->target, "redirectors", i - COUNT(paths)),
                                                where, where, where, where, where),
                                  .who = good_or_nobody(e), .variant = forms[j]});
            buf_free(&to);
        }
}

static void judge_redirectors(const struct evidence *e, struct finding *f)
{
    const char *outside = target_listener(e->target, "outside");
    struct slice value;

    finding_set(f, VERDICT_PASS, "no parameter chooses where it redirects to");
    for (size_t i = 0; i < e->n; i++) {
        if (e->list[i]->status / 100 != 3 || !turn_field(e->list[i], "Location", 0, &value) || is_ours(e->list[i]))
            continue;
        if (slice_is_nocase(host_of_url(value), outside) || (slice_starts(value, SLICE("/\\")) && text_holds(value, slice_of(outside))))
            finding_worsen(f, VERDICT_FAIL, "%.40s... redirects to the listener", e->list[i]->shown);
    }
}

/* ---- RD-5 ---- */

/*
 * The service is a client too, of its upstream: what it follows it must follow without its credential, and without its caller's. Of
 * its callers it knows nothing; what it can do is not to send them elsewhere while they hold a credential.
 */
static void judge_carried(const struct evidence *e, struct finding *f)
{
    char who[120];
    bool is_proxy = e->target->first.form == CREDENTIAL_PROXY_BASIC || e->target->first.form == CREDENTIAL_PROXY_BEARER;

    finding_set(f, VERDICT_PASS, "no credential goes along with a redirect");
    for (size_t i = 0; i < e->n_hits; i++) {
        const char *own = foreign_credential(e->target, &e->hits[i]), *callers = carried_credential(e->target, &e->hits[i]);

        if (own)
            finding_worsen(f, VERDICT_FAIL, "it follows a redirect of its upstream's to %s and sends a credential of its own (%s) along", describe_hit(&e->hits[i], who), own);
        else if (callers)
            finding_worsen(f, VERDICT_FAIL, "it follows a redirect of its upstream's to %s and sends its caller's %s along", describe_hit(&e->hits[i], who), callers);
    }
    for (size_t i = 0; i < e->n; i++) {
        const char *field = "";
        struct slice host = foreign_handoff(e->target, e->list[i], &field);

        if (host.len && e->list[i]->status / 100 == 3 && e->list[i]->who == WHO_FIRST && !is_proxy)
            finding_worsen(f, VERDICT_INCONCLUSIVE, "a request with the credential is redirected to %.*s: whether the credential goes along is the client's doing", SLICE_ARG(host));
    }
}

/* ---- RD-6 ---- */

static void send_challenges(struct evidence *e)
{
    for (size_t i = 0; i < baseline_count(e); i++)
        ask_once(e, baseline_at(e, i)->none, (struct probe){.path = baseline_at(e, i)->path, .variant = "nobody asks"});
    ask_once(e, has_good(e) ? baseline_at(e, 0)->good : baseline_at(e, 0)->none, (struct probe){.path = baseline_at(e, 0)->path, .who = good_or_nobody(e), .variant = "as clients ask"});
}

static void judge_challenges(const struct evidence *e, struct finding *f)
{
    static const char *const names[] = {"WWW-Authenticate", "Report-To", "Reporting-Endpoints", "NEL"};
    struct slice value;

    finding_set(f, VERDICT_PASS, "challenges and reports stay with declared hosts");
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < COUNT(names); j++)
            for (size_t n = 0; turn_field(e->list[i], names[j], n, &value); n++) {
                struct slice host = slice_cut(foreign_in(e->target, value), 0, 100);

                if (host.len)
                    finding_worsen(f, VERDICT_FAIL, "%s sends clients to %.*s to authenticate or report", names[j], SLICE_ARG(host));
            }
}

/* ---- RD-7 ---- */

static void judge_downgrade(const struct evidence *e, struct finding *f)
{
    struct slice value;

    finding_set(f, VERDICT_PASS, "no redirect to plain HTTP, another port or with a user in it");
    for (size_t i = 0; i < e->n; i++) {
        struct slice rest;
        ptrdiff_t at;

        if (e->list[i]->status / 100 != 3 || !turn_field(e->list[i], "Location", 0, &value) || (at = slice_search(value, SLICE("://"))) < 0)
            continue;
        rest = slice_from(value, (size_t)at + 3);
        at = slice_find(rest, '/');
        rest = slice_cut(rest, 0, at < 0 ? rest.len : (size_t)at);
        if (slice_find(rest, '@') >= 0)
            finding_worsen(f, VERDICT_FAIL, "a redirect carries a user in its URL");
        else if (e->target->base[0].tls && slice_starts_nocase(value, SLICE("http:")))
            finding_worsen(f, VERDICT_FAIL, "it redirects from https to http");
    }
}

/* ---- RD-8 ---- */

static void send_body_redirect(struct evidence *e)
{
    const char *n = nonce_new(e), *path = fetched(e, n), *host = outside_host(e);

    if (!path || !host)
        return;
    upstream_acts(e, n, ACT_REDIRECT_307, words(e, "http://%s/%s", host, n));
    ask(e, (struct probe){.method = "POST", .path = path, .who = good_or_nobody(e), .body = slice_of(words(e, "exeat-audit-canary-%s", n)), .body_type = "text/plain", .variant = "the upstream answers 307"});
}

static void judge_body_redirect(const struct evidence *e, struct finding *f)
{
    const char *field = "";
    const struct turn *x = e->list[0];

    if (e->n_hits)
        finding_set(f, VERDICT_FAIL, "it sent the content on to where a 307 said");
    else if ((x->status == 307 || x->status == 308) && foreign_handoff(e->target, x, &field).len)
        finding_set(f, VERDICT_WEAK, "%d to another host in answer to a request with content: the client sends it again there", x->status);
    else
        finding_set(f, VERDICT_PASS, "content is not sent on by a 307 of the upstream's");
}

#define EDGES "hands-off-to: the hosts that are meant; handoff-edges: enforce refuses answers that name others."

static const struct check checks[] = {
    {"RD-1", SEVERITY_MEDIUM, 0, send_ordinary, judge_handoff, "Do its answers send clients elsewhere?", "RFC 9110 10.2.2",
     "Serve the content itself instead of passing the upstream's redirects on (nginx: proxy_intercept_errors).", EDGES},
    {"RD-2", SEVERITY_MEDIUM, 0, send_ordinary, judge_signed, "How long are signed URLs good?", "", "Minutes, one method, one object; or switch redirects to storage off (registry: storage.redirect.disable).", EDGES},
    {"RD-3", SEVERITY_MEDIUM, 0, send_bodies, judge_bodies, "Does its content name the next URL elsewhere?", "",
     "Rewrite URLs in metadata to its own host; refuse foreign layers (registry: manifests.urls.deny).", EDGES},
    {"RD-4", SEVERITY_HIGH, RUN_LISTENER, send_redirectors, judge_redirectors, "Does a parameter choose the redirect?", "RFC 9700 4.11", "Redirect to fixed places or paths of its own alone.", EDGES},
    {"RD-5", SEVERITY_CRITICAL, RUN_LISTENER, send_ordinary, judge_carried, "Does a credential follow a redirect?", "RFC 9110 15.4", "Drop the credential when a redirect leaves its host; do not redirect authenticated requests to other hosts.", EDGES},
    {"RD-6", SEVERITY_HIGH, 0, send_challenges, judge_challenges, "Do challenges and reports go to foreign hosts?", "RFC 9728", "Name a declared host as realm; send no reports elsewhere.", EDGES},
    {"RD-7", SEVERITY_HIGH, 0, send_ordinary, judge_downgrade, "Do redirects downgrade?", "", "Redirect to https on the same port, without a user.", EDGES},
    {"RD-8", SEVERITY_MEDIUM, 0, send_body_redirect, judge_body_redirect, "Is content sent again elsewhere?", "RFC 9700 4.12", "Answer 303 or an error to requests with content.", "The gateway refuses 307 and 308 to another host for requests with content."},
};

const struct check_group check_redirect = {"RD", "redirects and new locations", checks, COUNT(checks)};
