/* Owns the page of an audit: HTML that needs nothing else. */
#include <openssl/sha.h>
#include <stdlib.h>

#include "audit/probes.h"
#include "audit/report_policy.h"
#include "base/clock.h"
#include "base/text.h"

enum { LEAD_MAX = 6 /* findings that the first paragraphs name */, SHOWN_MAX = 160 };

/* ---- words ---- */

static void put_text(const char *before, const char *text, const char *after, struct buf *out)
{
    buf_text(out, before);
    report_escape(out, text);
    buf_text(out, after);
}

static const char *class_of(enum verdict v)
{
    return v == VERDICT_NA ? "na" : verdict_name(v);
}

static const char *state_of(const struct audit_result *r)
{
    return r->is_accepted ? "accepted" : r->is_covered ? "covered" : verdict_name(r->finding.verdict);
}

static const char *meaning_of(enum verdict v)
{
    static const char *const words[] = {[VERDICT_FAIL] = "the weakness was shown",          [VERDICT_WEAK] = "not good, and not by itself a way out",       [VERDICT_OPEN] = "whoever asks is answered",
                                        [VERDICT_INCONCLUSIVE] = "the answers do not decide", [VERDICT_PASS] = "asked, and the answer was the good one", [VERDICT_NA] = "does not apply to this service",
                                        [VERDICT_NOT_RUN] = "not asked: something was missing"};

    return words[v];
}

/* ---- which findings ---- */

static bool is_accepted(const struct audit_result *r)
{
    return r->is_accepted;
}

static bool is_against(const struct audit_result *r)
{
    return !r->is_accepted && audit_keeps_from_passing(r);
}

static bool is_covered(const struct audit_result *r)
{
    return !r->is_accepted && r->is_covered;
}

static bool is_lesser(const struct audit_result *r)
{
    return !r->is_accepted && !r->is_covered && !audit_keeps_from_passing(r) && report_is_bad(r);
}

static bool is_good(const struct audit_result *r)
{
    return !r->is_accepted && r->finding.verdict == VERDICT_PASS;
}

static bool is_unasked(const struct audit_result *r)
{
    return !r->is_accepted && !audit_keeps_from_passing(r) && (r->finding.verdict == VERDICT_NA || r->finding.verdict == VERDICT_NOT_RUN);
}

static const struct part {
    const char *id, *title, *about;
    bool (*belongs)(const struct audit_result *r);
    bool is_list; /* a line each, not a card */
} parts[] = {
    {"accepted", "Accepted by the owner", "Weaknesses that the owner knows of and takes upon himself, until the day that stands there.", is_accepted, false},
    {"against", "What keeps it from passing", "Critical and high findings. Each must be mended at the service, covered by the gateway's rules, or accepted with a date.", is_against, false},
    {"covered", "Covered by the gateway", "Weak at the service; asked again through the gateway, a sandbox did not get there.", is_covered, false},
    {"lesser", "Lesser findings", "They do not keep the service from passing, and are worth mending.", is_lesser, false},
    {"good", "Good answers", "Asked, and the answer was the good one.", is_good, true},
    {"unasked", "Not asked, or not applicable", "The reason says what was missing. Nothing is known of what was not asked.", is_unasked, true},
};

enum { N_PARTS = sizeof parts / sizeof *parts };

static size_t count_part(const struct audit *a, const struct part *p)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(a); i++)
        n += p->belongs(audit_result(a, i));
    return n;
}

/* Visit those of the part, at most this many: what weighs most first, then what was seen before what was not asked. */
static size_t each(const struct audit *a, const struct part *p, size_t most, void (*visit)(const struct audit_result *r, struct buf *out), struct buf *out)
{
    size_t n = 0;

    for (int s = SEVERITY_CRITICAL; s >= SEVERITY_INFO; s--)
        for (int asked = 1; asked >= 0; asked--)
            for (size_t i = 0; i < audit_count(a) && n < most; i++) {
                const struct audit_result *r = audit_result(a, i);

                if ((int)r->check->severity != s || !p->belongs(r) || (r->finding.verdict != VERDICT_NOT_RUN) != asked)
                    continue;
                visit(r, out);
                n++;
            }
    return n;
}

