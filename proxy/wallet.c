/* Owns the grants of a worker and who waits for one. Knows no exchange. */
#include "proxy/wallet.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "authz/token.h"
#include "base/pack.h"
#include "base/table.h"
#include "handoff/spelling.h"
#include "proxy/role.h"

enum { POCKETS_MAX = 8192, PATIENCE_MS = 1000 };

struct grant {
    unsigned refs;
    int64_t until_s, born_ms;
    uint64_t mark;
    bool once;
    struct secret *value;
    struct secret *sought; /* what of it must not come back */
    struct scanner *scanner;
};

/* What one sandbox has for one service: a grant, or the question for one. */
struct pocket {
    struct wallet *wallet;
    struct grant *grant;
    struct ask *ask;
    TAILQ_HEAD(waits, wallet_wait) waits;
    size_t key_len;
    char key[];
};

struct wallet {
    struct loop *loop;
    struct asks *keeper;
    struct table *pockets;
    uint64_t last_once;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- grants ---- */

void grant_release(struct grant *g)
{
    if (!g || --g->refs)
        return;
    secret_free(g->value);
    secret_free(g->sought);
    scanner_free(g->scanner);
    free(g);
}

bool grant_is_over(const struct grant *g, int64_t now_s)
{
    return g->until_s <= now_s;
}

uint64_t grant_mark(const struct grant *g)
{
    return g->mark;
}

struct slice grant_value(const struct grant *g)
{
    return secret_slice(g->value);
}

struct scan *grant_guard(const struct grant *g)
{
    return scan_start(g->scanner, secret_slice(g->sought));
}

struct hit grant_look(const struct grant *g, struct slice text)
{
    return scanner_text_with(g->scanner, text, secret_slice(g->sought));
}

/*
 * Any long run of a token's signature is found without a database (canary/needle.h), and a token is a new one each minute. A
 * credential that stays is looked for as a canary is, in every view and spelling.
 */
static void add_spelling(void *arg, const char *name, struct slice spelled)
{
    registry_add_spelling(arg, name, spelled);
}

static struct scanner *make_scanner(struct slice sought)
{
    struct registry *r = registry_new();
    struct scanner *s;

    if (!token_looks_like(sought)) {
        registry_add_secret(r, "credential", sought);
        spelling_each(sought, add_spelling, r);
    }
    if ((s = scanner_new(r, NULL)))
        scanner_own(s, r);
    else
        registry_free(r);
    return s;
}

static struct grant *grant_new(struct slice value, struct slice sought, const struct grant *before)
{
    struct grant *g = must(calloc(1, sizeof *g));

    *g = (struct grant){.refs = 1, .value = secret_new(value), .sought = secret_new(sought)};
    if (before && secret_equals(secret_slice(before->sought), sought))
        g->scanner = scanner_ref(before->scanner);
    else if (!(g->scanner = make_scanner(sought))) {
        grant_release(g);
        return NULL;
    }
    return g;
}

/* ---- pockets ---- */

struct wallet *wallet_new(struct loop *l, struct asks *keeper)
{
    struct wallet *w = must(calloc(1, sizeof *w));

    w->loop = l;
    w->keeper = keeper;
    w->pockets = table_new();
    return w;
}

static void pocket_free(struct pocket *p)
{
    table_remove(p->wallet->pockets, slice_make(p->key, p->key_len));
    ask_cancel(p->ask, 0);
    grant_release(p->grant);
    free(p);
}

struct search {
    const struct wallet *wallet;
    struct pocket *found;
};

static void find_over(void *arg, struct slice key, void *value)
{
    struct search *s = arg;
    struct pocket *p = value;

    (void)key;
    if (!p->ask && (!p->grant || grant_is_over(p->grant, loop_wall_s(s->wallet->loop))))
        s->found = p;
}

static void find_any(void *arg, struct slice key, void *value)
{
    (void)key;
    ((struct search *)arg)->found = value;
}

static struct pocket *pick(const struct wallet *w, void (*find)(void *arg, struct slice key, void *value))
{
    struct search s = {.wallet = w};

    table_each(w->pockets, find, &s);
    return s.found;
}

void wallet_tick(struct wallet *w)
{
    struct pocket *p;

    while (table_count(w->pockets) && (p = pick(w, find_over)))
        pocket_free(p);
}

void wallet_free(struct wallet *w)
{
    struct pocket *p;

    if (!w)
        return;
    while ((p = pick(w, find_any)))
        pocket_free(p);
    table_free(w->pockets);
    free(w);
}

static void pack_key(const struct wallet_order *o, struct buf *key)
{
    pack_u64(key, o->generation);
    pack_u32(key, (uint32_t)service_index(o->service));
    pack_bytes(key, slice_of(identity_issuer(o->identity)));
    pack_bytes(key, slice_of(identity_sandbox(o->identity)));
}

static struct pocket *find_pocket(struct wallet *w, const struct wallet_order *o)
{
    struct buf key = {0};
    struct pocket *p;

