#include "proxy/standing.h"

#include <jansson.h>
#include <string.h>

#include "base/guess.h"

json_t *standing_of(const struct service *s, int64_t now_s)
{
    struct buf why = {0};
    json_t *o;

    if (!s)
        return json_pack("{s:b, s:s}", "open", 0, "why", "no service of the configuration is called that");
    if (!service_is_waived(s))
        attested_explain(service_attested(s), now_s, &why);
    o = json_pack("{s:s, s:b, s:s%, s:s}", "service", service_name(s), "open", service_is_waived(s) || buf_len(&why) == 0, "why",
                  buf_len(&why) ? buf_slice(&why).ptr : "", buf_len(&why), "waived", service_is_waived(s) ? service_audit(s) : "");
    buf_free(&why);
    return o;
}

static void add_closed(void *arg, const struct suspension *c)
{
    json_t *one = json_pack("{s:s%, s:s%, s:s%, s:s%}", "service", c->name.ptr, c->name.len, "since", c->at.ptr, c->at.len, "by",
                            c->by.ptr, c->by.len, "why", c->why.ptr, c->why.len);

    if (one && c->uid >= 0)
        json_object_set_new(one, "uid", json_integer((json_int_t)c->uid));
    json_array_append_new(arg, one ? one : json_null());
}

json_t *standing_closed(const struct revocations *r)
{
    json_t *list = json_array();

    revocations_each_suspension(r, REVOKE_CLOSE, add_closed, list);
    return list;
}

json_t *standing_list(const struct policy *p, const struct revocations *r, int64_t now_s)
{
    json_t *services = json_array();

    for (size_t i = 0; i < policy_count(p); i++)
        json_array_append_new(services, standing_of(policy_service(p, i), now_s));
    return json_pack("{s:o, s:o}", "services", services, "closed", standing_closed(r));
}

const struct service *standing_find(const struct policy *p, const char *name, struct fault *why)
{
    struct guess g = {.word = name};

    for (size_t i = 0; i < policy_count(p); i++) {
        const char *candidate = service_name(policy_service(p, i));

        if (strcmp(candidate, name) == 0)
            return policy_service(p, i);
        guess_try(&g, candidate);
    }
    if (g.best)
        fault_set(why, FAULT_USAGE, "no service is called \"%.60s\"; did you mean %.60s?", name, g.best);
    else
        fault_set(why, FAULT_USAGE, "no service is called \"%.60s\"; see: exeat service list", name);
    return NULL;
}
