/*
 * The records of an exchange: typed data for the scribe, never a secret, never a sentence. Fields are put in the order of
 * record.def, which the scribe reads quickest.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "proxy/arrival.h"
#include "proxy/outgoing.h"
#include "proxy/steps.h"

static void put_conn(struct record_writer *w, const struct session *s)
{
    if (s->tunnel.open)
        record_id(w, FIELD_TUNNEL, &s->tunnel.id);
    record_number(w, FIELD_CONN, (int64_t)s->conn);
}

static void put_client(struct record_writer *w, const struct session *s)
{
    record_text_if(w, FIELD_LISTENER, s->listener);
    record_text_if(w, FIELD_CLIENT, s->source_text);
    if (s->arrival) {
        record_text_if(w, FIELD_ARRIVAL, steer_way_name(s->arrival->way));
        record_text_if(w, FIELD_MEANT, s->arrival->meant_text);
    }
}

static void put_identity(struct record_writer *w, const struct identity *i)
{
    if (!i)
        return;
    record_text_if(w, FIELD_SANDBOX, identity_sandbox(i));
    record_text_if(w, FIELD_TOKEN_JTI, identity_jti(i));
}

static void put_token(struct record_writer *w, const struct identity *i)
{
    put_identity(w, i);
    if (!i)
        return;
    record_text_if(w, FIELD_TOKEN_ISS, identity_issuer(i));
    record_text_if(w, FIELD_TOKEN_SUB, identity_subject(i));
    record_text_if(w, FIELD_TOKEN_KID, identity_kid(i));
    record_text_if(w, FIELD_TOKEN_CLIENT, identity_client_id(i));
    record_text_if(w, FIELD_TOKEN_SCOPE, identity_scope(i));
    record_number(w, FIELD_TOKEN_IAT, identity_issued_s(i));
    record_number(w, FIELD_TOKEN_EXP, identity_expires_s(i));
    record_hex(w, FIELD_TOKEN_SHA256, slice_make(identity_fingerprint(i), 32));
}

/* The whole of what the token says: once a tunnel, in the CONNECT's record, or once a connection to a transparent listener; again when another token comes. */
static void put_whose(struct record_writer *w, const struct exchange *x)
{
    struct session *s = x->session;
    bool lasts = s->tunnel.open || (s->arrival && x->identity && x->identity == s->identity);

    if (lasts && s->token_told)
        put_identity(w, x->identity);
    else
        put_token(w, x->identity);
    s->token_told = s->token_told || lasts;
}

/* Names of the query's parameters: values may be anything, secrets included. */
static void put_query_names(struct record_writer *w, struct slice query)
{
    struct buf names = {0};
    struct slice piece;

    while (slice_next(&query, '&', &piece)) {
        ptrdiff_t end = slice_find(piece, '=');

        if (buf_len(&names))
            buf_char(&names, '&');
        buf_append(&names, end < 0 ? piece : slice_cut(piece, 0, (size_t)end));
    }
    record_text(w, FIELD_QUERY, buf_slice(&names));
    buf_free(&names);
}

/* The words of the client that a record would repeat, one a line. */
static void list_words(struct buf *out, const struct exchange *x, const struct field *agent)
{
    const struct request *r = &x->request;
    const struct field *host = x->head && x->session->arrival ? head_field(x->head, "host") : NULL; /* else it is in the target */
    struct slice none = slice_make("", 0);
    struct slice words[] = {x->head ? x->head->method : none, x->head ? x->head->target : none, buf_slice(&r->path),
                            agent ? agent->value : none, host ? host->value : none, buf_slice(&x->dropped), slice_of(x->detail)};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        buf_append(out, words[i]);
        buf_char(out, '\n');
    }
}

/* Every word that the record repeats went through the scanner with the head, letter for letter. */
static bool was_scanned(const struct exchange *x, const struct field *agent)
{
    if (x->reason || x->request.connect || buf_len(&x->dropped) || x->detail[0] ||
        !slice_equals(buf_slice(&x->request.path), x->request.raw_path))
        return false;
    return !agent || !head_is_hop(x->head, agent->name);
}

/*
 * A leak's place is in the finding; the request's own text may hold the secret and is left out. What is refused before it
 * is scanned, or is not forwarded, may hold one too.
 */
static bool tells_secret(const struct exchange *x, const struct field *agent)
{
    struct buf words = {0};
    bool found;

    if (x->reason == REASON_CANARY_LEAK || x->reason == REASON_TOKEN_LEAK)
        return true;
    if (was_scanned(x, agent))
        return false;
    list_words(&words, x, agent);
    found = scanner_text_with(x->worker->scanner, buf_slice(&words), exchange_token(x)).found;
    buf_free(&words);
    return found;
}

