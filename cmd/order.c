#include "cmd/order.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/admin.h"
#include "proxy/config.h"

bool order_open(struct order *o, const char *config, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    *o = (struct order){.conf = conf_load(config, sections, n, why)};
    if (!o->conf)
        return false;
    o->admin = conf_text(conf_section(o->conf, "admin"), "address");
    o->ledger = file_join(conf_text(conf_section(o->conf, "gateway"), "state"), "revocations");
    return true;
}

void order_clear(struct order *o)
{
    conf_free(o->conf);
    free(o->ledger);
    *o = (struct order){0};
}

struct json_t *order_give(const struct order *o, const char *command, const char *action, const char *key, const struct suspension *s,
                          bool *absent, struct fault *why)
{
    struct buf line = {0};
    struct json_t *answer;

    *absent = !o->admin || !*o->admin;
    if (*absent)
        return NULL;
    buf_printf(&line, "{\"command\":\"%s\",\"action\":\"%s\"", command, action);
    if (s) {
        buf_printf(&line, ",\"%s\":", key);
        text_json(&line, s->name);
        buf_text(&line, ",\"why\":");
        text_json(&line, s->why);
    }
    buf_char(&line, '}');
    answer = admin_call(o->admin, buf_slice(&line), why);
    buf_free(&line);
    *absent = !answer && why->kind == FAULT_MISSING;
    return answer;
}