/* ---- the head of the page ---- */

/* The page runs nothing and loads nothing: its one style is named by its hash. */
static void put_head(const struct audit *a, struct buf *out)
{
    unsigned char hash[32];

    SHA256((const unsigned char *)report_style, strlen(report_style), hash);
    buf_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-");
    text_base64(out, slice_make(hash, sizeof hash));
    buf_text(out, "'\">\n<meta name=\"referrer\" content=\"no-referrer\"><link rel=\"icon\" href=\"data:,\">\n");
    put_text("<title>Audit of ", audit_target(a)->name, audit_is_passing(a) ? ": passes</title>\n" : ": does not pass</title>\n", out);
    buf_printf(out, "<style>%s</style></head>\n<body><header>\n", report_style);
    put_text("<h1>Trust-handoff audit of ", audit_target(a)->name, "</h1>\n", out);
}

static void put_reason(const struct audit_result *r, struct buf *out)
{
    buf_printf(out, "<li><a href=\"#%s\">%s</a>, %s, %s: ", r->check->id, r->check->id, severity_name(r->check->severity), verdict_name(r->finding.verdict));
    put_text("<strong>", r->check->title, "</strong> ", out);
    put_text("", r->finding.note[0] ? r->finding.note : meaning_of(r->finding.verdict), "</li>\n", out);
}

static void put_reasons(const struct audit *a, size_t n, struct buf *out)
{
    size_t put;

    buf_text(out, "<ul>\n");
    put = each(a, &parts[1], LEAD_MAX, put_reason, out);
    if (n > put)
        buf_printf(out, "<li><a href=\"#against\">and %zu more</a></li>\n", n - put);
    buf_text(out, "</ul>\n");
}

static size_t count_severity(const struct audit *a, enum severity s, bool (*belongs)(const struct audit_result *))
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(a); i++)
        n += audit_result(a, i)->check->severity == s && belongs(audit_result(a, i));
    return n;
}

/* Whether it passes, and why. */
static void put_lead(const struct audit *a, struct buf *out)
{
    size_t n = count_part(a, &parts[1]), covered = count_part(a, &parts[2]), accepted = count_part(a, &parts[0]);

    buf_printf(out, "<div class=\"lead %s\">\n<p>The service <strong>", audit_is_passing(a) ? "good" : "bad");
    put_text("", audit_target(a)->name, audit_is_passing(a) ? " passes.</strong> " : " does not pass.</strong> ", out);
    if (n)
        buf_printf(out, "%zu finding%s stand%s against it, %zu critical and %zu high: a sandbox that may reach it could use it for more than it is there for, or nobody has shown that it could not.", n, n == 1 ? "" : "s",
                   n == 1 ? "s" : "", count_severity(a, SEVERITY_CRITICAL, is_against), count_severity(a, SEVERITY_HIGH, is_against));
    else
        buf_printf(out, "Of what was asked, nothing critical or high is left open: %zu answers were the good ones.", report_count(a, VERDICT_PASS));
    if (covered)
        buf_printf(out, " %zu <a href=\"#covered\">covered by the gateway</a>.", covered);
    if (accepted)
        buf_printf(out, " %zu <a href=\"#accepted\">accepted by the owner</a>.", accepted);
    buf_text(out, "</p>\n");
    if (n)
        put_reasons(a, n, out);
    buf_text(out, "</div>\n");
}

static void put_navigation(const struct audit *a, struct buf *out)
{
    buf_text(out, "<nav aria-label=\"Parts of this page\"><ul>\n");
    for (size_t i = 0; i < N_PARTS; i++)
        if (count_part(a, &parts[i]))
            buf_printf(out, "<li><a href=\"#%s\">%s (%zu)</a></li>\n", parts[i].id, parts[i].title, count_part(a, &parts[i]));
    if (report_has_policy(a))
        buf_text(out, "<li><a href=\"#policy\">A tighter policy for the gateway</a></li>\n");
    buf_text(out, "<li><a href=\"#uses\">What it can be used for</a></li>\n</ul></nav>\n");
}

