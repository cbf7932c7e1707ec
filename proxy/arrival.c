/* Owns what is known of a connection before its first request. Knows no token. */
#include "proxy/arrival.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "net/name.h"
#include "proxy/exchange.h"
#include "proxy/gate.h"
#include "proxy/terms.h"

enum { HANDSHAKE = 0x16 };

/* The first reason stands. False, for who refuses. */
static bool refuse(struct arrival *a, enum reason reason, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(struct arrival *a, enum reason reason, const char *format, ...)
{
    va_list args;

    if (a->reason)
        return false;
    a->reason = reason;
    va_start(args, format);
    vsnprintf(a->detail, sizeof a->detail, format, args);
    va_end(args);
    return false;
}

/* ---- begin and end ---- */

void arrival_begin(struct session *s, int fd, const struct addr *listener)
{
    struct arrival *a = calloc(1, sizeof *a);
    struct buf text = {0};

    if (!a)
        abort();
    s->arrival = a;
    if (!steer_find(fd, listener, &a->way, &a->meant)) {
        refuse(a, REASON_CLIENT_CLOSED, "it was gone before it was looked at");
        return;
    }
    addr_text(&text, &a->meant);
    snprintf(a->meant_text, sizeof a->meant_text, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_free(&text);
    if (a->way != STEER_DIRECT && gate_is_own(&a->meant))
        refuse(a, REASON_LOOP_DETECTED, "it was meant for a listener of this gateway");
}

void arrival_cancel(struct arrival *a)
{
    if (!a)
        return;
    ask_cancel(a->ask, 0);
    a->ask = NULL;
}

void arrival_free(struct arrival *a)
{
    if (!a)
        return;
    secret_free(a->shown);
    free(a->host);
    free(a);
}

/* ---- refusals ---- */

/* One of many, or over a limit. True: it is counted in a sum, of which this may be the first. */
static bool is_summed(struct session *s, struct arrival *a)
{
    struct worker *w = s->worker;
    struct party *p = s->source_party;
    int64_t now_ms = loop_now_ms(w->loop);
    struct verdict v;

    if (sums_takes(a->reason))
        return true;
    if (quota_pace(&w->quota, p, PACE_DENIALS, 1, now_ms, &v)) {
        tally_add_pace(p->seat, PACE_DENIALS, now_ms, 1);
        return false;
    }
    snprintf(a->detail, sizeof a->detail, "%s; this one is %s", v.detail, reason_code(a->reason));
    a->reason = REASON_LIMIT_DENIALS;
    return true;
}

static void sum(struct session *s, const struct arrival *a)
{
    struct worker *w = s->worker;
    int64_t wall_s = loop_wall_s(w->loop);
    struct sum first = {.reason = a->reason, .count = 1, .first_s = wall_s, .last_s = wall_s};

    first.id = id_new(loop_wall_ns(w->loop) / 1000000);
    snprintf(first.detail, sizeof first.detail, "%.*s", (int)sizeof first.detail - 1, a->detail);
    if (sums_add(&s->source_party->sums, a->reason, first.detail, loop_now_ms(w->loop), wall_s, &first.id))
        evidence_sum(w, s->source_party, &first);
}

void arrival_refuse(struct session *s)
{
    struct arrival *a = s->arrival;

    s->worker->counters->decisions[a->reason]++;
    if (is_summed(s, a))
        sum(s, a);
    else
        evidence_connection(s, a->reason, a->detail);
}

/* ---- the first byte ---- */

/* RFC 9110 5.6.2: what a method may begin with. */
static bool may_begin_method(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* A source may have so many handshakes under way, a second, and failed, as a sandbox may: it has shown no token yet. */
static bool has_room(struct session *s)
{
    struct worker *w = s->worker;
    struct party *p = s->source_party;
    int64_t now_ms = loop_now_ms(w->loop);
    struct verdict v;

    if (!quota_room(&w->quota, p, HOLD_HANDSHAKES, now_ms, &v) ||
        !quota_pace(&w->quota, p, PACE_FAILED_HANDSHAKES, 1, now_ms, &v) ||
        !quota_pace(&w->quota, p, PACE_HANDSHAKES, 1, now_ms, &v))
        return refuse(s->arrival, v.reason, "%s", v.detail);
    tally_add_pace(p->seat, PACE_HANDSHAKES, now_ms, 1);
    return true;
}

static enum arrival_turn look_at(struct session *s, char first)
{
    struct arrival *a = s->arrival;

    if (a->reason)
        return ARRIVAL_REFUSED;
    if (first == HANDSHAKE) {
        a->scheme = SCHEME_HTTPS;
        return has_room(s) ? ARRIVAL_TLS : ARRIVAL_REFUSED;
    }
    if (may_begin_method(first))
        return ARRIVAL_PLAIN;
    refuse(a, REASON_PROTOCOL_UNKNOWN, "the first byte is 0x%02x", (unsigned char)first);
    return ARRIVAL_REFUSED;
}

enum arrival_turn arrival_decide(struct session *s, struct slice input)
{
    static const enum counter counters[] = {COUNTER_ARRIVALS_DIRECT, COUNTER_ARRIVALS_REDIRECT, COUNTER_ARRIVALS_TPROXY};
    enum arrival_turn turn;

    s->arrival->decided = true;
    worker_count(s->worker, counters[s->arrival->way], 1);
    turn = look_at(s, input.ptr[0]);
    if (turn == ARRIVAL_REFUSED)
        arrival_refuse(s);
    return turn;
}

/* ---- the ClientHello ---- */

/* Each new name below a suffix costs the keeper a signature, and whoever asks has shown nothing yet. */
static bool may_use_name(struct session *s, const char *host)
{
    struct worker *w = s->worker;
    struct tally_seat *seat = s->source_party->seat;
    int64_t now_ms = loop_now_ms(w->loop);
    struct slice none = slice_make("", 0);
    struct verdict v;

    if (tally_has_seen(seat, PACE_NAMES, slice_of(host), none, now_ms))
        return true;
    if (!quota_pace(&w->quota, s->source_party, PACE_NAMES, 1, now_ms, &v))
        return refuse(s->arrival, v.reason, "%s", v.detail);
    tally_note_seen(seat, PACE_NAMES, slice_of(host), none, now_ms);
    tally_add_pace(seat, PACE_NAMES, now_ms, 1);
    return true;
}

static bool is_listed(struct session *s, const char *host)
{
    struct arrival *a = s->arrival;
    uint16_t port = a->meant.port;
    const struct service *service = policy_find(s->worker->role->policy, host, port);

    if (!service)
        return refuse(a, REASON_HOST_NOT_LISTED, "no service lists %.80s port %u", host, port);
    if (!service_is_tls_port(service, port))
        return refuse(a, REASON_SCHEME_NOT_ALLOWED, "port %u of service %.40s is for plain HTTP", port, service_name(service));
    if (!service_is_below_suffix(service, host))
        return true;
    if (sift_host(s->worker->terms->sift, slice_of(host)).canary)
        return refuse(a, REASON_CANARY_LEAK, "the name in the ClientHello");
    return may_use_name(s, host);
}

static bool take_name(struct session *s, struct slice name)
{
    struct arrival *a = s->arrival;
    char host[NAME_MAX_LEN + 1];
    struct fault why = {0};

    if (!name.len)
        return refuse(a, REASON_SNI_MISSING, "the ClientHello names no host");
    if (scanner_text_with(s->worker->scanner, name, slice_make("", 0)).found) /* as written: no record repeats it */
        return refuse(a, REASON_CANARY_LEAK, "the name in the ClientHello");
    if (!name_canonical(name, host, &why))
        return refuse(a, REASON_HOST_INVALID, "the ClientHello: %.120s", why.text);
    if (!is_listed(s, host))
        return false;
    a->host = text_copy(slice_of(host));
    return true;
}

/* ---- its certificate ---- */

static void on_certified(void *arg, uint16_t type, struct unpack *payload, int fd)
{
    struct session *s = arg;
    struct arrival *a = s->arrival;
    struct fault why = {0};

    a->ask = NULL;
    if (fd >= 0)
        close(fd);
    if (type == MSG_CERTIFIED) {
        int64_t not_after = (int64_t)unpack_u64(payload);

        if (!leaves_add(s->worker->leaves, a->host, unpack_bytes(payload), not_after, &why))
            refuse(a, REASON_CERTIFICATE_UNAVAILABLE, "%.150s", why.text);
    } else {
        struct slice text = type == MSG_NOT_CERTIFIED ? unpack_bytes(payload) : SLICE("the keeper went away");

        refuse(a, REASON_CERTIFICATE_UNAVAILABLE, "%.*s", (int)(text.len < 150 ? text.len : 150), text.ptr);
    }
    stream_go_on(s->client);
}

static enum tls_verdict ask_keeper(struct session *s)
{
    struct worker *w = s->worker;
    struct arrival *a = s->arrival;
    struct buf body = {0};

    if (a->ask)
        return TLS_WAIT;
    pack_u64(&body, w->role->generation);
    pack_bytes(&body, slice_of(a->host));
    a->ask = ask_start(w->keeper, MSG_CERTIFY, buf_slice(&body), on_certified, s);
    buf_free(&body);
    if (a->ask)
        return TLS_WAIT;
    refuse(a, REASON_CERTIFICATE_UNAVAILABLE, "the keeper is not there");
    return TLS_FAIL;
}

/* What a session of TLS that is resumed may have been begun for: this name, at this listener. */
static bool bind_session(const struct session *s, SSL *ssl, struct fault *why)
{
    struct buf binding = {0};
    bool ok;

    pack_bytes(&binding, SLICE("transparent"));
    pack_bytes(&binding, slice_of(s->listener));
    ok = tls_bind(ssl, s->arrival->host, buf_slice(&binding), why);
    buf_free(&binding);
    return ok;
}

static enum tls_verdict certify(struct session *s, SSL *ssl)
{
    struct worker *w = s->worker;
    struct leaf *leaf = leaves_find(w->leaves, s->arrival->host, loop_wall_s(w->loop));
    struct fault why = {0};

    if (!leaf)
        return ask_keeper(s);
    if (leaf_use(w->leaves, leaf, ssl, &why) && bind_session(s, ssl, &why))
        return TLS_GO;
    refuse(s->arrival, REASON_CERTIFICATE_UNAVAILABLE, "%.150s", why.text);
    return TLS_FAIL;
}

/* From within the handshake; again whenever something comes while it stands still. */
static enum tls_verdict on_name(void *arg, SSL *ssl, struct slice name)
{
    struct session *s = arg;
    struct arrival *a = s->arrival;

    if (a->reason)
        return a->reason == REASON_CERTIFICATE_UNAVAILABLE ? TLS_FAIL : TLS_REFUSE;
    if (!a->host && !take_name(s, name))
        return TLS_REFUSE;
    return certify(s, ssl);
}

bool arrival_accept(struct session *s)
{
    struct fault why = {0};
    SSL *ssl = tls_server_arrive(s->worker->tls_server, on_name, s, &why);

    if (!ssl)
        return false;
    if (!party_wants_ticket(s->source_party))
        tls_spare_ticket(ssl);
    stream_start_tls(s->client, ssl);
    return true;
}

bool arrival_stands(const struct session *s)
{
    const struct arrival *a = s->arrival;
    const struct service *service;

    if (!a->host)
        return true;
    service = policy_find(s->worker->role->policy, a->host, a->meant.port);
    return service && service_is_tls_port(service, a->meant.port);
}