    pack_key(o, &key);
    p = table_get(w->pockets, buf_slice(&key));
    buf_free(&key);
    return p;
}

static struct pocket *pocket_new(struct wallet *w, struct slice key)
{
    struct pocket *p;

    if (table_count(w->pockets) >= POCKETS_MAX)
        return NULL;
    p = must(calloc(1, sizeof *p + key.len));
    p->wallet = w;
    TAILQ_INIT(&p->waits);
    p->key_len = key.len;
    memcpy(p->key, key.ptr, key.len);
    table_put(w->pockets, key, p);
    return p;
}

struct grant *wallet_find(struct wallet *w, const struct wallet_order *o)
{
    struct pocket *p = table_count(w->pockets) ? find_pocket(w, o) : NULL;

    if (!p || !p->grant || grant_is_over(p->grant, loop_wall_s(w->loop)))
        return NULL;
    p->grant->refs++;
    return p->grant;
}

void wallet_distrust(struct wallet *w, const struct wallet_order *o, const struct grant *g)
{
    struct pocket *p = find_pocket(w, o);

    if (p && p->grant == g && !p->ask && loop_now_ms(w->loop) - g->born_ms >= PATIENCE_MS)
        pocket_free(p);
}

/* ---- asking ---- */

/* One may call wallet_ask or wallet_cancel, of others too. */
static void tell_all(struct pocket *p, const struct fault *why)
{
    struct grant *g = p->grant;
    struct wallet_wait *one;

    while ((one = TAILQ_FIRST(&p->waits))) {
        TAILQ_REMOVE(&p->waits, one, link);
        one->pocket = NULL;
        if (!why)
            g->refs++;
        one->on(one->arg, why ? NULL : g, why);
    }
}

/* What the keeper grants; false when its answer cannot be read. */
static bool take_grant(struct pocket *p, struct unpack *answer)
{
    int64_t until_s = (int64_t)unpack_u64(answer);
    uint64_t mark = unpack_u64(answer);
    bool once = unpack_u8(answer);
    struct slice value = unpack_bytes(answer), sought = unpack_bytes(answer);
    struct grant *g;

    if (!unpack_done(answer) || !(g = grant_new(value, sought, p->grant)))
        return false;
    g->until_s = until_s;
    g->born_ms = loop_now_ms(p->wallet->loop);
    g->mark = mark;
    g->once = once;
    grant_release(p->grant);
    p->grant = g;
    return true;
}

static void take_refusal(struct unpack *answer, struct fault *why)
{
    uint16_t reason = unpack_u16(answer);
    struct slice text = slice_cut(unpack_bytes(answer), 0, FAULT_TEXT_SIZE - 1);

    fault_reason(why, reason && reason < N_REASONS ? (enum reason)reason : REASON_CREDENTIAL_UNAVAILABLE, "%.*s",
                 SLICE_ARG(text));
}

static void on_answer(void *arg, uint16_t type, struct unpack *answer, int fd)
{
    struct pocket *p = arg;
    struct fault why = {0};
    bool ok = false;

    if (fd >= 0)
        close(fd);
    p->ask = NULL;
    if (type == MSG_GRANTED)
        ok = take_grant(p, answer);
    if (type == MSG_NOT_GRANTED)
        take_refusal(answer, &why);
    else if (!ok)
        fault_reason(&why, REASON_CREDENTIAL_UNAVAILABLE, "the keeper gave no grant that can be used");
    tell_all(p, ok ? NULL : &why);
    if (!ok || p->grant->once)
        pocket_free(p);
}

static struct ask *ask_keeper(struct pocket *p, const struct wallet_order *o)
{
    struct buf body = {0};
    struct ask *k;

    pack_u64(&body, o->generation);
    pack_bytes(&body, slice_of(service_name(o->service)));
    pack_bytes(&body, o->token);
    pack_bytes(&body, slice_of(o->listener));
    pack_bytes(&body, slice_of(o->certificate));
    k = ask_start(p->wallet->keeper, MSG_GRANT, buf_slice(&body), on_answer, p);
    buf_wipe(&body);
    return k;
}

bool wallet_ask(struct wallet *w, const struct wallet_order *o, struct wallet_wait *wait)
{
    struct pocket *p;
    struct buf key = {0};

    pack_key(o, &key);
    if (service_asserts_once(o->service)) /* of each exchange its own */
        pack_u64(&key, ++w->last_once);
    if (!(p = table_get(w->pockets, buf_slice(&key))))
        p = pocket_new(w, buf_slice(&key));
    buf_free(&key);
    if (!p)
        return false;
    if (!p->ask && !(p->ask = ask_keeper(p, o))) {
        pocket_free(p);
        return false;
    }
    wait->pocket = p;
    TAILQ_INSERT_TAIL(&p->waits, wait, link);
    return true;
}

void wallet_cancel(struct wallet_wait *wait)
{
    if (wait->pocket)
        TAILQ_REMOVE(&wait->pocket->waits, wait, link);
    wait->pocket = NULL;
}
