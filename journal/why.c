/* Joins the records of one exchange. Finding them is query.c's, telling them story.c's. */
#include <stdlib.h>
#include <string.h>

#include "journal/query.h"
#include "journal/story.h"
#include "journal/view.h"

enum { RECORDS_MAX = 2000 };

#define HOUR_NS (3600 * INT64_C(1000000000))

/* Each matching line, read, into the array arg; no more than RECORDS_MAX. */
static bool collect(void *arg, struct slice line)
{
    json_t *records = arg;

    json_array_append_new(records, json_loadb(line.ptr, line.len, 0, NULL));
    return json_array_size(records) < RECORDS_MAX;
}

static json_t *ask(const char *directory, const struct query *q, struct fault *why)
{
    json_t *records = json_array();
    struct fault reading = {0};
    size_t matched;

    if (query_run(directory, q, collect, records, &matched, &reading) || json_array_size(records) >= RECORDS_MAX)
        return records;
    json_decref(records);
    fault_set(why, reading.kind, "%s", reading.text);
    return NULL;
}

/* A little before the moment that an id carries in front (UUIDv7, milliseconds): nothing of it is older. */
static int64_t since_of(const char *id)
{
    struct id parsed;
    int64_t ms = 0;

    if (!id || !id_parse(slice_of(id), &parsed))
        return 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | parsed.bytes[i];
    if (ms > INT64_MAX / 1000000 || ms * 1000000 < HOUR_NS)
        return 0; /* no clock of ours made it: look everywhere */
    return ms * 1000000 - HOUR_NS;
}

static bool is_kind(const json_t *record, enum record_kind kind)
{
    const char *name = view_text(record, "kind");

    return name && strcmp(name, record_kind_name(kind)) == 0;
}

static bool has_id(const json_t *record, const char *id)
{
    const char *own = view_text(record, "id");

    return own && strcmp(own, id) == 0;
}

/* The last of a kind among those of id; NULL id: any. */
static const json_t *last_of(const json_t *records, const char *id, enum record_kind kind)
{
    for (size_t i = json_array_size(records); i-- > 0;) {
        const json_t *r = json_array_get(records, i);

        if (is_kind(r, kind) && (!id || has_id(r, id)))
            return r;
    }
    return NULL;
}

/* Of an exchange, or of a question to a DNS listener. */
static const json_t *decision_of(const json_t *records, const char *id)
{
    const json_t *d = last_of(records, id, RECORD_DECISION);

    return d ? d : last_of(records, id, RECORD_QUESTION);
}

/* ---- which exchange ---- */

/* The id of the last exchange decided, into the array of its one record. */
static json_t *find_last(const char *directory, const struct why_which *which, struct fault *why)
{
    struct query q = {.kind = record_kind_name(RECORD_DECISION), .sandbox = which->sandbox, .last = 1,
                      .action = which->refused ? "deny" : NULL};

    return ask(directory, &q, why);
}

/* Records of the exchange: by the given id, or of the last one. *id: its whole id, borrowed from the records. */
static json_t *find(const char *directory, const struct why_which *which, const char **id, struct fault *why)
{
    const char *given = which->id, *sandbox = which->sandbox;
    json_t *last = given ? NULL : find_last(directory, which, why), *records = NULL;
    const json_t *newest;

    if (!given && !last)
        return NULL;
    if (!given)
        given = view_text(json_array_get(last, 0), "id");
    if (given) {
        struct query q = {.id = given, .since_ns = since_of(given), .sandbox = last ? NULL : sandbox};

        records = ask(directory, &q, why);
    } else {
        fault_set(why, FAULT_REFUSED, "the journal holds no%s exchange%s%.60s yet", which->refused ? " refused" : "",
                  sandbox ? " of sandbox " : "", sandbox ? sandbox : "");
    }
    newest = decision_of(records, NULL);
    if (!newest)
        newest = json_array_get(records, json_array_size(records) ? json_array_size(records) - 1 : 0);
    if (records && !(*id = view_text(newest, "id"))) {
        fault_set(why, FAULT_REFUSED, "the journal holds no exchange %.40s%s%.60s", given, sandbox ? " of sandbox " : "",
                  sandbox ? sandbox : "");
        json_decref(records);
        records = NULL;
    }
    json_decref(last);
    return records;
}

/* Other ids that the short one fits. */
static json_t *other_ids(const json_t *records, const char *id)
{
    json_t *others = json_object(), *list = json_array();
    const char *key;
    json_t *value;

    for (size_t i = 0; i < json_array_size(records); i++) {
        const char *own = view_text(json_array_get(records, i), "id");

        if (own && strcmp(own, id) != 0)
            json_object_set_new(others, own, json_true());
    }
    json_object_foreach(others, key, value)
        json_array_append_new(list, json_string(key));
    json_decref(others);
    return list;
}

/* ---- the join ---- */

/* All of a kind among those of id. */
static json_t *all_of(const json_t *records, const char *id, enum record_kind kind)
{
    json_t *found = json_array();

    for (size_t i = 0; i < json_array_size(records); i++) {
        json_t *r = json_array_get(records, i);

        if (is_kind(r, kind) && has_id(r, id))
            json_array_append(found, r);
    }
    return found;
}

static void count_inner(struct story *s, const json_t *inner)
{
    for (size_t i = 0; i < json_array_size(inner); i++) {
        const char *action = view_text(json_array_get(inner, i), "action");

        if (!is_kind(json_array_get(inner, i), RECORD_DECISION))
            continue;
        s->inner++;
        s->inner_refused += action && strcmp(action, "deny") == 0;
    }
}

