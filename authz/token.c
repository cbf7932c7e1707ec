/* Owns the memory of a verifier: verified tokens, failures by source, pins. Must not keep a token's text. */
#include "authz/token.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/strikes.h"
#include "base/secret.h"
#include "base/table.h"
#include "base/text.h"

enum { FINGERPRINT = 32, FAILURES_MOST = 20, FAILURES_WINDOW_S = 60, FAILURES_SOURCES = 4096, OWN_PINS = 8192 };

/* A verified token; in the list of all, used last in front. */
struct memory {
    struct memory *newer, *older;
    struct identity *identity;
    uint64_t generation;
};

struct verifier {
    const struct issuers *issuers;
    const struct revocations *revocations;
    char *audience;
    struct table *by_fingerprint;
    struct memory *newest, *oldest;
    size_t most;
    struct strikes *strikes;
    struct pins *pins, *own_pins;
    struct spent *spent; /* NULL: not here */
    EVP_MD *sha256; /* fetched once: each fetch takes longer than the digest */
    EVP_MD_CTX *digest;
    void (*on_unknown_key)(void *arg, const char *issuer); /* NULL: nobody is told */
    void *unknown_key_arg;
};

struct verifier *verifier_new(const struct issuers *issuers, const char *audience,
                              const struct revocations *revocations, size_t cache_size)
{
    struct verifier *v = calloc(1, sizeof *v);
    size_t seed;

    if (!v)
        abort();
    secret_random(&seed, sizeof seed);
    json_object_seed(seed | 1); /* or jansson opens /dev/urandom at the first token, where a role may not */
    v->issuers = issuers;
    v->revocations = revocations;
    v->audience = text_copy(slice_of(audience));
    v->by_fingerprint = table_new();
    v->most = cache_size ? cache_size : 1;
    v->strikes = strikes_new(FAILURES_MOST, FAILURES_WINDOW_S, FAILURES_SOURCES);
    v->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    v->digest = EVP_MD_CTX_new();
    if (!v->sha256 || !v->digest)
        abort();
    return v;
}

void verifier_limit_failures(struct verifier *v, unsigned a_minute)
{
    strikes_free(v->strikes);
    v->strikes = strikes_new(a_minute, FAILURES_WINDOW_S, FAILURES_SOURCES);
}

void verifier_on_unknown_key(struct verifier *v, void (*tell)(void *arg, const char *issuer), void *arg)
{
    v->on_unknown_key = tell;
    v->unknown_key_arg = arg;
}

static void unlink_memory(struct verifier *v, struct memory *m)
{
    *(m->newer ? &m->newer->older : &v->newest) = m->older;
    *(m->older ? &m->older->newer : &v->oldest) = m->newer;
    m->newer = m->older = NULL;
}

static void put_in_front(struct verifier *v, struct memory *m)
{
    m->older = v->newest;
    *(v->newest ? &v->newest->newer : &v->oldest) = m;
    v->newest = m;
}

static void forget(struct verifier *v, struct memory *m)
{
    unlink_memory(v, m);
    table_remove(v->by_fingerprint, slice_make(identity_fingerprint(m->identity), FINGERPRINT));
    identity_unref(m->identity);
    free(m);
}

void verifier_limit_cache(struct verifier *v, size_t most)
{
    v->most = most ? most : 1;
    while (table_count(v->by_fingerprint) > v->most)
        forget(v, v->oldest);
}

void verifier_free(struct verifier *v)
{
    if (!v)
        return;
    while (v->newest)
        forget(v, v->newest);
    table_free(v->by_fingerprint);
    strikes_free(v->strikes);
    pins_free(v->own_pins);
    EVP_MD_CTX_free(v->digest);
    EVP_MD_free(v->sha256);
    free(v->audience);
    free(v);
}

void verifier_use_issuers(struct verifier *v, const struct issuers *issuers)
{
    v->issuers = issuers;
}

void verifier_use_pins(struct verifier *v, struct pins *pins)
{
    v->pins = pins;
}

void verifier_use_spent(struct verifier *v, struct spent *spent)
{
    v->spent = spent;
}

static void fingerprint(struct verifier *v, struct slice token, unsigned char out[FINGERPRINT])
{
    if (EVP_DigestInit_ex2(v->digest, v->sha256, NULL) != 1 ||
        EVP_DigestUpdate(v->digest, token.ptr, token.len) != 1 || EVP_DigestFinal_ex(v->digest, out, NULL) != 1)
        abort();
}

/* The identity (borrowed) of a token that was verified with the keys of today. */
static struct identity *remembered(struct verifier *v, const unsigned char *print)
{
    struct memory *m = table_get(v->by_fingerprint, slice_make(print, FINGERPRINT));

    if (!m)
        return NULL;
    if (m->generation != issuers_generation(v->issuers)) {
        forget(v, m);
        return NULL;
    }
    unlink_memory(v, m);
    put_in_front(v, m);
    return m->identity;
}

