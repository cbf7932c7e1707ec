/*
 * Owns questions under way. A question is counted, read, looked through for canaries and judged in one go; then it waits for the scribe,
 * and where real addresses are asked for, for the porter; then it is answered. Nothing is answered with an address before its record is written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/usher.h"

enum { UNLISTED_FIXED = 2 };

struct inquiry {
    struct usher *usher;
    struct asked from;     /* the outlet is held */
    struct patron *patron; /* held */
    struct dns_question q;
    struct id id;
    struct zone_verdict verdict;
    enum dns_code code;
    struct addr addresses[DNS_ADDRESSES_MAX];
    size_t n_addresses;
    uint32_t ttl_s;
    struct sift_find leak;
    struct record_wait wait;
    struct ask *ask;
    int64_t since_ms; /* waiting for the scribe, or for the porter */
    TAILQ_ENTRY(inquiry) link;
};

static int64_t now_ms(const struct usher *u)
{
    return loop_now_ms(u->role->loop);
}

/* ---- records ---- */

static void put_client(struct record_writer *w, const struct inquiry *i)
{
    struct addr peer = {0};
    struct buf text = {0};

    record_text_if(w, FIELD_LISTENER, i->from.outlet->name);
    addr_from_sockaddr(&peer, (const struct sockaddr *)&i->from.peer);
    addr_text(&text, &peer);
    record_text(w, FIELD_CLIENT, buf_slice(&text));
    buf_free(&text);
    if (i->patron->is_sandbox)
        record_text_if(w, FIELD_SANDBOX, i->patron->name);
}

/* A name that carries a canary is not repeated. */
static void put_question(struct record_writer *w, const struct inquiry *i)
{
    struct buf text = {0};

    if (!i->q.named)
        return;
    dns_question_text(&text, &i->q);
    if (!i->leak.canary)
        record_text(w, FIELD_DNS_NAME, buf_slice(&text));
    buf_clear(&text);
    dns_type_text(&text, i->q.type);
    record_text(w, FIELD_DNS_TYPE, buf_slice(&text));
    buf_free(&text);
}

static void put_addresses(struct record_writer *w, const struct inquiry *i)
{
    struct buf text = {0};

    for (size_t k = 0; k < i->n_addresses; k++) {
        buf_text(&text, k ? ", " : "");
        addr_ip_text(&text, &i->addresses[k]);
    }
    if (buf_len(&text))
        record_text(w, FIELD_ADDRESSES, buf_slice(&text));
    buf_free(&text);
}

/* Of a name that is looked up, what comes of it stands in the porter's record. */
static void record(struct inquiry *i, struct record_wait *wait)
{
    struct record_writer w = recorder_begin(i->usher->recorder, RECORD_QUESTION);
    const struct zone_verdict *v = &i->verdict;

    record_id(&w, FIELD_ID, &i->id);
    record_text_if(&w, FIELD_ACTION, v->kind == ZONE_REFUSED ? "deny" : "allow");
    record_reason(&w, FIELD_REASON, v->reason);
    record_text_if(&w, FIELD_DETAIL, v->detail);
    put_client(&w, i);
    if (v->service)
        record_text_if(&w, FIELD_SERVICE, service_name(v->service));
    put_question(&w, i);
    if (v->kind != ZONE_LOOK_UP)
        record_text_if(&w, FIELD_DNS_CODE, dns_code_name(i->code));
    record_text_if(&w, FIELD_DNS_TRANSPORT, i->from.talk ? "tcp" : "udp");
    put_addresses(&w, i);
    recorder_end(i->usher->recorder, &w, wait);
}

static void record_leak(struct inquiry *i)
{
    struct record_writer w = recorder_begin(i->usher->recorder, RECORD_FINDING);

    record_id(&w, FIELD_ID, &i->id);
    record_reason(&w, FIELD_REASON, REASON_CANARY_LEAK);
    put_client(&w, i);
    record_text_if(&w, FIELD_CANARY, i->leak.canary);
    record_text_if(&w, FIELD_CANARY_ENCODING, i->leak.encoding);
    record_text_if(&w, FIELD_CANARY_PLACE, i->leak.place);
    recorder_end(i->usher->recorder, &w, NULL);
    usher_count(i->usher, COUNTER_CANARY_HITS, 1);
}