static void put_target(struct record_writer *w, const struct exchange *x)
{
    const struct request *r = &x->request;

    if (!r->connect)
        record_text(w, FIELD_SCHEME, r->scheme == SCHEME_HTTPS ? SLICE("https") : SLICE("http"));
    if (!x->secretive || x->session->tunnel.open)
        record_text_if(w, FIELD_HOST, r->host);
    record_number(w, FIELD_PORT, r->port);
    if (x->secretive)
        return;
    if (buf_len(&r->path))
        record_text(w, FIELD_PATH, buf_slice(&r->path));
    if (r->has_query)
        put_query_names(w, r->query);
}

static void put_request(struct record_writer *w, const struct exchange *x, const struct field *agent)
{
    bool has_target = x->request.host[0];

    if (!x->head)
        return;
    if (!x->secretive)
        record_text(w, FIELD_METHOD, slice_cut(x->head->method, 0, 32));
    if (has_target)
        put_target(w, x);
    record_text(w, FIELD_VERSION, x->head->minor ? SLICE("1.1") : SLICE("1.0"));
    if (agent && has_target && !x->secretive)
        record_text(w, FIELD_USER_AGENT, slice_cut(agent->value, 0, 200));
}

static void put_reason(struct record_writer *w, const struct exchange *x, enum reason otherwise)
{
    record_reason(w, FIELD_REASON, x->reason ? x->reason : otherwise);
    if (!x->secretive)
        record_text_if(w, FIELD_DETAIL, x->detail);
}

void evidence_decision(struct exchange *x, struct record_wait *wait)
{
    struct worker *k = x->worker;
    struct record_writer w = recorder_begin(k->recorder, RECORD_DECISION);
    const struct field *agent = x->head ? head_field(x->head, "user-agent") : NULL;

    x->secretive = tells_secret(x, agent);
    record_id(&w, FIELD_ID, &x->id);
    put_conn(&w, x->session);
    record_text(&w, FIELD_ACTION, x->reason ? SLICE("deny") : SLICE("allow"));
    put_reason(&w, x, REASON_ALLOWED);
    put_whose(&w, x);
    put_client(&w, x->session);
    if (x->decision.service)
        record_text_if(&w, FIELD_SERVICE, service_name(x->decision.service));
    record_text_if(&w, FIELD_RULE, x->decision.rule);
    if (x->decision.observed)
        record_bool(&w, FIELD_OBSERVED, true);
    put_request(&w, x, agent);
    if (buf_len(&x->dropped) && !x->secretive)
        record_text(&w, FIELD_DROPPED, buf_slice(&x->dropped));
    k->counters->decisions[x->reason ? x->reason : REASON_ALLOWED]++;
    if (wait == &x->wait)
        recorder_end(k->recorder, &w, wait);
    else
        recorder_ride(k->recorder, &w, wait);
}

static void put_websocket(struct record_writer *w, const struct exchange *x, const struct websocket_tally *t)
{
    if (!x->websocket)
        return;
    record_number(w, FIELD_CLIENT_FRAMES, (int64_t)t->up_frames);
    record_number(w, FIELD_SERVICE_FRAMES, (int64_t)t->down_frames);
    if (t->code)
        record_number(w, FIELD_CLOSE_CODE, t->code);
}

void evidence_result(struct exchange *x, const char *outcome)
{
    struct record_writer w = recorder_begin(x->worker->recorder, RECORD_RESULT);
    struct websocket_tally t = websocket_tally(x);

    x->secretive = x->secretive || x->reason == REASON_CANARY_LEAK || x->reason == REASON_TOKEN_LEAK;
    record_id(&w, FIELD_ID, &x->id);
    if (x->session->tunnel.open && !x->request.connect)
        record_id(&w, FIELD_TUNNEL, &x->session->tunnel.id);
    record_number(&w, FIELD_CONN, (int64_t)x->session->conn);
    if (x->reason)
        put_reason(&w, x, x->reason);
    record_text_if(&w, FIELD_SANDBOX, x->identity ? identity_sandbox(x->identity) : "");
    if (x->decision.service)
        record_text_if(&w, FIELD_SERVICE, service_name(x->decision.service));
    if (x->status)
        record_number(&w, FIELD_STATUS, x->status);
    record_number(&w, FIELD_REQUEST_BYTES, (int64_t)(x->up.released + t.up_bytes));
    record_number(&w, FIELD_RESPONSE_BYTES, (int64_t)(x->down.released + t.down_bytes));
    put_websocket(&w, x, &t);
    record_bool(&w, FIELD_REUSED, x->reused);
    record_number(&w, FIELD_DURATION_US, (clock_mono_lately_ns() - x->started_ns) / 1000);
    record_text_if(&w, FIELD_OUTCOME, outcome);
    worker_count(x->worker, COUNTER_REQUEST_BYTES, (int64_t)(x->up.released + t.up_bytes));
    worker_count(x->worker, COUNTER_RESPONSE_BYTES, (int64_t)(x->down.released + t.down_bytes));
    recorder_end(x->worker->recorder, &w, NULL);
}

