/* CI: does a cache give one caller what belongs to another? Mostly pages of our own upstream's, which say whom they are for. */
#include "audit/check.h"
#include "audit/probes.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- for all ---- */

/* End-to-end credentials of two invented callers; to a proxy its own goes beside them. */
static const char *const caller_a = "Authorization: Basic ZXhlYXQtYXVkaXQtY2FuYXJ5LWE6YQ==";
static const char *const caller_b = "Authorization: Basic ZXhlYXQtYXVkaXQtY2FuYXJ5LWI6Yg==";

static enum who around(const struct evidence *e)
{
    bool is_proxy = e->target->first.form == CREDENTIAL_PROXY_BASIC || e->target->first.form == CREDENTIAL_PROXY_BEARER;

    return is_proxy || !has_good(e) ? good_or_nobody(e) : WHO_NOBODY;
}

static bool is_private_page(const struct turn *x)
{
    return turn_is_2xx(x) && slice_starts(buf_slice(&x->body), SLICE("private to "));
}

/* ---- CI-1, CI-6 ---- */

enum { TAG_MAX_AGE = 1, TAG_PUBLIC, TAG_OWN };

static bool ask_private(struct evidence *e, enum act act, int tag, const char *suffix)
{
    const char *n = nonce_new(e), *path = fetched(e, n);

    if (!path)
        return false;
    path = words(e, "%s%s", path, suffix);
    upstream_acts(e, n, act, "");
    ask(e, (struct probe){.path = path, .who = around(e), .fields = {caller_a}, .tag = tag, .variant = "one caller"});
    ask(e, (struct probe){.path = path, .who = around(e), .fields = {caller_b}, .tag = tag, .variant = "another"});
    ask(e, (struct probe){.path = path, .who = around(e), .tag = tag, .variant = "nobody"});
    return true;
}

static void send_private(struct evidence *e)
{
    if (ask_private(e, ACT_PRIVATE_MAX_AGE, TAG_MAX_AGE, ""))
        ask_private(e, ACT_PRIVATE_PUBLIC, TAG_PUBLIC, "");
    /* And what is protected by the service itself: the good credential first, then nobody. */
    if (has_good(e) && !is_open(baseline_at(e, 0))) {
        ask(e, (struct probe){.path = baseline_at(e, 0)->path, .who = WHO_FIRST, .tag = TAG_OWN, .variant = "the good credential"});
        ask(e, (struct probe){.path = baseline_at(e, 0)->path, .who = WHO_NOBODY, .tag = TAG_OWN, .variant = "nobody"});
    }
}

static bool same_body(const struct turn *a, const struct turn *b)
{
    return slice_equals(buf_slice(&a->body), buf_slice(&b->body));
}

static void judge_private_pages(const struct evidence *e, int tag, enum verdict bad, struct finding *f)
{
    size_t i = 0;
    const struct turn *a = tagged(e, tag, &i), *b = tagged(e, tag, &i), *nobody = tagged(e, tag, &i);
    const char *rule = tag == TAG_PUBLIC ? "Cache-Control: public (RFC 9111 3.5 lets it)" : "max-age alone, which no shared cache may keep";

    if (!nobody || !is_private_page(a))
        return;
    if (is_private_page(nobody))
        finding_worsen(f, bad, "one caller's page is given to nobody in particular, with %s", rule);
    else if (is_private_page(b) && same_body(a, b))
        finding_worsen(f, bad, "one caller's page is given to another, with %s", rule);
}

static void judge_private(const struct evidence *e, struct finding *f)
{
    size_t i = 0;
    const struct turn *good, *nobody;

    finding_set(f, VERDICT_PASS, "one caller's page is given to no other");
    judge_private_pages(e, TAG_MAX_AGE, VERDICT_FAIL, f);
    judge_private_pages(e, TAG_PUBLIC, VERDICT_WEAK, f);
    good = tagged(e, TAG_OWN, &i);
    nobody = tagged(e, TAG_OWN, &i);
    if (nobody && turn_is_2xx(good) && turn_is_2xx(nobody) && same_body(good, nobody))
        finding_worsen(f, VERDICT_FAIL, "what the good credential fetched is given to nobody in particular");
}

static void send_suffix(struct evidence *e)
{
    const char *template = target_text(e->target, "fetch");

    if (template && strchr(template, '?'))
        evidence_na(e, "what it fetches has no path to put a suffix to");
    else
        ask_private(e, ACT_PRIVATE_MAX_AGE, TAG_MAX_AGE, "/x.css");
}

