/* Owns the forms of reports that other programs show: JUnit, SARIF, a page. */
#include <jansson.h>
#include <stdlib.h>

#include "audit/report.h"

static bool is_bad(const struct audit_result *r)
{
    enum verdict v = r->finding.verdict;

    return v == VERDICT_FAIL || v == VERDICT_WEAK || v == VERDICT_OPEN || v == VERDICT_INCONCLUSIVE || audit_keeps_from_passing(r);
}

/* XML and HTML alike; what no XML may hold becomes a question mark. */
static void put_escaped(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++)
        switch (*c) {
        case '&': buf_text(out, "&amp;"); break;
        case '<': buf_text(out, "&lt;"); break;
        case '>': buf_text(out, "&gt;"); break;
        case '"': buf_text(out, "&quot;"); break;
        case '\n': buf_char(out, '\n'); break;
        default: buf_char(out, (unsigned char)*c < ' ' || (unsigned char)*c > '~' ? '?' : *c); break;
        }
}

/* ---- JUnit ---- */

static void put_case(const struct audit *a, const struct audit_result *r, struct buf *out)
{
    buf_printf(out, "    <testcase classname=\"exeat.audit.%s\" name=\"%s ", r->group->prefix, r->check->id);
    put_escaped(out, r->check->title);
    buf_text(out, "\">");
    if (audit_keeps_from_passing(r)) {
        buf_printf(out, "<failure type=\"%s\" message=\"", verdict_name(r->finding.verdict));
        put_escaped(out, r->finding.note);
        buf_text(out, "\">At the service: ");
        put_escaped(out, r->check->at_service);
        buf_text(out, "\nAt the gateway: ");
        put_escaped(out, r->check->at_gateway);
        buf_text(out, "</failure>");
    } else if (r->finding.verdict == VERDICT_NOT_RUN || r->finding.verdict == VERDICT_NA) {
        buf_text(out, "<skipped message=\"");
        put_escaped(out, r->finding.note);
        buf_text(out, "\"/>");
    } else {
        buf_printf(out, "<system-out>%s: ", r->is_accepted ? "accepted" : verdict_name(r->finding.verdict));
        put_escaped(out, r->finding.note);
        buf_text(out, "</system-out>");
    }
    buf_text(out, "</testcase>\n");
    (void)a;
}

static bool counts(const struct audit_result *r, const struct check_group *g, bool failed)
{
    bool skipped = r->finding.verdict == VERDICT_NOT_RUN || r->finding.verdict == VERDICT_NA;

    return r->group == g && (failed ? audit_keeps_from_passing(r) : skipped && !audit_keeps_from_passing(r));
}

static size_t count_in(const struct audit *a, const struct check_group *g, bool failed)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(a); i++)
        n += counts(audit_result(a, i), g, failed);
    return n;
}

void report_junit(const struct audit *a, struct buf *out)
{
    const struct check_group *g;

    buf_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"exeat audit ");
    put_escaped(out, audit_target(a)->name);
    buf_printf(out, "\" time=\"%.3f\">\n", (double)audit_took_ms(a) / 1000);
    for (size_t i = 0; (g = check_group_at(i)); i++) {
        buf_printf(out, "  <testsuite name=\"%s ", g->prefix);
        put_escaped(out, g->title);
        buf_printf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n", g->n, count_in(a, g, true), count_in(a, g, false));
        for (size_t j = 0; j < audit_count(a); j++)
            if (audit_result(a, j)->group == g)
                put_case(a, audit_result(a, j), out);
        buf_text(out, "  </testsuite>\n");
    }
    buf_text(out, "</testsuites>\n");
}

/* ---- SARIF ---- */

static const char *security_score(enum severity s)
{
    static const char *const scores[] = {[SEVERITY_INFO] = "0.0", [SEVERITY_LOW] = "3.0", [SEVERITY_MEDIUM] = "5.5", [SEVERITY_HIGH] = "8.0", [SEVERITY_CRITICAL] = "9.5"};

    return scores[s];
}

static json_t *rule_json(const struct check *c)
{
    struct buf help = {0};
    json_t *j;
    char *text;

    buf_printf(&help, "At the service: %s At the gateway: %s%s%s", c->at_service, c->at_gateway, c->standard[0] ? " Basis: " : "", c->standard);
    text = buf_take_text(&help);
    j = json_pack("{s:s, s:s, s:{s:s}, s:{s:s}, s:{s:s, s:[s, s]}}", "id", c->id, "name", c->id, "shortDescription", "text", c->title, "help", "text", text, "properties", "security-severity",
                  security_score(c->severity), "tags", "security", "trust-handoff");
    free(text);
    return j;
}

static const char *level_of(const struct audit_result *r)
{
    if (!is_bad(r))
        return "none";
    if (audit_keeps_from_passing(r))
        return "error";
    return r->finding.verdict == VERDICT_INCONCLUSIVE ? "note" : "warning";
}