void evidence_finding(struct exchange *x, const struct hit *hit, const char *place, enum reason reason)
{
    struct record_writer w = recorder_begin(x->worker->recorder, RECORD_FINDING);

    record_id(&w, FIELD_ID, &x->id);
    put_conn(&w, x->session);
    record_reason(&w, FIELD_REASON, reason);
    put_identity(&w, x->identity);
    put_client(&w, x->session);
    if (x->decision.service)
        record_text_if(&w, FIELD_SERVICE, service_name(x->decision.service));
    record_text_if(&w, FIELD_CANARY, hit->canary);
    record_text_if(&w, FIELD_CANARY_ENCODING, hit->encoding);
    record_text_if(&w, FIELD_CANARY_PLACE, place);
    record_number(&w, FIELD_CANARY_OFFSET, (int64_t)hit->from);
    recorder_end(x->worker->recorder, &w, NULL);
}

void evidence_sum(struct worker *k, const struct party *p, const struct sum *s)
{
    struct record_writer w = recorder_begin(k->recorder, RECORD_LIMIT);

    record_id(&w, FIELD_ID, &s->id);
    record_text_if(&w, FIELD_ACTION, "deny");
    record_reason(&w, FIELD_REASON, s->reason);
    record_text_if(&w, FIELD_DETAIL, s->detail);
    record_text_if(&w, p->kind == TALLY_SANDBOX ? FIELD_SANDBOX : FIELD_CLIENT, p->name);
    record_number(&w, FIELD_LIMIT_COUNT, (int64_t)s->count);
    record_number(&w, FIELD_LIMIT_FIRST, s->first_s);
    record_number(&w, FIELD_LIMIT_LAST, s->last_s);
    recorder_end(k->recorder, &w, NULL);
}

/* What stands only where it says something: that an edge is not declared is what all is about. */
static void put_edge(struct record_writer *w, const struct sight *s)
{
    const struct edge *e = &s->edge;

    record_text_if(w, FIELD_EDGE_KIND, edge_kind_name(e->kind));
    record_text_if(w, FIELD_EDGE_SCHEME, e->to.scheme);
    record_text_if(w, FIELD_EDGE_HOST, e->to.host);
    if (e->to.port)
        record_number(w, FIELD_EDGE_PORT, e->to.port);
    record_text_if(w, FIELD_EDGE_LISTED, s->listed);
    record_bool(w, FIELD_EDGE_DECLARED, s->declared);
    if (s->refused)
        record_bool(w, FIELD_EDGE_REFUSED, true);
    if (e->unclear)
        record_bool(w, FIELD_EDGE_UNCLEAR, true);
    if (e->downgrade)
        record_bool(w, FIELD_EDGE_DOWNGRADE, true);
    if (e->to.userinfo)
        record_bool(w, FIELD_EDGE_USERINFO, true);
    if (e->presigned)
        record_text_if(w, FIELD_EDGE_SIGNED, e->signature.method[0] ? e->signature.method : "unknown");
    if (e->presigned && e->signature.lifetime_s >= 0)
        record_number(w, FIELD_EDGE_LIFETIME, e->signature.lifetime_s);
    record_number(w, FIELD_EDGE_COUNT, (int64_t)s->count);
    record_number(w, FIELD_EDGE_FIRST, s->first_s);
    record_number(w, FIELD_EDGE_LAST, s->last_s);
}

void evidence_edge(struct worker *k, const struct exchange *x, const struct sight *s)
{
    struct record_writer w = recorder_begin(k->recorder, RECORD_EDGE);

    record_id(&w, FIELD_ID, &s->id);
    if (x && x->identity)
        record_text_if(&w, FIELD_SANDBOX, identity_sandbox(x->identity));
    record_text_if(&w, FIELD_SERVICE, s->service);
    record_text_if(&w, FIELD_DETAIL, s->edge.why);
    record_text_if(&w, FIELD_HOST, s->host);
    put_edge(&w, s);
    recorder_end(k->recorder, &w, NULL);
}

void evidence_upstream(void *worker, const struct upstream *u, const struct meter *count)
{
    const struct outgoing o = {.service = u->service, .address = u->address, .exchanges = u->exchanges};

    outgoing_record(((struct worker *)worker)->recorder, &o, count);
}

void evidence_connection(struct session *s, enum reason reason, const char *detail)
{
    struct record_writer w = recorder_begin(s->worker->recorder, RECORD_CONNECTION);

    put_conn(&w, s);
    record_reason(&w, FIELD_REASON, reason);
    record_text_if(&w, FIELD_DETAIL, detail);
    put_identity(&w, s->identity ? s->identity : s->exchange ? s->exchange->identity : NULL);
    put_client(&w, s);
    record_text_if(&w, FIELD_HOST, s->arrival ? s->arrival->host : s->tunnel.host);
    recorder_end(s->worker->recorder, &w, NULL);
}
