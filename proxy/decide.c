/* AUTHORIZE and RECORD: whose request it is, whether it may go, and the record of that. */
#include <stdio.h>
#include <string.h>

#include "base/pack.h"
#include "net/upgrade.h"
#include "proxy/arrival.h"
#include "proxy/carrier.h"
#include "proxy/rewrite.h"
#include "proxy/steps.h"
#include "proxy/terms.h"

/* ---- the token ---- */

/* On a bound listener the token is of its sandbox, whoever shows it. */
static struct identity *check_at(const struct session *s, struct slice token, const struct token_context *context,
                                 struct fault *why)
{
    struct identity *i = verifier_check(s->worker->verifier, token, context, why);
    const char *sandbox = s->bound ? s->bound->sandbox : "";

    if (!i || !*sandbox || strcmp(identity_sandbox(i), sandbox) == 0)
        return i;
    fault_reason(why, REASON_TOKEN_BINDING, "listener %.40s is for sandbox %.63s, and the token is of %.64s", s->listener,
                 sandbox, identity_sandbox(i));
    identity_unref(i);
    return NULL;
}

/* A source address, where it tells one sandbox from another. */
static const char *source_of(const struct session *s)
{
    return s->source.family == AF_INET || s->source.family == AF_INET6 ? s->source_ip : NULL;
}

static struct identity *check(struct exchange *x, struct slice token, struct fault *why)
{
    struct token_context context = {.listener = x->session->listener,
                                    .source = source_of(x->session),
                                    .certificate = x->session->certificate,
                                    .now_s = loop_wall_s(x->worker->loop),
                                    .spends = true,
                                    .is_out = !admit_tokens(x)};
    struct identity *i = check_at(x->session, token, &context, why);

    if (!i)
        admit_junk(x, why->reason);
    if (!i && why->reason == REASON_SANDBOX_QUARANTINED && !x->session->tunnel.open)
        x->identity = verifier_recall(x->worker->verifier, token); /* it is no stranger who is refused */
    return i;
}

/* Was it verified, and refused for what may change at any time? Looking again costs nothing then. */
static bool is_of_the_moment(enum reason r)
{
    return r == REASON_TOKEN_REVOKED || r == REASON_SANDBOX_QUARANTINED;
}

/* A bad one is not looked at again for RETRY_S: every request would cost a signature. */
struct identity *decide_bound(const struct session *s, struct fault *why)
{
    enum { RETRY_S = 5 };
    struct bound *b = s->bound;
    struct token_context context = {.listener = s->listener, .certificate = s->certificate, .now_s = loop_wall_s(s->worker->loop), .spends = true};
    struct identity *i;

    if (!b->token) {
        fault_reason(why, REASON_TOKEN_MISSING, "the token-file of listener %.40s holds no token", s->listener);
        return NULL;
    }
    if (context.now_s < b->bad_until_s) {
        *why = b->bad;
        return NULL;
    }
    i = check_at(s, secret_slice(b->token), &context, why);
    if (!i && !is_of_the_moment(why->reason)) {
        b->bad = *why;
        b->bad_until_s = context.now_s + RETRY_S;
    }
    return i;
}

static bool identify_bound(struct exchange *x, struct fault *why)
{
    struct session *s = x->session;
    struct identity *i = decide_bound(s, why);

    x->carried = true;
    if (i)
        x->token = secret_new(secret_slice(s->bound->token));
    else if (why->reason == REASON_SANDBOX_QUARANTINED)
        i = verifier_recall(x->worker->verifier, secret_slice(s->bound->token));
    x->identity = i;
    return x->token != NULL;
}

static bool identify_plain(struct exchange *x, struct slice token, struct fault *why)
{
    struct identity *i = check(x, token, why);

    if (!i)
        return false;
    x->identity = i;
    x->token = secret_new(token);
    if (x->session->arrival)
        carrier_remember(x, token);
    return true;
}

static bool is_same_principal(const struct identity *a, const struct identity *b)
{
    return strcmp(identity_sandbox(a), identity_sandbox(b)) == 0 && strcmp(identity_issuer(a), identity_issuer(b)) == 0;
}