static void put_facts(const struct audit *a, struct buf *out)
{
    const struct conf_item *owner = manifest_section(audit_target(a)->manifest, "owner");
    struct buf url = {0}, when = {0};
    char *text;

    target_url(audit_target(a), 0, &url);
    text = buf_take_text(&url);
    put_text("<dl>\n<dt>Service</dt><dd>", text, " (", out);
    free(text);
    put_text("", target_text(audit_target(a), "kind"), ")</dd>\n", out);
    put_text("<dt>It calls itself</dt><dd>", audit_version(a)[0] ? audit_version(a) : "nothing", "</dd>\n", out);
    put_text("<dt>Owner</dt><dd>", conf_text(owner, "name"), ": &ldquo;", out);
    put_text("", conf_text(owner, "statement"), "&rdquo;</dd>\n", out);
    clock_rfc3339(&when, audit_began_s(a) * 1000000000);
    buf_truncate(&when, buf_len(&when) - 11);
    buf_printf(out, "<dt>Audited</dt><dd>%.*s UTC, with %zu requests in %.1f s, by exeat %s (probes %s)</dd>\n</dl>\n", SLICE_ARG(buf_slice(&when)), audit_requests(a), (double)audit_took_ms(a) / 1000, EXEAT_VERSION,
               AUDIT_PROBES);
    buf_free(&when);
}

static void put_unasked(const struct audit *a, struct buf *out)
{
    struct buf sentence = {0};

    report_unasked(a, &sentence);
    if (buf_len(&sentence))
        buf_printf(out, "<p><strong>%.*s</strong></p>\n", SLICE_ARG(buf_slice(&sentence)));
    buf_free(&sentence);
}

/* ---- verdicts by severity ---- */

static size_t count_cell(const struct audit *a, enum severity s, enum verdict v)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(a); i++)
        n += audit_result(a, i)->check->severity == s && audit_result(a, i)->finding.verdict == v;
    return n;
}

static void put_counts(const struct audit *a, struct buf *out)
{
    static const enum verdict order[] = {VERDICT_FAIL, VERDICT_WEAK, VERDICT_OPEN, VERDICT_INCONCLUSIVE, VERDICT_PASS, VERDICT_NA, VERDICT_NOT_RUN};
    enum { N = sizeof order / sizeof *order };

    buf_text(out, "<h2 id=\"verdicts\">Verdicts by severity</h2>\n<table class=\"counts\"><caption>How many checks of each severity had which verdict</caption>\n<thead><tr><th scope=\"col\">severity</th>");
    for (size_t i = 0; i < N; i++)
        buf_printf(out, "<th scope=\"col\" class=\"n\" title=\"%s\">%s</th>", meaning_of(order[i]), order[i] == VERDICT_INCONCLUSIVE ? "in&shy;con&shy;clu&shy;sive" : verdict_name(order[i]));
    buf_text(out, "</tr></thead>\n<tbody>\n");
    for (int s = SEVERITY_CRITICAL; s >= SEVERITY_INFO; s--) {
        buf_printf(out, "<tr><th scope=\"row\">%s</th>", severity_name((enum severity)s));
        for (size_t i = 0; i < N; i++) {
            size_t n = count_cell(a, (enum severity)s, order[i]);

            buf_printf(out, "<td class=\"n%s\">%zu</td>", n ? "" : " zero", n);
        }
        buf_text(out, "</tr>\n");
    }
    buf_text(out, "</tbody></table>\n");
}

/* ---- one finding ---- */

static void put_exchange(const struct turn *x, struct buf *out)
{
    static const char *const names[] = {"nobody", "first tenant", "second tenant", "invented credential", "token made for it"};
    struct buf text = {0};
    char *t;

    buf_printf(&text, "%s %.*s%s", x->method, SHOWN_MAX, x->shown, strlen(x->shown) > SHOWN_MAX ? "..." : "");
    t = buf_take_text(&text);
    put_text("<tr><td><code>", t, "</code></td><td>", out);
    free(t);
    buf_printf(out, "%s</td><td>", names[x->who]);
    report_escape(out, x->variant);
    turn_describe(x, &text);
    t = buf_take_text(&text);
    put_text("</td><td>", t, "</td></tr>\n", out);
    free(t);
}