void inquiry_sum(struct usher *u, const struct patron *p, const struct sum *s)
{
    struct record_writer w = recorder_begin(u->recorder, RECORD_LIMIT);

    record_id(&w, FIELD_ID, &s->id);
    record_text_if(&w, FIELD_ACTION, "deny");
    record_reason(&w, FIELD_REASON, s->reason);
    record_text_if(&w, FIELD_DETAIL, s->detail);
    record_text_if(&w, p->is_sandbox ? FIELD_SANDBOX : FIELD_CLIENT, p->name);
    record_number(&w, FIELD_LIMIT_COUNT, (int64_t)s->count);
    record_number(&w, FIELD_LIMIT_FIRST, s->first_s);
    record_number(&w, FIELD_LIMIT_LAST, s->last_s);
    recorder_end(u->recorder, &w, NULL);
}

/* ---- the answer ---- */

static void send_answer(const struct asked *from, struct slice message)
{
    if (from->talk)
        talk_answer(from->talk, message);
    else if (from->fd >= 0)
        sendto(from->fd, message.ptr, message.len, 0, (const struct sockaddr *)&from->peer, from->peer_len); /* or it is lost, as datagrams are */
}

static void answer(struct inquiry *i)
{
    const struct zone_verdict *v = &i->verdict;
    struct dns_answer a = {.code = i->code, .ttl_s = i->ttl_s};
    struct buf out = {0}, text = {0};
    bool refused = v->kind == ZONE_REFUSED;

    if (refused) {
        buf_printf(&text, "exeat %s ", reason_code(v->reason));
        id_short(&text, &i->id);
        buf_char(&text, '\0');
        a.explained = true;
        a.error = (uint16_t)reason_get(v->reason)->ede;
        a.text = buf_slice(&text).ptr;
        usher_count(i->usher, COUNTER_DNS_REFUSED, 1);
    } else {
        a.addresses = i->addresses;
        a.n_addresses = i->n_addresses;
        a.any = v->kind == ZONE_LITTLE;
        a.nothing = !a.any && !a.n_addresses;
    }
    dns_answer_write(&out, &i->q, &a, i->from.talk ? DNS_TCP_MOST : dns_answer_room(&i->q));
    send_answer(&i->from, buf_slice(&out));
    buf_free(&text);
    buf_free(&out);
}

static void refuse(struct inquiry *i, enum reason reason)
{
    i->verdict.kind = ZONE_REFUSED;
    i->verdict.reason = reason;
    i->code = zone_code(reason);
    i->n_addresses = 0;
}

/* ---- waiting ---- */

static void end(struct inquiry *i)
{
    struct talk *t = i->from.talk;

    answer(i);
    TAILQ_REMOVE(&i->usher->inquiries, i, link);
    patrons_hold(i->usher->patrons, i->patron, -1);
    patron_unref(i->patron);
    outlet_unref(i->from.outlet);
    free(i);
    if (t)
        talk_done(t);
}

static void wait_again(struct inquiry *i)
{
    i->since_ms = now_ms(i->usher);
    TAILQ_REMOVE(&i->usher->inquiries, i, link);
    TAILQ_INSERT_TAIL(&i->usher->inquiries, i, link);
}

/* What the porter found is copied as far as there is room. False: that was no answer. */
static bool take_found(struct inquiry *i, struct unpack *u)
{
    uint32_t ttl = unpack_u32(u);
    uint16_t n = unpack_u16(u);

    for (uint16_t k = 0; k < n && !u->bad; k++) {
        struct addr a;

        if (!addr_parse_ip(unpack_bytes(u), &a))
            return false;
        if (a.family == (i->q.type == DNS_A ? AF_INET : AF_INET6) && i->n_addresses < DNS_ADDRESSES_MAX)
            i->addresses[i->n_addresses++] = a;
    }
    if (ttl < i->ttl_s)
        i->ttl_s = ttl;
    return unpack_done(u);
}

