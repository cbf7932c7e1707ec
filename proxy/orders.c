/* What the admin socket may ask of the supervisor: status, revoke, quarantine, service, audit, listener and reload. JSON in, JSON out. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "proxy/powers.h"
#include "proxy/reload.h"

static const char *const wall_names[] = {"calls", "heard", "files", "network"}; /* by the bits of enum cell_wall */

static json_t *refused(const struct warden *w)
{
    json_t *o = json_object();
    size_t n;
    const struct warden_count *counts = warden_counts(w, &n);

    for (size_t i = 0; i < n; i++)
        json_object_set_new(o, counts[i].what, json_integer((json_int_t)counts[i].times));
    return o;
}

static json_t *walls(unsigned up)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < sizeof wall_names / sizeof *wall_names; i++)
        if (up & 1U << i)
            json_array_append_new(list, json_string(wall_names[i]));
    return list;
}

static json_t *cell(const struct process *p)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:o}", "may", cell_grants(p->role), "may_not", cell_denies(p->role),
                     "walls", walls(warden_walls(p->warden)), "missing",
                     walls(cell_walls(p->role) & ~warden_walls(p->warden)), "refused",
                     (json_int_t)warden_refused(p->warden), "ended", (json_int_t)warden_ended(p->warden), "refusals",
                     refused(p->warden));
}

static json_t *supervisor(void)
{
    json_t *powers = json_array();
    const char *name;

    for (size_t at = 0; (name = powers_next(&at));)
        json_array_append_new(powers, json_string(name));
    return json_pack("{s:i, s:I, s:o}", "pid", (int)getpid(), "uid", (json_int_t)geteuid(), "powers", powers);
}

static json_t *roles(const struct supervisor *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];

        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:I, s:s, s:i, s:s, s:I, s:o}", "role",
                                              role_name(p->role), "index", p->index, "pid", (int)p->pid, "uid",
                                              (json_int_t)p->uid, "state", process_state_name(p), "restarts",
                                              (int)p->restarts, "trouble", p->trouble, "generation",
                                              (json_int_t)p->generation, "cell", cell(p)));
    }
    return list;
}

static json_t *notes(const struct supervisor *s)
{
    struct slice rest = buf_slice(&s->notes), line;
    json_t *list = json_array();

    while (slice_next(&rest, '\n', &line))
        if (line.len)
            json_array_append_new(list, json_stringn(line.ptr, line.len));
    return list;
}

/* How the last one went; null: there was none. */
static json_t *last_reload(const struct supervisor *s)
{
    int64_t at_s;
    const char *error = reload_last_error(s->reload, &at_s);

    if (!error)
        return json_null();
    return json_pack("{s:I, s:b, s:s}", "at", (json_int_t)at_s, "ok", !*error, "error", error);
}

/* Of what is in force: whoever has the file can tell whether a reload would bring anything else. */
static json_t *digest(const struct supervisor *s)
{
    unsigned char bytes[32];
    struct buf hex = {0};
    json_t *text;

    gateway_digest(s->config, bytes);
    text_hex(&hex, slice_make((const char *)bytes, sizeof bytes));
    text = json_stringn(buf_slice(&hex).ptr, buf_len(&hex));
    buf_free(&hex);
    return text;
}

static json_t *answer_status(const struct supervisor *s)
{
    json_t *status = json_pack("{s:b, s:s, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ready", supervisor_is_ready(s), "version",
                               EXEAT_VERSION, "generation", (json_int_t)s->generation, "configuration", digest(s), "uptime_s",
                               (json_int_t)((loop_now_ms(s->loop) - s->started_ms) / 1000), "supervisor", supervisor(),
                               "roles", roles(s), "listeners", listener_list(s), "notes", notes(s), "reload",
                               last_reload(s), "quarantined", quarantine_list(s), "closed_by_hand", closure_list(s));

    return json_pack("{s:b, s:o}", "ok", 1, "status", status);
}

json_t *orders_refuse(const struct fault *why)
{
    json_t *answer = json_pack("{s:b, s:s}", "ok", 0, "error", why->text);

    if (why->kind == FAULT_USAGE)
        json_object_set_new(answer, "usage", json_true());
    return answer;
}

static json_t *refuse(const char *text)
{
    struct fault why = {0};

    fault_set(&why, FAULT_USAGE, "%s", text);
    return orders_refuse(&why);
}

static void record_revocation(struct supervisor *s, const struct asker *who, const char *kind, const char *value,
                              int64_t until)
{
    struct record_writer w = recorder_begin(s->recorder, RECORD_REVOCATION);

    record_text(&w, FIELD_KEY, slice_of(kind));
    record_text(&w, FIELD_VALUE, slice_of(value));
    if (until)
        record_number(&w, FIELD_UNTIL, until);
    record_text(&w, FIELD_BY, SLICE("admin"));
    record_number(&w, FIELD_UID, (int64_t)who->uid);
    recorder_end(s->recorder, &w, NULL);
}

static json_t *answer_revoke(struct supervisor *s, const struct asker *who, json_t *request)
{
    const char *kind_name = json_string_value(json_object_get(request, "kind"));
    const char *value = json_string_value(json_object_get(request, "value"));
    json_int_t until = json_integer_value(json_object_get(request, "until"));
    struct fault why = {0};
    enum revocation_kind kind;

    if (!kind_name || !value || !revocation_kind_find(slice_of(kind_name), &kind) ||
        revocation_is_suspension(kind))
        return refuse("revoke wants kind (jti, sandbox, issued-before) and value");
    if (!revocations_add(s->assets.revocations, kind, slice_of(value), until, &why))
        return orders_refuse(&why);
    record_revocation(s, who, kind_name, value, until);
    authority_changed(s);
    return json_pack("{s:b}", "ok", 1);
}

bool orders_take(struct supervisor *s, const struct asker *who, struct slice text, struct buf *out)
{
    json_t *request = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, NULL), *answer = NULL;
    const char *command = json_string_value(json_object_get(request, "command"));
    bool later = command && strcmp(command, "reload") == 0;
    char *line;

    if (later)
        reload_ask(s->reload, who);
    else if (command && strcmp(command, "status") == 0)
        answer = answer_status(s);
    else if (command && strcmp(command, "revoke") == 0)
        answer = answer_revoke(s, who, request);
    else if (command && strcmp(command, "quarantine") == 0)
        answer = quarantine_order(s, who, request);
    else if (command && strcmp(command, "audit") == 0)
        answer = receipt_order(s, who, request);
    else if (command && strcmp(command, "service") == 0)
        answer = closure_order(s, who, request);
    else if (command && strcmp(command, "listener") == 0)
        answer = listener_order(s, who, request);
    else
        answer = refuse("unknown command");
    line = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    if (!later)
        buf_text(out, line ? line : "{\"ok\":false,\"error\":\"out of memory\"}");
    free(line);
    json_decref(answer);
    json_decref(request);
    return !later;
}