static void put_visitors(const struct audit_result *r, struct buf *out)
{
    char who[120];

    if (r->evidence.n_hits == 0)
        return;
    buf_text(out, "<p>Who came to the listener, where nobody has any business: ");
    for (size_t i = 0; i < r->evidence.n_hits && i < 4; i++)
        put_text(i ? ", <code>" : "<code>", describe_hit(&r->evidence.hits[i], who), "</code>", out);
    if (r->evidence.n_hits > 4)
        buf_printf(out, ", and %zu more", r->evidence.n_hits - 4);
    buf_text(out, ".</p>\n");
}

static void put_evidence(const struct audit_result *r, struct buf *out)
{
    if (r->evidence.n == 0)
        return;
    buf_printf(out, "<details><summary>Evidence: %zu exchange%s%s</summary>\n", r->evidence.n, r->evidence.n == 1 ? "" : "s", r->evidence.n_hits ? ", and the listener was called" : "");
    put_visitors(r, out);
    buf_printf(out, "<table class=\"list\"><caption>What %s sent, and what came back; credentials are left out</caption>\n<thead><tr><th scope=\"col\">request</th><th scope=\"col\">sent as</th><th scope=\"col\">what is special</th>"
                    "<th scope=\"col\">answer</th></tr></thead>\n<tbody>\n", r->check->id);
    for (size_t i = 0; i < r->evidence.n; i++)
        put_exchange(r->evidence.list[i], out);
    buf_text(out, "</tbody></table></details>\n");
}

static void put_advice(const char *label, const char *text, struct buf *out)
{
    if (!text[0])
        return;
    buf_printf(out, "<dt>%s</dt>", label);
    put_text("<dd>", text, "</dd>\n", out);
}

static void put_card(const struct audit_result *r, struct buf *out)
{
    const struct check *c = r->check;

    buf_printf(out, "<article id=\"%s\" class=\"%s\">\n<h3>%s: ", c->id, class_of(r->finding.verdict), c->id);
    report_escape(out, c->title);
    buf_printf(out, "</h3>\n<p class=\"tags\"><span class=\"v\">%s</span>, %s, %s</p>\n", state_of(r), severity_name(c->severity), r->group->title);
    put_text("<p>", r->finding.note[0] ? r->finding.note : meaning_of(r->finding.verdict), "</p>\n<dl>\n", out);
    if (r->is_accepted)
        put_advice("Accepted because", r->accept_reason, out);
    else if (r->accept_reason)
        put_advice("Accepted no more", r->accept_reason, out);
    if (r->through.n)
        put_advice("Through the gateway", r->through_finding.note, out);
    put_advice("Change at the service", c->at_service, out);
    put_advice("Until then, at the gateway", c->at_gateway, out);
    put_advice("Basis", c->standard, out);
    buf_text(out, "</dl>\n");
    put_evidence(r, out);
    buf_text(out, "</article>\n");
}

static void put_line(const struct audit_result *r, struct buf *out)
{
    buf_printf(out, "<tr id=\"%s\"><th scope=\"row\">%s</th><td>%s</td><td class=\"v %s\">%s</td><td>", r->check->id, r->check->id, severity_name(r->check->severity), class_of(r->finding.verdict),
               verdict_name(r->finding.verdict));
    put_text("", r->check->title, "<br>", out);
    report_escape(out, r->finding.note);
    if (is_good(r))
        put_evidence(r, out);
    buf_text(out, "</td></tr>\n");
}

