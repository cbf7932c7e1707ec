/* Owns the grants under way. What it gives it has verified itself. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/token.h"
#include "base/pack.h"
#include "base/text.h"
#include "proxy/vault_claim.h"

enum { CLAIMS_MAX = 1024 /* of one worker at once */ };

struct vault vault;

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- strongboxes ---- */

static bool read_box(struct strongbox *b, const struct role_set *set, struct fault *why)
{
    struct slice pem;

    if (!(b->handoffs = handoffs_compile(set->conf, set->policy, why)))
        return false;
    if (handoffs_any(b->handoffs) && !(b->issuers = issuers_compile(set->conf, set->files, why)))
        return false;
    if (!handoffs_sign(b->handoffs))
        return true;
    if (!bundle_get(set->files, ASSERTION_SIGNING, &pem))
        return fault_set(why, FAULT_MISSING, "%s was not handed over", ASSERTION_SIGNING);
    return (b->key = assertion_key_parse(pem, ASSERTION_SIGNING, why)) != NULL;
}

struct strongbox *strongbox_new(const struct role_set *set, struct fault *why)
{
    struct strongbox *b = must(calloc(1, sizeof *b));

    b->conf = set->conf;
    b->policy = set->policy;
    if (read_box(b, set, why)) {
        if (handoffs_any(b->handoffs)) {
            b->gateway = conf_text(conf_section(set->conf, "gateway"), "name");
            b->overrun_s = conf_number(conf_section(set->conf, "limits"), "overrun") / 1000;
        }
        return b;
    }
    strongbox_free(b);
    return NULL;
}

void strongbox_use_keys(struct strongbox *b, const struct keyring *r)
{
    if (b && b->issuers)
        keyring_apply(r, b->issuers);
}

void strongbox_free(struct strongbox *b)
{
    struct claim *next;

    if (!b)
        return;
    for (struct claim *c = TAILQ_FIRST(&vault.claims); vault.context && c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->box == b)
            claim_refuse(c, REASON_POLICY_CHANGED, "the configuration is another one now");
    }
    assertion_key_free(b->key);
    issuers_free(b->issuers);
    handoffs_free(b->handoffs);
    free(b);
}

/* ---- answers ---- */

static void claim_free(struct claim *c)
{
    recorder_cancel(vault.recorder, &c->wait);
    TAILQ_REMOVE(&vault.claims, c, link);
    identity_unref(c->identity);
    secret_free(c->value);
    free(c->flight);
    free(c);
}

static void answer_no(struct visitor *v, uint32_t id, enum reason reason, const char *text)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u16(&out, (uint16_t)reason);
    pack_bytes(&out, slice_of(text));
    desk_answer(v, MSG_NOT_GRANTED, &out, -1);
    buf_free(&out);
}

/* One value has one mark, another has another; the value does not follow from it. */
static uint64_t mark_of(struct slice value)
{
    unsigned char digest[32];
    struct buf text = {0};
    uint64_t mark;

    buf_append(&text, slice_make(vault.seed, sizeof vault.seed));
    buf_append(&text, value);
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    buf_wipe(&text);
    memcpy(&mark, digest, sizeof mark);
    return mark | 1;
}

static void answer_yes(struct claim *c)
{
    struct slice secret = secret_slice(c->value);
    struct buf out = {0}, value = {0};

    handoff_value(c->handoff, secret, &value);
    pack_u32(&out, c->id);
    pack_u64(&out, (uint64_t)c->until_s);
    pack_u64(&out, c->handoff->kind == HANDOFF_INJECT ? mark_of(secret) : 0);
    pack_u8(&out, c->handoff->once);
    pack_bytes(&out, buf_slice(&value));
    pack_bytes(&out, handoff_secret_part(c->handoff, secret));
    desk_answer(c->answer_to, MSG_GRANTED, &out, -1);
    buf_wipe(&value);
    buf_wipe(&out);
}

/* ---- records ---- */

static const char *kind_name(enum handoff_kind k)
{
    static const char *const names[] = {
        [HANDOFF_NONE] = "none", [HANDOFF_INJECT] = "inject", [HANDOFF_ASSERT] = "assert", [HANDOFF_EXCHANGE] = "exchange"};

    return names[k];
}

