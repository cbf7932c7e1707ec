/* Owns how the tighter policy stands in reports. */
#include "audit/report_policy.h"

#include <stdlib.h>

#include "audit/state.h"
#include "audit/tighter.h"

bool report_has_policy(const struct audit *a)
{
    return tighter_count(a->tighter, CLAIM_NONE) > 0;
}

void report_policy_lead(const struct audit *a, struct buf *out)
{
    size_t all = tighter_count(a->tighter, CLAIM_NONE), service = tighter_count(a->tighter, CLAIM_SERVICE);

    if (a->tighter->why.text[0])
        buf_printf(out, "No tighter policy can be made for the gateway: %.200s", a->tighter->why.text);
    else if (service == all)
        buf_printf(out, "Of the %zu weaknesses found no rule of a gateway covers one: only the service can mend them", all);
    else
        buf_printf(out, "A gateway with this policy keeps sandboxes from %zu of the %zu weaknesses found; %s", all - service, all, service ? "the others only the service can mend" : "none is left to the service alone");
}

void report_policy(const struct audit *a, struct buf *out)
{
    if (!report_has_policy(a))
        buf_printf(out, "# services.%s: nothing weak was found, so there is nothing that a rule of the gateway must keep sandboxes from.\n", audit_target(a)->name);
    else
        tighter_yaml(a->tighter, out);
}

static json_t *claimed(const struct audit *a, enum tighter_claim claim)
{
    json_t *list = json_array();

    for (size_t i = 0; i < audit_count(a); i++)
        if (a->tighter->of[i].claim == claim)
            json_array_append_new(list, json_string(audit_result(a, i)->check->id));
    return list;
}

static json_t *service_only(const struct audit *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < audit_count(a); i++)
        if (a->tighter->of[i].claim == CLAIM_SERVICE) {
            struct buf why = {0};

            tighter_why(a->tighter, i, &why);
            json_array_append_new(list, json_pack("{s:s, s:s%}", "check", audit_result(a, i)->check->id, "why", buf_slice(&why).ptr, buf_len(&why)));
            buf_free(&why);
        }
    return list;
}

json_t *report_policy_json(const struct audit *a)
{
    struct buf yaml = {0};
    json_t *j;

    if (!report_has_policy(a))
        return json_null();
    report_policy(a, &yaml);
    j = json_pack("{s:s%, s:o, s:o, s:o}", "yaml", buf_slice(&yaml).ptr, buf_len(&yaml), "covers", claimed(a, CLAIM_LINES), "by-itself", claimed(a, CLAIM_ITSELF), "only-service", service_only(a));
    buf_free(&yaml);
    return j ? j : json_null();
}
