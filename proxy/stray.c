/*
 * Where a client may have credentials of its own, another leave token among them would go to the service as one. Knows the shapes in
 * which a field has one; whether it is a leave token, the verifier says.
 */
#include <stdio.h>
#include <string.h>

#include "proxy/steps.h"

enum { CANDIDATES_MOST = 4 /* in a field: each may cost a signature */ };

/* Others' tokens that do not verify are no failures of this source. */
static bool is_leave_token(const struct exchange *x, struct slice token)
{
    const struct token_context nowhere = {.listener = "", .now_s = loop_wall_s(x->worker->loop)};
    struct fault why = {0};
    struct identity *i;
    bool is;

    if (!token_looks_like(token))
        return false;
    identity_unref(verifier_check(x->worker->verifier, token, &nowhere, &why));
    i = verifier_recall(x->worker->verifier, token); /* wherever it is bound to */
    is = i != NULL;
    identity_unref(i);
    return is;
}

static size_t token_len(struct slice s)
{
    size_t n = 0;

    while (n < s.len && s.ptr[n] && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", s.ptr[n]))
        n++;
    return n;
}

/* Whatever stands around it: a scheme, a cookie's name, quotes. */
static bool holds_token(const struct exchange *x, struct slice text)
{
    ptrdiff_t at;

    for (int n = 0; n < CANDIDATES_MOST && (at = slice_search(text, SLICE("eyJ"))) >= 0; n++) {
        size_t len;

        text = slice_from(text, (size_t)at);
        len = token_len(text);
        if (is_leave_token(x, slice_cut(text, 0, len)))
            return true;
        text = slice_from(text, len);
    }
    return false;
}

static bool field_holds_token(const struct exchange *x, struct slice value)
{
    struct buf scratch = {0};
    struct slice token = {0};
    bool holds = holds_token(x, value);

    if (!holds && token_from_credentials(value, &scratch, &token, NULL)) /* the password of Basic is not seen from outside */
        holds = is_leave_token(x, token);
    buf_wipe(&scratch);
    return holds;
}

bool stray_token(const struct exchange *x, struct hit *hit, char *place, size_t room)
{
    const struct service *s = x->decision.service;

    for (size_t i = 0; service_allows_credentials(s) && i < x->head->n_fields; i++) {
        const struct field *f = &x->head->fields[i];

        if (!service_is_credential(s, f->name) || slice_equals_nocase(x->request.carrier, f->name) || !field_holds_token(x, f->value))
            continue;
        *hit = (struct hit){true, "leave-token", "identity", 0, f->value.len};
        snprintf(place, room, "field %.*s", SLICE_ARG(slice_cut(f->name, 0, 64)));
        return true;
    }
    return false;
}
