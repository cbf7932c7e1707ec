/* Owns the answer to "would it have come through?". Must not know checks, or what was answered. */
#include "audit/fate.h"

#include <stdlib.h>
#include <string.h>

#include "authz/field.h"
#include "base/clock.h"

enum { OWN_FIELDS = TURN_FIELDS_MAX + 1, TARGET_MAX = 8 * 1024 /* limits.target, as it is unless somebody raised it */ };

static const struct fate passes = {FATE_PASSES, REASON_ALLOWED};

static struct fate refused(enum reason reason)
{
    return (struct fate){FATE_REFUSED, reason};
}

static size_t split_fields(struct slice text, struct field list[OWN_FIELDS])
{
    struct slice line;
    size_t n = 0;

    while (n < OWN_FIELDS - 1 && slice_next(&text, '\n', &line)) {
        ptrdiff_t colon = slice_find(line, ':');

        if (colon > 0)
            list[n++] = (struct field){slice_cut(line, 0, (size_t)colon), slice_trim(slice_from(line, (size_t)colon + 1))};
    }
    return n;
}

/* A token that the audit made, or one that nobody gave out: the sandbox brings it itself. */
static size_t add_credential(const struct target *t, const struct turn *x, struct field list[OWN_FIELDS], size_t n)
{
    const char *name = t->first.form == CREDENTIAL_FIELD ? t->first.field : "Authorization";

    if (x->who == WHO_TOKEN || x->who == WHO_JUNK)
        list[n++] = (struct field){slice_of(x->who == WHO_TOKEN ? "Authorization" : name), SLICE("x")};
    return n;
}

/* The URL that a sandbox would ask the gateway for. */
static void url_of(const struct target *t, const struct turn *x, struct buf *out)
{
    if (x->asked.path[0] != '/') {
        buf_text(out, x->asked.path);
        return;
    }
    buf_text(out, t->base[x->asked.base].tls ? "https://" : "http://");
    target_authority(t, x->asked.base, out);
    if (!x->asked.is_bare)
        buf_text(out, t->base[x->asked.base].path);
    buf_text(out, x->asked.path);
}

static struct identity *somebody(const struct policy *p)
{
    int64_t now_s = clock_wall_s();
    const struct identity_claims claims = {.sandbox = "audit", .issuer = "audit", .issuer_name = "audit", .scope = service_scope(policy_service(p, 0)), .issued_s = now_s, .expires_s = now_s + 60};

    return identity_make(&claims, NULL);
}

/* Of what the gateway lets through: do the fields that are special about it go along? Accept beside others is not. */
static struct fate fields_fate(const struct service *s, const struct field *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(n > 1 && slice_is_nocase(list[i].name, "accept")) && !(field_meaning(list[i].name) & FIELD_HOP) && service_forwards_field(s, list[i].name))
            return passes;
    return n ? (struct fate){FATE_PLAIN, REASON_ALLOWED} : passes;
}

static struct fate judge(const struct policy *p, const struct turn *x, const struct request *r)
{
    struct identity *who = somebody(p);
    struct decision d = authorize(p, who, r, clock_wall_s(), NULL);

    identity_unref(who);
    if (!d.allowed)
        return refused(d.reason);
    if (x->asked.body_len > service_body_limit(d.service))
        return refused(REASON_BODY_TOO_LARGE);
    return fields_fate(d.service, r->head->fields, r->head->n_fields);
}

struct fate fate_of(const struct policy *p, const struct target *t, const struct turn *x)
{
    struct field list[OWN_FIELDS];
    const struct head head = {.fields = list, .n_fields = add_credential(t, x, list, split_fields(slice_of(x->asked.fields), list))};
    struct request r = {0};
    struct fault why = {0};
    struct buf url = {0};
    struct fate f;

    if (slice_is(slice_of(x->method), "CONNECT")) /* within a service there is none, and to others no way */
        return refused(REASON_HOST_NOT_LISTED);
    if (x->asked.host)
        return refused(REASON_AUTHORITY_MISMATCH);
    if (strlen(x->asked.path) > TARGET_MAX)
        return refused(REASON_HEAD_TOO_LARGE);
    url_of(t, x, &url);
    if (request_from_url(&r, slice_of(x->method), buf_slice(&url), &why)) {
        r.head = &head;
        f = judge(p, x, &r);
    } else {
        f = refused(why.reason);
    }
    request_clear(&r);
    buf_free(&url);
    return f;
}
