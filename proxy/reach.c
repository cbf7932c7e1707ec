/* DIAL, TRUST and CERTIFY: a verified way to the service, and a leaf to show the client. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pack.h"
#include "base/text.h"
#include "proxy/answer.h"
#include "proxy/gate.h"
#include "proxy/steps.h"

static enum exchange_state grant_tunnel(struct exchange *x);

/* ---- DIAL ---- */

static void on_dial_answer(void *arg, uint16_t type, struct unpack *payload, int fd)
{
    struct exchange *x = arg;
    struct event ev = {.type = EV_REFUSED, .fd = fd, .reason = REASON_PORTER_UNAVAILABLE};

    x->ask = NULL;
    if (type == MSG_DIALLED && fd >= 0) {
        ev.type = EV_DIALLED;
        ev.text = unpack_bytes(payload);
    } else if (type == MSG_DIALLED) { /* there was no room here for the descriptor */
        ev.reason = REASON_GATEWAY_EXHAUSTED;
    } else if (type == MSG_NOT_DIALLED) {
        uint16_t reason = unpack_u16(payload);

        ev.reason = reason && reason < N_REASONS ? (enum reason)reason : REASON_CONNECT_FAILED;
        ev.text = unpack_bytes(payload);
    }
    if (ev.type != EV_DIALLED && fd >= 0)
        close(fd);
    if (ev.type != EV_DIALLED && ev.reason == REASON_GATEWAY_EXHAUSTED)
        gate_exhausted(x->worker, EMFILE);
    exchange_feed(x, ev);
}

static enum exchange_state begin_dial(struct exchange *x)
{
    struct buf body = {0};

    pack_u64(&body, x->worker->role->generation);
    buf_append(&body, slice_make(x->id.bytes, sizeof x->id.bytes));
    pack_bytes(&body, slice_of(identity_sandbox(x->identity)));
    pack_bytes(&body, slice_of(x->request.host));
    pack_u16(&body, x->request.port);
    x->ask = ask_start(x->worker->porter, MSG_DIAL, buf_slice(&body), on_dial_answer, x);
    buf_free(&body);
    return x->ask ? EXCHANGE_STAY : exchange_refuse(x, REASON_PORTER_UNAVAILABLE, NULL);
}

/* The service is reached and, where TLS is spoken, verified. */
static enum exchange_state reached(struct exchange *x)
{
    if (!exchange_is_connect(x))
        return EXCHANGE_FORWARD;
    upstream_park(x->upstream);
    x->upstream = NULL;
    return EXCHANGE_CERTIFY;
}

static enum exchange_state dialled(struct exchange *x, struct event ev)
{
    x->upstream = upstream_new(x->bucket, ev.fd, exchange_on_upstream, x);
    stream_set_lane(x->upstream->stream, &x->party->lane);
    snprintf(x->upstream->address, sizeof x->upstream->address, "%.*s", SLICE_ARG(ev.text));
    snprintf(x->upstream->service, sizeof x->upstream->service, "%s", service_name(x->decision.service));
    worker_count(x->worker, COUNTER_DIALS, 1);
    return x->decision.scheme == SCHEME_HTTPS ? EXCHANGE_TRUST : reached(x);
}

static enum exchange_state refused(struct exchange *x, struct event ev)
{
    char text[200];

    snprintf(text, sizeof text, "%.*s", SLICE_ARG(slice_cut(ev.text, 0, sizeof text - 1)));
    return exchange_refuse(x, ev.reason, text);
}

enum exchange_state reach_on_dial(struct exchange *x, struct event ev)
{
    switch (ev.type) {
    case EV_ENTER:
        return begin_dial(x);
    case EV_DIALLED:
        return dialled(x, ev);
    case EV_REFUSED:
        return refused(x, ev);
    case EV_DEADLINE:
        return exchange_refuse(x, REASON_CONNECT_TIMEOUT, NULL);
    default:
        return EXCHANGE_STAY;
    }
}

/* ---- TRUST ---- */

static enum exchange_state begin_trust(struct exchange *x)
{
    struct tls_client *trust = worker_trust(x->worker, x->decision.service);
    struct fault why = {0};
    SSL *ssl = tls_client_connect(trust, x->request.host, bucket_session(x->bucket), bucket_store_session, x->bucket,
                                  &why);

    if (!ssl)
        return exchange_refuse(x, REASON_UPSTREAM_TLS, why.text);
    stream_start_tls(x->upstream->stream, ssl);
    return EXCHANGE_STAY;
}

static enum exchange_state distrust(struct exchange *x)
{
    const struct fault *why = stream_fault(x->upstream->stream);
    enum reason reason = why->reason ? why->reason : REASON_UPSTREAM_TLS;
    char text[FAULT_TEXT_SIZE];