struct join {
    const char *id;
    json_t *records;  /* of all ids that fit */
    json_t *outer;    /* of the tunnel it came through */
    json_t *inner;    /* what came through it */
    json_t *findings, *sums;
};

static bool join_tunnel(const char *directory, struct join *j, struct fault *why)
{
    const char *tunnel = view_text(last_of(j->records, j->id, RECORD_DECISION), "tunnel");
    struct query outer = {.id = tunnel, .since_ns = since_of(tunnel)};
    struct query inner = {.tunnel = j->id, .since_ns = since_of(j->id)};

    if (tunnel && !(j->outer = ask(directory, &outer, why)))
        return false;
    return tunnel || (j->inner = ask(directory, &inner, why));
}

static json_t *tell(const struct join *j)
{
    struct story s = {
        .decision = decision_of(j->records, j->id),
        .question = last_of(j->records, j->id, RECORD_QUESTION),
        .lookup = last_of(j->records, j->id, RECORD_LOOKUP),
        .dial = last_of(j->records, j->id, RECORD_DIAL),
        .certificate = last_of(j->records, j->id, RECORD_CERTIFICATE),
        .result = last_of(j->records, j->id, RECORD_RESULT),
        .connection = last_of(j->inner, NULL, RECORD_CONNECTION),
        .findings = j->findings,
        .sums = j->sums,
        .tunnel_dial = last_of(j->outer, NULL, RECORD_DIAL),
        .audit = last_of(j->records, j->id, RECORD_AUDIT),
    };

    count_inner(&s, j->inner);
    return story_tell(&s);
}

/* ---- the answer ---- */

static void put_text(struct buf *out, const struct join *j, const json_t *story, const json_t *others)
{
    const char *ts = view_text(decision_of(j->records, j->id), "ts");
    const json_t *audit = last_of(j->records, j->id, RECORD_AUDIT);

    if (!ts)
        ts = view_text(audit, "ts");
    buf_text(out, audit ? "Audit " : last_of(j->records, j->id, RECORD_QUESTION) ? "Question " : "Exchange ");
    view_put(out, j->id);
    if (ts) {
        buf_text(out, ", ");
        view_put(out, ts);
    }
    buf_text(out, "\n");
    for (size_t i = 0; i < json_array_size(story); i++)
        buf_printf(out, "%s\n", json_string_value(json_array_get(story, i)));
    for (size_t i = 0; i < json_array_size(others); i++) {
        buf_text(out, i ? ", " : "The same short id also fits: ");
        view_put(out, json_string_value(json_array_get(others, i)));
    }
    if (json_array_size(others))
        buf_text(out, ".\n");
}

static void set_text(json_t *o, const char *key, const json_t *record, const char *name)
{
    const char *text = view_text(record, name);

    json_object_set_new(o, key, text ? json_string(text) : json_null());
}

static json_t *own_records(const struct join *j)
{
    json_t *own = json_array();

    for (size_t i = 0; i < json_array_size(j->records); i++)
        if (has_id(json_array_get(j->records, i), j->id))
            json_array_append(own, json_array_get(j->records, i));
    return own;
}

static void put_json(struct buf *out, const struct join *j, json_t *story, json_t *others)
{
    const json_t *d = decision_of(j->records, j->id), *r = last_of(j->records, j->id, RECORD_RESULT);
    json_t *o = json_pack("{s:s, s:s}", "schema", "exeat.why/1", "id", j->id);
    struct slice what = {"", 0}, advice = {"", 0};
    const char *code = view_text(r, "reason");
    enum reason reason;
    char *text;

    if (!code)
        code = view_text(d, "reason");
    if (code && reason_find(slice_of(code), &reason)) {
        what = reason_sentence(reason);
        advice = reason_advice(reason);
    }
    set_text(o, "tunnel", d, "tunnel");
    set_text(o, "sandbox", d, "sandbox");
    set_text(o, "service", d, "service");
    set_text(o, "action", d, "action");
    json_object_set_new(o, "reason", code ? json_string(code) : json_null());
    json_object_set_new(o, "says", json_stringn(what.ptr, what.len));
    json_object_set_new(o, "operator", json_stringn(advice.ptr, advice.len));
    set_text(o, "outcome", r, "outcome");
    json_object_set(o, "story", story);
    json_object_set(o, "others", others);
    json_object_set_new(o, "records", own_records(j));
    text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER);
    buf_printf(out, "%s\n", text);
    free(text);
    json_decref(o);
}

bool query_why(const char *directory, const struct why_which *which, bool json, struct buf *out, struct fault *why)
{
    struct join j = {0};
    json_t *story = NULL, *others = NULL;
    bool ok = false;

    if (!(j.records = find(directory, which, &j.id, why)) || !join_tunnel(directory, &j, why))
        goto out;
    j.findings = all_of(j.records, j.id, RECORD_FINDING);
    j.sums = all_of(j.records, j.id, RECORD_LIMIT);
    others = other_ids(j.records, j.id);
    story = tell(&j);
    if (json)
        put_json(out, &j, story, others);
    else
        put_text(out, &j, story, others);
    ok = true;
out:
    json_decref(story);
    json_decref(others);
    json_decref(j.findings);
    json_decref(j.sums);
    json_decref(j.inner);
    json_decref(j.outer);
    json_decref(j.records);
    return ok;
}