static struct record_writer begin_record(const struct visitor *v, const char *action, const struct identity *i,
                                         const struct handoff *h)
{
    struct record_writer w = recorder_begin(vault.recorder, RECORD_GRANT);
    struct buf asker = {0};

    buf_printf(&asker, "worker %d", v->index);
    record_text(&w, FIELD_ACTION, slice_of(action));
    record_text(&w, FIELD_DETAIL, buf_slice(&asker));
    buf_free(&asker);
    record_text(&w, FIELD_SERVICE, slice_of(h->service));
    record_text(&w, FIELD_GRANT_KIND, slice_of(kind_name(h->kind)));
    if (!i)
        return w;
    record_text(&w, FIELD_SANDBOX, slice_of(identity_sandbox(i)));
    record_text(&w, FIELD_TOKEN_ISS, slice_of(identity_issuer(i)));
    record_text(&w, FIELD_TOKEN_JTI, slice_of(identity_jti(i)));
    return w;
}

static void record_refusal(const struct visitor *v, const struct identity *i, const struct handoff *h, enum reason reason)
{
    struct record_writer w = begin_record(v, "deny", i, h);

    record_reason(&w, FIELD_REASON, reason);
    recorder_end(vault.recorder, &w, NULL);
}

void claim_refuse(struct claim *c, enum reason reason, const char *text)
{
    record_refusal(c->visitor, c->identity, c->handoff, reason);
    answer_no(c->answer_to, c->id, reason, text);
    claim_free(c);
}

static void on_recorded(void *arg, bool ok)
{
    struct claim *c = arg;

    if (ok)
        answer_yes(c);
    else
        answer_no(c->answer_to, c->id, REASON_RECORD_UNAVAILABLE, "the journal does not accept records");
    claim_free(c);
}

/* Everything is there: until the record is written, and no longer than the token and the credential. Takes value. */
void claim_grant(struct claim *c, struct secret *value, int64_t until_s)
{
    struct record_writer w;
    int64_t most = loop_wall_s(vault.context->loop) + GRANT_MAX_S;

    c->value = value;
    c->until_s = until_s < most ? until_s : most;
    w = begin_record(c->visitor, "allow", c->identity, c->handoff);
    record_number(&w, FIELD_GRANT_UNTIL, c->until_s);
    if (c->jti[0]) {
        record_text(&w, FIELD_GRANT_KID, slice_of(assertion_key_id(c->box->key)));
        record_text(&w, FIELD_GRANT_JTI, slice_of(c->jti));
    }
    c->wait = (struct record_wait){.on_recorded = on_recorded, .arg = c};
    recorder_end(vault.recorder, &w, &c->wait);
}

/* ---- inject ---- */

/* The end of what the leave token allows: an exchange that began with it may be open until then. */
int64_t claim_token_end(const struct claim *c)
{
    const struct issuer *issuer = issuers_find(c->box->issuers, slice_of(identity_issuer(c->identity)));

    return identity_expires_s(c->identity) + (issuer ? issuer_leeway_s(issuer) : 0);
}

