/* Owns the words of reports: summary, table, JSON, log of exchanges. */
#include "audit/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/plain.h"
#include "audit/probes.h"
#include "audit/report_policy.h"
#include "audit/state.h"
#include "base/clock.h"

/* ---- for all ---- */

size_t report_count(const struct audit *a, enum verdict v)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(a); i++)
        n += audit_result(a, i)->finding.verdict == v;
    return n;
}

void report_summary(const struct audit *a, struct buf *out)
{
    size_t against = 0, accepted = 0, covered = 0;

    for (size_t i = 0; i < audit_count(a); i++) {
        against += audit_keeps_from_passing(audit_result(a, i));
        accepted += audit_result(a, i)->is_accepted;
        covered += audit_result(a, i)->is_covered;
    }
    buf_printf(out, "%s %s: ", audit_target(a)->name, audit_is_passing(a) ? "passes" : "does not pass");
    if (against)
        buf_printf(out, "%zu critical or high findings stand against it; ", against);
    buf_printf(out, "%zu fail, %zu weak, %zu open, %zu inconclusive, %zu pass", report_count(a, VERDICT_FAIL), report_count(a, VERDICT_WEAK), report_count(a, VERDICT_OPEN),
               report_count(a, VERDICT_INCONCLUSIVE), report_count(a, VERDICT_PASS));
    if (covered)
        buf_printf(out, "; %zu covered by the gateway", covered);
    if (accepted)
        buf_printf(out, "; %zu accepted by its owner", accepted);
    buf_printf(out, " (%zu requests in %.1f s)", audit_requests(a), (double)audit_took_ms(a) / 1000);
}

void report_unasked(const struct audit *a, struct buf *out)
{
    size_t n = 0, grave = 0;

    for (size_t i = 0; i < audit_count(a); i++) {
        const struct audit_result *r = audit_result(a, i);

        if (audit_left_unasked(a, r)) {
            n++;
            grave += r->check->severity >= SEVERITY_HIGH;
        }
    }
    if (n == 0)
        return;
    buf_printf(out, "The budget of %zu requests left %zu checks unasked or asked in part, %zu of them critical or high:", audit_budget(a), n, grave);
    for (int s = SEVERITY_CRITICAL; s >= SEVERITY_INFO; s--)
        for (size_t i = 0; i < audit_count(a); i++)
            if ((int)audit_result(a, i)->check->severity == s && audit_left_unasked(a, audit_result(a, i)))
                buf_printf(out, " %s", audit_result(a, i)->check->id);
    buf_printf(out, ". --requests %zu would do for all.", audit_would_do(a));
}

bool report_is_bad(const struct audit_result *r)
{
    enum verdict v = r->finding.verdict;

    return v == VERDICT_FAIL || v == VERDICT_WEAK || v == VERDICT_OPEN || v == VERDICT_INCONCLUSIVE || audit_keeps_from_passing(r);
}

void report_escape(struct buf *out, const char *text)
{
    for (size_t n; *text; text += n) {
        n = plain_character(text);
        if (*text == '&')
            buf_text(out, "&amp;");
        else if (*text == '<')
            buf_text(out, "&lt;");
        else if (*text == '>')
            buf_text(out, "&gt;");
        else if (*text == '"')
            buf_text(out, "&quot;");
        else if (*text == '\'')
            buf_text(out, "&#39;");
        else if (n)
            buf_append(out, slice_make(text, n));
        else
            buf_char(out, *text == '\n' ? '\n' : '?');
        n = n ? n : 1;
    }
}

/* ---- capabilities ---- */

static const struct audit_result *result_of(const struct audit *a, const char *id)
{
    for (size_t i = 0; i < audit_count(a); i++)
        if (slice_is(slice_of(audit_result(a, i)->check->id), id))
            return audit_result(a, i);
    return NULL;
}

/* Bad when one of them is, good when one is and none is bad. */
static enum tri tri_of(const struct audit *a, const char *const *ids, enum tri when_bad)
{
    enum tri t = TRI_UNKNOWN;

    for (size_t i = 0; ids[i]; i++) {
        enum verdict v = result_of(a, ids[i])->finding.verdict;

        if (v == VERDICT_FAIL || v == VERDICT_WEAK || v == VERDICT_OPEN)
            return when_bad;
        if (v == VERDICT_PASS)
            t = when_bad == TRI_YES ? TRI_NO : TRI_YES;
    }
    return t;
}

