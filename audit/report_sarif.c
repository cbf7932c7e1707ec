/*
 * Owns the form of reports that GitHub and others show as alerts: SARIF 2.1.0, in what code scanning takes of it. That shows
 * every result as an alert whatever its kind, and refuses a file that puts a result at a URL: so results are findings alone, and each
 * stands where the manifest names its service.
 */
#include <jansson.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "audit/report.h"
#include "base/clock.h"
#include "base/text.h"

#define SCHEMA "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#define ROOT "%SRCROOT%" /* what code scanning calls the checked-out tree */

/* Jansson is out of memory, or we wrote a wrong format. */
static json_t *must(json_t *j)
{
    if (!j)
        abort();
    return j;
}

static json_t *json_of(struct buf *text)
{
    json_t *j = must(json_stringn(buf_slice(text).ptr, buf_len(text)));

    buf_free(text);
    return j;
}

/* ---- rules ---- */

/* Code scanning sorts alerts by it: above 9 critical, 7 high, 4 medium, 0 low. */
static const char *security_score(enum severity s)
{
    static const char *const scores[] = {[SEVERITY_INFO] = "0.1", [SEVERITY_LOW] = "3.0", [SEVERITY_MEDIUM] = "5.5", [SEVERITY_HIGH] = "8.0", [SEVERITY_CRITICAL] = "9.5"};

    return scores[s];
}

static const char *usual_level(enum severity s)
{
    return s >= SEVERITY_HIGH ? "error" : s == SEVERITY_MEDIUM ? "warning" : "note";
}

/* "TokenValidation7" of TV-7. */
static json_t *name_of(const struct check_group *g, const struct check *c)
{
    struct buf name = {0};
    bool starts = true;

    for (const char *t = g->title; *t; t++)
        if (*t == ' ' || *t == '-') {
            starts = true;
        } else {
            buf_char(&name, starts && *t >= 'a' && *t <= 'z' ? (char)(*t - 'a' + 'A') : !starts && *t >= 'A' && *t <= 'Z' ? (char)(*t - 'A' + 'a') : *t);
            starts = false;
        }
    buf_text(&name, strchr(c->id, '-') + 1);
    return json_of(&name);
}

static void put_help(const struct check *c, const char *bold, struct buf *out)
{
    buf_printf(out, "%s%s%s\n\n", bold, c->title, bold);
    if (c->at_service[0])
        buf_printf(out, "%sAt the service:%s %s\n\n", bold, bold, c->at_service);
    if (c->at_gateway[0])
        buf_printf(out, "%sAt the gateway:%s %s\n\n", bold, bold, c->at_gateway);
    if (c->standard[0])
        buf_printf(out, "%sBasis:%s %s\n\n", bold, bold, c->standard);
    buf_truncate(out, buf_len(out) - 2);
}

static json_t *rule_json(const struct audit_result *r)
{
    const struct check *c = r->check;
    struct buf full = {0}, plain = {0}, markdown = {0};

    buf_printf(&full, "%s One of the questions of %s (%s).", c->title, r->group->title, r->group->prefix);
    put_help(c, "", &plain);
    put_help(c, "**", &markdown);
    return must(json_pack("{s:s, s:o, s:{s:s}, s:{s:o}, s:{s:o, s:o}, s:{s:s}, s:{s:s, s:s, s:[s, s]}}", "id", c->id, "name", name_of(r->group, c), "shortDescription", "text", c->title, "fullDescription",
                          "text", json_of(&full), "help", "text", json_of(&plain), "markdown", json_of(&markdown), "defaultConfiguration", "level", usual_level(c->severity), "properties",
                          "security-severity", security_score(c->severity), "precision", "high", "tags", "security", "trust-handoff"));
}

/* ---- where ---- */

/* In the tree that the audit runs in a path of the tree's, elsewhere a file: URL; what no URI may hold is percent-encoded. */
static json_t *place_uri(struct slice path, bool *is_in_tree)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    struct buf uri = {0};
    char *here = getcwd(NULL, 0);

    if (here && slice_starts(path, slice_of(here)) && path.len > strlen(here) && path.ptr[strlen(here)] == '/')
        path = slice_from(path, strlen(here) + 1);
    free(here);
    while (slice_starts(path, SLICE("./")))
        path = slice_from(path, 2);
    *is_in_tree = path.len && path.ptr[0] != '/';
    if (!*is_in_tree)
        buf_text(&uri, "file://");
    for (size_t i = 0; i < path.len; i++)
        if (path.ptr[i] && strchr(plain, path.ptr[i]))
            buf_char(&uri, path.ptr[i]);
        else
            buf_printf(&uri, "%%%02X", (unsigned)(unsigned char)path.ptr[i]);
    return json_of(&uri);
}

