/* UP, CN: how much can be put in, and where does it come out? */
#include "audit/beacon_answer.h"
#include "audit/check.h"
#include "audit/probes.h"
#include "audit/state.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- UP-1 ---- */

static const size_t body_sizes[] = {1024, 64 * 1024, 1024 * 1024};

/* Is any of it taken? */
static bool send_bodies(struct evidence *e)
{
    bool is_taken = false;
    const char *n, *method, *path = writable_path(e, &n, &method);
    struct buf body = {0};

    for (size_t i = 0; path && i < COUNT(body_sizes); i++) {
        const struct turn *x;

        buf_clear(&body);
        while (buf_len(&body) < body_sizes[i])
            buf_printf(&body, "exeat-audit-%s ", n);
        x = ask(e, (struct probe){.method = "POST", .path = path, .who = good_or_nobody(e), .body = slice_cut(buf_slice(&body), 0, body_sizes[i]), .body_type = "text/plain", .tag = (int)body_sizes[i],
                                  .variant = words(e, "%zu bytes", body_sizes[i])});
        is_taken = is_taken || turn_is_2xx(x);
        if (slice_is(slice_of(method), "POST"))
            made_undo(e, x, path);
        if (x->status == 413)
            break;
    }
    buf_free(&body);
    return is_taken;
}

/* As its clients publish: what it knows no way to take says nothing of how much it takes. */
static void send_sizes(struct evidence *e)
{
    struct written w;

    if (e->target->dialect != DIALECT_NPM && e->target->dialect != DIALECT_OCI && send_bodies(e))
        return;
    for (size_t i = 0; i < COUNT(body_sizes); i++) {
        if (!write_sized(e, "write", good_or_nobody(e), body_sizes[i], &w))
            return;
        w.answer->tag = (int)body_sizes[i];
        write_undo(e, &w);
        if (!turn_is_2xx(w.answer))
            return;
    }
}

/* What comes with a size is the last word on content of that size. */
static void judge_bodies(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no content is taken");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (x->tag < (int)body_sizes[0])
            continue;
        if (is_page_for_all(e, x))
            finding_worsen(f, VERDICT_INCONCLUSIVE, "content of %d bytes: %d, as every path is answered: whether it was taken is not in it", x->tag, x->status);
        else if (turn_is_2xx(x))
            finding_worsen(f, x->tag > 64 * 1024 ? VERDICT_FAIL : VERDICT_WEAK, "content of %d bytes is taken: %d", x->tag, x->status);
        else if (!turn_is_refusal(x) && f->verdict == VERDICT_PASS)
            finding_worsen(f, VERDICT_INCONCLUSIVE, "content of %d bytes: %d does not say whether it was taken", x->tag, x->status);
    }
}

/* ---- UP-2 ---- */

static const size_t target_sizes[] = {2 * 1024, 8 * 1024, 32 * 1024};

static void send_targets(struct evidence *e)
{
    struct buf text = {0};

    for (size_t i = 0; i < COUNT(target_sizes); i++) {
        buf_clear(&text);
        while (buf_len(&text) < target_sizes[i])
            buf_char(&text, 'a');
        ask(e, (struct probe){.path = words(e, "/%s%.*s", nonce_new(e), SLICE_ARG(buf_slice(&text))), .who = good_or_nobody(e), .tag = (int)target_sizes[i], .variant = words(e, "a path of %zu bytes", target_sizes[i]), .has_secret = false});
    }
    buf_free(&text);
}

/* What it reads before it refuses: anything but 414, 431, 400 or a cut says that it was read. */
size_t covert_bytes(const struct evidence *e)
{
    size_t most = 0;

    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (turn_answered(x) && x->status != 414 && x->status != 431 && x->status != 400 && x->status != 413 && x->tag > (int)most)
            most = (size_t)x->tag;
    }
    return most;
}