/* apt repeats its credential on every inner request: checked, and preferred when it is newer. */
static bool adopt_inner(struct exchange *x, struct slice token, struct fault *why)
{
    struct session *s = x->session;
    struct identity *inner;

    if (s->token && secret_equals(token, secret_slice(s->token)))
        return true;
    if (!(inner = check(x, token, why)))
        return false;
    if (!is_same_principal(inner, s->identity)) {
        identity_unref(inner);
        return fault_reason(why, REASON_TOKEN_FOREIGN, "the inner token names another sandbox than the tunnel's");
    }
    if (identity_expires_s(inner) > identity_expires_s(s->identity)) {
        session_set_identity(s, inner, token);
        s->carried = false;
    } else {
        identity_unref(inner);
    }
    return true;
}

static void take_session_identity(struct exchange *x)
{
    identity_unref(x->identity);
    x->identity = identity_ref(x->session->identity);
}

static bool identify(struct exchange *x, struct fault *why)
{
    struct session *s = x->session;
    struct buf scratch = {0};
    struct slice token = {0};
    bool present, ok;

    if (carrier_is_known(x)) {
        take_session_identity(x);
        return verifier_recheck(x->worker->verifier, s->identity, loop_wall_s(x->worker->loop), why);
    }
    ok = carrier_find(x, &scratch, &token, &present, why);
    if (ok && s->tunnel.open) {
        ok = (!present || adopt_inner(x, token, why)) &&
             verifier_recheck(x->worker->verifier, s->identity, loop_wall_s(x->worker->loop), why);
        take_session_identity(x); /* adopt_inner may have found a newer one */
    } else if (ok && present) {
        ok = identify_plain(x, token, why);
    } else if (ok && s->bound && s->bound->carries) {
        ok = identify_bound(x, why);
    }
    buf_wipe(&scratch);
    return ok;
}

/* ---- the request ---- */

static bool read_request(struct exchange *x, struct fault *why)
{
    const struct tunnel *t = &x->session->tunnel;
    const struct arrival *a = x->session->arrival;
    struct request_context context = {.tunnelled = t->open, .scheme = t->scheme, .host = t->host, .port = t->port};

    if (a)
        context = (struct request_context){.transparent = true, .scheme = a->scheme, .host = a->host, .port = a->meant.port};
    return request_read(&x->request, x->head, &context, why);
}

/* Where in the rewritten head an offset lies: "target" or "field NAME". */
static void name_place(struct slice head, size_t offset, char *out, size_t room)
{
    size_t line = 0;

    for (size_t i = 0; i < offset && i < head.len; i++)
        if (head.ptr[i] == '\n')
            line = i + 1;
    if (line == 0) {
        snprintf(out, room, "target");
        return;
    }
    struct slice name = slice_from(head, line);
    ptrdiff_t colon = slice_find(name, ':');

    snprintf(out, room, "field %.*s", SLICE_ARG(slice_cut(name, 0, colon < 0 ? 0 : (size_t)colon)));
}

/* Look through exactly the bytes that would go out. */
static bool head_leaks(struct exchange *x, struct slice head, struct hit *hit, char *place, size_t room)
{
    *hit = scanner_text_with(x->worker->scanner, head, exchange_token(x));
    if (!hit->found)
        return false;
    name_place(head, (size_t)hit->from, place, room);
    return true;
}

static enum exchange_state check_body(struct exchange *x)
{
    uint64_t limit = service_body_limit(x->decision.service);
    char text[120];

    if (x->head->framing == FRAMING_NONE || (x->head->framing == FRAMING_LENGTH && x->head->length <= limit))
        return EXCHANGE_STAY;
    if (x->head->framing == FRAMING_CHUNKED && limit > 0)
        return EXCHANGE_STAY;
    snprintf(text, sizeof text, "the service takes at most %llu bytes", (unsigned long long)limit);
    return exchange_refuse(x, REASON_BODY_TOO_LARGE, text);
}

/* A gzip body is opened when it is whole, so it must be collected; anything else cannot be looked into. */
static enum exchange_state check_coding(struct exchange *x)
{
    x->coding = coding_of(x->head);
    if (x->coding == CODING_NONE)
        return EXCHANGE_STAY;
    if (service_allows_unscannable(x->decision.service)) {
        x->coding = x->head->expect_continue ? CODING_OTHER : x->coding;
        return EXCHANGE_STAY;
    }
    if (x->coding == CODING_OTHER)
        return exchange_refuse(x, REASON_UNSCANNABLE, "of all content encodings only gzip can be looked into");
    if (x->head->expect_continue)
        return exchange_refuse(x, REASON_UNSCANNABLE, "a gzip body must come without Expect: 100-continue");
    return EXCHANGE_STAY;
}