/* "file:line:col" of the service's url in the manifest. */
static json_t *location_json(const struct target *t)
{
    struct buf place = {0};
    struct slice file, numbers[2] = {{0}};
    uint64_t line = 1, column = 1;
    bool is_in_tree;
    json_t *uri, *j;

    conf_place(t->item, "url", &place);
    file = buf_slice(&place);
    for (size_t i = 0; i < 2; i++) {
        size_t at = file.len;

        while (at > 0 && file.ptr[at - 1] != ':')
            at--;
        numbers[i] = slice_from(file, at);
        file = slice_cut(file, 0, at ? at - 1 : 0);
    }
    slice_decimal(numbers[0], 1000000, &column);
    slice_decimal(numbers[1], 1000000, &line);
    uri = place_uri(file, &is_in_tree);
    j = must(json_pack("{s:{s:{s:o}, s:{s:I, s:I, s:I, s:I}}, s:[{s:s, s:s}]}", "physicalLocation", "artifactLocation", "uri", uri, "region", "startLine", (json_int_t)line, "startColumn", (json_int_t)column, "endLine",
                       (json_int_t)line, "endColumn", (json_int_t)(column + strlen(conf_text(t->item, "url"))), "logicalLocations", "name", t->name, "kind", "resource"));
    if (is_in_tree)
        json_object_set_new(json_object_get(json_object_get(j, "physicalLocation"), "artifactLocation"), "uriBaseId", json_string(ROOT));
    buf_free(&place);
    return j;
}

/* ---- results ---- */

static const char *level_of(const struct audit_result *r)
{
    if (audit_keeps_from_passing(r))
        return "error";
    return r->finding.verdict == VERDICT_INCONCLUSIVE ? "note" : "warning";
}

/* The same finding of the same service, wherever the manifest's lines go. */
static json_t *fingerprint(const struct target *t, const struct check *c)
{
    struct buf text = {0}, hex = {0};
    unsigned char hash[32];

    buf_printf(&text, "exeat audit/%s/%s", t->name, c->id);
    SHA256((const unsigned char *)buf_slice(&text).ptr, buf_len(&text), hash);
    text_hex(&hex, slice_make(hash, 8));
    buf_text(&hex, ":1");
    buf_free(&text);
    return json_of(&hex);
}

/* The form of a message demands a sentence; the notes are the words after one. */
static json_t *message_of(const struct audit *a, const struct audit_result *r)
{
    struct buf text = {0};

    buf_printf(&text, "%s: %s: %s.", audit_target(a)->name, verdict_name(r->finding.verdict), r->finding.note[0] ? r->finding.note : "not asked");
    if (r->check->at_service[0])
        buf_printf(&text, " At the service: %s", r->check->at_service);
    if (r->check->at_gateway[0])
        buf_printf(&text, " At the gateway: %s", r->check->at_gateway);
    return json_of(&text);
}

static json_t *result_json(const struct audit *a, const struct audit_result *r, size_t index)
{
    const char *quiet = r->is_accepted ? r->accept_reason : r->is_covered ? "covered by the gateway's rules" : NULL;
    json_t *j = must(json_pack("{s:s, s:I, s:s, s:s, s:{s:o}, s:[o], s:{s:o}, s:{s:s}}", "ruleId", r->check->id, "ruleIndex", (json_int_t)index, "kind", "fail", "level", level_of(r), "message", "text", message_of(a, r),
                               "locations", location_json(audit_target(a)), "partialFingerprints", "primaryLocationLineHash", fingerprint(audit_target(a), r->check), "properties", "verdict",
                               verdict_name(r->finding.verdict)));

    if (quiet)
        json_object_set_new(j, "suppressions", must(json_pack("[{s:s, s:s, s:s}]", "kind", "external", "status", "accepted", "justification", quiet)));
    return j;
}

static json_t *time_json(int64_t s)
{
    struct buf text = {0};

    clock_rfc3339(&text, s * 1000000000);
    buf_truncate(&text, buf_len(&text) - 11);
    buf_char(&text, 'Z');
    return json_of(&text);
}

static json_t *counts_json(const struct audit *a)
{
    json_t *j = json_object();

    for (int v = 0; v < VERDICTS; v++)
        json_object_set_new(j, verdict_name((enum verdict)v), json_integer((json_int_t)report_count(a, (enum verdict)v)));
    return j;
}

/* Each service a category of its own: the next upload of one does not close another's alerts. */
static json_t *run_json(const struct audit *a, json_t *rules, json_t *results)
{
    struct buf id = {0};

    buf_printf(&id, "exeat-audit/%s/", audit_target(a)->name);
    return must(json_pack("{s:{s:{s:s, s:s, s:s, s:o}}, s:{s:o}, s:[{s:b, s:o, s:o}], s:s, s:o, s:{s:b, s:o}}", "tool", "driver", "name", "exeat audit", "version", EXEAT_VERSION, "semanticVersion", EXEAT_VERSION,
                          "rules", rules, "automationDetails", "id", json_of(&id), "invocations", "executionSuccessful", 1, "startTimeUtc", time_json(audit_began_s(a)), "endTimeUtc",
                          time_json(audit_began_s(a) + audit_took_ms(a) / 1000), "columnKind", "unicodeCodePoints", "results", results, "properties", "passing", audit_is_passing(a), "counts", counts_json(a)));
}

void report_sarif(const struct audit *a, struct buf *out)
{
    json_t *rules = json_array(), *results = json_array(), *root;
    char *text;

    for (size_t i = 0; i < audit_count(a); i++) {
        const struct audit_result *r = audit_result(a, i);

        json_array_append_new(rules, rule_json(r));
        if (report_is_bad(r))
            json_array_append_new(results, result_json(a, r, i));
    }
    root = must(json_pack("{s:s, s:s, s:[o]}", "$schema", SCHEMA, "version", "2.1.0", "runs", run_json(a, rules, results)));
    if (!(text = json_dumps(root, JSON_INDENT(1) | JSON_ENSURE_ASCII)))
        abort();
    buf_printf(out, "%s\n", text);
    free(text);
    json_decref(root);
}