static const char *kind_of(const struct audit_result *r)
{
    switch (r->finding.verdict) {
    case VERDICT_PASS: return "pass";
    case VERDICT_NA: return "notApplicable";
    case VERDICT_NOT_RUN: return "open";
    case VERDICT_INCONCLUSIVE: return "review";
    default: return "fail";
    }
}

/* "level" must be none unless the kind is fail (SARIF 3.27.10). */
static json_t *result_json(const struct audit_result *r, size_t index, const char *uri)
{
    bool fails = slice_is(slice_of(kind_of(r)), "fail");
    json_t *j = json_pack("{s:s, s:I, s:s, s:s, s:{s:s}, s:[{s:{s:{s:s}}}], s:{s:s}, s:{s:s}}", "ruleId", r->check->id, "ruleIndex", (json_int_t)index, "kind", kind_of(r), "level", fails ? level_of(r) : "none",
                          "message", "text", r->finding.note[0] ? r->finding.note : "not asked", "locations", "physicalLocation", "artifactLocation", "uri", uri, "partialFingerprints", "exeatCheck/v1",
                          r->check->id, "properties", "verdict", verdict_name(r->finding.verdict));

    if (r->is_accepted)
        json_object_set_new(j, "suppressions", json_pack("[{s:s, s:s, s:s}]", "kind", "external", "status", "accepted", "justification", r->accept_reason));
    return j;
}

void report_sarif(const struct audit *a, struct buf *out)
{
    json_t *rules = json_array(), *results = json_array(), *root;
    struct buf url = {0};
    char *uri, *text;

    target_url(audit_target(a), 0, &url);
    uri = buf_take_text(&url);
    for (size_t i = 0; i < audit_count(a); i++) {
        json_array_append_new(rules, rule_json(audit_result(a, i)->check));
        json_array_append_new(results, result_json(audit_result(a, i), i, uri));
    }
    root = json_pack("{s:s, s:s, s:[{s:{s:{s:s, s:s, s:s, s:o}}, s:o}]}", "$schema", "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs", "tool", "driver", "name", "exeat audit", "version",
                     EXEAT_VERSION, "informationUri", "https://exeat.example/handoff", "rules", rules, "results", results);
    if (!root || !(text = json_dumps(root, JSON_INDENT(1) | JSON_ENSURE_ASCII)))
        abort();
    buf_printf(out, "%s\n", text);
    free(text);
    free(uri);
    json_decref(root);
}

/* ---- a page ---- */

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
        put_escaped(out, t);
        free(t);
        buf_text(out, "</code></td><td>");
        put_escaped(out, x->variant);
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
    put_escaped(out, r->check->title);
    buf_text(out, "</b><br>");
    put_escaped(out, r->finding.note);
    if (r->through.n) {
        buf_text(out, "<p class=\"fix\"><b>Through the gateway:</b> ");
        put_escaped(out, r->through_finding.note);
        buf_text(out, "</p>");
    }
    if (is_bad(r)) {
        buf_text(out, "<p class=\"fix\"><b>At the service:</b> ");
        put_escaped(out, r->check->at_service);
        if (r->check->at_gateway[0]) {
            buf_text(out, "</p><p class=\"fix\"><b>At the gateway:</b> ");
            put_escaped(out, r->check->at_gateway);
        }
        buf_text(out, "</p>");
        if (r->check->standard[0]) {
            buf_text(out, "<p class=\"fix\"><b>Basis:</b> ");
            put_escaped(out, r->check->standard);
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
    return !r->is_accepted && !audit_keeps_from_passing(r) && is_bad(r);
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
        put_escaped(out, c.relays_to);
    }
    buf_text(out, "</td></tr>\n<tr><td>hosts that its answers send clients on to, undeclared</td><td>");
    put_escaped(out, c.hands_to[0] ? c.hands_to : "none seen");
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
    put_escaped(out, audit_target(a)->name);
    buf_printf(out, "</title><style>%s</style></head><body>\n<h1>Trust-handoff audit of ", style);
    put_escaped(out, audit_target(a)->name);
    report_summary(a, &summary);
    text = buf_take_text(&summary);
    buf_printf(out, "</h1>\n<p class=\"lead %s\">The service ", audit_is_passing(a) ? "good" : "bad");
    put_escaped(out, text);
    free(text);
    buf_text(out, ".</p>\n<p>An allowlisted service is part of what a sandbox can reach through. This page shows what it does for callers who should get nothing, and where it can be made to go. Each row says what was "
                  "asked, what was seen, and what to change.</p>\n<p>Owner: ");
    put_escaped(out, conf_text(owner, "name"));
    buf_text(out, ". &ldquo;");
    put_escaped(out, conf_text(owner, "statement"));
    buf_text(out, "&rdquo; The service calls itself: ");
    put_escaped(out, audit_version(a)[0] ? audit_version(a) : "nothing");
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