static void judge_targets(const struct evidence *e, struct finding *f)
{
    size_t most = covert_bytes(e);

    if (most > COVERT_MAX)
        finding_set(f, VERDICT_WEAK, "a path of %zu bytes is read: up to %zu bits a request", most, most * 6);
    else
        finding_set(f, VERDICT_PASS, "paths end at 8 KiB: at most %zu bits a request", most * 6);
}

/* ---- UP-4 ---- */

static void send_sinks(struct evidence *e)
{
    static const char *const paths[] = {"/-/npm/v1/security/advisories/bulk", "/-/npm/v1/security/audits", "/telemetry", "/csp-report", "/report", "/errors", "/stats"};
    const char *body = words(e, "{\"exeat\":[\"%s\"]}", nonce_new(e));

    ask(e, (struct probe){.method = "POST", .path = words(e, "/%s", nonce_new(e)), .body = slice_of(body), .body_type = "application/json", .variant = "a path that nobody has"});
    for (size_t i = 0; i < COUNT(paths); i++)
        ask(e, (struct probe){.method = "POST", .path = paths[i], .body = slice_of(body), .body_type = "application/json", .variant = "any JSON"});
}

static void judge_sinks(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "nothing takes JSON from nobody in particular");
    for (size_t i = 1; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (turn_alike(x, e->list[0]) || is_ours(x))
            continue;
        if (turn_is_2xx(x))
            finding_worsen(f, VERDICT_FAIL, "%s takes any JSON from anybody: %d", x->shown, x->status);
        else if (turn_answered(x) && x->status / 100 == 5)
            finding_worsen(f, VERDICT_WEAK, "%s reads JSON from anybody, and does something with it that fails: %d", x->shown, x->status);
    }
}

/* ---- CN-6 ---- */

/* A canary as the name of a host, wherever a service may take one: whoever looks it up has told it to the world's resolvers. */
static void send_names_of_hosts(struct evidence *e)
{
    static const char *const paths[] = {"/fetch", "/proxy", "/img", "/preview"};
    static const char *const fields[] = {"X-Forwarded-Host", "Referer", "Origin"};
    const char *host = zone_host(e, nonce_new(e));

    if (!host)
        return;
    ask(e, (struct probe){.path = words(e, "http://%s/", host), .who = good_or_nobody(e), .variant = "absolute form"});
    ask(e, (struct probe){.path = "/", .host = zone_host(e, nonce_new(e)), .who = good_or_nobody(e), .variant = "Host"});
    ask(e, (struct probe){.path = words(e, "/%s/", zone_host(e, nonce_new(e))), .who = good_or_nobody(e), .variant = "a host in the path"});
    for (size_t i = 0; i < COUNT(fields); i++)
        ask(e, (struct probe){.path = baseline_at(e, 0)->path, .who = good_or_nobody(e), .fields = {words(e, "%s: http://%s/", fields[i], zone_host(e, nonce_new(e)))}, .variant = fields[i]});
    for (size_t i = 0; i < COUNT(paths) + target_count(e->target, "fetchers"); i++) {
        const char *path = i < COUNT(paths) ? paths[i] : target_text_at(e->target, "fetchers", i - COUNT(paths)), *to = zone_host(e, nonce_new(e));

        ask(e, (struct probe){.path = words(e, "%s%curl=http://%s/&src=http://%s/", path, strchr(path, '?') ? '&' : '?', to, to), .who = good_or_nobody(e), .variant = "a URL in a parameter"});
    }
}

static void judge_names_of_hosts(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no name of the caller's choice is looked up (%zu tried)", e->n);
    for (size_t i = 0; i < e->n_hits; i++)
        if (e->hits[i].is_name)
            finding_worsen(f, VERDICT_FAIL, "a name of the caller's choice is looked up: %.*s", SLICE_ARG(buf_slice(&e->hits[i].bytes)));
}

/* ---- UP-3, UP-5, UP-6 ---- */

