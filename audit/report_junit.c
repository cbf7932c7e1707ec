/* Owns the form of reports that GitLab and others show as tests: JUnit XML. */
#include "audit/report.h"

/* What takes time is asking. */
static double took_s(const struct audit_result *r)
{
    int64_t ms = 0;

    for (size_t i = 0; i < r->evidence.n; i++)
        ms += r->evidence.list[i]->took_ms;
    return (double)ms / 1000;
}

/* Some show the attribute, some the text: both say what was seen. */
static void put_failure(const struct audit_result *r, struct buf *out)
{
    buf_printf(out, "<failure type=\"%s\" message=\"", verdict_name(r->finding.verdict));
    report_escape(out, r->finding.note);
    buf_printf(out, "\">%s (%s): ", verdict_name(r->finding.verdict), severity_name(r->check->severity));
    report_escape(out, r->finding.note);
    if (r->check->at_service[0]) {
        buf_text(out, "\nAt the service: ");
        report_escape(out, r->check->at_service);
    }
    if (r->check->at_gateway[0]) {
        buf_text(out, "\nAt the gateway: ");
        report_escape(out, r->check->at_gateway);
    }
    buf_text(out, "</failure>");
}

static void put_case(const struct audit_result *r, struct buf *out)
{
    buf_printf(out, "    <testcase classname=\"exeat.audit.%s\" name=\"%s ", r->group->prefix, r->check->id);
    report_escape(out, r->check->title);
    buf_printf(out, "\" time=\"%.3f\">", took_s(r));
    if (audit_keeps_from_passing(r)) {
        put_failure(r, out);
    } else if (r->finding.verdict == VERDICT_NOT_RUN || r->finding.verdict == VERDICT_NA) {
        buf_text(out, "<skipped message=\"");
        report_escape(out, r->finding.note);
        buf_text(out, "\"/>");
    } else {
        buf_printf(out, "<system-out>%s: ", r->is_accepted ? "accepted" : r->is_covered ? "covered by the gateway" : verdict_name(r->finding.verdict));
        report_escape(out, r->finding.note);
        buf_text(out, "</system-out>");
    }
    buf_text(out, "</testcase>\n");
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
    report_escape(out, audit_target(a)->name);
    buf_printf(out, "\" time=\"%.3f\">\n", (double)audit_took_ms(a) / 1000);
    for (size_t i = 0; (g = check_group_at(i)); i++) {
        buf_printf(out, "  <testsuite name=\"%s ", g->prefix);
        report_escape(out, g->title);
        buf_printf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n", g->n, count_in(a, g, true), count_in(a, g, false));
        for (size_t j = 0; j < audit_count(a); j++)
            if (audit_result(a, j)->group == g)
                put_case(audit_result(a, j), out);
        buf_text(out, "  </testsuite>\n");
    }
    buf_text(out, "</testsuites>\n");
}
