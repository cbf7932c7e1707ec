/* XT: can two callers see, or leave something for, each other? */
#include <stdio.h>

#include "audit/check.h"
#include "audit/probes.h"
#include "audit/state.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The other caller: the second tenant, or whoever else, when nobody has a credential. */
static bool other(struct evidence *e, enum who *who)
{
    *who = has_second(e) ? WHO_SECOND : WHO_NOBODY;
    if (has_good(e) && !has_second(e))
        evidence_missing(e, "the manifest has no tenant2");
    return !has_good(e) || has_second(e);
}

/* ---- XT-1 ---- */

static void send_message(struct evidence *e)
{
    struct written w = {0};
    enum who second;

    if (!other(e, &second) || !write_whole(e, "write", good_or_nobody(e), &w))
        return;
    if (turn_is_2xx(w.answer)) {
        write_read(e, &w, second);
        write_read_own(e, &w);
    }
    write_undo(e, &w);
}

/* One of the nonces, other than those that the request named itself. */
static bool holds_content(const struct evidence *e, const struct turn *x)
{
    for (size_t i = 0; i < e->n_nonces; i++)
        if (!text_holds(slice_of(x->shown), slice_of(e->nonces[i])) && turn_holds(x, e->nonces[i]))
            return true;
    return false;
}

/* Is it known why this answer does not hold what was written? It is our upstream's, a page for every path, or the writer alone reads it. */
static bool is_something_else(const struct evidence *e, const struct turn *x)
{
    size_t i = 0;
    const struct turn *own = tagged(e, TAG_WRITER, &i);

    return turn_is_2xx(x) && (is_ours(x) || turn_alike(x, nowhere(e)) || (turn_is_2xx(own) && holds_content(e, own)));
}

void judge_readable(const struct evidence *e, struct finding *f)
{
    const struct turn *x, *write;
    size_t i = 0, j = 0;

    write = tagged(e, TAG_WRITE, &j);
    finding_set(f, VERDICT_PASS, "nothing could be written (%d), so nothing can be left for others", write ? write->status : 0);
    while ((x = tagged(e, TAG_READ, &i))) {
        if (turn_is_2xx(x) && holds_content(e, x))
            finding_worsen(f, VERDICT_FAIL, "what one caller wrote, %s reads: %s %.80s: %d", x->who == WHO_NOBODY ? "anybody" : "another tenant", x->method, x->shown, x->status);
        else if (turn_is_refusal(x) && f->verdict == VERDICT_PASS)
            finding_set(f, VERDICT_PASS, "what one caller wrote, others do not read: %d", x->status);
        else if (is_something_else(e, x) && f->verdict == VERDICT_PASS)
            finding_set(f, VERDICT_PASS, "what one caller wrote is not in what others read: %d", x->status);
        else if (!turn_is_refusal(x))
            finding_worsen(f, VERDICT_INCONCLUSIVE, "reading what was written: %d", x->status);
    }
    j = 0;
    while (f->verdict == VERDICT_PASS && (write = tagged(e, TAG_WRITE, &j)))
        if (!turn_is_2xx(write) && !turn_is_refusal(write))
            finding_set(f, VERDICT_INCONCLUSIVE, "the write was answered %d, so there was nothing to read", write->status);
}

/* ---- XT-2 ---- */

enum { TAG_NAMES = 1 };

/* Where it lies, as a page and as WebDAV lists it. */
static void list_directory(struct evidence *e, const struct written *w, enum who who)
{
    const char *slash = e->target->dialect == DIALECT_HTTP && w->name[0] == '/' ? strrchr(w->name, '/') : NULL;
    const char *path = slash && slash > w->name ? words(e, "%.*s", (int)(slash + 1 - w->name), w->name) : NULL;

    if (!path)
        return;
    ask(e, (struct probe){.path = path, .who = who, .tag = TAG_NAMES, .variant = "the other caller lists where it lies"});
    ask(e, (struct probe){.method = "PROPFIND", .path = path, .who = who, .fields = {"Depth: 1"}, .tag = TAG_NAMES, .variant = "the other caller lists where it lies"});
}