static void where_it_went(const struct audit *a, char out[120])
{
    static const char *const ids[] = {"RL-1", "RL-2", "RL-3", "RL-4", "RL-8", "FU-1", "FU-6", "FU-2", "FU-4"};
    char who[120];

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const struct evidence *e = &result_of(a, ids[i])->evidence;

        if (!e->n_hits)
            continue;
        describe_hit(&e->hits[0], who);
        snprintf(out, 120, "%.*s", (int)strcspn(who, " "), who);
        return;
    }
}

void report_capabilities(const struct audit *a, struct capabilities *out)
{
    *out = (struct capabilities){
        .reads_anonymously = tri_of(a, (const char *const[]){"AN-1", "AN-2", NULL}, TRI_YES),
        .writes_anonymously = tri_of(a, (const char *const[]){"AN-3", "AN-4", NULL}, TRI_YES),
        .relays = tri_of(a, (const char *const[]){"RL-1", "RL-2", "RL-3", "RL-4", "RL-8", "FU-1", "FU-6", NULL}, TRI_YES),
        .binds_credential = tri_of(a, (const char *const[]){"AS-1", "AS-10", "RP-6", NULL}, TRI_NO),
        .isolates_tenants = tri_of(a, (const char *const[]){"XT-1", "XT-2", "XT-3", "XT-6", NULL}, TRI_NO),
        .isolates_cache = tri_of(a, (const char *const[]){"CI-1", "CI-2", "CI-5", NULL}, TRI_NO),
        .reflects = tri_of(a, (const char *const[]){"CR-1", "CR-2", "CR-3", "CN-1", "CN-2", NULL}, TRI_YES),
        .covert_bits = covert_bytes(&result_of(a, "UP-2")->evidence) * 6,
    };
    where_it_went(a, out->relays_to);
    if (result_of(a, "RD-1")->finding.verdict == VERDICT_WEAK) {
        const char *at = strstr(result_of(a, "RD-1")->finding.note, "client to ");

        if (at)
            snprintf(out->hands_to, sizeof out->hands_to, "%.*s", (int)strcspn(at + 10, " "), at + 10);
    }
}

/* ---- text ---- */

/* The order of a report: what keeps it from passing, then by verdict, the catalogue's order within. */
static int rank_of(const struct audit_result *r)
{
    static const int ranks[] = {[VERDICT_FAIL] = 1, [VERDICT_WEAK] = 2, [VERDICT_OPEN] = 3, [VERDICT_INCONCLUSIVE] = 4, [VERDICT_PASS] = 5, [VERDICT_NA] = 6, [VERDICT_NOT_RUN] = 7};

    return audit_keeps_from_passing(r) ? 0 : ranks[r->finding.verdict];
}

static void put_line(const struct audit_result *r, struct buf *out)
{
    buf_printf(out, "%-12s %-8s %-5s %s\n", verdict_name(r->finding.verdict), severity_name(r->check->severity), r->check->id, r->check->title);
    buf_printf(out, "%28s%s\n", "", r->finding.note);
    if (r->through.n)
        buf_printf(out, "%28s%s through the gateway: %s\n", "", r->is_covered ? "covered," : "not covered,", r->through_finding.note);
    if (rank_of(r) <= 3 && r->check->at_service[0])
        buf_printf(out, "%28sservice: %s\n", "", r->check->at_service);
    if (rank_of(r) <= 3 && r->check->at_gateway[0])
        buf_printf(out, "%28sgateway: %s\n", "", r->check->at_gateway);
}

static void put_accepted(const struct audit *a, struct buf *out)
{
    for (size_t i = 0; i < audit_count(a); i++) {
        const struct audit_result *r = audit_result(a, i);

        if (r->is_accepted)
            buf_printf(out, "%-12s %-8s %-5s %s (%s)\n", "accepted", severity_name(r->check->severity), r->check->id, r->check->title, r->accept_reason);
        else if (r->accept_reason)
            buf_printf(out, "%-12s %-8s %-5s \"%s\" is not in force, or not any more: it needs \" until \" and a date to come\n", "not accepted", severity_name(r->check->severity), r->check->id, r->accept_reason);
    }
}

/* Two blanks in, so that where it begins and ends is seen. */
static void put_policy(const struct audit *a, struct buf *out)
{
    struct buf yaml = {0};
    struct slice rest, line;

    if (!report_has_policy(a))
        return;
    report_policy(a, &yaml);
    rest = buf_slice(&yaml);
    buf_char(out, '\n');
    report_policy_lead(a, out);
    buf_text(out, " (--policy FILE writes it):\n\n");
    while (rest.len && slice_next(&rest, '\n', &line))
        buf_printf(out, "  %.*s\n", SLICE_ARG(line));
    buf_char(out, '\n');
    buf_free(&yaml);
}

