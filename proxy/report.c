#include "proxy/report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *read_json(struct slice text)
{
    return json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, NULL);
}

bool report_is(struct slice line, const char *wanted)
{
    json_t *root = read_json(line);
    const char *command = json_string_value(json_object_get(root, "command"));
    bool yes = command && strcmp(command, wanted) == 0;

    json_decref(root);
    return yes;
}

static json_t *counters(const struct metrics *m)
{
    json_t *o = json_object();

    for (int c = 0; c < N_COUNTERS; c++)
        json_object_set_new(o, counter_name((enum counter)c), json_integer((json_int_t)metrics_sum(m, (enum counter)c)));
    json_object_set_new(o, counter_name(COUNTER_JOURNAL_OPEN), json_integer(metrics_journal_is_open(m)));
    return o;
}

static json_t *waived(const struct service *s)
{
    return json_pack("{s:s, s:s}", "service", service_name(s), "audit", service_audit(s));
}

static json_t *audited(const struct service *s)
{
    const struct attested *a = service_attested(s);

    return json_pack("{s:s, s:I, s:I}", "service", service_name(s), "at", (json_int_t)a->at_s, "until", (json_int_t)a->until_s);
}

static json_t *closed(const struct service *s, int64_t now_s)
{
    struct buf why = {0};
    json_t *one;

    if (service_is_shut(s))
        buf_text(&why, "by hand; see: exeat service list");
    else
        attested_explain(service_attested(s), now_s, &why);
    one = json_pack("{s:s, s:s%, s:b}", "service", service_name(s), "why", buf_slice(&why).ptr, buf_len(&why), "by_hand",
                    service_is_shut(s));
    buf_free(&why);
    return one;
}

/* Each service is in one of three lists. */
static void add_services(json_t *status, const struct metrics *m)
{
    json_t *is_waived = json_array(), *is_audited = json_array(), *is_closed = json_array();

    for (size_t i = 0; m->policy && i < policy_count(m->policy); i++) {
        const struct service *s = policy_service(m->policy, i);

        if (service_is_waived(s) && !service_is_shut(s))
            json_array_append_new(is_waived, waived(s));
        else if (service_is_open(s, m->now_s))
            json_array_append_new(is_audited, audited(s));
        else
            json_array_append_new(is_closed, closed(s, m->now_s));
    }
    json_object_set_new(status, "waived", is_waived);
    json_object_set_new(status, "audited", is_audited);
    json_object_set_new(status, "closed", is_closed);
}

static json_t *issuers(const struct metrics *m)
{
    json_t *list = json_array();

    for (size_t i = 0; i < m->n_issuers; i++) {
        const struct metrics_issuer *is = &m->issuers[i];

        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:b, s:s}", "issuer", is->name, "uri", is->uri, "keys",
                                              (json_int_t)is->keys, "fetched", (json_int_t)is->fetched_s, "until",
                                              (json_int_t)is->until_s, "good", is->good, "error", is->error));
    }
    return list;
}

void report_status(struct buf *out, struct slice answer, const struct metrics *m)
{
    json_t *root = read_json(answer), *status = json_object_get(root, "status");
    bool open = metrics_journal_is_open(m);
    char *line = NULL;

    if (json_is_object(status)) {
        json_object_set_new(status, "journal", json_pack("{s:b}", "open", open));
        if (!open || !metrics_has_keys(m))
            json_object_set_new(status, "ready", json_false());
        json_object_set_new(status, "counters", counters(m));
        add_services(status, m);
        json_object_set_new(status, "issuers", issuers(m));
        line = json_dumps(root, JSON_COMPACT);
    }
    if (line)
        buf_text(out, line);
    else
        buf_append(out, answer);
    free(line);
    json_decref(root);
}

/* Out of descriptors or memory: it goes on by itself when some are free. */
static void add_exhausted(json_t *missing, int error)
{
    char text[120];

    snprintf(text, sizeof text, "no new connections: %s", strerror(error));
    json_array_append_new(missing, json_string(text));
}

static void add_role(json_t *missing, const json_t *role)
{
    const char *name = json_string_value(json_object_get(role, "role"));
    const char *state = json_string_value(json_object_get(role, "state"));
    const char *trouble = json_string_value(json_object_get(role, "trouble"));
    bool up = state && strcmp(state, "up") == 0, troubled = trouble && trouble[0];
    struct buf text = {0};

    if (up && !troubled)
        return;
    buf_text(&text, name ? name : "a role");
    if (name && strcmp(name, "worker") == 0)
        buf_printf(&text, " %d", (int)json_integer_value(json_object_get(role, "index")));
    if (!up)
        buf_printf(&text, " is %s", state ? state : "unknown");
    if (troubled)
        buf_printf(&text, ": %s", trouble);
    json_array_append_new(missing, json_stringn(buf_slice(&text).ptr, buf_len(&text)));
    buf_free(&text);
}

static void add_issuer(json_t *missing, const struct metrics_issuer *is)
{
    struct buf text = {0};

    buf_printf(&text, "issuer %s: its keys %s%s%s", is->name, is->fetched_s ? "are too old" : "were not fetched yet",
               is->error[0] ? ": " : "", is->error);
    json_array_append_new(missing, json_stringn(buf_slice(&text).ptr, buf_len(&text)));
    buf_free(&text);
}

bool report_ready(struct buf *out, struct slice answer, const struct metrics *m)
{
    json_t *root = read_json(answer), *status = json_object_get(root, "status"), *missing = json_array(), *body, *role;
    size_t i;
    bool ready;
    char *line;

    if (!json_is_object(status))
        json_array_append_new(missing, json_string("the supervisor does not answer"));
    json_array_foreach(json_object_get(status, "roles"), i, role)
        add_role(missing, role);
    if (!metrics_journal_is_open(m))
        json_array_append_new(missing, json_string("the journal is closed"));
    for (i = 0; i < m->n_issuers && !metrics_has_keys(m); i++)
        add_issuer(missing, &m->issuers[i]);
    if (metrics_exhausted(m))
        add_exhausted(missing, metrics_exhausted(m));
    if (json_array_size(missing) == 0 && !json_is_true(json_object_get(status, "ready")))
        json_array_append_new(missing, json_string("the supervisor says not ready"));
    ready = json_array_size(missing) == 0;
    body = ready ? json_pack("{s:b}", "ready", 1) : json_pack("{s:b, s:O}", "ready", 0, "missing", missing);
    line = json_dumps(body, JSON_COMPACT);
    buf_text(out, line ? line : "{\"ready\":false}");
    buf_char(out, '\n');
    free(line);
    json_decref(body);
    json_decref(missing);
    json_decref(root);
    return ready && line;
}