static void send_names(struct evidence *e)
{
    static const char *const listings[] = {"/v2/_catalog", "/-/all", "/"};
    struct written w = {0};
    enum who second;

    if (!other(e, &second) || !write_begin(e, "write", good_or_nobody(e), &w))
        return;
    for (size_t i = 0; turn_is_2xx(w.answer) && i < COUNT(listings); i++)
        ask(e, (struct probe){.path = listings[i], .who = second, .tag = TAG_NAMES, .variant = "the other caller lists"});
    for (size_t i = 0; turn_is_2xx(w.answer) && i < target_count(e->target, "listings"); i++)
        ask(e, (struct probe){.path = target_text_at(e->target, "listings", i), .who = second, .tag = TAG_NAMES, .variant = "the other caller lists"});
    if (turn_is_2xx(w.answer))
        list_directory(e, &w, second);
    write_undo(e, &w);
}

static void judge_names(const struct evidence *e, struct finding *f)
{
    const struct turn *x;
    size_t i = 0;

    finding_set(f, VERDICT_PASS, "a name that one caller makes is in no listing of the other's");
    while ((x = tagged(e, TAG_NAMES, &i)))
        if (turn_is_2xx(x) && turn_holds(x, e->nonces[0]))
            finding_worsen(f, VERDICT_FAIL, "a name that one caller made stands in the other's %s", x->shown);
}

/* ---- XT-3 ---- */

enum { TAG_MOUNT = 1 };

static void send_mount(struct evidence *e)
{
    struct written w = {0};
    const char *name2 = target_text(e->target, "write2"), *digest;
    enum who second;
    struct turn *x;
    struct slice at;

    if (e->target->dialect != DIALECT_OCI) {
        evidence_na(e, "it has no mount of another's content");
        return;
    }
    if (!other(e, &second))
        return;
    if (!name2) {
        evidence_missing(e, "the manifest has no write2");
        return;
    }
    if (!write_whole(e, "write", good_or_nobody(e), &w))
        return;
    digest = strstr(w.read, "sha256:");
    x = ask(e, (struct probe){.method = "POST", .path = words(e, "/v2/%s/blobs/uploads/?mount=%s&from=%s", fill(e, name2, w.nonce), digest, w.name), .who = second, .tag = TAG_MOUNT, .variant = "the other caller mounts it"});
    if (x->status == 202 && turn_field(x, "Location", 0, &at)) /* a new upload instead: cancel it */
        ask(e, (struct probe){.method = "DELETE", .is_bare = true, .who = second, .variant = "clean up",
                              .path = words(e, "%.*s", SLICE_ARG(slice_search(at, SLICE("://")) > 0 ? slice_from(at, (size_t)slice_search(at, SLICE("/v2/"))) : at))});
    if (x->status == 201 && turn_is_refusal(ask(e, (struct probe){.method = "DELETE", .path = words(e, "/v2/%s/blobs/%s", fill(e, name2, w.nonce), digest), .who = second, .variant = "clean up"})))
        evidence_left(e, "%s in %s", digest, name2);
    write_undo(e, &w);
}

static void judge_mount(const struct evidence *e, struct finding *f)
{
    size_t i = 0;
    const struct turn *x = tagged(e, TAG_MOUNT, &i);

    if (!x)
        finding_set(f, VERDICT_NOT_RUN, "nothing was asked");
    else if (x->status == 201)
        finding_set(f, VERDICT_FAIL, "the other caller mounts what the first one has: 201");
    else if (x->status == 202 || turn_is_refusal(x))
        finding_set(f, VERDICT_PASS, "the other caller cannot mount what the first one has: %d", x->status);
    else
        finding_set(f, VERDICT_INCONCLUSIVE, "mounting: %d", x->status);
}

/* ---- XT-4 ---- */