/* Takes identity. */
static void remember(struct verifier *v, struct identity *identity)
{
    struct memory *m = calloc(1, sizeof *m);

    if (!m)
        abort();
    if (table_count(v->by_fingerprint) >= v->most)
        forget(v, v->oldest);
    m->identity = identity;
    m->generation = issuers_generation(v->issuers);
    table_put(v->by_fingerprint, slice_make(identity_fingerprint(identity), FINGERPRINT), m);
    put_in_front(v, m);
}

/* Whose failures are counted: the address, or the listener that serves one sandbox only. */
static struct slice source_of(const struct token_context *context)
{
    return slice_of(context->source && *context->source ? context->source : context->listener);
}

static void tell_unknown_key(struct verifier *v, const struct claims *c, const struct fault *why)
{
    if (v->on_unknown_key && why->reason == REASON_TOKEN_KEY_UNPUBLISHED && c->issuer)
        v->on_unknown_key(v->unknown_key_arg, issuer_name(c->issuer));
}

/* Verify a token that is not remembered; its identity is borrowed from the memory. */
static struct identity *verify(struct verifier *v, struct slice token, const unsigned char *print,
                               const struct token_context *context, struct fault *why)
{
    struct identity *identity = NULL;
    struct fault own = {0};
    struct claims c = {0};

    why = why ? why : &own;
    if (context->is_out || strikes_is_out(v->strikes, source_of(context), context->now_s)) {
        fault_reason(why, REASON_TOKEN_FAILURES, "too many tokens from this source did not verify; it waits up to %d s",
                     FAILURES_WINDOW_S);
        return NULL;
    }
    if (claims_check(&c, token, v->issuers, v->audience, context->now_s, NULL, why))
        identity = claims_identity(&c, print, why);
    else
        tell_unknown_key(v, &c, why);
    claims_clear(&c);
    if (identity)
        remember(v, identity);
    else if (why->reason != REASON_ISSUER_UNAVAILABLE && why->reason != REASON_TOKEN_KEY_UNPUBLISHED)
        /* those are no fault of the token, and cost no signature */
        strikes_add(v->strikes, source_of(context), context->now_s);
    return identity;
}

static struct pins *pins_of(struct verifier *v)
{
    if (v->pins)
        return v->pins;
    if (!v->own_pins && !(v->own_pins = pins_create(OWN_PINS, NULL)))
        abort();
    return v->own_pins;
}

bool token_is_in_place(const struct identity *i, const char *listener, const char *certificate, struct fault *why)
{
    if (*identity_certificate(i) && !slice_is(slice_of(certificate), identity_certificate(i)))
        return fault_reason(why, REASON_TOKEN_BINDING, "the token of sandbox %.64s is bound to a client certificate (x5t#S256), and "
                            "%s came with it", identity_sandbox(i), certificate && *certificate ? "another" : "none");
    if (*identity_listener(i) && !slice_is(slice_of(listener), identity_listener(i)))
        return fault_reason(why, REASON_TOKEN_BINDING, "the token of sandbox %.64s is bound to listener %.40s and came to %.40s",
                            identity_sandbox(i), identity_listener(i), listener);
    return true;
}

static bool check_binding(struct verifier *v, const struct identity *i, const struct token_context *context,
                          struct fault *why)
{
    const struct issuer *issuer = issuers_find(v->issuers, slice_of(identity_issuer(i)));
    int64_t end;

    if (!token_is_in_place(i, context->listener, context->certificate, why))
        return false;
    if (*identity_certificate(i) || *identity_listener(i))
        return true;
    if (!context->source || !*context->source || !issuer_pins_source(issuer))
        return true;
    end = identity_expires_s(i) + issuer_leeway_s(issuer) + 1;
    return pins_hold(pins_of(v), identity_fingerprint(i), slice_of(context->source), end, context->now_s) ||
           fault_reason(why, REASON_TOKEN_BINDING, "the token of sandbox %.64s belongs to another source address than %.45s",
                        identity_sandbox(i), context->source);
}

/* The last of all checks: what is refused for another reason is not used up. */
static bool spend(struct verifier *v, const struct identity *i, const struct token_context *context, struct fault *why)
{
    const struct issuer *issuer = issuers_find(v->issuers, slice_of(identity_issuer(i)));
    int64_t end = identity_expires_s(i) + issuer_leeway_s(issuer) + 1;
    enum spent_use how;

    if (!context->spends || !issuer_is_single_use(issuer))
        return true;
    how = v->spent ? spent_use(v->spent, i, end, context->now_s) : SPENT_NO_ROOM;
    if (how == SPENT_NO_ROOM)
        return fault_reason(why, REASON_TOKEN_SPENT, "there is no room to remember another token for one use");
    return how == SPENT_NOW || fault_reason(why, REASON_TOKEN_SPENT, "token %.40s of sandbox %.64s was used before",
                                            identity_jti(i), identity_sandbox(i));
}

