#include "cmd/findings.h"

#include <stdlib.h>

#include "base/text.h"

static const char *const states[] = {[FINDING_OK] = "ok", [FINDING_WRONG] = "wrong", [FINDING_UNKNOWN] = "unknown"};

void findings_clear(struct findings *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->list[i].says);
        free(f->list[i].fix);
    }
    *f = (struct findings){0};
}

void findings_add(struct findings *f, const char *check, enum finding_state state, const char *fix, const char *says, ...)
{
    struct buf text = {0};
    va_list args;

    assert(f->n < FINDINGS_MOST);
    va_start(args, says);
    buf_vprintf(&text, says, args);
    va_end(args);
    f->list[f->n++] = (struct finding){check, state, buf_take_text(&text), fix ? text_copy(slice_of(fix)) : NULL};
}

bool findings_any_wrong(const struct findings *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->list[i].state == FINDING_WRONG)
            return true;
    return false;
}

void findings_text(const struct findings *f, struct buf *out)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct finding *one = &f->list[i];

        buf_printf(out, "%-9s %-9s %s\n", states[one->state], one->check, one->says);
        if (one->fix)
            buf_printf(out, "%-19s -> %s\n", "", one->fix);
    }
}

void findings_json(const struct findings *f, const char *client, struct buf *out)
{
    buf_text(out, "{\"schema\":\"exeat.doctor/1\",\"client\":");
    text_json(out, slice_of(client));
    buf_printf(out, ",\"ok\":%s,\"checks\":[", findings_any_wrong(f) ? "false" : "true");
    for (size_t i = 0; i < f->n; i++) {
        const struct finding *one = &f->list[i];

        buf_printf(out, "%s{\"check\":\"%s\",\"state\":\"%s\",\"says\":", i ? "," : "", one->check, states[one->state]);
        text_json(out, slice_of(one->says));
        if (one->fix) {
            buf_text(out, ",\"fix\":");
            text_json(out, slice_of(one->fix));
        }
        buf_char(out, '}');
    }
    buf_text(out, "]}\n");
}
