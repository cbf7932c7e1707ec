/* Owns the exchanges under way: a dial, a TLS handshake, one request and its answer each. */
#include "proxy/broker.h"

#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/id.h"
#include "base/pack.h"
#include "base/say.h"
#include "base/secret.h"
#include "handoff/sts.h"
#include "net/head.h"
#include "net/stream.h"
#include "net/tls.h"
#include "proxy/asks.h"

enum { DEALS_MAX = 256, DEAL_MS = 8000, ANSWER_MAX = 64 << 10 };

/* DEAL_MS: less than a worker waits for a grant (limits.dial-time), so that the reason arrives. */

/* One exchange, until it is answered. */
struct deal {
    TAILQ_ENTRY(deal) link;
    uint32_t id; /* the keeper's */
    char *host;
    struct tls_client *trust;
    struct buf request; /* with secrets */
    struct ask *dial;
    struct stream *stream;
    struct message *answer;
    int status;
    struct buf body;
    struct timer *timer;
};

static struct broker {
    struct role_context *context;
    struct handoffs *handoffs;
    struct channel *keeper; /* NULL: it is not there */
    struct asks *porter;
    TAILQ_HEAD(deals, deal) deals;
    size_t n_deals;
} broker;

static const struct message_limits limits = {.head = 16384, .target = 1024, .n_fields = 64};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- the end of a deal ---- */

static void deal_free(struct deal *d)
{
    TAILQ_REMOVE(&broker.deals, d, link);
    broker.n_deals--;
    ask_cancel(d->dial, MSG_DIAL_CANCEL);
    stream_close(d->stream, false);
    message_free(d->answer);
    tls_client_free(d->trust);
    timer_free(d->timer);
    buf_wipe(&d->request);
    buf_wipe(&d->body);
    free(d->host);
    free(d);
}

static void answer_no(uint32_t id, const char *text)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_bytes(&out, slice_of(text));
    if (broker.keeper)
        channel_send(broker.keeper, MSG_NOT_EXCHANGED, buf_slice(&out), -1);
    buf_free(&out);
}

static void fail(struct deal *d, const char *text)
{
    say_warning("token exchange with %s: %s", d->host, text);
    answer_no(d->id, text);
    deal_free(d);
}

static void answer_yes(const struct deal *d, const struct sts_token *e)
{
    struct buf out = {0};

    pack_u32(&out, d->id);
    pack_u64(&out, (uint64_t)e->lives_s);
    pack_bytes(&out, secret_slice(e->token));
    if (broker.keeper)
        channel_send(broker.keeper, MSG_EXCHANGED, buf_slice(&out), -1);
    buf_wipe(&out);
}

static void finish(struct deal *d)
{
    struct sts_token e;
    struct fault why = {0};

    if (!sts_read(d->status, buf_slice(&d->body), &e, &why)) {
        fail(d, why.text);
        return;
    }
    answer_yes(d, &e);
    secret_free(e.token);
    deal_free(d);
}

/* ---- the answer ---- */

/* One event of it; false: the deal is over, or there is no more for now. */
static bool take(struct deal *d)
{
    struct fault why = {0};
    size_t used = 0;
    enum message_event e = message_feed(d->answer, stream_input(d->stream), &used, &why);
    int status = e == MESSAGE_HEAD ? message_head(d->answer)->status : 0;

    if (e == MESSAGE_BODY)
        buf_append(&d->body, message_body(d->answer));
    stream_consume(d->stream, used);
    if (status)
        d->status = status;
    if (e == MESSAGE_BAD || buf_len(&d->body) > ANSWER_MAX) {
        fail(d, e == MESSAGE_BAD ? "its answer is no HTTP message" : "its answer is too long");
        return false;
    }
    if (e == MESSAGE_END && d->status < 200) { /* an interim answer; the real one follows */
        message_reset(d->answer);
        message_expect(d->answer, false);
        return true;
    }
    if (e == MESSAGE_MORE)
        stream_look_again(d->stream);
    if (e == MESSAGE_END)
        finish(d);
    return e != MESSAGE_END && e != MESSAGE_MORE;
}

static void on_end(struct deal *d)
{
    if (message_is_open(d->answer) && message_finish(d->answer, NULL) == MESSAGE_END)
        finish(d);
    else
        fail(d, "it closed before its answer was complete");
}

static void on_stream(void *arg, enum stream_event event)
{
    struct deal *d = arg;

    switch (event) {
    case STREAM_UP:
        stream_write(d->stream, buf_slice(&d->request));
        stream_flush(d->stream);
        buf_wipe(&d->request);
        break;
    case STREAM_DATA:
        while (take(d))
            continue;
        break;
    case STREAM_END:
        on_end(d);
        break;
    case STREAM_CUT:
        fail(d, "the connection broke");
        break;
    case STREAM_FAIL:
        fail(d, stream_fault(d->stream)->text);
        break;
    case STREAM_ROOM:
        break;
    }
}

/* ---- the way there ---- */

static void begin_tls(struct deal *d, int fd)
{
    struct fault why = {0};
    SSL *ssl = tls_client_connect(d->trust, d->host, NULL, NULL, NULL, &why);

    d->stream = stream_new(broker.context->loop, fd, on_stream, d);
    if (ssl)
        stream_start_tls(d->stream, ssl);
    else
        fail(d, why.text);
}