/* Who may use the connection, where to, and how it is made: the mark stands for all that is configured about that. */
static struct bucket *find_bucket(const struct exchange *x, uint64_t mark, uint64_t credential)
{
    struct buf key = {0};
    struct bucket *b;

    pack_bytes(&key, slice_of(identity_sandbox(x->identity)));
    pack_bytes(&key, slice_of(identity_issuer(x->identity)));
    pack_u64(&key, mark);
    pack_u8(&key, (uint8_t)x->decision.scheme);
    pack_bytes(&key, slice_of(x->request.host));
    pack_u16(&key, x->request.port);
    pack_u64(&key, credential);
    b = pool_bucket(x->worker->pool, buf_slice(&key), mark);
    buf_free(&key);
    return b;
}

/* One destination and, while its token is, one principal: its place is looked up again only for another mark. */
static bool has_one_place(const struct exchange *x)
{
    const struct session *s = x->session;

    return s->tunnel.open || (s->arrival && s->arrival->host && x->identity == s->identity);
}

static void choose_bucket(struct exchange *x)
{
    struct tunnel *t = &x->session->tunnel;
    uint64_t mark = worker_mark(x->worker, x->decision.service), credential = x->grant ? grant_mark(x->grant) : 0;
    bool stays = t->bucket && has_one_place(x) && bucket_is_of(t->bucket, mark) && t->bucket_mark == credential;

    x->bucket = stays ? t->bucket : find_bucket(x, mark, credential);
    bucket_hold(x->bucket);
    if (t->bucket == x->bucket || !has_one_place(x))
        return;
    if (t->bucket)
        bucket_release(t->bucket);
    t->bucket = x->bucket;
    t->bucket_mark = credential;
    bucket_hold(t->bucket);
}

/* What a message may not ask of a proxy, whoever it is from. */
static bool is_sound(struct exchange *x, struct fault *why)
{
    if (rewrite_is_loop(x->head, x->worker->gateway))
        return fault_reason(why, REASON_LOOP_DETECTED, "Via names this gateway");
    if (x->head->expect_other)
        return fault_reason(why, REASON_EXPECTATION_FAILED, "an expectation other than 100-continue");
    return true;
}

/* The host as the client wrote it, where canonical ones have lost the case of their letters. Empty: as it will go out. */
static struct slice host_as_written(const struct exchange *x)
{
    const struct field *host = x->session->arrival ? head_field(x->head, "host") : NULL;

    if (host)
        return slice_starts(host->value, slice_of(x->request.host)) ? slice_make("", 0) : host->value;
    return x->head->target.ptr[0] == '/' ? slice_make("", 0) : x->head->target;
}

/*
 * A host below a suffix is the client's to choose, and a name server hears it: what a label can say is looked for in it. Once, where the name
 * is that of the tunnel or of the connection (on_name in proxy/arrival.c).
 */
static bool host_leaks(const struct exchange *x, struct hit *hit)
{
    const struct session *s = x->session;
    struct sift_find find = {0};

    if (!s->tunnel.open && !(s->arrival && s->arrival->host) && service_is_below_suffix(x->decision.service, x->request.host))
        find = sift_host(x->worker->terms->sift, slice_of(x->request.host));
    if (find.canary)
        *hit = (struct hit){true, find.canary, find.encoding, 0, strlen(x->request.host)};
    return find.canary != NULL;
}

static enum exchange_state scan_head(struct exchange *x)
{
    struct slice host = host_as_written(x);
    char place[80] = "host";
    struct hit hit = {0};

    if (!exchange_is_connect(x))
        rewrite_request(&x->request, x->decision.service, x->worker->via, &x->out_head, &x->dropped);
    if (host_leaks(x, &hit) || (host.len && head_leaks(x, host, &hit, place, sizeof place)) ||
        head_leaks(x, buf_slice(&x->out_head), &hit, place, sizeof place))
        return exchange_leak(x, &hit, place);
    if (stray_token(x, &hit, place, sizeof place))
        return exchange_leak(x, &hit, place);
    return EXCHANGE_STAY;
}

/* A request without a body is whole already: let the parser say so. */
static void finish_empty_body(struct exchange *x)
{
    size_t used;

    if (x->head->framing == FRAMING_NONE)
        x->body_done = message_feed(x->session->message, slice_make("", 0), &used, NULL) == MESSAGE_END;
}

/* Who names WebSocket in Upgrade means it, and then all of it is there: nobody else may see a handshake in what is none. */
static enum exchange_state check_handshake(struct exchange *x)
{
    struct fault why = {0};

