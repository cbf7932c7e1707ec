/* Finds the field that the token is in. Judges no token. */
#include "proxy/carrier.h"

#include "proxy/arrival.h"

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

static const struct field *field_of(const struct exchange *x)
{
    const char *name = name_of(x);

    return name ? head_field(x->head, name) : NULL;
}

bool carrier_is_known(struct exchange *x)
{
    const struct arrival *a = x->session->arrival;
    const struct field *f = a && a->shown ? field_of(x) : NULL;

    if (!f || !secret_equals(f->value, secret_slice(a->shown)) || head_count(x->head, name_of(x)) > 1)
        return false;
    x->request.carrier = f->name;
    return true;
}

static bool is_same_principal(const struct identity *a, const struct identity *b)
{
    return strcmp(identity_sandbox(a), identity_sandbox(b)) == 0 && strcmp(identity_issuer(a), identity_issuer(b)) == 0;
}

void carrier_remember(struct exchange *x, struct slice token)
{
    struct session *s = x->session;

    if (s->tunnel.bucket && !is_same_principal(s->identity, x->identity)) {
        bucket_release(s->tunnel.bucket);
        s->tunnel.bucket = NULL;
    }
    secret_free(s->arrival->shown);
    s->arrival->shown = secret_new(field_of(x)->value);
    session_set_identity(s, identity_ref(x->identity), token);
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