static void on_looked_up(void *arg, uint16_t type, struct unpack *u, int fd)
{
    struct inquiry *i = arg;
    enum reason reason = REASON_PORTER_UNAVAILABLE;

    (void)fd; /* the channel gives none with these */
    i->ask = NULL;
    if (type == MSG_NOT_FOUND)
        reason = (enum reason)unpack_u16(u);
    if (type != MSG_FOUND || !take_found(i, u))
        refuse(i, reason > REASON_ALLOWED && reason < N_REASONS ? reason : REASON_PORTER_UNAVAILABLE);
    end(i);
}

static void look_up(struct inquiry *i)
{
    struct buf body = {0}, from = {0};
    struct addr peer;

    addr_from_sockaddr(&peer, (const struct sockaddr *)&i->from.peer);
    addr_text(&from, &peer);
    pack_u64(&body, i->usher->role->generation);
    buf_append(&body, slice_make(i->id.bytes, sizeof i->id.bytes));
    pack_bytes(&body, slice_of(i->patron->name));
    pack_bytes(&body, buf_slice(&from));
    pack_bytes(&body, slice_of(i->verdict.host));
    pack_u8(&body, i->q.type == DNS_AAAA);
    wait_again(i);
    i->ask = ask_start(i->usher->porter, MSG_LOOKUP, buf_slice(&body), on_looked_up, i);
    buf_free(&from);
    buf_free(&body);
    if (i->ask)
        return;
    refuse(i, REASON_PORTER_UNAVAILABLE);
    end(i);
}

static void on_recorded(void *arg, bool ok)
{
    struct inquiry *i = arg;

    if (ok && i->verdict.kind == ZONE_LOOK_UP) {
        look_up(i);
        return;
    }
    if (!ok)
        refuse(i, REASON_RECORD_UNAVAILABLE);
    end(i);
}

void inquiries_tick(struct usher *u)
{
    struct inquiry *next;

    for (struct inquiry *i = TAILQ_FIRST(&u->inquiries); i; i = next) {
        next = TAILQ_NEXT(i, link);
        if (now_ms(u) - i->since_ms < (i->ask ? u->limits.dial_ms : u->limits.record_ms))
            continue;
        refuse(i, i->ask ? REASON_NAME_TIMEOUT : REASON_RECORD_UNAVAILABLE);
        recorder_cancel(u->recorder, &i->wait);
        ask_cancel(i->ask, MSG_DIAL_CANCEL);
        end(i);
    }
}

void inquiries_forget(struct usher *u, const struct talk *t)
{
    struct inquiry *i;

    TAILQ_FOREACH(i, &u->inquiries, link)
        if (i->from.talk == t)
            i->from.talk = NULL;
}

/* ---- judging ---- */

static size_t labels_of(struct slice name)
{
    struct slice label;
    size_t n = 0;

    while (slice_next(&name, '.', &label))
        n++;
    return n;
}

/* The labels that are somebody's domain: of a listed name all but those below its suffix. */
static size_t fixed_labels(const struct zone_verdict *v)
{
    if (!v->service)
        return UNLISTED_FIXED;
    for (size_t i = 0; i < service_host_count(v->service); i++) {
        struct slice host = slice_of(service_host(v->service, i));

        if (slice_starts(host, SLICE("*.")) && name_matches(host, slice_of(v->host)))
            return labels_of(host) - 1;
    }
    return labels_of(slice_of(v->host));
}

/* Leaks are never only counted: they come before what a limit says. */
static void judge_name(struct inquiry *i)
{
    struct usher *u = i->usher;
    char detail[160] = "";
    bool is_new;
    enum reason over;

    i->verdict = zone_judge(i->from.outlet->zone, u->role->policy, &i->q, NULL);
    i->code = zone_code(i->verdict.reason);
    over = patrons_name(u->patrons, i->patron, slice_make(i->q.name, i->q.name_len), i->verdict.below_suffix, &u->limits, now_ms(u),
                        &is_new, detail);
    i->leak = sift_look(u->sift, i->patron, &i->q, sift_varying(&i->q, fixed_labels(&i->verdict)), is_new && !over);
    if (i->leak.canary)
        over = REASON_CANARY_LEAK;
    if (!over)
        return;
    refuse(i, over);
    memcpy(i->verdict.detail, detail, sizeof detail);
}