struct identity *verifier_check(struct verifier *v, struct slice token, const struct token_context *context,
                                struct fault *why)
{
    unsigned char print[FINGERPRINT];
    struct identity *identity;

    fingerprint(v, token, print);
    identity = remembered(v, print);
    if (!identity)
        identity = verify(v, token, print, context, why);
    if (!identity || !verifier_recheck(v, identity, context->now_s, why) ||
        !check_binding(v, identity, context, why) || !spend(v, identity, context, why))
        return NULL;
    return identity_ref(identity);
}

struct identity *verifier_recall(struct verifier *v, struct slice token)
{
    unsigned char print[FINGERPRINT];
    struct identity *i;

    fingerprint(v, token, print);
    i = remembered(v, print);
    return i ? identity_ref(i) : NULL;
}

bool verifier_recheck(const struct verifier *v, const struct identity *i, int64_t now_s, struct fault *why)
{
    const struct issuer *issuer = issuers_find(v->issuers, slice_of(identity_issuer(i)));
    const struct key *key = issuer ? issuer_key(issuer, slice_of(identity_kid(i))) : NULL;

    if (!issuer)
        return fault_reason(why, REASON_TOKEN_ISSUER, "its issuer is no longer configured");
    if (!issuer_has_keys(issuer, now_s, why))
        return false;
    if (!key || key_mark(key) != identity_key_mark(i))
        return fault_reason(why, issuer_no_key(issuer), "its key is no longer one of issuer %s",
                            issuer_name(issuer));
    if (claims_is_expired(identity_expires_s(i), issuer_leeway_s(issuer), now_s))
        return fault_reason(why, REASON_TOKEN_EXPIRED, "the token of sandbox %.64s expired %lld s ago",
                            identity_sandbox(i), (long long)(now_s - identity_expires_s(i)));
    if (v->revocations && revocations_has(v->revocations, i, now_s))
        return fault_reason(why, REASON_TOKEN_REVOKED, "token %.40s of sandbox %.64s was revoked",
                            identity_jti(i), identity_sandbox(i));
    if (v->revocations && revocations_quarantines(v->revocations, i))
        return fault_reason(why, REASON_SANDBOX_QUARANTINED, "sandbox %.64s is in quarantine", identity_sandbox(i));
    return true;
}

/* RFC 6750 2.1 has letters, digits, -._~+/ and =; here anything visible but a comma, since the reading is strict. */
static bool is_token68(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= 0x20 || s.ptr[i] >= 0x7f || s.ptr[i] == ',')
            return false;
    return s.len > 0;
}

static bool from_basic(struct slice encoded, struct buf *scratch, struct slice *token, struct fault *why)
{
    struct slice pair;
    ptrdiff_t colon;

    buf_clear(scratch);
    if (!text_unbase64(encoded, scratch))
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the Basic credential is not base64");
    pair = buf_slice(scratch);
    colon = slice_find(pair, ':');
    if (colon < 0)
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the Basic credential has no colon");
    for (size_t i = 0; i < pair.len; i++)
        if ((unsigned char)pair.ptr[i] < 0x20 || pair.ptr[i] == 0x7f)
            return fault_reason(why, REASON_TOKEN_MALFORMED, "the Basic credential has control characters");
    *token = slice_from(pair, (size_t)colon + 1);
    return token->len || fault_reason(why, REASON_TOKEN_MALFORMED, "the Basic password is empty; it is the token");
}

bool token_from_credentials(struct slice value, struct buf *scratch, struct slice *token, struct fault *why)
{
    struct slice rest = value, scheme;

    if (value.len > TOKEN_CREDENTIAL_MAX)
        return fault_reason(why, REASON_TOKEN_OVERSIZE, "the credential has %zu bytes; at most %d are read", value.len,
                            TOKEN_CREDENTIAL_MAX);
    slice_next(&rest, ' ', &scheme);
    while (rest.len && rest.ptr[0] == ' ') /* RFC 9110 11.4: one space or more */
        rest = slice_from(rest, 1);
    if (!is_token68(rest))
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the credential is not a scheme and one token");
    if (slice_is_nocase(scheme, "Basic"))
        return from_basic(rest, scratch, token, why);
    if (!slice_is_nocase(scheme, "Bearer"))
        return fault_reason(why, REASON_TOKEN_MALFORMED, "the scheme is neither Bearer nor Basic");
    *token = rest;
    return true;
}

bool token_looks_like(struct slice s)
{
    struct slice rest = s, part;
    int parts = 0;

    if (!slice_starts(s, SLICE("eyJ")))
        return false;
    while (slice_next(&rest, '.', &part)) {
        if (part.len == 0 || ++parts > 3)
            return false;
        for (size_t i = 0; i < part.len; i++)
            if (!part.ptr[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
                                        part.ptr[i]))
                return false;
    }
    return parts == 3;
}
