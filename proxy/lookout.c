/*
 * Looks through answers for places that they send the client on to, and holds them against what the service declares. Owns
 * the readers of one response's content. What an edge is, handoff/edge.h knows; what is made of many, proxy/edges.h.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "canary/gzip.h"
#include "proxy/steps.h"
#include "proxy/terms.h"

enum { TOGETHER = 64 << 10, TOGETHER_MS = 1000 };

struct lookout {
    struct exchange *exchange;
    struct reference from;      /* what was asked */
    int status;
    bool enforces;
    uint64_t skipped;           /* content before the reader was there */
    struct edge_reader *reader; /* NULL: heads have none */
    struct gunzip *gunzip;      /* NULL: the content has no coding */
};

static bool is_tls(const char *scheme)
{
    return strcmp(scheme, "https") == 0 || strcmp(scheme, "wss") == 0;
}

static bool is_web(const char *scheme)
{
    return is_tls(scheme) || strcmp(scheme, "http") == 0 || strcmp(scheme, "ws") == 0;
}

/* ---- judging ---- */

/* The body would be sent again, to somebody else (handoff check RD-8). */
static bool is_resent(const struct lookout *w, const struct edge *e)
{
    return e->kind == EDGE_LOCATION && (w->status == 307 || w->status == 308) &&
           (w->exchange->head->framing == FRAMING_CHUNKED || w->exchange->head->length > 0);
}

static bool is_declared(const struct lookout *w, const struct edge *e)
{
    const struct exchange *x = w->exchange;
    const struct policy *policy = x->worker->terms->policy;
    const struct service *s = x->decision.service;
    bool tls = is_tls(e->to.scheme);

    if (e->unclear || e->to.userinfo || !is_web(e->to.scheme))
        return false;
    if (is_resent(w, e))
        return service_is_own_place(policy, s, tls, e->to.host, e->to.port) && !e->downgrade;
    return service_sends_on_to(policy, s, tls, e->to.host, e->to.port, !is_tls(w->from.scheme));
}

/* The service that lists the place, and would be asked there; "": a client that goes there is refused. */
static const char *listed_by(const struct lookout *w, const struct edge *e)
{
    const struct policy *policy = w->exchange->worker->terms->policy;
    const struct service *s = e->unclear || !is_web(e->to.scheme) ? NULL : policy_find(policy, e->to.host, e->to.port);

    return s && service_is_own_place(policy, s, is_tls(e->to.scheme), e->to.host, e->to.port) ? service_name(s) : "";
}

static void explain(struct exchange *x, const struct lookout *w, const struct edge *e)
{
    if (e->kind == EDGE_UNREAD)
        snprintf(x->detail, sizeof x->detail, "%s", e->why);
    else
        snprintf(x->detail, sizeof x->detail, "%s%s to %s://%s%.120s, port %u%s", is_resent(w, e) ? "with the request's body, " : "",
                 edge_kind_name(e->kind), e->to.scheme, e->to.userinfo ? "(user)@" : "", e->to.host, e->to.port,
                 e->unclear ? ", as far as it can be told" : "");
}

/* No record repeats a secret, nor does a refusal: a service may send on to a host that is one. */
static void withhold(const struct exchange *x, struct edge *e)
{
    struct hit hit = scanner_text_with(x->worker->scanner, e->text, exchange_token(x));

    if (!hit.found && x->grant)
        hit = grant_look(x->grant, e->text);
    if (hit.found)
        snprintf(e->to.host, sizeof e->to.host, "(withheld)");
}

static bool on_edge(void *arg, const struct edge *found)
{
    const struct lookout *w = arg;
    struct exchange *x = w->exchange;
    struct worker *k = x->worker;
    struct sight s = {.edge = *found, .id = x->id, .service = service_name(x->decision.service), .host = x->request.host,
                      .listed = listed_by(w, found), .declared = is_declared(w, found)};
    const struct edge *e = &s.edge;
    const struct sight *tell;

    withhold(x, &s.edge);
    s.refused = w->enforces && !s.declared && e->kind != EDGE_ALT_SVC; /* that field goes no further anyway */
    worker_count(k, COUNTER_EDGES, 1);
    worker_count(k, COUNTER_EDGES_UNDECLARED, !s.declared);
    worker_count(k, COUNTER_EDGES_REFUSED, s.refused);
    tell = edges_see(k->edges, &s, loop_now_ms(k->loop), loop_wall_s(k->loop));
    if (tell)
        evidence_edge(k, x, tell);
    if (!s.refused)
        return true;
    x->reason = e->kind == EDGE_UNREAD ? REASON_HANDOFF_UNREADABLE : REASON_HANDOFF_UNDECLARED;
    explain(x, w, e);
    return false;
}