static void judge(struct inquiry *i, enum dns_reading reading, const struct fault *why)
{
    if (reading == DNS_READ) {
        judge_name(i);
        return;
    }
    refuse(i, why->reason);
    snprintf(i->verdict.detail, sizeof i->verdict.detail, "%.*s", (int)sizeof i->verdict.detail - 1, why->text);
    if (reading == DNS_UNKNOWN)
        i->code = DNS_NOTIMP;
    if (reading == DNS_VERSION)
        i->code = DNS_BADVERS;
}

static void over_limit(struct inquiry *i, const char *detail)
{
    i->verdict = (struct zone_verdict){0};
    refuse(i, REASON_LIMIT_QUESTIONS);
    snprintf(i->verdict.detail, sizeof i->verdict.detail, "%s", detail);
}

/* ---- taking ---- */

/* One of many refusals: counted, and answered with the id of the first. */
static bool is_summed(struct inquiry *i)
{
    return sums_takes(i->verdict.reason) && !sums_add(&i->patron->sums, i->verdict.reason, i->verdict.detail, now_ms(i->usher),
                                                      loop_wall_s(i->usher->role->loop), &i->id);
}

static void start(const struct inquiry *made)
{
    struct inquiry *i = malloc(sizeof *i);

    if (!i)
        abort();
    *i = *made;
    outlet_ref(i->from.outlet);
    patron_ref(i->patron);
    patrons_hold(i->usher->patrons, i->patron, 1);
    TAILQ_INSERT_TAIL(&i->usher->inquiries, i, link);
    i->wait = (struct record_wait){.on_recorded = on_recorded, .arg = i};
    if (i->leak.canary)
        record_leak(i);
    record(i, &i->wait);
}

/* True: it waits for its record. */
static bool decide(struct inquiry *i, struct slice message)
{
    struct usher *u = i->usher;
    char detail[160] = "";
    enum patron_pace pace = patrons_count(u->patrons, i->patron, &u->limits, now_ms(u), detail);
    bool room = patrons_have_room(u->patrons, i->patron);
    struct fault why = {0};
    enum dns_reading reading;

    if (pace == PATRON_FAR) {
        over_limit(i, detail);
        is_summed(i);
        usher_count(u, COUNTER_DNS_DROPPED, 1);
        return false;
    }
    if ((reading = dns_question_read(message, &i->q, &why)) == DNS_DROPPED) {
        usher_count(u, COUNTER_DNS_DROPPED, 1);
        return false;
    }
    if (pace == PATRON_OVER || !room)
        over_limit(i, room ? detail : "too many of its questions wait for their records");
    else
        judge(i, reading, &why);
    if (i->verdict.kind == ZONE_ADDRESSES)
        i->n_addresses = zone_addresses(i->from.outlet->zone, i->q.type, i->addresses);
    if (!is_summed(i) && room) {
        start(i);
        return true;
    }
    if (!room && !sums_takes(i->verdict.reason))
        return false;
    answer(i);
    return false;
}

bool inquiry_take(const struct asked *from, struct slice message)
{
    struct usher *u = from->outlet->usher;
    struct addr peer = {0};
    struct inquiry i;
    bool waits;

    usher_count(u, COUNTER_DNS_QUESTIONS, 1);
    memset(&i, 0, sizeof i);
    i.usher = u;
    i.from = *from;
    i.since_ms = now_ms(u);
    addr_from_sockaddr(&peer, (const struct sockaddr *)&from->peer);
    if (!peer.family || !from->outlet->zone || u->stopping)
        return false;
    i.patron = patrons_find(u->patrons, from->outlet->zone->sandbox, &peer, i.since_ms);
    i.id = id_new(loop_wall_ns(u->role->loop) / 1000000);
    i.ttl_s = from->outlet->zone->ttl_s;
    waits = decide(&i, message);
    patron_unref(i.patron);
    return waits;
}