static void put_part(const struct audit *a, const struct part *p, struct buf *out)
{
    size_t n = count_part(a, p);

    if (n == 0)
        return;
    buf_printf(out, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s (%zu)</h2>\n", p->id, p->id, p->title, n);
    if (p->is_list)
        buf_printf(out, "<table class=\"list\"><caption>%s</caption>\n<thead><tr><th scope=\"col\">check</th><th scope=\"col\">severity</th><th scope=\"col\">verdict</th><th scope=\"col\">question, and what was seen</th></tr></thead>\n<tbody>\n",
                   p->about);
    else
        buf_printf(out, "<p>%s</p>\n", p->about);
    each(a, p, SIZE_MAX, p->is_list ? put_line : put_card, out);
    buf_text(out, p->is_list ? "</tbody></table>\n</section>\n" : "</section>\n");
}

/* ---- what it can be used for ---- */

static void put_use(const char *use, enum tri t, const char *yes, const char *no, const char *more, struct buf *out)
{
    buf_printf(out, "<tr><th scope=\"row\">%s</th><td>%s", use, t == TRI_UNKNOWN ? "not known" : t == TRI_YES ? yes : no);
    if (more[0])
        put_text(": ", more, "", out);
    buf_text(out, "</td></tr>\n");
}

static void put_uses(const struct audit *a, struct buf *out)
{
    struct capabilities c;

    report_capabilities(a, &c);
    buf_text(out, "<section aria-labelledby=\"uses\">\n<h2 id=\"uses\">What it can be used for</h2>\n<table><caption>By a sandbox that may reach it, as far as this audit could tell</caption>\n<tbody>\n");
    put_use("Reading without a credential", c.reads_anonymously, "yes", "no", "", out);
    put_use("Writing without a credential", c.writes_anonymously, "yes", "no", "", out);
    put_use("Reaching other hosts through it", c.relays, "yes", "no", c.relays_to, out);
    put_use("Sending clients on to undeclared hosts", c.hands_to[0] ? TRI_YES : TRI_NO, "yes", "none seen", c.hands_to, out);
    put_use("Using a credential elsewhere or as another tenant", c.binds_credential, "no", "yes", "", out);
    put_use("Reading what other tenants wrote", c.isolates_tenants, "no", "yes", "", out);
    put_use("Reading what other callers were given, from its cache", c.isolates_cache, "no", "yes", "", out);
    put_use("Having it repeat what was sent", c.reflects, "yes", "no", "", out);
    if (c.covert_bits)
        buf_printf(out, "<tr><th scope=\"row\">Carrying bits in the path of one request</th><td>%zu</td></tr>\n", c.covert_bits);
    buf_text(out, "</tbody></table>\n</section>\n");
}

/* ---- the tighter policy ---- */

static void put_policy(const struct audit *a, struct buf *out)
{
    struct buf text = {0};
    char *t;

    if (!report_has_policy(a))
        return;
    report_policy_lead(a, &text);
    t = buf_take_text(&text);
    put_text("<section aria-labelledby=\"policy\">\n<h2 id=\"policy\">A tighter policy for the gateway</h2>\n<p>", t, ". It is written for proxy.conf; each line names the findings that it covers.</p>\n", out);
    free(t);
    report_policy(a, &text);
    t = buf_take_text(&text);
    put_text("<pre tabindex=\"0\"><code>", t, "</code></pre>\n</section>\n", out);
    free(t);
}

/* ---- all ---- */

void report_html(const struct audit *a, struct buf *out)
{
    put_head(a, out);
    put_lead(a, out);
    put_unasked(a, out);
    put_navigation(a, out);
    put_facts(a, out);
    buf_text(out, "</header>\n<main>\n<p>An allowlisted service is part of what a sandbox can reach through. The audit asks it two things: does it demand a credential of its own from who asks, and does it refuse to act as a way "
                  "to somewhere else? Each finding says what was asked, what was seen, and what to change.</p>\n");
    put_counts(a, out);
    for (size_t i = 0; i < N_PARTS; i++) {
        if (i == 2)
            put_policy(a, out);
        if (i == 4)
            put_uses(a, out);
        put_part(a, &parts[i], out);
    }
    buf_text(out, "</main>\n<footer><p>Written by exeat audit. A result is as old as its date: audit again when the service, its settings or its version change. No credential stands on this page.</p></footer>\n</body></html>\n");
}