enum { TAG_WARM = 1, TAG_KNOWN, TAG_UNKNOWN };

static void send_presence(struct evidence *e)
{
    const char *known, *unknown;
    enum who second;

    if (!other(e, &second))
        return;
    if (!(known = fetched(e, nonce_new(e))))
        return;
    unknown = fetched(e, nonce_new(e));
    ask(e, (struct probe){.path = known, .who = good_or_nobody(e), .tag = TAG_WARM, .variant = "the first caller fetches it"});
    ask(e, (struct probe){.path = known, .who = second, .tag = TAG_KNOWN, .variant = "the other caller asks for it"});
    ask(e, (struct probe){.path = unknown, .who = second, .tag = TAG_UNKNOWN, .variant = "and for what nobody fetched"});
}

/* Varnish numbers its answers: what was kept has two numbers. */
static struct slice presence_of(const struct turn *x, const char *name)
{
    struct slice value = {"", 0};

    if (turn_field(x, name, 0, &value) && slice_is(slice_of(name), "X-Varnish"))
        return slice_find(value, ' ') >= 0 ? SLICE("kept") : SLICE("");
    return value;
}

/* Fields that say whether it was there: they differ between what was fetched before and what was not. */
static void judge_presence(const struct evidence *e, struct finding *f)
{
    static const char *const names[] = {"X-Cache", "X-Cache-Lookup", "X-Cache-Status", "Age", "Cache-Status", "X-Proxy-Cache", "X-Varnish"};
    const struct turn *known = e->list[1], *unknown = e->list[2];

    if (!turn_answered(known) || !turn_answered(unknown)) {
        finding_set(f, VERDICT_INCONCLUSIVE, "no answers to compare");
        return;
    }
    finding_set(f, VERDICT_PASS, "no field shows what others fetched");
    for (size_t i = 0; i < COUNT(names); i++)
        if (!slice_equals(presence_of(known, names[i]), presence_of(unknown, names[i])))
            finding_worsen(f, VERDICT_WEAK, "%s shows whether somebody else has fetched it", names[i]);
}

/* ---- XT-5 ---- */

enum { TAG_WHOAMI = 1, TAG_PAGE };

/* Without a page that says who asks: a protected one, by turns; what differs between the two, or is counted for both together, tells. */
static void send_whoami(struct evidence *e)
{
    const char *path = target_text(e->target, "whoami");
    bool is_said = path || e->target->dialect == DIALECT_NPM;

    if (!has_good(e) && is_open(baseline_at(e, 0)))
        evidence_na(e, "it is open: there are no principals (AN-1)");
    else if (!has_second(e))
        evidence_missing(e, "the manifest has no tenant2");
    if (e->missing[0] || e->not_applicable[0])
        return;
    if (!path)
        path = is_said ? "/-/whoami" : baseline_at(e, 0)->path;
    for (int i = 0; i < (is_said ? 1 : 2); i++) {
        ask(e, (struct probe){.path = path, .who = WHO_FIRST, .tag = is_said ? TAG_WHOAMI : TAG_PAGE, .variant = is_said ? "who am I?" : "by turns"});
        ask(e, (struct probe){.path = path, .who = WHO_SECOND, .tag = is_said ? TAG_WHOAMI : TAG_PAGE, .variant = is_said ? "who am I?" : "by turns"});
    }
}

/* What is left to this caller, as it says; false: it does not. */
static bool left_to(const struct turn *x, uint64_t *left)
{
    static const char *const names[] = {"X-RateLimit-Remaining", "RateLimit-Remaining", "X-Rate-Limit-Remaining", "X-User-Rate-Limit-Remaining"};
    struct slice value;

    for (size_t i = 0; i < COUNT(names); i++)
        if (turn_field(x, names[i], 0, &value) && slice_decimal(value, 1000000000, left))
            return true;
    return false;
}

/* One count for both: each request of the one takes from the other's. */
static bool is_one_count(const struct evidence *e)
{
    uint64_t left[4];

    for (size_t i = 0; i < 4; i++)
        if (!left_to(e->list[i], &left[i]) || (i && left[i] >= left[i - 1]))
            return false;
    return true;
}