    if (!service_allows_websocket(x->decision.service) || exchange_is_connect(x) || !upgrade_is_meant(x->head))
        return EXCHANGE_STAY;
    x->asks_to_switch = true;
    return upgrade_check_request(x->head, &why) ? EXCHANGE_STAY : exchange_refuse(x, why.reason, why.text);
}

static enum exchange_state decide(struct exchange *x)
{
    struct worker *w = x->worker;
    struct fault why = {0};
    enum exchange_state refused;

    if (x->session->tunnel.open)
        take_session_identity(x); /* whose tunnel it is stands in the record of a malformed request too */
    if (!read_request(x, &why) || !identify(x, &why) || !is_sound(x, &why))
        return exchange_refuse(x, why.reason, why.text);
    if ((refused = admit_sandbox(x)) != EXCHANGE_STAY)
        return refused;
    x->decision = authorize(w->role->policy, x->identity, &x->request, loop_wall_s(w->loop), NULL);
    if (!x->decision.allowed)
        return exchange_refuse(x, x->decision.reason, x->decision.detail);
    if ((refused = check_handshake(x)) != EXCHANGE_STAY)
        return refused;
    if (!exchange_is_connect(x))
        x->decision.scheme = x->request.scheme;
    if ((refused = check_body(x)) != EXCHANGE_STAY || (refused = check_coding(x)) != EXCHANGE_STAY ||
        (refused = scan_head(x)) != EXCHANGE_STAY)
        return refused;
    if (service_own_field(x->decision.service))
        vouch_find(x);
    choose_bucket(x);
    if ((refused = admit_request(x)) != EXCHANGE_STAY)
        return refused;
    if (x->body_done || x->head->expect_continue)
        return EXCHANGE_RECORD;
    return EXCHANGE_COLLECT;
}

enum exchange_state decide_on_authorize(struct exchange *x, struct event ev)
{
    if (ev.type != EV_ENTER)
        return EXCHANGE_STAY;
    if (x->reason)
        return exchange_refuse(x, x->reason, NULL);
    finish_empty_body(x);
    return decide(x);
}

/* ---- RECORD ---- */

static void on_recorded(void *arg, bool ok)
{
    struct exchange *x = arg;

    x->waiting = false;
    exchange_feed(x, (struct event){.type = EV_RECORDED, .ok = ok});
}

/* The grant came after the place was chosen: its connections are for one credential. */
static void choose_again(struct exchange *x)
{
    bucket_release(x->bucket);
    choose_bucket(x);
}

enum exchange_state decide_proceed(struct exchange *x)
{
    if (vouch_is_due(x))
        return EXCHANGE_GRANT;
    if (x->grant)
        choose_again(x);
    if (exchange_is_connect(x))
        return bucket_has_idle(x->bucket) ? EXCHANGE_CERTIFY : EXCHANGE_DIAL;
    if (!(x->upstream = bucket_take(x->bucket, x->body_done && relay_is_idempotent(x))))
        return EXCHANGE_DIAL;
    x->reused = true;
    worker_count(x->worker, COUNTER_REUSES, 1);
    return EXCHANGE_FORWARD;
}

/* No record, no egress. One that is late may still get written: its result then says that nothing came of it. */
static enum exchange_state unrecordable(struct exchange *x, bool late)
{
    x->unrecordable = true;
    x->reason = REASON_RECORD_UNAVAILABLE;
    x->detail[0] = '\0';
    if (late && x->decision.allowed)
        evidence_result(x, "failed");
    return EXCHANGE_REPLY;
}

static enum exchange_state begin_record(struct exchange *x)
{
    if (x->reason)
        x->decision.allowed = false;
    admit_records(x);
    if (reach_needs_nobody(x)) {
        x->recorded = true;
        evidence_decision(x, reach_opening(x->session));
        return EXCHANGE_CERTIFY;
    }
    x->wait.on_recorded = on_recorded;
    x->wait.arg = x;
    x->waiting = true;
    evidence_decision(x, &x->wait);
    return EXCHANGE_STAY;
}

enum exchange_state decide_on_record(struct exchange *x, struct event ev)
{
    if (ev.type == EV_ENTER)
        return begin_record(x);
    if (ev.type == EV_DEADLINE)
        return unrecordable(x, true);
    if (ev.type != EV_RECORDED)
        return EXCHANGE_STAY;
    if (!ev.ok)
        return unrecordable(x, false);
    x->recorded = true;
    return x->reason ? EXCHANGE_REPLY : decide_proceed(x);
}

