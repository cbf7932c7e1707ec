/* Owns the words of what came of a planted secret: table, JSON, JUnit. The secret itself stands in none of them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/leak.h"
#include "audit/report.h"
#include "base/text.h"

static const enum leak_verdict in_order[] = {LEAK_OUT, LEAK_INCONCLUSIVE, LEAK_STOPPED, LEAK_CLOSED, LEAK_NOT_RUN};

/* ---- table ---- */

static void put_summary(const struct leak *l, const struct leak_planting *p, struct buf *out)
{
    const char *name = leak_target(l)->name;

    buf_printf(out, "%s: canary %s, planted for sandbox %s, sent by listener %s: ", name, p->canary, p->sandbox, p->listener);
    if (leak_verdict(l) == LEAK_OUT)
        buf_printf(out, "IT CAME OUT by %zu of %zu routes", leak_with(l, LEAK_OUT), leak_count(l));
    else if (leak_trouble(l)[0])
        buf_text(out, "nothing can be told");
    else if (leak_verdict(l) == LEAK_INCONCLUSIVE)
        buf_text(out, "it was not seen outside, but not all can be told");
    else
        buf_text(out, "it did not come out");
    buf_printf(out, " (%zu stopped, %zu closed, %zu inconclusive, %zu not run; %zu requests)\n", leak_with(l, LEAK_STOPPED), leak_with(l, LEAK_CLOSED),
               leak_with(l, LEAK_INCONCLUSIVE), leak_with(l, LEAK_NOT_RUN), leak_requests(l));
}

static void put_row(const struct leak_result *r, struct buf *out)
{
    buf_printf(out, "%-12s  %-15s  %-13s  %s", leak_verdict_name(r->verdict), r->route, r->spelling, r->note);
    if (r->record[0])
        buf_printf(out, " (exeat why %s)", r->record);
    buf_char(out, '\n');
}

static void put_rows(const struct leak *l, enum leak_verdict v, struct buf *out)
{
    for (size_t i = 0; i < leak_count(l); i++)
        if (leak_result(l, i)->verdict == v)
            put_row(leak_result(l, i), out);
}

/* One line for all of a verdict that nobody needs to look at one by one. */
static void put_names(const struct leak *l, enum leak_verdict v, struct buf *out)
{
    const char *before = "";

    if (leak_with(l, v) == 0)
        return;
    buf_printf(out, "%s:", leak_verdict_name(v));
    for (size_t i = 0; i < leak_count(l); i++) {
        const struct leak_result *r = leak_result(l, i);

        if (r->verdict != v || strcmp(before, r->route) == 0)
            continue;
        buf_printf(out, "%s %s", before[0] ? "," : "", r->route);
        before = r->route;
    }
    buf_text(out, "; each with its reason: -v\n");
}

/* What would close the ways it took, once each. */
static void put_advice(const struct leak *l, struct buf *out)
{
    for (size_t i = 0; i < leak_count(l); i++) {
        const struct leak_result *r = leak_result(l, i);
        bool said = false;

        for (size_t j = 0; j < i; j++)
            said |= leak_result(l, j)->verdict == LEAK_OUT && strcmp(leak_result(l, j)->route, r->route) == 0;
        if (r->verdict == LEAK_OUT && !said)
            buf_printf(out, "to close %s (%s): %s\n", r->route, r->place, r->advice);
    }
}

void leak_text(const struct leak *l, const struct leak_planting *p, bool all, struct buf *out)
{
    put_summary(l, p, out);
    if (leak_trouble(l)[0]) {
        buf_printf(out, "%s\n", leak_trouble(l));
        return;
    }
    buf_printf(out, "\n%-12s  %-15s  %-13s  WHAT WAS SEEN\n", "VERDICT", "ROUTE", "SPELLING");
    for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++)
        if (all || in_order[i] <= LEAK_STOPPED)
            put_rows(l, in_order[i], out);
    if (!all) {
        put_names(l, LEAK_CLOSED, out);
        put_names(l, LEAK_NOT_RUN, out);
    }
    if (leak_with(l, LEAK_OUT))
        buf_char(out, '\n');
    put_advice(l, out);
    if (leak_with(l, LEAK_OUT))
        buf_printf(out, "its records: exeat log query --sandbox %s\n", p->sandbox);
}

/* ---- JSON ---- */

static json_t *hash(const unsigned char bytes[32])
{
    struct buf hex = {0};
    json_t *text;

    text_hex(&hex, slice_make((const char *)bytes, 32));
    text = json_stringn(buf_slice(&hex).ptr, buf_len(&hex));
    buf_free(&hex);
    return text;
}