    snprintf(text, sizeof text, "%s", why->text);
    exchange_drop_upstream(x, true);
    return exchange_refuse(x, reason, text);
}

enum exchange_state reach_on_trust(struct exchange *x, struct event ev)
{
    switch (ev.type) {
    case EV_ENTER:
        return begin_trust(x);
    case EV_UPSTREAM_UP:
        return reached(x);
    case EV_UPSTREAM_FAIL:
    case EV_UPSTREAM_CUT:
    case EV_UPSTREAM_END:
        return distrust(x);
    case EV_DEADLINE:
        exchange_drop_upstream(x, true);
        return exchange_refuse(x, REASON_CONNECT_TIMEOUT, "the TLS handshake with the service took too long");
    default:
        return EXCHANGE_STAY;
    }
}

/* ---- CERTIFY ---- */

static void on_certify_answer(void *arg, uint16_t type, struct unpack *payload, int fd)
{
    struct exchange *x = arg;
    struct event ev = {.type = EV_REFUSED, .fd = -1, .reason = REASON_CERTIFICATE_UNAVAILABLE};

    x->ask = NULL;
    if (fd >= 0)
        close(fd);
    if (type == MSG_CERTIFIED) {
        ev.type = EV_CERTIFIED;
        ev.number = (int64_t)unpack_u64(payload);
        ev.text = unpack_bytes(payload);
    } else if (type == MSG_NOT_CERTIFIED) {
        ev.text = unpack_bytes(payload);
    }
    exchange_feed(x, ev);
}

static bool needs_no_leaf(const struct exchange *x)
{
    const struct worker *w = x->worker;

    return x->decision.scheme == SCHEME_HTTP || leaves_find(w->leaves, x->request.host, loop_wall_s(w->loop));
}

bool reach_needs_nobody(const struct exchange *x)
{
    return exchange_is_connect(x) && !x->reason && !vouch_is_due(x) && recorder_is_open(x->worker->recorder) &&
           bucket_has_idle(x->bucket) && needs_no_leaf(x);
}

static enum exchange_state begin_certify(struct exchange *x)
{
    struct worker *w = x->worker;
    struct buf body = {0};

    if (needs_no_leaf(x))
        return grant_tunnel(x);
    pack_u64(&body, w->role->generation);
    pack_bytes(&body, slice_of(x->request.host));
    x->ask = ask_start(w->keeper, MSG_CERTIFY, buf_slice(&body), on_certify_answer, x);
    buf_free(&body);
    return x->ask ? EXCHANGE_STAY : exchange_refuse(x, REASON_CERTIFICATE_UNAVAILABLE, "the keeper is not there");
}

static enum exchange_state certified(struct exchange *x, struct event ev)
{
    struct fault why = {0};

    if (!leaves_add(x->worker->leaves, x->request.host, ev.text, ev.number, &why))
        return exchange_refuse(x, REASON_CERTIFICATE_UNAVAILABLE, why.text);
    return grant_tunnel(x);
}

static void on_opened(void *arg, bool ok)
{
    struct session *s = arg;

    if (ok)
        return;
    evidence_connection(s, REASON_RECORD_UNAVAILABLE, "of its CONNECT");
    session_close(s, false);
}

struct record_wait *reach_opening(struct session *s)
{
    s->opening.on_recorded = on_opened;
    s->opening.arg = s;
    return &s->opening;
}

/* The 200 goes out only now: the origin is verified and the leaf is in hand. */
static enum exchange_state grant_tunnel(struct exchange *x)
{
    struct session *s = x->session;

    answer_established(&x->id, x->head->minor, stream_out(s->client));
    s->tunnel = (struct tunnel){.open = true,
                                .id = x->id,
                                .scheme = x->decision.scheme,
                                .host = text_copy(slice_of(x->request.host)),
                                .port = x->request.port,
                                .bucket = x->bucket,
                                .bucket_mark = x->grant ? grant_mark(x->grant) : 0};
    bucket_hold(x->bucket);
    session_set_identity(s, identity_ref(x->identity), exchange_token(x));
    s->carried = x->carried;
    s->token_told = true; /* in the CONNECT's decision */
    worker_count(x->worker, COUNTER_TUNNELS, 1);
    x->status = 200;
    return exchange_end(x, EXCHANGE_TUNNEL, "tunnel");
}

enum exchange_state reach_on_certify(struct exchange *x, struct event ev)
{
    switch (ev.type) {
    case EV_ENTER:
        return begin_certify(x);
    case EV_CERTIFIED:
        return certified(x, ev);
    case EV_REFUSED:
        return refused(x, ev);
    case EV_DEADLINE:
        return exchange_refuse(x, REASON_CERTIFICATE_UNAVAILABLE, "the keeper did not answer in time");
    default:
        return EXCHANGE_STAY;
    }
}
