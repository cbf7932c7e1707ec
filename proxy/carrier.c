/* Finds the field that the token is in. Judges no token. */
#include "proxy/carrier.h"

#include <stdio.h>
#include <string.h>

/* On transparent listeners, in the order of preference. */
static const char *name_of(const struct exchange *x)
{
    const struct session *s = x->session;

    if (!s->arrival)
        return "proxy-authorization";
    if (head_field(x->head, "exeat-token"))
        return "exeat-token";
    return s->bound && s->bound->carries ? NULL : "authorization";
}

static bool is_bare(const char *name)
{
    return strcmp(name, "exeat-token") == 0;
}

bool carrier_find(struct exchange *x, struct buf *scratch, struct slice *token, bool *present, struct fault *why)
{
    const char *name = name_of(x);
    const struct field *f = name ? head_field(x->head, name) : NULL;

    *present = f != NULL;
    if (!f)
        return true;
    if (head_count(x->head, name) > 1)
        return fault_reason(why, REASON_TOKEN_MALFORMED, "two %.*s fields", SLICE_ARG(f->name));
    if (f->value.len > x->worker->limits.credential)
        return fault_reason(why, REASON_TOKEN_OVERSIZE, "%.*s is %zu bytes", SLICE_ARG(f->name), f->value.len);
    if (x->session->arrival)
        x->request.carrier = f->name;
    *token = f->value;
    return is_bare(name) || token_from_credentials(f->value, scratch, token, why);
}