static json_t *turns(const struct evidence *e)
{
    json_t *list = json_array();

    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];
        struct buf text = {0};

        turn_describe(x, &text);
        json_array_append_new(list, json_pack("{s:s, s:i, s:s%, s:o, s:o}", "method", x->method, "status", x->status, "answer", buf_slice(&text).ptr, buf_len(&text), "request",
                                              hash(x->request_hash), "response", hash(x->response_hash)));
        buf_free(&text);
    }
    return list;
}

static json_t *far_ends(const struct leak_result *r)
{
    json_t *list = json_array();

    if (r->is_at_service)
        json_array_append_new(list, json_string("service"));
    if (r->is_in_answer)
        json_array_append_new(list, json_string("answer"));
    if (r->is_at_listener)
        json_array_append_new(list, json_string("listener"));
    if (r->is_at_upstream)
        json_array_append_new(list, json_string("upstream"));
    return list;
}

static json_t *route_of(const struct leak_result *r)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:o, s:o}", "route", r->route, "place", r->place, "spelling", r->spelling, "verdict",
                     leak_verdict_name(r->verdict), "seen", far_ends(r), "reason", r->reason, "record", r->record, "note", r->note, "advice",
                     r->verdict == LEAK_OUT ? r->advice : "", "control", turns(&r->control), "canary", turns(&r->canary));
}

void leak_json(const struct leak *l, const struct leak_planting *p, struct buf *out)
{
    json_t *list = json_array(), *counts = json_object(), *all;
    char *line;

    for (size_t i = 0; i < leak_count(l); i++)
        json_array_append_new(list, route_of(leak_result(l, i)));
    for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++)
        json_object_set_new(counts, leak_verdict_name(in_order[i]), json_integer((json_int_t)leak_with(l, in_order[i])));
    all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o}", "schema", "exeat.leak/1", "service", leak_target(l)->name, "sandbox", p->sandbox, "listener",
                    p->listener, "canary", p->canary, "verdict", leak_verdict_name(leak_verdict(l)), "trouble", leak_trouble(l), "requests",
                    (json_int_t)leak_requests(l), "counts", counts, "routes", list);
    line = json_dumps(all, JSON_COMPACT);
    buf_printf(out, "%s\n", line ? line : "");
    free(line);
    json_decref(all);
}

/* ---- exchanges ---- */

static void put_exchanges(const struct leak_result *r, const struct evidence *e, const char *more, struct buf *out)
{
    char name[64];

    snprintf(name, sizeof name, "%.20s/%.20s%s", r->route, r->spelling, more);
    for (size_t i = 0; i < e->n; i++)
        report_exchange(name, e->list[i], out);
}

void leak_exchanges(const struct leak *l, struct buf *out)
{
    for (size_t i = 0; i < leak_count(l); i++) {
        put_exchanges(leak_result(l, i), &leak_result(l, i)->control, "/control", out);
        put_exchanges(leak_result(l, i), &leak_result(l, i)->canary, "", out);
    }
}

/* ---- JUnit ---- */

static void put_case(const struct leak_result *r, struct buf *out)
{
    bool failed = r->verdict == LEAK_OUT || r->verdict == LEAK_INCONCLUSIVE;

    buf_printf(out, "    <testcase classname=\"exeat.leak\" name=\"%s, %s\">", r->route, r->spelling);
    buf_printf(out, failed ? "<failure type=\"%s\" message=\"" : r->verdict == LEAK_NOT_RUN ? "<skipped message=\"%s: " : "<system-out>%s: ", leak_verdict_name(r->verdict));
    report_escape(out, r->note);
    buf_text(out, failed ? "\">" : r->verdict == LEAK_NOT_RUN ? "\"/>" : "</system-out>");
    if (failed) {
        report_escape(out, r->note);
        buf_text(out, "\nAt the gateway: ");
        report_escape(out, r->advice);
        buf_text(out, "</failure>");
    }
    buf_text(out, "</testcase>\n");
}

/* Without a first control the whole suite is an error: no test of it was one. */
void leak_junit(const struct leak *l, const struct leak_planting *p, struct buf *out)
{
    bool nothing = leak_trouble(l)[0];

    buf_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"exeat audit ");
    report_escape(out, leak_target(l)->name);
    buf_text(out, " --from ");
    report_escape(out, p->sandbox);
    buf_printf(out, "\">\n  <testsuite name=\"does canary %s come out?\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"%zu\">\n", p->canary, leak_count(l) + nothing,
               leak_with(l, LEAK_OUT) + leak_with(l, LEAK_INCONCLUSIVE), nothing, leak_with(l, LEAK_NOT_RUN));
    if (nothing) {
        buf_text(out, "    <testcase classname=\"exeat.leak\" name=\"the first control\"><error message=\"");
        report_escape(out, leak_trouble(l));
        buf_text(out, "\"/></testcase>\n");
    }
    for (size_t i = 0; i < leak_count(l); i++)
        put_case(leak_result(l, i), out);
    buf_text(out, "  </testsuite>\n</testsuites>\n");
}