static bool same_body(const struct turn *a, const struct turn *b)
{
    return slice_equals(buf_slice(&a->body), buf_slice(&b->body));
}

/* Did XT-1 see the one read what the other, who is known, does not? */
static bool is_told_by_writing(const struct audit *a)
{
    for (size_t i = 0; i < a->n_results; i++) {
        const struct evidence *e = &a->results[i].evidence;
        size_t own = 0, others = 0;
        const struct turn *writer, *reader;

        if (!slice_is(slice_of(a->results[i].check->id), "XT-1") || !(writer = tagged(e, TAG_WRITER, &own)) || !(reader = tagged(e, TAG_READ, &others)))
            continue;
        return turn_is_2xx(writer) && reader->who == WHO_SECOND && turn_is_refusal(reader);
    }
    return false;
}

/* A credential that is answered like an invented one is nobody's, as far as can be told. */
static bool is_second_known(const struct evidence *e)
{
    const struct baseline *b = baseline_at(e, 0);

    return b->second && b->junk && !turn_alike(b->second, b->junk);
}

static void judge_by_turns(const struct evidence *e, struct finding *f)
{
    const struct turn *const *x = (const struct turn *const *)e->list;
    bool is_steady = e->n == 4 && turn_alike(x[0], x[2]) && turn_alike(x[1], x[3]);

    if (!is_second_known(e))
        finding_set(f, VERDICT_NOT_RUN, "the second tenant's credential is answered like an invented one: a page that says who asks would tell (whoami)");
    else if (is_steady && is_one_count(e))
        finding_set(f, VERDICT_FAIL, "both tenants draw on one and the same count of requests: they are one principal to it");
    else if (is_steady && !turn_alike(x[0], x[1]))
        finding_set(f, VERDICT_PASS, "it tells the two apart: %d for the one, %d for the other", x[0]->status, x[1]->status);
    else if (is_steady && turn_is_2xx(x[0]) && same_body(x[0], x[2]) && same_body(x[1], x[3]) && !same_body(x[0], x[1]))
        finding_set(f, VERDICT_PASS, "it tells the two apart: the same path has another page for each");
    else if (is_told_by_writing(e->audit))
        finding_set(f, VERDICT_PASS, "it tells the two apart: what the one wrote the other does not read (XT-1)");
    else
        finding_set(f, VERDICT_NOT_RUN, "nothing that it answers tells the two tenants apart, or together; a page that says who asks would (whoami)");
}

static void judge_whoami(const struct evidence *e, struct finding *f)
{
    const struct turn *a = e->list[0], *b = e->list[1];

    if (a->tag == TAG_PAGE)
        judge_by_turns(e, f);
    else if (!turn_is_2xx(a) || !turn_is_2xx(b))
        finding_set(f, VERDICT_INCONCLUSIVE, "it does not say who asks: %d and %d", a->status, b->status);
    else if (same_body(a, b))
        finding_set(f, VERDICT_FAIL, "both tenants are one and the same principal");
    else
        finding_set(f, VERDICT_PASS, "two tenants are two principals");
}

/* ---- XT-6 ---- */

static void send_labels(struct evidence *e)
{
    const char *n, *name;
    enum who second;

    if (e->target->dialect != DIALECT_NPM) {
        evidence_na(e, "it has no tags, stars or comments that are known");
        return;
    }
    if (!other(e, &second) || baseline_at(e, 0)->path[0] != '/')
        return;
    n = nonce_new(e);
    name = baseline_at(e, 0)->path + 1;
    if (turn_is_2xx(ask(e, (struct probe){.method = "PUT", .path = words(e, "/-/package/%s/dist-tags/%s", name, n), .who = good_or_nobody(e), .body = SLICE("\"1.0.0\""), .body_type = "application/json",
                                              .tag = TAG_WRITE, .variant = "a tag on somebody's package"}))) {
        ask(e, (struct probe){.path = words(e, "/-/package/%s/dist-tags", name), .who = second, .tag = TAG_READ, .variant = "the other caller reads the tags"});
        ask(e, (struct probe){.method = "DELETE", .path = words(e, "/-/package/%s/dist-tags/%s", name, n), .who = good_or_nobody(e), .tag = TAG_REMOVE, .variant = "clean up"});
    }
}