void claim_fetch(struct claim *c)
{
    struct buf out = {0};
    bool sent;

    c->fetch = ++vault.last_fetch ? vault.last_fetch : ++vault.last_fetch;
    pack_u32(&out, c->fetch);
    pack_bytes(&out, slice_of(c->handoff->service));
    pack_bytes(&out, slice_of(identity_issuer(c->identity)));
    pack_bytes(&out, slice_of(identity_sandbox(c->identity)));
    pack_u64(&out, (uint64_t)(claim_token_end(c) + c->box->overrun_s));
    sent = channel_send(vault.context->control, MSG_FETCH, buf_slice(&out), -1);
    buf_free(&out);
    if (!sent)
        claim_refuse(c, REASON_CREDENTIAL_UNAVAILABLE, "the supervisor does not take questions");
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void inject(struct claim *c, struct slice credential, int64_t until_s)
{
    int64_t end = earlier(claim_token_end(c), loop_wall_s(vault.context->loop) + c->handoff->lifetime_s);
    struct fault why = {0};

    if (!handoff_check(c->handoff, credential, &why)) {
        claim_refuse(c, REASON_CREDENTIAL_UNAVAILABLE, why.text);
        return;
    }
    claim_grant(c, secret_new(credential), until_s ? earlier(end, until_s) : end);
}

/* ---- assert ---- */

/* "repository:team/app:pull,push" -> {"type":"repository","name":"team/app","actions":["pull","push"]} */
static void put_access(struct buf *out, struct slice text)
{
    struct slice type, name, action;

    slice_next(&text, ':', &type);
    slice_next(&text, ':', &name);
    buf_text(out, buf_len(out) > 1 ? ",{\"type\":" : "{\"type\":");
    text_json(out, type);
    buf_text(out, ",\"name\":");
    text_json(out, name);
    buf_text(out, ",\"actions\":[");
    for (size_t n = 0; slice_next(&text, ',', &action); n++) {
        if (n)
            buf_char(out, ',');
        text_json(out, action);
    }
    buf_text(out, "]}");
}

static char *access_of(const struct handoff *h)
{
    size_t n = h->kind == HANDOFF_ASSERT ? conf_list_count(h->item, "assert.access") : 0;
    struct buf out = {0};

    if (n == 0)
        return NULL;
    buf_char(&out, '[');
    for (size_t i = 0; i < n; i++)
        put_access(&out, slice_of(conf_list_text(h->item, "assert.access", i)));
    buf_char(&out, ']');
    return buf_take_text(&out);
}

/* No scope but the one that this service wants, which the leave token has: that is all it can be narrowed to. */
bool claim_sign(struct claim *c, int64_t *until_s, struct buf *out, struct fault *why)
{
    int64_t now_s = loop_wall_s(vault.context->loop);
    struct id id = id_new(loop_wall_ns(vault.context->loop) / 1000000);
    char *access = access_of(c->handoff);
    struct assertion_claims claims = {.gateway = c->box->gateway, .sandbox = identity_sandbox(c->identity),
                                      .audience = c->handoff->audience, .scope = c->handoff->scope, .access = access,
                                      .jti = c->jti, .issued_s = now_s};
    struct buf jti = {0};
    bool ok;

    id_text(&jti, &id);
    memcpy(c->jti, buf_slice(&jti).ptr, ID_TEXT_LEN);
    claims.expires_s = *until_s = earlier(claim_token_end(c), now_s + c->handoff->lifetime_s);
    ok = assertion_sign(c->box->key, &claims, out, why);
    buf_free(&jti);
    free(access);
    return ok;
}

static void assert_who(struct claim *c)
{
    struct buf token = {0};
    struct fault why = {0};
    int64_t until_s;

    if (claim_sign(c, &until_s, &token, &why))
        claim_grant(c, secret_new(buf_slice(&token)), until_s);
    else
        claim_refuse(c, REASON_CREDENTIAL_UNAVAILABLE, why.text);
    buf_wipe(&token);
}

/* ---- questions ---- */

/* Where a leave token came, as the worker says; NUL-terminated. */
struct place_of_token {
    char listener[72], certificate[72];
};

static bool read_place(struct unpack *rest, struct place_of_token *out)
{
    struct slice listener = unpack_bytes(rest), certificate = unpack_bytes(rest);

    if (listener.len >= sizeof out->listener || certificate.len >= sizeof out->certificate)
        return false;
    snprintf(out->listener, sizeof out->listener, "%.*s", SLICE_ARG(listener));
    snprintf(out->certificate, sizeof out->certificate, "%.*s", SLICE_ARG(certificate));
    return true;
}

static bool check_authority(const struct identity *i, const struct handoff *h, const struct place_of_token *place, int64_t now_s,
                            struct fault *why)
{
    if (revocations_has(vault.revocations, i, now_s))
        return fault_reason(why, REASON_TOKEN_REVOKED, "the token was revoked");
    if (revocations_quarantines(vault.revocations, i))
        return fault_reason(why, REASON_SANDBOX_QUARANTINED, "the sandbox is in quarantine");
    if (revocations_closes(vault.revocations, revocation_service_mark(slice_of(h->service))))
        return fault_reason(why, REASON_SERVICE_CLOSED, "service %s was closed by hand", h->service);
    if (!token_is_in_place(i, place->listener, place->certificate, why))
        return false;
    return identity_has_scope(i, h->scope) ||
           fault_reason(why, REASON_SCOPE_MISSING, "service %s wants the scope %.60s", h->service, h->scope);
}

/*
 * The token as any worker would read it. Which listener it came to and what certificate was shown is the worker's word, and the
 * record has it; from which address only the worker sees. NULL and why->reason when it gives no right to this service.
 */
static struct identity *verify(const struct strongbox *b, const struct handoff *h, struct slice token,
                               const struct place_of_token *place, struct fault *why)
{
    int64_t now_s = loop_wall_s(vault.context->loop);
    unsigned char fingerprint[32];
    struct identity *i = NULL;
    struct claims c = {0};

    if (!vault.revocations) {
        fault_reason(why, REASON_CREDENTIAL_UNAVAILABLE, "the keeper was not handed the revocations");
        return NULL;
    }
    if (!EVP_Q_digest(NULL, "SHA256", NULL, token.ptr, token.len, fingerprint, NULL))
        abort();
    if (claims_check(&c, token, b->issuers, b->gateway, now_s, NULL, why))
        i = claims_identity(&c, fingerprint, why);
    claims_clear(&c);
    if (i && check_authority(i, h, place, now_s, why))
        return i;
    identity_unref(i);
    return NULL;
}

static size_t count_claims(const struct visitor *v)
{
    const struct claim *c;
    size_t n = 0;

    TAILQ_FOREACH(c, &vault.claims, link)
        n += c->visitor == v;
    return n;
}

static void begin(struct visitor *v, uint32_t id, struct strongbox *box, const struct handoff *h, struct identity *i)
{
    struct claim *c = must(calloc(1, sizeof *c));

    *c = (struct claim){.visitor = v, .answer_to = v, .id = id, .box = box, .handoff = h, .identity = i};
    TAILQ_INSERT_TAIL(&vault.claims, c, link);
    if (h->kind == HANDOFF_INJECT)
        claim_fetch(c);
    else if (h->kind == HANDOFF_ASSERT)
        assert_who(c);
    else
        vault_exchange_begin(c);
}

bool vault_grant(struct visitor *v, uint32_t id, struct unpack *rest, struct strongbox *box)
{
    struct slice service = unpack_bytes(rest), token = unpack_bytes(rest);
    const struct handoff *h = handoffs_named(box->handoffs, service);
    struct place_of_token place;
    struct fault why = {0};
    struct identity *i;

    if (!read_place(rest, &place) || !unpack_done(rest))
        return false;
    if (!h) {
        answer_no(v, id, REASON_POLICY_CHANGED, "the service has no credential");
    } else if (count_claims(v) >= CLAIMS_MAX) {
        answer_no(v, id, REASON_CREDENTIAL_UNAVAILABLE, "too many grants are under way");
    } else if (!(i = verify(box, h, token, &place, &why))) {
        record_refusal(v, NULL, h, why.reason);
        answer_no(v, id, why.reason, why.text);
    } else {
        begin(v, id, box, h, i);
    }
    return true;
}

static struct claim *find_fetch(uint32_t id)
{
    struct claim *c = TAILQ_FIRST(&vault.claims);

    while (c && c->fetch != id)
        c = TAILQ_NEXT(c, link);
    return id ? c : NULL;
}

bool vault_fetched(enum role_message type, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct claim *c = find_fetch(unpack_u32(&u));
    uint16_t reason = type == MSG_NOT_FETCHED ? unpack_u16(&u) : 0;
    int64_t until_s = type == MSG_FETCHED ? (int64_t)unpack_u64(&u) : 0;
    struct slice first = unpack_bytes(&u), secret = type == MSG_FETCHED ? unpack_bytes(&u) : slice_make("", 0);
    char text[FAULT_TEXT_SIZE] = "";

    if (!unpack_done(&u) || reason >= N_REASONS)
        return false;
    if (!c)
        return true; /* its worker is gone */
    c->fetch = 0;
    if (type == MSG_NOT_FETCHED) {
        memcpy(text, first.ptr, first.len < sizeof text - 1 ? first.len : sizeof text - 1);
        claim_refuse(c, reason ? (enum reason)reason : REASON_CREDENTIAL_UNAVAILABLE, text);
    } else if (c->handoff->kind == HANDOFF_INJECT) {
        inject(c, first, until_s);
    } else {
        vault_exchange_go_on(c, secret);
    }
    return true;
}

void vault_left(const struct visitor *v)
{
    struct claim *next;

    for (struct claim *c = TAILQ_FIRST(&vault.claims); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->visitor == v)
            claim_free(c);
    }
}

/* ---- what it works with ---- */

void vault_open(struct role_context *context, struct recorder *recorder)
{
    vault.context = context;
    vault.recorder = recorder;
    vault_exchange_open();
    TAILQ_INIT(&vault.claims);
    secret_random(vault.seed, sizeof vault.seed);
}

void vault_take_revocations(int fd)
{
    struct fault why = {0};

    revocations_free(vault.revocations);
    vault.revocations = revocations_map(fd, &why);
}

void vault_attach_clerk(int fd)
{
    vault_exchange_attach(fd);
}