static void judge_suffix(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "a private page is not kept for its suffix");
    judge_private_pages(e, TAG_MAX_AGE, VERDICT_FAIL, f);
}

/* ---- CI-2 ---- */

static void send_cookies(struct evidence *e)
{
    const char *n = nonce_new(e), *path = fetched(e, n);

    if (!path)
        return;
    upstream_acts(e, n, ACT_COOKIE, "");
    ask(e, (struct probe){.path = path, .who = around(e), .fields = {"Cookie: session=one"}, .variant = "one caller"});
    ask(e, (struct probe){.path = path, .who = around(e), .fields = {"Cookie: session=another"}, .variant = "another"});
}

static void judge_cookies(const struct evidence *e, struct finding *f)
{
    struct slice first, value;

    if (!turn_field(e->list[0], "Set-Cookie", 0, &first)) {
        finding_set(f, VERDICT_PASS, "it passes no cookie of the upstream's on");
        return;
    }
    finding_set(f, VERDICT_PASS, "each caller has a cookie of its own");
    for (size_t i = 1; i < e->n; i++) {
        if (turn_field(e->list[i], "Set-Cookie", 0, &value) && slice_equals(first, value))
            finding_worsen(f, VERDICT_FAIL, "two callers are given the same Set-Cookie");
        else if (slice_starts(buf_slice(&e->list[i]->body), SLICE("cookie ")) && same_body(e->list[0], e->list[i]))
            finding_worsen(f, VERDICT_FAIL, "the page that set one caller's cookie is given to another, if without the cookie");
    }
}

/* ---- CI-3 ---- */

static void send_unkeyed(struct evidence *e)
{
    static const char *const names[] = {"X-Forwarded-Host", "X-Forwarded-Scheme", "X-Original-URL", "X-Host"};

    for (size_t i = 0; i < COUNT(names); i++) {
        const char *n = nonce_new(e), *path = fetched(e, n), *value = nonce_new(e);

        if (!path)
            return;
        upstream_acts(e, n, ACT_ECHO, "");
        ask(e, (struct probe){.path = path, .who = around(e), .fields = {words(e, "%s: %s.example", names[i], value)}, .variant = names[i], .tag = (int)i});
        ask(e, (struct probe){.path = path, .who = around(e), .variant = "plain", .tag = (int)i});
    }
}

/*
 * Our upstream repeats such fields; whether a real one does decides what can be done with it. X-Forwarded-Host, of which links are made, is
 * the cache's own to write; any other goes through every cache, and is told.
 */
static void judge_unkeyed(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "the host that one caller names is in nothing that another is given");
    for (size_t i = 1; i < e->n; i += 2)
        if (!turn_holds(e->list[i], e->nonces[i]))
            continue;
        else if (!slice_is(slice_of(e->list[i - 1]->variant), "X-Forwarded-Host") && f->verdict == VERDICT_PASS)
            finding_set(f, VERDICT_PASS, "X-Forwarded-Host is cleared; %s goes through, which matters if the upstream reads it", e->list[i - 1]->variant);
        else
            finding_worsen(f, VERDICT_WEAK, "%s is passed upstream and is no part of the cache's key: what one caller writes, the next one is given, if the upstream repeats it", e->list[i - 1]->variant);
}

/* ---- CI-4 ---- */

static void send_variants(struct evidence *e)
{
    static const char *const tails[] = {"?exeat=1", ";exeat=1", "/.", "%2F"};
    const char *n = nonce_new(e), *path = fetched(e, n);

    if (!path)
        return;
    upstream_acts(e, n, ACT_CHANGED, "");
    ask(e, (struct probe){.path = path, .who = around(e), .variant = "plain"});
    for (size_t i = 0; i < COUNT(tails); i++)
        ask(e, (struct probe){.path = words(e, strchr(path, '?') && tails[i][0] == '?' ? "%s&exeat=1" : "%s%s", path, tails[i]), .who = around(e), .variant = tails[i]});
}

static void judge_variants(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "different paths are different pages");
    for (size_t i = 1; i < e->n; i++)
        if (turn_is_2xx(e->list[0]) && turn_is_2xx(e->list[i]) && slice_starts(buf_slice(&e->list[0]->body), SLICE("version ")) && same_body(e->list[0], e->list[i]))
            finding_worsen(f, VERDICT_WEAK, "a path with \"%s\" is given the page of the path without", e->list[i]->variant);
}

/* ---- CI-5 ---- */

enum { TAG_NO_STORE = 1, TAG_VARY };

