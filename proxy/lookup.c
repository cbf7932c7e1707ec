/* Owns one look-up: the name server, then the scribe. Knows nothing of messages and roles. */
#include "proxy/lookup.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "proxy/quest.h"

static const uint32_t FIXED_TTL_S = 86400; /* the zone's is shorter */

struct lookup {
    struct office *office; /* held */
    lookup_done *done;
    void *arg;
    struct id question;
    char *host, *service;
    uint64_t mark; /* of the service */
    bool allow_private, v6;
    bool any; /* an address is allowed, of whichever family */
    int64_t begun_ns;
    struct lookup_found found;
    struct buf seen, left_out; /* for the record: all addresses; those not allowed, and why */
    struct quest_member quest;
    struct record_wait wait;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void lookup_free(struct lookup *l)
{
    office_release(l->office);
    buf_free(&l->seen);
    buf_free(&l->left_out);
    free(l->host);
    free(l->service);
    free(l);
}

/* It is over: its memory goes first, so that done() may do anything. */
static void tell(struct lookup *l, const struct fault *why)
{
    struct lookup_found found = l->found;
    lookup_done *done = l->done;
    void *arg = l->arg;

    lookup_free(l);
    done(arg, why ? NULL : &found, why);
}

/* ---- the record ---- */

static void record(struct lookup *l, const char *outcome, enum reason reason, struct slice detail, struct record_wait *wait)
{
    struct record_writer w = recorder_begin(l->office->recorder, RECORD_LOOKUP);

    record_id(&w, FIELD_ID, &l->question);
    if (l->service)
        record_text(&w, FIELD_SERVICE, slice_of(l->service));
    record_text(&w, FIELD_HOST, slice_of(l->host));
    record_text(&w, FIELD_DNS_TYPE, l->v6 ? SLICE("AAAA") : SLICE("A"));
    if (buf_len(&l->seen))
        record_text(&w, FIELD_ADDRESSES, buf_slice(&l->seen));
    record_text(&w, FIELD_OUTCOME, slice_of(outcome));
    record_reason(&w, FIELD_REASON, reason);
    if (detail.len)
        record_text(&w, FIELD_DETAIL, detail);
    record_number(&w, FIELD_DURATION_US, (clock_mono_ns() - l->begun_ns) / 1000);
    recorder_end(l->office->recorder, &w, wait);
}

static void fail(struct lookup *l, const char *outcome, const struct fault *why)
{
    record(l, outcome, why->reason, slice_of(why->text), NULL);
    tell(l, why);
}

static void on_recorded(void *arg, bool ok)
{
    struct fault why = {0};

    if (!ok)
        fault_reason(&why, REASON_RECORD_UNAVAILABLE, "the look-up could not be recorded");
    tell(arg, ok ? NULL : &why);
}

/* ---- which addresses ---- */

static void list_address(struct buf *out, const struct addr *a, const char *why)
{
    if (buf_len(out))
        buf_text(out, ", ");
    addr_ip_text(out, a);
    if (why)
        buf_printf(out, " (%s)", why);
}

/* A place on this machine or its link is a fixed destination of the gateway's, and nothing that a client could reach. */
static void consider(struct lookup *l, const struct addr *a, uint32_t ttl_s)
{
    const char *why = bounds_refuse(l->office->bounds, a, l->allow_private ? BOUNDS_RESOLVED_PRIVATE : BOUNDS_RESOLVED);

    list_address(&l->seen, a, NULL);
    if (why) {
        list_address(&l->left_out, a, why);
        return;
    }
    l->any = true;
    if (ttl_s < l->found.ttl_s)
        l->found.ttl_s = ttl_s;
    if (a->family == (l->v6 ? AF_INET6 : AF_INET) && l->found.n < DNS_ADDRESSES_MAX)
        l->found.list[l->found.n++] = *a;
}

/* False: some were left out and none remains of either family, which is no name without addresses. */
static bool finish(struct lookup *l, struct fault *why)
{
    if (!l->any && buf_len(&l->left_out))
        return fault_reason(why, REASON_ADDRESS_DENIED, "%s: %.*s", l->host, SLICE_ARG(buf_slice(&l->left_out)));
    l->wait = (struct record_wait){.on_recorded = on_recorded, .arg = l};
    record(l, "complete", REASON_ALLOWED, buf_slice(&l->left_out), &l->wait);
    return true;
}

static void on_resolved(void *arg, const struct resolution *r)
{
    struct lookup *l = arg;
    struct fault why = r->fault;

    if (r->count == 0) {
        fault_prefix(&why, "%s", l->host);
        fail(l, "failed", &why);
        return;
    }
    for (size_t i = 0; i < r->count; i++)
        consider(l, &r->list[i].addr, r->list[i].ttl_s > 0 ? (uint32_t)r->list[i].ttl_s : 0);
    if (!finish(l, &why))
        fail(l, "refused", &why);
}

static bool take_fixed(struct lookup *l, const struct service *s, struct fault *why)
{
    struct addr a;

    for (size_t i = 0; i < service_address_count(s); i++)
        if (addr_parse(slice_of(service_address(s, i)), &a))
            consider(l, &a, FIXED_TTL_S);
    return finish(l, why);
}

/* ---- the beginning ---- */

/* By the same policy the usher has judged: one that asks for another name has lost its mind, or its owner. */
static const struct service *find(const struct lookup *l, bool late, struct fault *why)
{
    const struct service *s = policy_find_host(l->office->policy, l->host);

    if (!s)
        fault_reason(why, late ? REASON_HOST_NOT_LISTED : REASON_DIAL_UNLISTED, "no service lists %s", l->host);
    return s;
}

static bool may_ask(const struct lookup *l, const struct service *s, const struct lookup_order *order, bool *recorded, struct fault *why)
{
    const struct allowance_charge charge = {order->asked_by, order->asker, l->host, l->question};
    bool is_first;

    if (!service_is_below_suffix(s, l->host) || allowance_take(l->office->allowance, &charge, &is_first, why))
        return true;
    *recorded = !is_first;
    return false;
}

/* *recorded: why not is summed elsewhere. */
static bool begin(struct lookup *l, const struct lookup_order *order, bool *recorded, struct fault *why)
{
    const struct service *s = find(l, order->late, why);

    if (!s)
        return false;
    l->service = text_copy(slice_of(service_name(s)));
    l->mark = service_mark(s);
    if (service_is_shut(s))
        return fault_reason(why, REASON_SERVICE_CLOSED, "service %s was closed by hand", l->service);
    if (office_asked_itself(l->office, &order->from, why))
        return false;
    l->allow_private = service_allows_private(s);
    if (service_address_count(s))
        return take_fixed(l, s, why);
    if (!may_ask(l, s, order, recorded, why))
        return false;
    l->quest = (struct quest_member){.done = on_resolved, .arg = l};
    return quest_join(office_quests(l->office), office_resolver(l->office), order->asker, l->host, &l->quest, why);
}

struct lookup *lookup_start(struct office *office, const struct lookup_order *order, lookup_done *done, void *arg, struct fault *why)
{
    bool recorded = false;
    struct lookup *l;

    if (!recorder_is_open(office->recorder)) {
        fault_reason(why, REASON_RECORD_UNAVAILABLE, "the journal does not accept records; nothing was looked up");
        return NULL;
    }
    l = must(calloc(1, sizeof *l));
    l->office = office_hold(office);
    l->done = done;
    l->arg = arg;
    l->question = order->question;
    l->host = text_copy(slice_of(order->host));
    l->v6 = order->v6;
    l->begun_ns = clock_mono_ns();
    l->found.ttl_s = FIXED_TTL_S;
    if (begin(l, order, &recorded, why))
        return l;
    if (!recorded)
        record(l, "refused", why->reason, slice_of(why->text), NULL);
    lookup_free(l);
    return NULL;
}

bool lookup_stands(const struct lookup *l, const struct office *now)
{
    const struct service *s = policy_find_host(now->policy, l->host);

    return s && service_mark(s) == l->mark;
}

void lookup_cancel(struct lookup *l)
{
    if (!l)
        return;
    if (l->quest.quest) {
        quest_leave(&l->quest);
        record(l, "cut", REASON_CLIENT_CLOSED, SLICE("the usher no longer wants it"), NULL);
    }
    recorder_cancel(l->office->recorder, &l->wait);
    lookup_free(l);
}