enum exchange_state lookout_refusal(struct exchange *x)
{
    assert(x->reason);
    exchange_drop_upstream(x, false);
    x->keep_alive = x->keep_alive && x->body_done;
    return exchange_refuse(x, x->reason, NULL);
}

/* ---- heads ---- */

static void lookout_init(struct lookout *w, struct exchange *x, int status)
{
    const struct request *r = &x->request;

    w->exchange = x;
    w->status = status;
    w->enforces = service_enforces_edges(x->decision.service);
    w->skipped = 0;
    w->reader = NULL;
    w->gunzip = NULL;
    snprintf(w->from.scheme, sizeof w->from.scheme, "%s", r->scheme == SCHEME_HTTPS ? "https" : "http");
    snprintf(w->from.host, sizeof w->from.host, "%s", r->host);
    w->from.port = r->port;
    w->from.userinfo = false;
}

static struct edge_sink sink_of(struct lookout *w)
{
    return (struct edge_sink){&w->from, loop_wall_s(w->exchange->worker->loop), on_edge, w};
}

static bool read_fields(struct exchange *x, const struct head *h)
{
    struct lookout w;
    struct edge_sink sink;

    lookout_init(&w, x, h->status);
    sink = sink_of(&w);
    return edge_read_head(h, &sink);
}

/* Fields behind the content, which a client may take for the head's (RFC 9110 6.5). */
bool lookout_trailers(struct exchange *x, const struct head *h, const struct field *trailers, size_t n)
{
    const struct head end = {.status = h->status, .fields = (struct field *)(uintptr_t)trailers, .n_fields = n};

    return n == 0 || read_fields(x, &end);
}

/* Something that may send on cannot be looked into. */
static bool pass_unread(struct exchange *x, const char *why, bool enforces)
{
    struct edge e = edge_unread(why);
    struct lookout w;

    lookout_init(&w, x, 0);
    w.enforces = enforces;
    return on_edge(&w, &e);
}

static void open_lookout(struct exchange *x, enum edge_format format, bool guessed, bool gzip, bool enforces)
{
    struct lookout *w = malloc(sizeof *w);
    struct edge_sink sink;

    if (!w)
        abort();
    assert(!x->lookout);
    lookout_init(w, x, 0);
    w->enforces = enforces;
    w->skipped = x->down.total;
    sink = sink_of(w);
    w->reader = edge_reader_new(format, guessed, &sink);
    w->gunzip = gzip ? gunzip_new() : NULL;
    x->lookout = w;
}

static bool is_guess(enum edge_format f)
{
    return f == EDGE_FORMAT_GUESS || f == EDGE_FORMAT_SNIFF;
}

/* A part that nobody asked for is the whole to many clients. */
static bool is_part(const struct exchange *x, const struct head *h)
{
    return h->status == 206 && head_field(x->head, "range");
}

/* Of a format that is only guessed at, nothing is said that may be wrong; enforced, what it may be is enough. */
static const char *obstacle(const struct exchange *x, const struct head *h, const struct edge_glance *g, enum coding coding,
                            bool enforces)
{
    bool guess = is_guess(g->format);

    if (is_part(x, h) && guess)
        return NULL;
    if (h->status == 206 && !guess)
        return "a part of a document (206)";
    if (g->wide)
        return guess && !enforces ? NULL : "text in an encoding that is not read, or of two types";
    if (coding == CODING_OTHER)
        return guess && !enforces ? NULL : "a content coding that is not opened";
    if (coding == CODING_GZIP && enforces)
        return "a content coding, although none was asked for";
    return NULL;
}

