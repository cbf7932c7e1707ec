/*
 * For tests: issuers with keys that the test holds, a verifier over them, and payloads that are right but for one claim.
 * Include after cmocka.h; verifier_set_up and verifier_tear_down are the group's.
 */
#ifndef TESTS_UNIT_VERIFIER_FIXTURE_H
#define TESTS_UNIT_VERIFIER_FIXTURE_H

#include <stdio.h>
#include <unistd.h>

#include "authz/token.h"
#include "tests/unit/forge.h"

#define NOW 1000000
#define HEADER "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\"}"
#define SHARED "0123456789abcdef0123456789abcdef"

static EVP_PKEY *ec, *ec2, *rsa;
static struct issuers *issuers, *other_issuers;
static struct revocations *revocations;
static char revocations_path[] = "/tmp/exeat-token-XXXXXX";

static inline struct issuers *compile_issuers(const char *yaml, EVP_PKEY *first, const char *kid)
{
    static const struct conf_section *const sections[] = {&issuers_section};
    struct bundle *files = bundle_new();
    struct buf ci = {0}, hs = {0};
    struct fault why = {0};
    struct issuers *all;
    struct conf *c = conf_parse(slice_of(yaml), "proxy.conf", "/", sections, 1, &why);

    assert_non_null(c);
    buf_text(&ci, "{\"keys\":[");
    forge_jwk(&ci, first, kid);
    buf_char(&ci, ',');
    forge_jwk(&ci, rsa, "r1");
    buf_text(&ci, "]}");
    buf_text(&hs, "{\"keys\":[{\"kid\":\"s1\",\"kty\":\"oct\",\"k\":\"");
    text_base64url(&hs, SLICE(SHARED));
    buf_text(&hs, "\"}]}");
    bundle_add(files, "issuer.ci.jwks", buf_slice(&ci));
    bundle_add(files, "issuer.jw.jwks", buf_slice(&ci));
    bundle_add(files, "issuer.hs.jwks", buf_slice(&hs));
    all = issuers_compile(c, files, &why);
    if (!all)
        fail_msg("%s", why.text);
    conf_free(c);
    bundle_free(files);
    buf_free(&ci);
    buf_free(&hs);
    return all;
}

#define CI "ci: { jwks: ci, algorithms: [ES256, RS256], max-lifetime: 15m, leeway: 30s }"
#define JW "jw: { jwks: ci, algorithms: [ES256, RS256], type: JWT }"
#define HS "hs: { jwks: hs, algorithms: [HS256], type: JWT, pin-source: false }"

static int verifier_set_up(void **state)
{
    int fd = mkstemp(revocations_path);

    (void)state;
    close(fd);
    ec = EVP_EC_gen("P-256");
    ec2 = EVP_EC_gen("P-256");
    rsa = EVP_RSA_gen(2048);
    issuers = compile_issuers("issuers: { " CI ", " JW ", " HS " }", ec, "e1");
    other_issuers = compile_issuers("issuers: { " CI ", " JW ", " HS " }", ec2, "e1");
    revocations = revocations_create(revocations_path, NULL);
    return revocations ? 0 : -1;
}

static int verifier_tear_down(void **state)
{
    (void)state;
    issuers_free(issuers);
    issuers_free(other_issuers);
    revocations_free(revocations);
    EVP_PKEY_free(ec);
    EVP_PKEY_free(ec2);
    EVP_PKEY_free(rsa);
    return unlink(revocations_path);
}

/* A payload that is right, but that member name has this value (as JSON; NULL: is absent). */
static inline char *payload_with(const char *name, const char *value)
{
    static const char *const claims[][2] = {
        {"iss", "\"ci\""}, {"sub", "\"vm1\""}, {"aud", "\"gw.example\""},  {"client_id", "\"cli\""},
        {"jti", "\"j1\""}, {"iat", "999900"},  {"exp", "1000500"},         {"scope", "\"npm:read git:read\""},
    };
    struct buf out = {0};
    bool found = !name;

    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        bool same = name && strcmp(claims[i][0], name) == 0;
        const char *says = same ? value : claims[i][1];

        found = found || same;
        if (says)
            buf_printf(&out, "%s\"%s\":%s", buf_len(&out) ? "," : "{", claims[i][0], says);
    }
    if (!found)
        buf_printf(&out, ",\"%s\":%s", name, value);
    buf_char(&out, '}');
    return buf_take_text(&out);
}

static inline struct verifier *make_verifier(void)
{
    return verifier_new(issuers, "gw.example", revocations, 8);
}

/* REASON_NONE when it is accepted. */
static inline enum reason judge(struct verifier *v, struct slice token, const char *listener, const char *source, int64_t now)
{
    struct token_context context = {.listener = listener, .source = source, .now_s = now};
    struct fault why = {0};
    struct identity *i = verifier_check(v, token, &context, &why);

    if (i && why.kind != FAULT_NONE)
        fail_msg("accepted with a fault: %s", why.text);
    if (!i && strncmp(reason_code(why.reason), "token_", 6) != 0)
        fail_msg("refused without a token reason: %s", why.text);
    identity_unref(i);
    return i ? REASON_NONE : why.reason;
}

static inline void check_row(const char *name, struct slice token, enum reason expected)
{
    struct verifier *v = make_verifier();
    enum reason got = judge(v, token, "in", "10.0.0.2", NOW);

    if (got != expected)
        fail_msg("%s: %s instead of %s", name, reason_code(got), reason_code(expected));
    verifier_free(v);
}

static inline struct slice good_token(struct buf *token, const char *jti)
{
    char *payload = payload_with("jti", jti);

    forge_token(token, HEADER, payload, ec);
    free(payload);
    return buf_slice(token);
}

#endif