static void on_dialled(void *arg, uint16_t type, struct unpack *payload, int fd)
{
    struct deal *d = arg;
    char text[FAULT_TEXT_SIZE] = "the porter is not there";

    d->dial = NULL;
    if (type == MSG_DIALLED && fd >= 0) {
        begin_tls(d, fd);
        return;
    }
    if (fd >= 0)
        close(fd);
    if (type == MSG_NOT_DIALLED) {
        enum reason reason = (enum reason)unpack_u16(payload);
        struct slice detail = slice_cut(unpack_bytes(payload), 0, 160);

        snprintf(text, sizeof text, "%s: %.*s", reason_code(reason < N_REASONS ? reason : REASON_CONNECT_FAILED),
                 SLICE_ARG(detail));
    }
    fail(d, text);
}

static bool begin_dial(struct deal *d, const struct handoff *h, struct slice sandbox)
{
    struct id id = id_new(loop_wall_ns(broker.context->loop) / 1000000);
    struct buf body = {0};

    pack_u64(&body, broker.context->generation);
    buf_append(&body, slice_make(id.bytes, sizeof id.bytes));
    pack_bytes(&body, sandbox);
    pack_bytes(&body, slice_of(h->host));
    pack_u16(&body, h->port);
    d->dial = ask_start(broker.porter, MSG_DIAL, buf_slice(&body), on_dialled, d);
    buf_free(&body);
    return d->dial != NULL;
}

static void write_request(struct deal *d, const struct handoff *h, struct slice authorization, struct slice form)
{
    buf_printf(&d->request, "POST %s HTTP/1.1\r\nHost: %s", h->target, h->host);
    if (h->port != 443)
        buf_printf(&d->request, ":%u", h->port);
    buf_text(&d->request, "\r\nContent-Type: application/x-www-form-urlencoded\r\nAccept: application/json\r\n"
                          "User-Agent: exeat/" EXEAT_VERSION "\r\nConnection: close\r\n");
    if (authorization.len) {
        buf_text(&d->request, "Authorization: ");
        buf_append(&d->request, authorization);
        buf_text(&d->request, "\r\n");
    }
    buf_printf(&d->request, "Content-Length: %zu\r\n\r\n", form.len);
    buf_append(&d->request, form);
}

/* As workers do: the service's own CAs, or the system's. Made anew each time: exchanges are rare. */
static struct tls_client *trust_of(const struct handoff *h, struct fault *why)
{
    struct slice pem = {"", 0};
    char name[128];

    snprintf(name, sizeof name, "service.%s.ca", service_name(h->endpoint));
    bundle_get(broker.context->files, service_ca_file(h->endpoint) ? name : "ca.system", &pem);
    return tls_client_new(pem, why);
}

static void on_late(void *arg)
{
    fail(arg, "it did not answer in time");
}

static void begin(uint32_t id, const struct handoff *h, struct slice sandbox, struct slice authorization, struct slice form)
{
    struct deal *d = must(calloc(1, sizeof *d));
    struct fault why = {0};

    d->id = id;
    d->host = strdup(h->host);
    d->answer = message_new(MESSAGE_RESPONSE, &limits);
    message_expect(d->answer, false);
    d->timer = timer_new(broker.context->loop, on_late, d);
    timer_set(d->timer, DEAL_MS);
    TAILQ_INSERT_TAIL(&broker.deals, d, link);
    broker.n_deals++;
    write_request(d, h, authorization, form);
    if (!(d->trust = trust_of(h, &why)))
        fail(d, why.text);
    else if (!begin_dial(d, h, sandbox))
        fail(d, "the porter is not there");
}

/* ---- the keeper's questions ---- */

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    struct slice service, sandbox, authorization, form;
    const struct handoff *h;

    (void)arg;
    unpack_u64(&u); /* by which generation it asks; only what is configured now is asked of anybody */
    service = unpack_bytes(&u);
    sandbox = unpack_bytes(&u);
    authorization = unpack_bytes(&u);
    form = unpack_bytes(&u);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 || type != MSG_EXCHANGE || !unpack_done(&u)) {
        role_violation(broker.context, ROLE_KEEPER, 0, "a message that is not EXCHANGE");
        return;
    }
    h = broker.handoffs ? handoffs_named(broker.handoffs, service) : NULL;
    if (!h || h->kind != HANDOFF_EXCHANGE)
        answer_no(id, "the service exchanges no tokens any more");
    else if (broker.n_deals >= DEALS_MAX)
        answer_no(id, "too many exchanges are under way");
    else
        begin(id, h, sandbox, authorization, form);
}

static void drop_deals(void)
{
    while (!TAILQ_EMPTY(&broker.deals))
        deal_free(TAILQ_FIRST(&broker.deals));
}

static void on_keeper_end(void *arg)
{
    (void)arg;
    channel_free(broker.keeper);
    broker.keeper = NULL;
    drop_deals();
}

static const struct channel_handler handler = {on_message, on_keeper_end};

void broker_open(struct role_context *context)
{
    if (broker.context)
        return;
    broker.context = context;
    broker.porter = asks_new(context->loop, DEALS_MAX);
    TAILQ_INIT(&broker.deals);
    broker_use();
}

/* The supervisor has compiled the same before. */
void broker_use(void)
{
    struct fault why = {0};

    handoffs_free(broker.handoffs);
    if (!(broker.handoffs = handoffs_compile(broker.context->conf, broker.context->policy, &why)))
        say_error("no token can be exchanged: %s", why.text);
}

void broker_attach_keeper(int fd)
{
    channel_free(broker.keeper);
    drop_deals(); /* those of a keeper that is gone */
    broker.keeper = channel_new(broker.context->loop, fd, &handler, NULL);
}

void broker_attach_porter(int fd)
{
    asks_attach(broker.porter, fd);
}

void broker_close(void)
{
    drop_deals();
    channel_free(broker.keeper);
    broker.keeper = NULL;
}