/* How its content will be looked through. False: it must not pass. Coded and unscannable: allow: it is only observed. */
static bool plan(struct exchange *x, const struct head *h, const struct edge_glance *g)
{
    const struct service *s = x->decision.service;
    enum coding coding = coding_of(h);
    bool enforces = service_enforces_edges(s) && (coding == CODING_NONE || !service_allows_unscannable(s));
    const char *why = obstacle(x, h, g, coding, enforces);

    if (why)
        return pass_unread(x, why, enforces);
    if (!is_guess(g->format))
        open_lookout(x, g->format, false, coding == CODING_GZIP, enforces);
    else if (!is_part(x, h) && coding == CODING_NONE && !g->wide)
        x->edges = g->format;
    return true;
}

enum exchange_state lookout_head(struct exchange *x, const struct head *h, enum framing framing)
{
    struct edge_glance g = edge_glance(h);

    if (g.sends && !read_fields(x, h))
        return lookout_refusal(x);
    x->edges = EDGE_FORMAT_NONE;
    if (framing != FRAMING_NONE && g.format != EDGE_FORMAT_NONE && !plan(x, h, &g))
        return lookout_refusal(x);
    return EXCHANGE_STAY;
}

/* ---- contents ---- */

static bool read_piece(void *arg, struct slice piece)
{
    struct lookout *w = arg;
    uint64_t safe;

    return edge_reader_feed(w->reader, piece, &safe);
}

/* It only observes: what cannot be opened is told, and no longer read. */
static bool read_packed(struct lookout *w, struct slice bytes)
{
    struct edge e;

    if (gunzip_feed(w->gunzip, bytes, read_piece, w))
        return true;
    e = edge_unread("gzip that is damaged, or opens to too much");
    edge_reader_free(w->reader);
    w->reader = NULL;
    return on_edge(w, &e);
}

static bool on_content(void *arg, struct slice bytes, uint64_t *safe)
{
    struct exchange *x = arg;
    struct lookout *w;
    bool passes;

    if (is_guess(x->edges) && bytes.len) {
        x->edges = edge_guess(x->edges, bytes);
        if (x->edges == EDGE_FORMAT_JSON || x->edges == EDGE_FORMAT_HTML) {
            open_lookout(x, x->edges, true, false, service_enforces_edges(x->decision.service));
            x->lookout->skipped -= bytes.len; /* they are counted already */
        }
    }
    w = x->lookout;
    if (!w || !w->reader)
        return true;
    if (w->gunzip)
        return read_packed(w, bytes);
    if (!bytes.len)
        return edge_reader_end(w->reader);
    passes = edge_reader_feed(w->reader, bytes, safe);
    *safe += w->skipped;
    return passes;
}

void lookout_content(struct exchange *x)
{
    bool enforces = service_enforces_edges(x->decision.service);

    if (!x->lookout && x->edges == EDGE_FORMAT_NONE)
        return;
    flow_set_gate(&x->down, on_content, x, enforces);
    if (enforces)
        x->held_ms = loop_now_ms(x->worker->loop);
}

/* ---- what waits to be shown ---- */

void lookout_hold(struct exchange *x, struct buf *out, size_t from)
{
    buf_append(&x->down.ready, slice_from(buf_slice(out), from));
    buf_truncate(out, from);
}

void lookout_show(struct exchange *x)
{
    x->held_ms = 0;
    flow_attach(&x->down, x->session->client, false);
}

void lookout_pass(struct exchange *x)
{
    bool is_looked_at = x->lookout || is_guess(x->edges);

    if (!is_looked_at || x->down.total >= TOGETHER)
        lookout_show(x);
}

void lookout_tick(struct exchange *x, int64_t now_ms)
{
    if (!x->held_ms || now_ms - x->held_ms < TOGETHER_MS)
        return;
    lookout_show(x);
    stream_flush(x->session->client);
}

void lookout_take_back(struct exchange *x)
{
    x->held_ms = 0;
    x->response_begun = false;
    flow_clear(&x->down);
}

void lookout_free(struct lookout *w)
{
    if (!w)
        return;
    edge_reader_free(w->reader);
    gunzip_free(w->gunzip);
    free(w);
}
