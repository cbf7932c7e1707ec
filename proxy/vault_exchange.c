/* Owns the tokens that were exchanged (RFC 8693) and the exchanges under way: one for each sandbox and service. */
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "base/table.h"
#include "base/text.h"
#include "handoff/sts.h"
#include "proxy/asks.h"
#include "proxy/vault_claim.h"

enum { TOKENS_MAX = 4096, MARGIN_S = 5, DEFAULT_S = 60, AGAIN_MS = 1000 };

/*
 * MARGIN_S: so long before its end a token is not given any more. DEFAULT_S: how long one is used that does not say how long
 * it lives. AGAIN_MS: so long after a failure the endpoint is not asked again, however often a sandbox asks.
 */

/* A token of an exchange, or the exchange under way. */
struct exchanged_token {
    struct ask *ask; /* NULL: none is under way */
    struct secret *token;
    int64_t until_s;
    struct fault failure; /* of the last exchange */
    int64_t again_ms;     /* until then it stands for the next */
};

static struct asks *clerk;
static struct table *tokens; /* by generation, service and sandbox */

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void vault_exchange_open(void)
{
    clerk = asks_new(vault.context->loop, TOKENS_MAX);
    tokens = table_new();
}

void vault_exchange_attach(int fd)
{
    asks_attach(clerk, fd);
}

static char *flight_key(const struct claim *c)
{
    struct buf key = {0};

    buf_printf(&key, "%llu\n%s\n%s\n%s", (unsigned long long)policy_generation(c->box->policy), c->handoff->service,
               identity_issuer(c->identity), identity_sandbox(c->identity));
    return buf_take_text(&key);
}

static struct exchanged_token *find_exchanged(const char *key)
{
    return table_get(tokens, slice_of(key));
}

struct over {
    int64_t now_s;
    struct slice key;
};

static void find_over(void *arg, struct slice key, void *value)
{
    const struct exchanged_token *t = value;
    struct over *o = arg;

    if (!t->ask && t->until_s <= o->now_s)
        o->key = key;
}

static void forget_exchanged(struct slice key)
{
    struct exchanged_token *t = table_remove(tokens, key);

    secret_free(t->token);
    free(t);
}

/* The place for a key; NULL when all are taken by tokens that are still good. */
static struct exchanged_token *place_for(const char *key)
{
    struct exchanged_token *t = find_exchanged(key);
    struct over o = {.now_s = loop_wall_s(vault.context->loop)};

    if (t)
        return t;
    if (table_count(tokens) >= TOKENS_MAX) {
        table_each(tokens, find_over, &o);
        if (o.key.len == 0)
            return NULL;
        forget_exchanged(o.key);
    }
    t = must(calloc(1, sizeof *t));
    table_put(tokens, slice_of(key), t);
    return t;
}

static void grant_exchanged(struct claim *c, const struct exchanged_token *t)
{
    c->jti[0] = '\0';
    claim_grant(c, secret_new(secret_slice(t->token)), earlier(t->until_s, claim_token_end(c)));
}

/* All who wait for this exchange hear of its end. key is freed. */
static void land(char *key, struct exchanged_token *t, const struct fault *why)
{
    struct claim *next;

    for (struct claim *c = TAILQ_FIRST(&vault.claims); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (!c->flight || strcmp(c->flight, key) != 0)
            continue;
        free(c->flight);
        c->flight = NULL;
        if (why)
            claim_refuse(c, why->reason, why->text);
        else
            grant_exchanged(c, t);
    }
    if (why) {
        t->failure = *why;
        t->again_ms = loop_now_ms(vault.context->loop) + AGAIN_MS;
    }
    free(key);
}

static bool keep_token(struct exchanged_token *t, struct unpack *answer, struct fault *why)
{
    int64_t lives_s = (int64_t)unpack_u64(answer);
    struct slice token = unpack_bytes(answer);
    static const struct handoff bearer = {.form = FORM_BEARER};

    if (!unpack_done(answer))
        return fault_reason(why, REASON_EXCHANGE_FAILED, "the clerk's answer cannot be read");
    if (!handoff_check(&bearer, token, why)) {
        why->reason = REASON_EXCHANGE_FAILED;
        return false;
    }
    secret_free(t->token);
    t->token = secret_new(token);
    lives_s = lives_s ? lives_s : DEFAULT_S;
    t->until_s = loop_wall_s(vault.context->loop) + (lives_s > 2 * MARGIN_S ? lives_s - MARGIN_S : (lives_s + 1) / 2);
    return true;
}

static void on_exchanged(void *arg, uint16_t type, struct unpack *answer, int fd)
{
    char *key = arg;
    struct exchanged_token *t = find_exchanged(key);
    struct fault why = {0};
    bool ok = false;

    (void)fd; /* channels to the clerk carry none */
    t->ask = NULL;
    if (type == MSG_EXCHANGED) {
        ok = keep_token(t, answer, &why);
    } else if (type == MSG_NOT_EXCHANGED) {
        struct slice text = slice_cut(unpack_bytes(answer), 0, FAULT_TEXT_SIZE - 1);

        fault_reason(&why, REASON_EXCHANGE_FAILED, "%.*s", SLICE_ARG(text));
    } else {
        fault_reason(&why, REASON_EXCHANGE_FAILED, "the clerk is not there");
    }
    land(key, t, ok ? NULL : &why);
}

/* The secret of the client is here: ask the clerk. The token that the endpoint is shown says who asks, and is for it alone. */
void vault_exchange_go_on(struct claim *c, struct slice secret)
{
    char *key = flight_key(c);
    struct exchanged_token *t = place_for(key);
    struct buf out = {0}, subject = {0}, form = {0}, authorization = {0};
    struct fault why = {0};
    int64_t until_s;

    if (!t || !claim_sign(c, &until_s, &subject, &why)) {
        free(key);
        claim_refuse(c, REASON_EXCHANGE_FAILED, t ? why.text : "too many exchanged tokens are in use");
        return;
    }
    c->flight = text_copy(slice_of(key));
    if (t->ask) { /* another claim was faster */
        free(key);
        goto out;
    }
    sts_form(c->handoff, buf_slice(&subject), &form);
    sts_authorization(c->handoff, secret, &authorization);
    pack_u64(&out, policy_generation(c->box->policy));
    pack_bytes(&out, slice_of(c->handoff->service));
    pack_bytes(&out, slice_of(identity_sandbox(c->identity)));
    pack_bytes(&out, buf_slice(&authorization));
    pack_bytes(&out, buf_slice(&form));
    t->ask = ask_start(clerk, MSG_EXCHANGE, buf_slice(&out), on_exchanged, key);
    if (!t->ask) {
        fault_reason(&why, REASON_EXCHANGE_FAILED, "the clerk is not there");
        land(key, t, &why);
    }
out:
    buf_wipe(&out);
    buf_wipe(&subject);
    buf_wipe(&form);
    buf_wipe(&authorization);
}

/* One that is still good, the exchange that is under way, or a new one. */
void vault_exchange_begin(struct claim *c)
{
    char *key = flight_key(c);
    struct exchanged_token *t = find_exchanged(key);

    if (t && t->ask) {
        c->flight = key;
        return;
    }
    free(key);
    if (t && t->again_ms > loop_now_ms(vault.context->loop))
        claim_refuse(c, t->failure.reason, t->failure.text);
    else if (t && t->token && t->until_s > loop_wall_s(vault.context->loop))
        grant_exchanged(c, t);
    else
        claim_fetch(c);
}
