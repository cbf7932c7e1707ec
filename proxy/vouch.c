/* GRANT: the gateway's own credential for the service, before anything goes there. */
#include "proxy/steps.h"

enum { GRANTS_MAX = 3 /* so often one exchange may need another, since reaching the service took longer than it held */ };

static struct wallet_order order_of(const struct exchange *x)
{
    return (struct wallet_order){.generation = x->worker->role->generation,
                                 .identity = x->identity,
                                 .service = x->decision.service,
                                 .token = exchange_token(x),
                                 .listener = x->session->listener,
                                 .certificate = x->session->certificate};
}

void vouch_find(struct exchange *x)
{
    struct wallet_order o = order_of(x);

    vouch_drop(x);
    x->grant = wallet_find(x->worker->wallet, &o);
}

void vouch_drop(struct exchange *x)
{
    wallet_cancel(&x->vouch);
    grant_release(x->grant);
    x->grant = NULL;
}

void vouch_distrust(struct exchange *x)
{
    struct wallet_order o = order_of(x);

    wallet_distrust(x->worker->wallet, &o, x->grant);
}

/* A CONNECT asks too: what cannot be had is refused where the client reads why. But not for what is used once. */
bool vouch_is_due(const struct exchange *x)
{
    if (!service_own_field(x->decision.service) || (exchange_is_connect(x) && service_asserts_once(x->decision.service)))
        return false;
    return !x->grant || grant_is_over(x->grant, loop_wall_s(x->worker->loop));
}

static void on_grant(void *arg, struct grant *g, const struct fault *why)
{
    struct exchange *x = arg;

    if (g) {
        x->grant = g;
        exchange_feed(x, (struct event){.type = EV_GRANTED});
        return;
    }
    exchange_feed(x, (struct event){.type = EV_REFUSED, .reason = why->reason, .text = slice_of(why->text)});
}

static enum exchange_state begin(struct exchange *x)
{
    struct wallet_order o = order_of(x);

    vouch_find(x);
    if (x->grant) /* somebody else has asked meanwhile */
        return decide_proceed(x);
    if (++x->n_grants > GRANTS_MAX)
        return exchange_refuse(x, REASON_CREDENTIAL_UNAVAILABLE, "it ended again and again before the service was reached");
    x->vouch = (struct wallet_wait){.on = on_grant, .arg = x};
    if (!wallet_ask(x->worker->wallet, &o, &x->vouch))
        return exchange_refuse(x, REASON_CREDENTIAL_UNAVAILABLE, "the keeper is not there, or too much is asked of it");
    return EXCHANGE_STAY;
}

enum exchange_state vouch_on_grant(struct exchange *x, struct event ev)
{
    char text[FAULT_TEXT_SIZE];

    switch (ev.type) {
    case EV_ENTER:
        return begin(x);
    case EV_GRANTED:
        return decide_proceed(x);
    case EV_REFUSED:
        memcpy(text, ev.text.ptr, ev.text.len);
        text[ev.text.len] = '\0';
        return exchange_refuse(x, ev.reason, text);
    case EV_DEADLINE:
        return exchange_refuse(x, REASON_CREDENTIAL_UNAVAILABLE, "the keeper did not answer in time");
    default:
        return EXCHANGE_STAY;
    }
}

void vouch_write(const struct exchange *x, struct buf *out)
{
    struct slice head = buf_slice(&x->out_head);

    if (!x->grant) {
        buf_append(out, head);
        return;
    }
    buf_append(out, slice_cut(head, 0, head.len - 2));
    buf_text(out, service_own_field(x->decision.service));
    buf_append(out, SLICE(": "));
    buf_append(out, grant_value(x->grant));
    buf_append(out, SLICE("\r\n\r\n"));
}
