/* Owns the exchanges under way, one call each. */
#include "proxy/broker.h"

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
#include "proxy/call.h"

enum { DEALS_MAX = 256, DEAL_MS = 8000, ANSWER_MAX = 64 << 10 };

/* DEAL_MS: less than a worker waits for a grant (limits.dial-time), so that the reason arrives. */

/* One exchange, until it is answered. */
struct deal {
    TAILQ_ENTRY(deal) link;
    uint32_t id; /* the keeper's */
    char *host;
    struct call *call;
};

static struct broker {
    struct role_context *context;
    struct handoffs *handoffs;
    struct channel *keeper; /* NULL: it is not there */
    struct asks *porter;    /* the clerk's, as is the recorder */
    struct recorder *recorder;
    TAILQ_HEAD(deals, deal) deals;
    size_t n_deals;
} broker;

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
    call_cancel(d->call);
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

static void on_answer(void *arg, const struct head *head, struct slice body, const char *text)
{
    struct deal *d = arg;
    struct sts_token e;
    struct fault why = {0};

    d->call = NULL;
    if (!head) {
        fail(d, text);
    } else if (!sts_read(head->status, body, &e, &why)) {
        fail(d, why.text);
    } else {
        answer_yes(d, &e);
        secret_free(e.token);
        deal_free(d);
    }
}

/* ---- the way there ---- */

static void pack_dial(struct buf *body, const struct handoff *h, struct slice sandbox)
{
    struct id id = id_new(loop_wall_ns(broker.context->loop) / 1000000);

    pack_u64(body, broker.context->generation);
    buf_append(body, slice_make(id.bytes, sizeof id.bytes));
    pack_bytes(body, sandbox);
    pack_bytes(body, slice_of(h->host));
    pack_u16(body, h->port);
}

static void write_request(struct buf *out, const struct handoff *h, struct slice authorization, struct slice form)
{
    buf_printf(out, "POST %s HTTP/1.1\r\nHost: %s", h->target, h->host);
    if (h->port != 443)
        buf_printf(out, ":%u", h->port);
    buf_text(out, "\r\nContent-Type: application/x-www-form-urlencoded\r\nAccept: application/json\r\n"
                          "User-Agent: exeat/" EXEAT_VERSION "\r\nConnection: close\r\n");
    if (authorization.len) {
        buf_text(out, "Authorization: ");
        buf_append(out, authorization);
        buf_text(out, "\r\n");
    }
    buf_printf(out, "Content-Length: %zu\r\n\r\n", form.len);
    buf_append(out, form);
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

static void begin(uint32_t id, const struct handoff *h, struct slice sandbox, struct slice authorization, struct slice form)
{
    struct deal *d = must(calloc(1, sizeof *d));
    struct buf dial = {0}, request = {0};
    struct fault why = {0};
    struct call_order order = {.porter = broker.porter, .recorder = broker.recorder, .service = service_name(h->endpoint), .dial = MSG_DIAL, .host = h->host,
                                .answer_max = ANSWER_MAX, .wait_ms = DEAL_MS};

    d->id = id;
    d->host = strdup(h->host);
    TAILQ_INSERT_TAIL(&broker.deals, d, link);
    broker.n_deals++;
    if (!(order.trust = trust_of(h, &why))) {
        fail(d, why.text);
        return;
    }
    pack_dial(&dial, h, sandbox);
    write_request(&request, h, authorization, form);
    order.dial_body = buf_slice(&dial);
    order.request = buf_slice(&request);
    d->call = call_start(broker.context->loop, &order, on_answer, d);
    buf_free(&dial);
    buf_wipe(&request);
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

void broker_open(struct role_context *context, struct asks *porter, struct recorder *recorder)
{
    if (broker.context)
        return;
    broker.context = context;
    broker.porter = porter;
    broker.recorder = recorder;
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

void broker_close(void)
{
    drop_deals();
    channel_free(broker.keeper);
    broker.keeper = NULL;
}
