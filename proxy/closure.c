/*
 * Services that are closed by hand, as the supervisor has it: who closed and opened which, with a record of each, and every worker
 * told to cut what is open to it. What audits say of a service is not touched: whoever opens it gives that the word again.
 */
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/say.h"
#include "proxy/handout.h"
#include "proxy/standing.h"

static void record(struct supervisor *s, enum revocation_kind kind, const struct suspension *c)
{
    struct record_writer w = recorder_begin(s->recorder, RECORD_REVOCATION);

    record_text(&w, FIELD_KEY, slice_of(revocation_kind_name(kind)));
    record_text(&w, FIELD_VALUE, c->name);
    record_text(&w, FIELD_SERVICE, c->name);
    if (c->why.len)
        record_text(&w, FIELD_DETAIL, c->why);
    record_text(&w, FIELD_BY, c->by);
    record_number(&w, FIELD_UID, c->uid);
    recorder_end(s->recorder, &w, NULL);
}

json_t *closure_list(const struct supervisor *s)
{
    return standing_closed(s->assets.revocations);
}

void closure_remind(const struct supervisor *s)
{
    json_t *all = closure_list(s);
    struct fault unlisted = {0};
    const json_t *one;
    size_t i;

    json_array_foreach(all, i, one) {
        const char *name = json_string_value(json_object_get(one, "service"));

        if (!standing_find(s->config->policy, name, &unlisted))
            say_warning("service %s was closed by hand, and the configuration has none of that name any more; what it listed may be open "
                        "under another: exeat service list", name);
    }
    json_decref(all);
}

static bool carry_out(struct supervisor *s, enum revocation_kind kind, const struct suspension *c, struct fault *why)
{
    if (!revocations_suspend(s->assets.revocations, kind, c, why))
        return false;
    record(s, kind, c);
    authority_changed(s);
    return true;
}

/* The answer (give); NULL and why. A name that nobody lists would be closed in vain; what is closed may be opened, listed or not. */
static json_t *obey(struct supervisor *s, const char *action, const struct suspension *c, struct fault *why)
{
    const struct policy *p = s->config->policy;
    struct fault unlisted = {0};

    if (strcmp(action, "list") == 0)
        return standing_list(p, s->assets.revocations, clock_wall_s());
    if (strcmp(action, "close") == 0 && c->name.len)
        return standing_find(p, c->name.ptr, why) && carry_out(s, REVOKE_CLOSE, c, why) ? json_object() : NULL;
    if (strcmp(action, "open") == 0 && c->name.len)
        return carry_out(s, REVOKE_OPEN, c, why) ? standing_of(standing_find(p, c->name.ptr, &unlisted), clock_wall_s()) : NULL;
    fault_set(why, FAULT_USAGE, "service wants action (list, close, open) and service");
    return NULL;
}

json_t *closure_order(struct supervisor *s, const struct asker *who, const json_t *request)
{
    const char *action = json_string_value(json_object_get(request, "action"));
    struct suspension c = {slice_of(json_string_value(json_object_get(request, "service"))), SLICE("admin"),
                           slice_of(json_string_value(json_object_get(request, "why"))), (int64_t)who->uid, slice_of("")};
    struct fault why = {0};
    json_t *answer = obey(s, action ? action : "", &c, &why);

    if (!answer)
        return orders_refuse(&why);
    json_object_set_new(answer, "ok", json_true());
    return answer;
}
