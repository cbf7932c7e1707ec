/*
 * Sandboxes in quarantine, as the supervisor has it: who is put in and let out, by whom, with a record of each, and every
 * worker told to cut what is open.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/pack.h"
#include "base/say.h"
#include "canary/canary.h"
#include "proxy/handout.h"
#include "proxy/suspects.h"

void authority_changed(struct supervisor *s)
{
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].role == ROLE_WORKER && s->processes[i].state == PROCESS_UP)
            process_tell(&s->processes[i], MSG_AUTHORITY, NULL, -1);
}

static void record(struct supervisor *s, enum revocation_kind kind, const struct suspension *q)
{
    struct record_writer w = recorder_begin(s->recorder, RECORD_REVOCATION);

    record_text(&w, FIELD_KEY, slice_of(revocation_kind_name(kind)));
    record_text(&w, FIELD_VALUE, q->name);
    record_text(&w, FIELD_SANDBOX, q->name);
    if (q->why.len)
        record_text(&w, FIELD_DETAIL, q->why);
    record_text(&w, FIELD_BY, q->by);
    if (q->uid >= 0)
        record_number(&w, FIELD_UID, q->uid);
    recorder_end(s->recorder, &w, NULL);
}

static bool carry_out(struct supervisor *s, enum revocation_kind kind, const struct suspension *q, struct fault *why)
{
    if (!revocations_suspend(s->assets.revocations, kind, q, why))
        return false;
    record(s, kind, q);
    authority_changed(s);
    return true;
}

/* ---- by the admin socket ---- */

static void list_one(void *arg, const struct suspension *q)
{
    json_t *one = json_pack("{s:s%, s:s%, s:s%, s:s%}", "sandbox", q->name.ptr, q->name.len, "since", q->at.ptr,
                            q->at.len, "by", q->by.ptr, q->by.len, "why", q->why.ptr, q->why.len);

    if (one && q->uid >= 0)
        json_object_set_new(one, "uid", json_integer((json_int_t)q->uid));
    json_array_append_new(arg, one ? one : json_null());
}

json_t *quarantine_list(const struct supervisor *s)
{
    json_t *list = json_array();

    revocations_each_suspension(s->assets.revocations, REVOKE_QUARANTINE, list_one, list);
    return list;
}

json_t *quarantine_order(struct supervisor *s, const struct asker *who, const json_t *request)
{
    const char *action = json_string_value(json_object_get(request, "action"));
    const char *sandbox = json_string_value(json_object_get(request, "sandbox"));
    struct suspension q = {slice_of(sandbox), SLICE("admin"), slice_of(json_string_value(json_object_get(request, "why"))),
                           (int64_t)who->uid, slice_of("")};
    struct fault why = {0};
    bool ok;

    if (action && strcmp(action, "list") == 0)
        return json_pack("{s:b, s:o}", "ok", 1, "sandboxes", quarantine_list(s));
    if (action && sandbox && strcmp(action, "add") == 0)
        ok = carry_out(s, REVOKE_QUARANTINE, &q, &why);
    else if (action && sandbox && strcmp(action, "release") == 0)
        ok = carry_out(s, REVOKE_RELEASE, &q, &why);
    else
        ok = fault_set(&why, FAULT_USAGE, "quarantine wants action (list, add, release) and sandbox");
    if (!ok)
        return orders_refuse(&why);
    return json_pack("{s:b}", "ok", 1);
}

/* ---- by the gateway itself ---- */

static void put_in(struct supervisor *s, struct slice sandbox, const char *text)
{
    struct suspension q = {sandbox, SLICE("gateway"), slice_of(text), -1, slice_of("")};
    struct fault why = {0};

    if (carry_out(s, REVOKE_QUARANTINE, &q, &why))
        say_error("sandbox %.*s is in quarantine: %s; see: exeat quarantine list", SLICE_ARG(sandbox), text);
    else
        say_error("sandbox %.*s cannot be put in quarantine: %s", SLICE_ARG(sandbox), why.text);
}

static void convict(void *arg, struct slice sandbox)
{
    put_in(arg, sandbox, "it had a request in flight at three crashes of a worker");
}

/* Several of its requests may carry one at once; the first puts it in. */
bool quarantine_leak(struct supervisor *s, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct slice sandbox = unpack_bytes(&u), canary = slice_cut(unpack_bytes(&u), 0, 80);
    char text[120];

    if (!unpack_done(&u) || !revocation_check(REVOKE_QUARANTINE, sandbox, NULL))
        return false;
    if (strcmp(conf_text(conf_section(s->config->conf, "canaries"), "on-leak"), "quarantine") != 0)
        return true; /* of the configuration before */
    if (canary_is_audits(canary))
        return true; /* whoever planted it sent it: its record says so, and the sandbox need not stop for it */
    snprintf(text, sizeof text, "it sent canary %.*s", SLICE_ARG(canary));
    if (!revocations_suspends(s->assets.revocations, REVOKE_QUARANTINE, sandbox))
        put_in(s, sandbox, text);
    return true;
}

void quarantine_crash(struct supervisor *s, const struct process *worker)
{
    struct fault why = {0};

    if (!suspects_crash(s->suspects, s->assets.tallies[worker->index], clock_wall_s(), convict, s, &why))
        say_warning("who was there when %s ended is not known: %s", process_name(worker), why.text);
}