void report_text(const struct audit *a, bool all, struct buf *out)
{
    put_accepted(a, out);
    for (int rank = 0; rank <= (all ? 7 : 4); rank++)
        for (size_t i = 0; i < audit_count(a); i++)
            if (rank_of(audit_result(a, i)) == rank)
                put_line(audit_result(a, i), out);
    put_policy(a, out);
    if (audit_would_do(a)) {
        report_unasked(a, out);
        buf_char(out, '\n');
    }
    report_summary(a, out);
    buf_char(out, '\n');
}

/* ---- JSON ---- */

static json_t *hex_of(const unsigned char hash[32])
{
    struct buf hex = {0};
    json_t *j;

    text_hex(&hex, slice_make(hash, 32));
    j = json_stringn(buf_slice(&hex).ptr, buf_len(&hex));
    buf_free(&hex);
    return j;
}

static json_t *text_of(const char *text)
{
    json_t *j = json_string(text);

    return j ? j : json_string("[not UTF-8]");
}

static json_t *exchange_json(const struct turn *x)
{
    static const char *const names[] = {"anonymous", "first", "second", "junk", "token"};
    struct buf answer = {0}, sent = {0};
    json_t *j = json_object();
    char *text;

    buf_printf(&sent, "%s %.400s", x->method, x->shown);
    turn_describe(x, &answer);
    text = buf_take_text(&sent);
    json_object_set_new(j, "sent", text_of(text));
    free(text);
    json_object_set_new(j, "as", json_string(names[x->who]));
    json_object_set_new(j, "variant", text_of(x->variant));
    json_object_set_new(j, "answer", x->outcome == OUTCOME_ANSWERED ? json_integer(x->status) : json_stringn(buf_slice(&answer).ptr, buf_len(&answer)));
    json_object_set_new(j, "ms", json_integer(x->took_ms));
    json_object_set_new(j, "request", hex_of(x->request_hash));
    json_object_set_new(j, "response", hex_of(x->response_hash));
    buf_free(&answer);
    return j;
}

static json_t *hit_json(const struct hit *h)
{
    char who[120];

    return text_of(describe_hit(h, who));
}

static json_t *check_json(const struct audit_result *r)
{
    const struct check *c = r->check;
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:{s:s, s:s}}", "check", c->id, "group", r->group->title, "severity", severity_name(c->severity), "title", c->title, "verdict",
                          verdict_name(r->finding.verdict), "note", r->finding.note, "accepted", r->is_accepted, "against", audit_keeps_from_passing(r), "standard", c->standard, "fix", "service", c->at_service,
                          "gateway", c->at_gateway);
    json_t *evidence = json_array(), *hits = json_array();

    for (size_t i = 0; i < r->evidence.n; i++)
        json_array_append_new(evidence, exchange_json(r->evidence.list[i]));
    for (size_t i = 0; i < r->evidence.n_hits; i++)
        json_array_append_new(hits, hit_json(&r->evidence.hits[i]));
    json_object_set_new(j, "covered", json_boolean(r->is_covered));
    if (r->through.n)
        json_object_set_new(j, "through", json_pack("{s:s, s:s}", "verdict", verdict_name(r->through_finding.verdict), "note", r->through_finding.note));
    json_object_set_new(j, "evidence", evidence);
    json_object_set_new(j, "listener", hits);
    return j;
}

static json_t *tri_json(enum tri t)
{
    return t == TRI_UNKNOWN ? json_null() : json_boolean(t == TRI_YES);
}

static json_t *capabilities_json(const struct audit *a)
{
    struct capabilities c;
    json_t *j = json_object(), *relays = json_array(), *hands = json_array();

    report_capabilities(a, &c);
    json_object_set_new(j, "reads-anonymously", tri_json(c.reads_anonymously));
    json_object_set_new(j, "writes-anonymously", tri_json(c.writes_anonymously));
    json_object_set_new(j, "relays", tri_json(c.relays));
    if (c.relays_to[0])
        json_array_append_new(relays, text_of(c.relays_to));
    json_object_set_new(j, "relays-to", relays);
    if (c.hands_to[0])
        json_array_append_new(hands, text_of(c.hands_to));
    json_object_set_new(j, "hands-to", hands);
    json_object_set_new(j, "binds-credential", tri_json(c.binds_credential));
    json_object_set_new(j, "isolates-tenants", tri_json(c.isolates_tenants));
    json_object_set_new(j, "isolates-cache", tri_json(c.isolates_cache));
    json_object_set_new(j, "reflects", tri_json(c.reflects));
    json_object_set_new(j, "covert-bits", c.covert_bits ? json_integer((json_int_t)c.covert_bits) : json_null());
    return j;
}

