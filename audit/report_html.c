/* Owns the page of an audit: HTML that needs nothing else. */
#include <stdlib.h>

#include "audit/report.h"

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#1b1f24;background:#fff}"
    "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.15em;margin-top:2em}.lead{font-size:1.1em}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.35em .6em;border-bottom:1px solid #d8dee4}"
    ".v{font-weight:600;white-space:nowrap}.fail,.bad{color:#a40e26}.weak,.open{color:#8a4600}.inconclusive{color:#6639a6}.pass,.good{color:#116329}"
    ".na,.not-run{color:#57606a}summary{cursor:pointer}details table{font-size:.9em}code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}"
    ".fix{color:#24292f;margin:.2em 0}.fix b{font-weight:600}";

static const char *class_of(enum verdict v)
{
    return v == VERDICT_NA ? "na" : verdict_name(v);
}

static void put_evidence(const struct audit_result *r, struct buf *out)
{
    if (r->evidence.n == 0)
        return;
    buf_printf(out, "<details><summary>%zu exchange%s%s</summary><table><tr><th>sent</th><th>variant</th><th>answer</th></tr>\n", r->evidence.n, r->evidence.n == 1 ? "" : "s",
               r->evidence.n_hits ? ", and the listener was called" : "");
    for (size_t i = 0; i < r->evidence.n; i++) {
        const struct turn *x = r->evidence.list[i];
        struct buf text = {0};
        char *t;

        buf_printf(&text, "%s %.160s%s", x->method, x->shown, strlen(x->shown) > 160 ? "..." : "");
        t = buf_take_text(&text);
        buf_text(out, "<tr><td><code>");
        report_escape(out, t);
        free(t);
        buf_text(out, "</code></td><td>");
        report_escape(out, x->variant);
        turn_describe(x, &text);
        buf_printf(out, "</td><td>%.*s</td></tr>\n", SLICE_ARG(buf_slice(&text)));
        buf_free(&text);
    }
    buf_text(out, "</table></details>");
}

static void put_row(const struct audit_result *r, struct buf *out)
{
    buf_printf(out, "<tr id=\"%s\"><td class=\"v %s\">%s</td><td>%s</td><td>%s</td><td><b>", r->check->id, class_of(r->finding.verdict), r->is_accepted ? "accepted" : r->is_covered ? "covered" : verdict_name(r->finding.verdict),
               severity_name(r->check->severity), r->check->id);
    report_escape(out, r->check->title);
    buf_text(out, "</b><br>");
    report_escape(out, r->finding.note);
    if (r->through.n) {
        buf_text(out, "<p class=\"fix\"><b>Through the gateway:</b> ");
        report_escape(out, r->through_finding.note);
        buf_text(out, "</p>");
    }
    if (report_is_bad(r)) {
        buf_text(out, "<p class=\"fix\"><b>At the service:</b> ");
        report_escape(out, r->check->at_service);
        if (r->check->at_gateway[0]) {
            buf_text(out, "</p><p class=\"fix\"><b>At the gateway:</b> ");
            report_escape(out, r->check->at_gateway);
        }
        buf_text(out, "</p>");
        if (r->check->standard[0]) {
            buf_text(out, "<p class=\"fix\"><b>Basis:</b> ");
            report_escape(out, r->check->standard);
            buf_text(out, "</p>");
        }
    }
    put_evidence(r, out);
    buf_text(out, "</td></tr>\n");
}

static void put_table(const struct audit *a, const char *title, bool (*belongs)(const struct audit_result *), struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(a); i++)
        n += belongs(audit_result(a, i));
    if (n == 0)
        return;
    buf_printf(out, "<h2>%s (%zu)</h2>\n<table>\n", title, n);
    for (int s = SEVERITY_CRITICAL; s >= SEVERITY_INFO; s--)
        for (size_t i = 0; i < audit_count(a); i++)
            if ((int)audit_result(a, i)->check->severity == s && belongs(audit_result(a, i)))
                put_row(audit_result(a, i), out);
    buf_text(out, "</table>\n");
}

static bool is_accepted(const struct audit_result *r)
{
    return r->is_accepted;
}

static bool is_against(const struct audit_result *r)
{
    return !r->is_accepted && audit_keeps_from_passing(r);
}

static bool is_lesser(const struct audit_result *r)
{
    return !r->is_accepted && !audit_keeps_from_passing(r) && report_is_bad(r);
}