/* ---- XT-7 ---- */

enum { TAG_TRACE = 1 };

static void send_traces(struct evidence *e)
{
    static const char *const pages[] = {"/metrics", "/-/v1/search?text=x", "/v2/_catalog", "/acng-report.html", "/status"};
    enum who second;
    const char *n = nonce_new(e);

    if (!other(e, &second))
        return;
    upstream_acts(e, n, ACT_MISSING, ""); /* what its upstream has may be listed */
    ask(e, (struct probe){.path = words(e, "/%s", n), .who = good_or_nobody(e), .variant = "the first caller asks for a name"});
    ask(e, (struct probe){.path = words(e, "/exeat-audit-nothing-%ld", (long)e->n), .who = second, .tag = TAG_TRACE, .variant = "the other caller's error page"});
    for (size_t i = 0; i < COUNT(pages) + target_count(e->target, "admin"); i++) {
        const char *page = i < COUNT(pages) ? pages[i] : target_text_at(e->target, "admin", i - COUNT(pages));

        if (page[0] == '/')
            ask(e, (struct probe){.path = page, .who = second, .tag = TAG_TRACE, .variant = "the other caller looks"});
    }
}

static void judge_traces(const struct evidence *e, struct finding *f)
{
    const struct turn *x;
    size_t i = 0;

    finding_set(f, VERDICT_PASS, "no page shows what another caller asked for");
    while ((x = tagged(e, TAG_TRACE, &i)))
        if (turn_holds(x, e->nonces[0]))
            finding_worsen(f, VERDICT_FAIL, "%s shows what another caller asked for", x->shown);
}

#define APART "bind: each sandbox's own names; credential with {sandbox}, so that each is a principal of its own; deny: listings."

static const struct check checks[] = {
    {"XT-1", SEVERITY_CRITICAL, RUN_WRITES | RUN_TENANTS, send_message, judge_readable, "Does one tenant read what another wrote?", "", "Keep tenants apart; let readers write nowhere.", APART},
    {"XT-2", SEVERITY_CRITICAL, RUN_WRITES | RUN_TENANTS, send_names, judge_names, "Does one tenant see names that another made?", "", "Show each tenant its own names alone.", APART},
    {"XT-3", SEVERITY_HIGH, RUN_WRITES | RUN_TENANTS, send_mount, judge_mount, "Can one tenant mount what another has?", "CVE-2021-41834", "Demand read access to what is mounted.", APART},
    {"XT-4", SEVERITY_MEDIUM, RUN_TENANTS, send_presence, judge_presence, "Does it show what others fetched?", "", "Do not send X-Cache, X-Cache-Lookup, Age (squid: reply_header_access X-Cache deny all).", "Fields of answers pass the gateway as they are. This one is the service's to mend."},
    {"XT-5", SEVERITY_CRITICAL, RUN_TENANTS, send_whoami, judge_whoami, "Are two tenants two principals?", "", "One account for each tenant.", APART},
    {"XT-6", SEVERITY_HIGH, RUN_WRITES | RUN_TENANTS, send_labels, judge_readable, "Can a reader leave labels that others read?", "CVE-2026-65922", "Demand a scope for tags, stars and comments.", APART},
    {"XT-7", SEVERITY_MEDIUM, RUN_TENANTS, send_traces, judge_traces, "Do pages show what others asked for?", "CVE-2026-70550", "Keep statistics and logs from clients.", APART},
};

const struct check_group check_tenant = {"XT", "cross-tenant", checks, COUNT(checks)};