static json_t *time_json(int64_t s)
{
    struct buf text = {0};
    json_t *j;

    clock_rfc3339(&text, s * 1000000000);
    buf_truncate(&text, buf_len(&text) - 11);
    buf_char(&text, 'Z');
    j = json_stringn(buf_slice(&text).ptr, buf_len(&text));
    buf_free(&text);
    return j;
}

static json_t *counts_json(const struct audit *a)
{
    json_t *j = json_object();

    for (int v = 0; v < VERDICTS; v++)
        json_object_set_new(j, verdict_name((enum verdict)v), json_integer((json_int_t)report_count(a, (enum verdict)v)));
    return j;
}

/* null: everything was asked. */
static json_t *unasked_json(const struct audit *a)
{
    json_t *ids = json_array();

    for (size_t i = 0; i < audit_count(a); i++)
        if (audit_left_unasked(a, audit_result(a, i)))
            json_array_append_new(ids, json_string(audit_result(a, i)->check->id));
    if (json_array_size(ids))
        return json_pack("{s:I, s:o, s:I}", "budget", (json_int_t)audit_budget(a), "checks", ids, "would-do", (json_int_t)audit_would_do(a));
    json_decref(ids);
    return json_null();
}

static json_t *accepted_json(const struct audit *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < audit_count(a); i++)
        if (audit_result(a, i)->is_accepted)
            json_array_append_new(list, json_pack("{s:s, s:s}", "check", audit_result(a, i)->check->id, "reason", audit_result(a, i)->accept_reason));
    return list;
}

void report_json(const struct audit *a, struct buf *out)
{
    const struct target *t = audit_target(a);
    const struct conf_item *owner = manifest_section(t->manifest, "owner");
    json_t *checks = json_array(), *j;
    struct buf url = {0};
    char *text;

    target_url(t, 0, &url);
    text = buf_take_text(&url);
    j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s}, s:o, s:s, s:I, s:I, s:b}", "schema", "exeat.audit/1", "service", t->name, "url", text, "kind", target_text(t, "kind"), "version", audit_version(a),
                  "owner", "name", conf_text(owner, "name"), "statement", conf_text(owner, "statement"), "started", time_json(audit_began_s(a)), "probes", AUDIT_PROBES, "requests",
                  (json_int_t)audit_requests(a), "ms", (json_int_t)audit_took_ms(a), "passing", audit_is_passing(a));
    free(text);
    for (size_t i = 0; i < audit_count(a); i++)
        json_array_append_new(checks, check_json(audit_result(a, i)));
    json_object_set_new(j, "finished", time_json(audit_began_s(a) + audit_took_ms(a) / 1000));
    json_object_set_new(j, "counts", counts_json(a));
    json_object_set_new(j, "accepted", accepted_json(a));
    json_object_set_new(j, "unasked", unasked_json(a));
    json_object_set_new(j, "checks", checks);
    json_object_set_new(j, "capabilities", capabilities_json(a));
    json_object_set_new(j, "policy", report_policy_json(a));
    if (!(text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII)))
        abort();
    buf_printf(out, "%s\n", text);
    free(text);
    json_decref(j);
}

void report_attested(const struct audit *a, const struct receipt *receipt, struct buf *out)
{
    json_t *j = json_pack("{s:s, s:I, s:o, s:o, s:o}", "version", audit_version(a), "requests", (json_int_t)audit_requests(a), "counts",
                          counts_json(a), "accepted", accepted_json(a), "exchanges", hex_of(receipt->root));
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII);

    if (!text)
        abort();
    buf_text(out, text);
    free(text);
    json_decref(j);
}

/* ---- exchanges ---- */

void report_exchange(const char *check, const struct turn *x, struct buf *out)
{
    json_t *j = exchange_json(x);
    char *text;

    json_object_set_new(j, "schema", json_string("exeat.audit-exchange/1"));
    json_object_set_new(j, "check", json_string(check));
    if (x->is_shared)
        json_object_set_new(j, "shared", json_true());
    if ((text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII)))
        buf_printf(out, "%s\n", text);
    free(text);
    json_decref(j);
}

static void put_exchange(void *arg, const char *check, const struct turn *x)
{
    report_exchange(check, x, arg);
}

/* What was asked again through the gateway comes behind all the rest. */
void report_exchanges(const struct audit *a, struct buf *out)
{
    audit_each_turn(a, put_exchange, out);
    for (size_t i = 0; i < audit_count(a); i++) {
        const struct audit_result *r = audit_result(a, i);
        char name[64];

        snprintf(name, sizeof name, "%s/through", r->check->id);
        for (size_t j = 0; j < r->through.n; j++)
            report_exchange(name, r->through.list[j], out);
    }
}