static bool is_good(const struct audit_result *r)
{
    return !r->is_accepted && r->finding.verdict == VERDICT_PASS;
}

static bool is_unasked(const struct audit_result *r)
{
    return !r->is_accepted && !audit_keeps_from_passing(r) && (r->finding.verdict == VERDICT_NA || r->finding.verdict == VERDICT_NOT_RUN);
}

static const char *tri_word(enum tri t, const char *yes, const char *no)
{
    return t == TRI_UNKNOWN ? "not known" : t == TRI_YES ? yes : no;
}

static void put_capabilities(const struct audit *a, struct buf *out)
{
    struct capabilities c;

    report_capabilities(a, &c);
    buf_text(out, "<h2>What it can be used for</h2>\n<table>\n");
    buf_printf(out, "<tr><td>reading without a credential</td><td>%s</td></tr>\n", tri_word(c.reads_anonymously, "yes", "no"));
    buf_printf(out, "<tr><td>writing without a credential</td><td>%s</td></tr>\n", tri_word(c.writes_anonymously, "yes", "no"));
    buf_printf(out, "<tr><td>reaching other hosts through it</td><td>%s", tri_word(c.relays, "yes", "no"));
    if (c.relays_to[0]) {
        buf_text(out, ": ");
        report_escape(out, c.relays_to);
    }
    buf_text(out, "</td></tr>\n<tr><td>hosts that its answers send clients on to, undeclared</td><td>");
    report_escape(out, c.hands_to[0] ? c.hands_to : "none seen");
    buf_printf(out, "</td></tr>\n<tr><td>credentials held to their service and tenant</td><td>%s</td></tr>\n", tri_word(c.binds_credential, "yes", "no"));
    buf_printf(out, "<tr><td>tenants kept apart</td><td>%s</td></tr>\n", tri_word(c.isolates_tenants, "yes", "no"));
    buf_printf(out, "<tr><td>its cache keeps callers apart</td><td>%s</td></tr>\n", tri_word(c.isolates_cache, "yes", "no"));
    buf_printf(out, "<tr><td>answers that repeat what was sent</td><td>%s</td></tr>\n", tri_word(c.reflects, "yes", "no"));
    if (c.covert_bits)
        buf_printf(out, "<tr><td>bits that a path carries in one request</td><td>%zu</td></tr>\n", c.covert_bits);
    buf_text(out, "</table>\n");
}

static void put_unasked(const struct audit *a, struct buf *out)
{
    struct buf sentence = {0};

    report_unasked(a, &sentence);
    if (buf_len(&sentence))
        buf_printf(out, "<p class=\"bad\">%.*s</p>\n", SLICE_ARG(buf_slice(&sentence)));
    buf_free(&sentence);
}

void report_html(const struct audit *a, struct buf *out)
{
    const struct conf_item *owner = manifest_section(audit_target(a)->manifest, "owner");
    struct buf summary = {0};
    char *text;

    buf_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "style-src 'unsafe-inline'\"><title>Audit of ");
    report_escape(out, audit_target(a)->name);
    buf_printf(out, "</title><style>%s</style></head><body>\n<h1>Trust-handoff audit of ", style);
    report_escape(out, audit_target(a)->name);
    report_summary(a, &summary);
    text = buf_take_text(&summary);
    buf_printf(out, "</h1>\n<p class=\"lead %s\">The service ", audit_is_passing(a) ? "good" : "bad");
    report_escape(out, text);
    free(text);
    buf_text(out, ".</p>\n<p>An allowlisted service is part of what a sandbox can reach through. This page shows what it does for callers who should get nothing, and where it can be made to go. Each row says what was "
                  "asked, what was seen, and what to change.</p>\n<p>Owner: ");
    report_escape(out, conf_text(owner, "name"));
    buf_text(out, ". &ldquo;");
    report_escape(out, conf_text(owner, "statement"));
    buf_text(out, "&rdquo; The service calls itself: ");
    report_escape(out, audit_version(a)[0] ? audit_version(a) : "nothing");
    buf_text(out, ".</p>\n");
    put_unasked(a, out);
    put_table(a, "Accepted by the owner", is_accepted, out);
    put_table(a, "What keeps it from passing", is_against, out);
    put_capabilities(a, out);
    put_table(a, "Lesser findings", is_lesser, out);
    put_table(a, "Good answers", is_good, out);
    put_table(a, "Not asked, or not applicable", is_unasked, out);
    buf_text(out, "</body></html>\n");
}