static void send_encodings(struct evidence *e)
{
    static const char *const codings[] = {"gzip", "br", "zstd", "gzip, gzip", "exeat"};
    const char *n, *method, *path = writable_path(e, &n, &method);

    for (size_t i = 0; path && i < COUNT(codings); i++) {
        const struct turn *x = ask(e, (struct probe){.method = method, .path = path, .who = good_or_nobody(e), .body = SLICE("\x1f\x8b not what it says"), .body_type = "text/plain", .variant = codings[i], .tag = TAG_WRITE,
                                                     .fields = {words(e, "Content-Encoding: %s", codings[i])}});

        if (slice_is(slice_of(method), "POST"))
            made_undo(e, x, path);
        else if (turn_is_2xx(x))
            ask(e, (struct probe){.method = "DELETE", .path = path, .who = good_or_nobody(e), .variant = "clean up", .tag = TAG_REMOVE});
    }
}

static void judge_encodings(const struct evidence *e, struct finding *f)
{
    judge_write(e, f, "content in a coding that it is not in");
}

static void judge_unfinished(const struct evidence *e, struct finding *f)
{
    const struct turn *x;
    size_t i = 0;

    finding_set(f, VERDICT_PASS, "no upload can be begun, or its state is nobody else's to read");
    while ((x = tagged(e, TAG_READ, &i)))
        if (turn_is_2xx(x))
            finding_worsen(f, VERDICT_FAIL, "anybody reads how far an unfinished upload has come: %d", x->status);
}

static void send_description(struct evidence *e)
{
    struct written w = {0};

    if (e->target->dialect != DIALECT_NPM) {
        evidence_na(e, "it has no names and descriptions beside the content that are known");
        return;
    }
    if (write_whole(e, "write", good_or_nobody(e), &w))
        write_undo(e, &w);
}

static void judge_description(const struct evidence *e, struct finding *f)
{
    judge_write(e, f, "a description with text of the caller's choice");
}

/* ---- CN-1, CN-2, CN-5 ---- */

enum { TAG_PUT = 1, TAG_LOOK };

static void look_around(struct evidence *e)
{
    static const char *const pages[] = {"/-/v1/search?text=exeat", "/v2/_catalog", "/metrics", "/acng-report.html", "/status", "/"};

    for (size_t i = 0; i < COUNT(pages) + target_count(e->target, "listings") + target_count(e->target, "admin"); i++) {
        size_t j = i - COUNT(pages);
        const char *page = i < COUNT(pages) ? pages[i] : j < target_count(e->target, "listings") ? target_text_at(e->target, "listings", j) : target_text_at(e->target, "admin", j - target_count(e->target, "listings"));

        if (page[0] == '/')
            ask(e, (struct probe){.path = page, .tag = TAG_LOOK, .variant = "somebody else looks"});
    }
}

/* What the upstream has may be listed; of what nobody has, nothing. */
static const char *missing_name(struct evidence *e)
{
    const char *n = nonce_new(e);

    upstream_acts(e, n, ACT_MISSING, "");
    return n;
}

/* Both are put, and then the pages are looked at once: the first nonce is CN-1's, the others are CN-5's. */
static void send_seen(struct evidence *e)
{
    ask(e, (struct probe){.path = words(e, "/exeat-audit-canary-%s", missing_name(e)), .who = good_or_nobody(e), .tag = TAG_PUT, .variant = "a canary as the name"});
    ask(e, (struct probe){.path = words(e, "/exeat-audit-%s", missing_name(e)), .tag = TAG_PUT, .fields = {words(e, "User-Agent: exeat-audit-canary-%s", nonce_new(e))}, .variant = "a canary in path and User-Agent"});
    look_around(e);
}

/* Who asks sees what they asked for; that is no way out. Another's page is. */
static void judge_seen(const struct evidence *e, size_t from, size_t end, struct finding *f)
{
    const struct turn *x;
    size_t i = 0;

    finding_set(f, VERDICT_PASS, "no page of somebody else's shows it");
    while ((x = tagged(e, TAG_LOOK, &i)))
        for (size_t j = from; j < end && j < e->n_nonces; j++)
            if (turn_holds(x, e->nonces[j]))
                finding_worsen(f, VERDICT_FAIL, "%s shows anybody what another caller sent", x->shown);
}

