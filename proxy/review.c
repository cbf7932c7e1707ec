/* What another configuration means for a session: whether it stands, and how it ends when it does not. */
#include <string.h>

#include "authz/policy.h"
#include "proxy/arrival.h"
#include "proxy/steps.h"

/* May the next request of this tunnel be allowed at all? */
static bool tunnel_stands(const struct session *s)
{
    const struct worker *w = s->worker;
    const struct tunnel *t = &s->tunnel;
    const struct service *service = policy_find(w->role->policy, t->host, t->port);
    struct fault why = {0};

    if (!service || service_is_tls_port(service, t->port) != (t->scheme == SCHEME_HTTPS))
        return false;
    return verifier_recheck(w->verifier, s->identity, loop_wall_s(w->loop), &why) ||
           (why.reason != REASON_TOKEN_ISSUER && why.reason != REASON_TOKEN_KEY_UNKNOWN && why.reason != REASON_TOKEN_KEY_UNPUBLISHED);
}

static void drain_if_idle(struct session *s)
{
    s->closing = true;
    if (session_may_go(s) || s->state == SESSION_ACCEPT)
        session_cut(s, REASON_POLICY_CHANGED);
}

void session_review(struct session *s)
{
    bool stands = s->arrival ? arrival_stands(s) : !s->tunnel.open || tunnel_stands(s);

    if (s->state == SESSION_CLOSED || s->state == SESSION_LINGER)
        return;
    s->closing |= !stands;
    if (s->exchange)
        exchange_feed(s->exchange, (struct event){.type = EV_POLICY});
    else if (!stands)
        drain_if_idle(s);
}

void session_move(struct session *s, const char *listener, struct bound *bound)
{
    if (bound)
        bound_ref(bound);
    bound_unref(s->bound);
    s->bound = bound;
    s->listener = listener;
}

static bool is_newer(const struct identity *i, const struct identity *than)
{
    return strcmp(identity_issuer(i), identity_issuer(than)) == 0 && identity_expires_s(i) > identity_expires_s(than);
}

/* What has no end of its own lasts as long as its sandbox has a token by which it could be opened now. */
static void renew_exchange(struct exchange *x, struct identity *i)
{
    struct worker *w = x->worker;

    if (!exchange_is_endless(x) || !is_newer(i, x->identity) ||
        !authorize(w->role->policy, i, &x->request, loop_wall_s(w->loop), NULL).allowed)
        return;
    identity_unref(x->identity);
    x->identity = identity_ref(i);
    exchange_progress(x);
}

void session_renew(struct session *s)
{
    bool carried = s->tunnel.open ? s->carried : s->exchange && s->exchange->carried;
    struct fault why = {0};
    struct identity *i;

    if (!carried || s->state == SESSION_CLOSED || !(i = decide_bound(s, &why)))
        return;
    if (s->exchange)
        renew_exchange(s->exchange, i);
    if (s->tunnel.open && is_newer(i, s->identity))
        session_set_identity(s, i, secret_slice(s->bound->token));
    else
        identity_unref(i);
}

void session_drain(struct session *s)
{
    if (s->state != SESSION_CLOSED && s->state != SESSION_LINGER)
        drain_if_idle(s);
}