/* ---- another policy ---- */

/* An exchange may outlive its token (overrun); the rest of the policy holds for it all the same. */
static int64_t time_of_judgement(const struct exchange *x)
{
    int64_t now_s = loop_wall_s(x->worker->loop), last_s = identity_expires_s(x->identity) - 1;

    return last_s < now_s ? last_s : now_s;
}

static bool is_within_limits(const struct exchange *x, const struct service *s, struct fault *why)
{
    uint64_t limit = service_body_limit(s);

    if (x->up.total <= limit && (x->head->framing != FRAMING_LENGTH || x->head->length <= limit))
        return true;
    return fault_reason(why, REASON_BODY_TOO_LARGE, "the service takes at most %llu bytes", (unsigned long long)limit);
}

/* By the policy in force; *d is what it says. */
static bool is_still_allowed(struct exchange *x, struct decision *d, struct fault *why)
{
    struct worker *w = x->worker;
    int64_t at_s = time_of_judgement(x);

    *d = authorize(w->role->policy, x->identity, &x->request, at_s, NULL);
    if (!exchange_is_connect(x))
        d->scheme = x->request.scheme;
    if (!d->allowed)
        return fault_reason(why, d->reason, "%s", d->detail);
    if (d->scheme != x->decision.scheme)
        return fault_reason(why, REASON_SCHEME_NOT_ALLOWED, "the port is listed for another scheme now");
    return verifier_recheck(w->verifier, x->identity, at_s, why) && is_within_limits(x, d->service, why);
}

/* The record that is under way says allowed: its result comes behind it. */
static enum exchange_state void_record(struct exchange *x)
{
    evidence_result(x, "failed");
    x->unrecordable = true;
    return EXCHANGE_REPLY;
}

/* Not recorded yet: a refusal as any. Recorded, or about to be: the answer or the cut says that the policy changed. */
static enum exchange_state overrule(struct exchange *x, const struct decision *d, const struct fault *why)
{
    char text[FAULT_TEXT_SIZE + 64];

    x->keep_alive = x->keep_alive && x->body_done;
    if (x->state == EXCHANGE_COLLECT) {
        x->decision = *d;
        return exchange_refuse(x, why->reason, why->text);
    }
    exchange_drop_upstream(x, false);
    snprintf(text, sizeof text, "%s: %s", reason_code(why->reason), why->text);
    if (x->state != EXCHANGE_RECORD)
        return exchange_refuse(x, REASON_POLICY_CHANGED, text);
    exchange_refuse(x, REASON_POLICY_CHANGED, text);
    return void_record(x);
}

/* Nothing is under way to the service: what goes out is written anew, and where it goes is found anew when the service is another one. */
static enum exchange_state begin_again(struct exchange *x)
{
    bool moved = !bucket_is_of(x->bucket, worker_mark(x->worker, x->decision.service));
    enum exchange_state refused;

    buf_clear(&x->out_head);
    buf_clear(&x->dropped);
    vouch_drop(x); /* it was granted under another policy */
    refused = scan_head(x);
    if (refused == EXCHANGE_RECORD && x->state == EXCHANGE_RECORD)
        return void_record(x);
    if (refused != EXCHANGE_STAY)
        return refused;
    if (x->state == EXCHANGE_GRANT && !moved)
        return decide_proceed(x);
    if (!moved)
        return EXCHANGE_STAY;
    bucket_release(x->bucket);
    choose_bucket(x);
    if (x->state == EXCHANGE_COLLECT || x->state == EXCHANGE_RECORD)
        return EXCHANGE_STAY;
    exchange_drop_upstream(x, false);
    return x->state == EXCHANGE_GRANT ? decide_proceed(x) : EXCHANGE_DIAL;
}

enum exchange_state decide_again(struct exchange *x)
{
    struct decision d = {0};
    struct fault why = {0};

    if (x->reason) { /* refused already; its service's memory is about to go */
        x->decision.service = NULL;
        return EXCHANGE_STAY;
    }
    if (!is_still_allowed(x, &d, &why))
        return overrule(x, &d, &why);
    x->decision = d;
    if (x->state == EXCHANGE_FORWARD)
        return content_renew(x);
    return x->state == EXCHANGE_SOCKET ? EXCHANGE_STAY : begin_again(x);
}