static void judge_name(const struct evidence *e, struct finding *f)
{
    judge_seen(e, 0, 1, f);
}

static void judge_logged(const struct evidence *e, struct finding *f)
{
    judge_seen(e, 1, NONCES_MAX, f);
}

static void send_fields(struct evidence *e)
{
    const char *path = baseline_at(e, 0)->path;
    const char *n = nonce_new(e);

    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .tag = TAG_PUT, .fields = {words(e, "User-Agent: exeat-audit-canary-%s", n)}, .variant = "User-Agent"});
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .tag = TAG_PUT, .fields = {words(e, "Referer: http://%s.example/", n)}, .variant = "Referer"});
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .tag = TAG_PUT, .fields = {words(e, "Cookie: c=%s", n)}, .variant = "Cookie"});
    ask(e, (struct probe){.path = path, .who = good_or_nobody(e), .tag = TAG_PUT, .fields = {words(e, "Accept: application/json, text/%s", n)}, .variant = "Accept"});
    ask(e, (struct probe){.path = words(e, "/exeat-audit-nothing"), .who = good_or_nobody(e), .tag = TAG_PUT, .fields = {words(e, "User-Agent: exeat-audit-canary-%s", n), words(e, "Referer: http://%s.example/", n)}, .variant = "User-Agent, on a path that is not there"});
}

static void judge_fields(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no answer repeats what fields said");
    for (size_t i = 0; i < e->n; i++)
        if (turn_holds(e->list[i], e->nonces[0]) && !is_ours(e->list[i]))
            finding_worsen(f, VERDICT_WEAK, "an answer repeats %s", e->list[i]->variant);
}

/* ---- CN-3, CN-7 ---- */

static void send_object(struct evidence *e)
{
    struct written w = {0};

    if (!write_whole(e, "write", good_or_nobody(e), &w))
        return;
    if (turn_is_2xx(w.answer)) {
        write_read(e, &w, WHO_NOBODY);
        if (has_second(e))
            write_read(e, &w, WHO_SECOND);
        write_read_own(e, &w);
    }
    write_undo(e, &w);
}

static void send_deleted(struct evidence *e)
{
    struct written w = {0};

    if (write_whole(e, "write", good_or_nobody(e), &w))
        write_undo(e, &w);
}

static void judge_deleted(const struct evidence *e, struct finding *f)
{
    size_t i = 0;
    const struct turn *x = tagged(e, TAG_GONE, &i);

    if (!x)
        finding_set(f, VERDICT_PASS, "nothing could be written, so nothing stays");
    else if (turn_is_2xx(x) && e->left[0])
        finding_set(f, VERDICT_WEAK, "what was deleted is still there: %d", x->status);
    else
        finding_set(f, VERDICT_PASS, "what was deleted is gone: %d", x->status);
}

/* ---- CN-4 ---- */

/* A canary as the name of a thing at the listener, by the way that RL found; else by each way once. */
static void send_out(struct evidence *e)
{
    static const char *const paths[] = {"http://%s/dists/exeat-audit-canary-%s/InRelease", "/%s/dists/exeat-audit-canary-%s/InRelease", "/fetch/%s/exeat-audit-canary-%s", "/proxy/http://%s/exeat-audit-canary-%s"};
    const char *host = outside_host(e);

    for (size_t i = 0; host && i < COUNT(paths); i++) {
        const char *percent = strstr(paths[i], "%s"), *second = strstr(percent + 2, "%s");

        ask(e, (struct probe){.who = good_or_nobody(e), .variant = "a canary on its way to the listener",
                              .path = words(e, "%.*s%s%.*s%s%s", (int)(percent - paths[i]), paths[i], host, (int)(second - percent - 2), percent + 2, nonce_new(e), second + 2)});
    }
    if (host)
        ask(e, (struct probe){.who = good_or_nobody(e), .path = words(e, "/exeat-audit-canary-%s", nonce_new(e)), .host = host, .variant = "a canary, with the listener as Host"});
}