static void send_rules(struct evidence *e)
{
    const char *n = nonce_new(e), *path = fetched(e, n);

    if (!path)
        return;
    upstream_acts(e, n, ACT_NO_STORE, "");
    for (int i = 0; i < 2; i++)
        ask(e, (struct probe){.path = path, .who = around(e), .tag = TAG_NO_STORE, .variant = "no-store, private"});
    n = nonce_new(e);
    upstream_acts(e, n, ACT_VARY, "");
    for (int i = 0; i < 2; i++)
        ask(e, (struct probe){.path = fetched(e, n), .who = around(e), .tag = TAG_VARY, .fields = {i ? "Accept-Language: exeat-b" : "Accept-Language: exeat-a"}, .variant = "Vary: Accept-Language"});
}

static void judge_rules(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no-store, private and Vary are honoured");
    if (turn_is_2xx(e->list[0]) && slice_starts(buf_slice(&e->list[0]->body), SLICE("fresh ")) && same_body(e->list[0], e->list[1]))
        finding_worsen(f, VERDICT_FAIL, "a page that says no-store is kept");
    if (e->n == 4 && turn_is_2xx(e->list[2]) && text_holds(buf_slice(&e->list[2]->body), SLICE("[exeat-a]")) && same_body(e->list[2], e->list[3]))
        finding_worsen(f, VERDICT_WEAK, "Vary is ignored: another language's page is given");
}

/* ---- CI-7 ---- */

static void send_missing(struct evidence *e)
{
    const char *n = nonce_new(e), *path = fetched(e, n);

    if (!path)
        return;
    upstream_acts(e, n, ACT_MISSING, "");
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "not there yet", .fields = {"Accept: application/json, */*"}});
    upstream_acts(e, n, ACT_PAGE, "");
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .variant = "there now", .fields = {"Accept: application/json, */*"}});
}

static void judge_missing(const struct evidence *e, struct finding *f)
{
    if (e->n_upstream_hits == 0)
        finding_set(f, VERDICT_NA, "it does not ask the upstream for it");
    else if (e->list[0]->status != 404)
        finding_set(f, VERDICT_NA, "it does not pass the upstream's 404 on: %d", e->list[0]->status);
    else if (e->list[1]->status == 404)
        finding_set(f, VERDICT_WEAK, "a 404 stays when the thing is there");
    else
        finding_set(f, VERDICT_PASS, "a 404 is corrected at once");
}

/* ---- CI-8 ---- */

#define KEY "For caches behind the gateway a credential for each sandbox ({sandbox}), so that keys differ; deny what is private."

static const struct check checks[] = {
    {"CI-1", SEVERITY_CRITICAL, RUN_TENANTS, send_private, judge_private, "Is one caller's page given to another?", "RFC 9111 3.5", "Keep nothing that was asked for with Authorization (nginx: proxy_no_cache $http_authorization; squid: cache deny).", KEY},
    {"CI-2", SEVERITY_HIGH, RUN_TENANTS, send_cookies, judge_cookies, "Is one caller's cookie given to another?", "RFC 9111 7.3", "Keep nothing that sets cookies.", KEY},
    {"CI-3", SEVERITY_HIGH, RUN_WRITES, send_unkeyed, judge_unkeyed, "Does one caller's field change another's page?", "", "Clear X-Forwarded-* and its like before the upstream, or make them part of the key.", "The gateway drops X-Forwarded-* of sandboxes."},
    {"CI-4", SEVERITY_MEDIUM, RUN_WRITES, send_variants, judge_variants, "Are different paths one page?", "", "Put the whole request target into the key.", KEY},
    {"CI-5", SEVERITY_MEDIUM, 0, send_rules, judge_rules, "Are the rules for caches honoured?", "RFC 9111 4.1, 5.2", "Do not ignore Cache-Control and Vary (nginx: proxy_ignore_headers).", KEY},
    {"CI-6", SEVERITY_MEDIUM, RUN_TENANTS, send_suffix, judge_suffix, "Is a private page kept for its suffix?", "", "Decide by what the upstream says, not by the path.", KEY},
    {"CI-7", SEVERITY_MEDIUM, RUN_WRITES, send_missing, judge_missing, "Does a 404 stay?", "RFC 9111 4.2.2", "Keep errors for seconds.", KEY},
    {"CI-8", SEVERITY_HIGH, RUN_WRITES, NULL, NULL, "Are other bytes under the same name refused?", "CVE-2026-66384, CVE-2024-6915", "Compare digests, and refuse what changed.", KEY},
};

const struct check_group check_cache = {"CI", "cache isolation", checks, COUNT(checks)};
