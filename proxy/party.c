/* Owns every party of this worker, held or remembered. Knows no limits. */
#include "proxy/party.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/pack.h"
#include "base/secret.h"
#include "base/table.h"

/* Of so many handshakes each has a ticket, then one of so many. */
enum { TICKETS_TRIED = 8, TICKETS_EACH = 16 };

TAILQ_HEAD(party_list, party);

struct parties {
    struct tally *tally;
    struct lanes *lanes;
    parties_tell *tell;
    void *arg;
    struct table *by_key;
    struct party_list held, kept; /* kept: nobody holds it; oldest first */
    size_t n_kept;
};

struct parties *parties_new(struct tally *t, struct lanes *lanes, parties_tell *tell, void *arg)
{
    struct parties *ps = calloc(1, sizeof *ps);

    if (!ps)
        abort();
    ps->tally = t;
    ps->lanes = lanes;
    ps->tell = tell;
    ps->arg = arg;
    ps->by_key = table_new();
    TAILQ_INIT(&ps->held);
    TAILQ_INIT(&ps->kept);
    return ps;
}

static void tell_sums(struct parties *ps, struct party *p, int64_t now_ms, bool all)
{
    const struct sum *s;

    while ((s = sums_next(&p->sums, now_ms, all)))
        ps->tell(ps->arg, p, s);
}

static void forget(struct parties *ps, struct party *p)
{
    assert(p->refs == 0);
    tell_sums(ps, p, 0, true);
    TAILQ_REMOVE(&ps->kept, p, link);
    ps->n_kept--;
    table_remove(ps->by_key, p->key);
    tally_leave(p->seat);
    lane_clear(&p->lane);
    free(p);
}

static struct party *make(struct parties *ps, enum tally_kind kind, struct slice key, struct slice name)
{
    struct party *p = calloc(1, sizeof *p + key.len);

    if (!p)
        abort();
    p->kind = kind;
    snprintf(p->name, sizeof p->name, "%.*s", SLICE_ARG(name));
    memcpy(p + 1, key.ptr, key.len);
    p->key = slice_make(p + 1, key.len);
    p->seat = tally_sit(ps->tally, kind, key);
    lane_init(&p->lane, ps->lanes);
    p->lane.tag = tally_tag(p->seat);
    if (kind == TALLY_SANDBOX)
        tally_name(p->seat, name);
    TAILQ_INIT(&p->strangers);
    table_put(ps->by_key, p->key, p);
    TAILQ_INSERT_TAIL(&ps->kept, p, link);
    ps->n_kept++;
    return p;
}

static struct party *take(struct parties *ps, enum tally_kind kind, struct slice key, struct slice name)
{
    struct party *p = table_get(ps->by_key, key);

    if (!p) {
        while (ps->n_kept >= PARTIES_MAX)
            forget(ps, TAILQ_FIRST(&ps->kept));
        p = make(ps, kind, key, name);
    }
    if (p->refs++ == 0) {
        TAILQ_REMOVE(&ps->kept, p, link);
        ps->n_kept--;
        TAILQ_INSERT_TAIL(&ps->held, p, link);
    }
    return p;
}

struct party *party_ref(struct party *p)
{
    assert(p->refs);
    p->refs++;
    return p;
}

bool party_wants_ticket(struct party *p)
{
    unsigned n = p->handshakes++;

    return n < TICKETS_TRIED || n % TICKETS_EACH == 0;
}

void party_uses_tickets(struct party *p)
{
    p->handshakes = 0;
}

void party_unref(struct parties *ps, struct party *p)
{
    if (!p || --p->refs)
        return;
    secret_free(p->token);
    p->token = NULL;
    TAILQ_REMOVE(&ps->held, p, link);
    TAILQ_INSERT_TAIL(&ps->kept, p, link);
    ps->n_kept++;
}

struct secret *party_token(struct party *p, struct slice token)
{
    if (!p->token || !secret_equals(token, secret_slice(p->token))) {
        secret_free(p->token);
        p->token = secret_new(token);
    }
    return secret_share(p->token);
}

struct party *parties_sandbox(struct parties *ps, const struct identity *i)
{
    struct buf key = {0};
    struct party *p;

    pack_u8(&key, TALLY_SANDBOX);
    pack_bytes(&key, slice_of(identity_issuer(i)));
    pack_bytes(&key, slice_of(identity_sandbox(i)));
    p = take(ps, TALLY_SANDBOX, buf_slice(&key), slice_of(identity_sandbox(i)));
    buf_free(&key);
    return p;
}

struct party *parties_source(struct parties *ps, const struct addr *source, const char *listener)
{
    struct addr a = *source;
    struct buf key = {0}, name = {0};
    struct party *p;

    pack_u8(&key, TALLY_SOURCE);
    pack_u8(&key, (uint8_t)a.family);
    if (a.family == AF_INET6)
        memset(a.ip + 8, 0, 8);
    if (a.family == AF_INET || a.family == AF_INET6) {
        buf_append(&key, slice_make(a.ip, a.family == AF_INET ? 4 : 8));
        addr_ip_text(&name, &a);
        buf_text(&name, a.family == AF_INET6 ? "/64" : "");
    } else {
        buf_text(&key, listener);
        buf_printf(&name, "listener %s", listener);
    }
    p = take(ps, TALLY_SOURCE, buf_slice(&key), buf_slice(&name));
    buf_free(&key);
    buf_free(&name);
    return p;
}

void parties_tick(struct parties *ps, int64_t now_ms, bool all)
{
    struct party *p, *next;

    TAILQ_FOREACH(p, &ps->held, link)
        tell_sums(ps, p, now_ms, all);
    for (p = TAILQ_FIRST(&ps->kept); p; p = next) {
        next = TAILQ_NEXT(p, link);
        tell_sums(ps, p, now_ms, all);
        if (sums_are_empty(&p->sums) && tally_is_idle(p->seat, now_ms))
            forget(ps, p);
    }
}

size_t parties_count(const struct parties *ps)
{
    return table_count(ps->by_key);
}