static void judge_out(const struct evidence *e, struct finding *f)
{
    char who[120];

    if (e->n_hits)
        finding_set(f, VERDICT_FAIL, "the canary came out, at %s", describe_hit(&e->hits[0], who));
    else
        finding_set(f, VERDICT_PASS, "the canary did not come out by %zu ways", e->n);
}

#define SMALL "Read presets take no content and targets of 2 KiB at most; the scanner looks for canaries in all of it."

static const struct check upload_checks[] = {
    {"UP-1", SEVERITY_MEDIUM, RUN_WRITES, send_sizes, judge_bodies, "How much content is taken?", "RFC 9110 15.5.14", "Set a small limit (413).", SMALL},
    {"UP-2", SEVERITY_LOW, 0, send_targets, judge_targets, "How long may a path be?", "RFC 9110 15.5.15", "Set a limit of 8 KiB or less (414).", SMALL},
    {"UP-3", SEVERITY_MEDIUM, RUN_WRITES, send_encodings, judge_encodings, "Is coded content stored as it is?", "RFC 9110 8.4", "Answer 415 to codings that it does not decode.", SMALL},
    {"UP-4", SEVERITY_HIGH, 0, send_sinks, judge_sinks, "Does something take any JSON from anybody?", "", "Switch audit, telemetry and report endpoints off, or demand a credential.", "allow: GET and HEAD alone."},
    {"UP-5", SEVERITY_MEDIUM, RUN_WRITES, send_unfinished, judge_unfinished, "Is an unfinished upload anybody's to read?", "", "Keep the state of an upload to who began it.", "allow: GET and HEAD alone."},
    {"UP-6", SEVERITY_LOW, RUN_WRITES, send_description, judge_description, "Is text beside the content taken?", "", "Refuse or scan names, annotations and descriptions.", "allow: GET and HEAD alone."},
};

#define SCAN "The scanner finds a canary in requests and stops it; deny: the page that shows it."

static const struct check canary_checks[] = {
    {"CN-1", SEVERITY_HIGH, 0, send_seen, judge_name, "Does a name that was asked for show elsewhere?", "", "Keep names that nobody has out of listings and statistics.", SCAN},
    {"CN-2", SEVERITY_MEDIUM, 0, send_fields, judge_fields, "Do answers repeat fields?", "", "Leave request fields out of answers.", SCAN},
    {"CN-3", SEVERITY_CRITICAL, RUN_WRITES, send_object, judge_readable, "Is what one wrote anybody's to read?", "", "Demand a credential for reading, of the same tenant.", SCAN},
    {"CN-4", SEVERITY_CRITICAL, RUN_LISTENER, send_out, judge_out, "Does a canary come out at the listener?", "", "Close the way that RL and FU found.", SCAN},
    {"CN-5", SEVERITY_MEDIUM, 0, send_seen, judge_logged, "Do logs or statistics show it?", "", "Keep logs and statistics from clients.", SCAN},
    {"CN-6", SEVERITY_MEDIUM, RUN_NAMED | RUN_LISTENER, send_names_of_hosts, judge_names_of_hosts, "Does a canary come out as a DNS name?", "", "Resolve names of a list alone.", "Put the service's own resolver behind the gateway's."},
    {"CN-7", SEVERITY_LOW, RUN_WRITES, send_deleted, judge_deleted, "Is what was deleted gone?", "", "Delete from caches too.", SCAN},
};

const struct check_group check_upload = {"UP", "upload channels", upload_checks, COUNT(upload_checks)};
const struct check_group check_canary = {"CN", "canary reflection", canary_checks, COUNT(canary_checks)};
