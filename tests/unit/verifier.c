/*
 * What the verifier keeps between tokens: what is remembered, pinned, counted and revoked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/verifier_fixture.h"

static void a_remembered_token_is_still_checked_for_time_binding_and_source(void **state)
{
    struct verifier *v = make_verifier();
    struct buf token = {0};
    struct slice text = good_token(&token, "\"j1\"");

    (void)state;
    assert_int_equal(judge(v, text, "in", "10.0.0.2", NOW), REASON_NONE);
    assert_int_equal(judge(v, text, "in", "10.0.0.2", NOW), REASON_NONE);
    assert_int_equal(judge(v, text, "in", "10.0.0.3", NOW), REASON_TOKEN_BINDING);
    assert_int_equal(judge(v, text, "unix", NULL, NOW), REASON_NONE);
    assert_int_equal(judge(v, text, "unix", "", NOW), REASON_NONE);
    assert_int_equal(judge(v, text, "in", "10.0.0.2", 1000529), REASON_NONE);
    assert_int_equal(judge(v, text, "in", "10.0.0.2", 1000530), REASON_TOKEN_EXPIRED);
    verifier_free(v);
    buf_free(&token);
}

static void an_unbound_token_belongs_to_its_first_source_on_every_worker(void **state)
{
    struct pins *first = pins_create(64, NULL), *second = pins_map(pins_fd(first), NULL);
    struct verifier *a = make_verifier(), *b = make_verifier();
    struct buf token = {0}, other = {0};
    struct slice text = good_token(&token, "\"j1\""), another = good_token(&other, "\"j2\"");

    (void)state;
    verifier_use_pins(a, first);
    verifier_use_pins(b, second);
    assert_int_equal(judge(a, text, "in", "10.0.0.2", NOW), REASON_NONE);
    assert_int_equal(judge(b, text, "in", "10.0.0.3", NOW), REASON_TOKEN_BINDING);
    assert_int_equal(judge(b, text, "in", "10.0.0.2", NOW), REASON_NONE);
    assert_int_equal(judge(b, another, "in", "10.0.0.3", NOW), REASON_NONE);
    assert_int_equal(judge(a, another, "in", "10.0.0.2", NOW), REASON_TOKEN_BINDING);
    verifier_free(a);
    verifier_free(b);
    pins_free(second);
    pins_free(first);
    buf_free(&token);
    buf_free(&other);
}

static void an_issuer_may_do_without_pins_and_a_bound_token_needs_none(void **state)
{
    static const char payload[] = "{\"iss\":\"hs\",\"sub\":\"vm1\",\"aud\":\"gw.example\",\"jti\":\"j\",\"iat\":999900,"
                                  "\"exp\":1000500}";
    char *bound = payload_with("cnf", "{\"exeat-listener\":\"in\"}");
    struct verifier *v = make_verifier();
    struct buf free_token = {0}, bound_token = {0};

    (void)state;
    forge_mac_token(&free_token, "{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"s1\"}", payload, SHARED);
    forge_token(&bound_token, HEADER, bound, ec);
    assert_int_equal(judge(v, buf_slice(&free_token), "in", "10.0.0.2", NOW), REASON_NONE);
    assert_int_equal(judge(v, buf_slice(&free_token), "in", "10.0.0.3", NOW), REASON_NONE);
    assert_int_equal(judge(v, buf_slice(&bound_token), "in", "10.0.0.2", NOW), REASON_NONE);
    assert_int_equal(judge(v, buf_slice(&bound_token), "in", "10.0.0.3", NOW), REASON_NONE);
    assert_int_equal(judge(v, buf_slice(&bound_token), "out", "10.0.0.2", NOW), REASON_TOKEN_BINDING);
    verifier_free(v);
    buf_free(&free_token);
    buf_free(&bound_token);
    free(bound);
}

static void too_many_failures_close_a_source_for_a_minute_but_not_for_verified_tokens(void **state)
{
    struct verifier *v = make_verifier();
    struct buf good = {0}, fresh = {0};
    struct slice known = good_token(&good, "\"j1\""), unknown = good_token(&fresh, "\"j2\"");

    (void)state;
    assert_int_equal(judge(v, known, "in", "10.0.0.2", NOW), REASON_NONE);
    for (int i = 0; i < 20; i++)
        assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW + i), REASON_TOKEN_MALFORMED);
    assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW + 59), REASON_TOKEN_FAILURES);
    assert_int_equal(judge(v, unknown, "in", "10.0.0.2", NOW + 59), REASON_TOKEN_FAILURES);
    assert_int_equal(judge(v, unknown, "in", "10.0.0.9", NOW + 59), REASON_NONE);
    assert_int_equal(judge(v, known, "in", "10.0.0.2", NOW + 59), REASON_NONE);
    assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW + 60), REASON_TOKEN_MALFORMED);
    verifier_free(v);
    buf_free(&good);
    buf_free(&fresh);
}

static void how_many_failures_a_source_may_have_is_configured(void **state)
{
    struct verifier *v = make_verifier();

    (void)state;
    verifier_limit_failures(v, 2);
    assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW), REASON_TOKEN_MALFORMED);
    assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW), REASON_TOKEN_MALFORMED);
    assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW), REASON_TOKEN_FAILURES);
    verifier_free(v);
}

static void a_genuine_token_that_no_longer_holds_is_no_failure(void **state)
{
    struct verifier *v = make_verifier();
    struct buf token = {0};
    struct slice text = good_token(&token, "\"j1\"");

    (void)state;
    assert_int_equal(judge(v, text, "in", "10.0.0.2", NOW), REASON_NONE);
    for (int i = 0; i < 30; i++)
        assert_int_equal(judge(v, text, "in", "10.0.0.2", NOW + 600), REASON_TOKEN_EXPIRED);
    verifier_free(v);
    buf_free(&token);
}

static void sources_beyond_the_bound_are_forgotten_oldest_first(void **state)
{
    struct verifier *v = make_verifier();
    char source[32];

    (void)state;
    for (int i = 0; i < 21; i++)
        judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW);
    assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW), REASON_TOKEN_FAILURES);
    for (int i = 0; i < 4096; i++) {
        snprintf(source, sizeof source, "10.1.%d.%d", i / 256, i % 256);
        judge(v, SLICE("a.b.c"), "in", source, NOW);
    }
    assert_int_equal(judge(v, SLICE("a.b.c"), "in", "10.0.0.2", NOW), REASON_TOKEN_MALFORMED);
    verifier_free(v);
}

static void what_is_remembered_is_bounded_and_used_least_goes_first(void **state)
{
    struct verifier *v = make_verifier(); /* remembers eight */
    struct buf tokens[10] = {{0}};
    struct token_context context = {.listener = "in", .now_s = NOW};
    struct identity *held, *again;

    (void)state;
    for (int i = 0; i < 10; i++) {
        char jti[16];

        snprintf(jti, sizeof jti, "\"j%d\"", i);
        good_token(&tokens[i], jti);
    }
    held = verifier_check(v, buf_slice(&tokens[0]), &context, NULL);
    for (int i = 1; i < 10; i++)
        assert_int_equal(judge(v, buf_slice(&tokens[i]), "in", NULL, NOW), REASON_NONE);
    assert_string_equal(identity_jti(held), "j0"); /* forgotten by the verifier, held by the session */
    again = verifier_check(v, buf_slice(&tokens[0]), &context, NULL);
    assert_ptr_not_equal(again, held);
    identity_unref(again);
    for (int i = 0; i < 10; i++) {
        struct identity *i1 = verifier_check(v, buf_slice(&tokens[9]), &context, NULL);
        struct identity *i2 = verifier_check(v, buf_slice(&tokens[9]), &context, NULL);

        assert_ptr_equal(i1, i2);
        identity_unref(i1);
        identity_unref(i2);
        assert_int_equal(judge(v, buf_slice(&tokens[i]), "in", NULL, NOW), REASON_NONE);
    }
    identity_unref(held);
    verifier_free(v);
    for (int i = 0; i < 10; i++)
        buf_free(&tokens[i]);
}

static void other_keys_end_what_was_verified_with_the_old(void **state)
{
    struct issuers *none = compile_issuers("issuers: { " HS " }", ec, "e1");
    struct token_context context = {.listener = "in", .now_s = NOW};
    struct verifier *v = make_verifier();
    struct fault why = {0};
    struct buf token = {0};
    struct slice text = good_token(&token, "\"j1\"");
    struct identity *i = verifier_check(v, text, &context, &why);

    (void)state;
    assert_non_null(i);
    assert_true(verifier_recheck(v, i, NOW, &why));
    verifier_use_issuers(v, other_issuers);
    assert_false(verifier_recheck(v, i, NOW, &why));
    assert_int_equal(why.reason, REASON_TOKEN_KEY_UNKNOWN);
    assert_int_equal(judge(v, text, "in", NULL, NOW), REASON_TOKEN_SIGNATURE);
    verifier_use_issuers(v, none);
    assert_false(verifier_recheck(v, i, NOW, &why));
    assert_int_equal(why.reason, REASON_TOKEN_ISSUER);
    verifier_use_issuers(v, issuers);
    assert_true(verifier_recheck(v, i, NOW, &why));
    identity_unref(i);
    verifier_free(v);
    issuers_free(none);
    buf_free(&token);
}

static void rechecking_tells_of_expiry_and_revocation(void **state)
{
    struct token_context context = {.listener = "in", .now_s = NOW};
    struct verifier *v = make_verifier();
    struct fault why = {0};
    struct buf token = {0};
    struct slice text = good_token(&token, "\"gone\"");
    struct identity *i = verifier_check(v, text, &context, &why);

    (void)state;
    assert_true(verifier_recheck(v, i, 1000529, &why));
    assert_false(verifier_recheck(v, i, 1000530, &why));
    assert_int_equal(why.reason, REASON_TOKEN_EXPIRED);
    assert_true(revocations_add(revocations, REVOKE_JTI, SLICE("gone"), 0, &why));
    assert_false(verifier_recheck(v, i, NOW, &why));
    assert_int_equal(why.reason, REASON_TOKEN_REVOKED);
    assert_int_equal(judge(v, text, "in", NULL, NOW), REASON_TOKEN_REVOKED);
    identity_unref(i);
    verifier_free(v);
    buf_free(&token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_remembered_token_is_still_checked_for_time_binding_and_source),
        cmocka_unit_test(an_unbound_token_belongs_to_its_first_source_on_every_worker),
        cmocka_unit_test(an_issuer_may_do_without_pins_and_a_bound_token_needs_none),
        cmocka_unit_test(too_many_failures_close_a_source_for_a_minute_but_not_for_verified_tokens),
        cmocka_unit_test(how_many_failures_a_source_may_have_is_configured),
        cmocka_unit_test(a_genuine_token_that_no_longer_holds_is_no_failure),
        cmocka_unit_test(sources_beyond_the_bound_are_forgotten_oldest_first),
        cmocka_unit_test(what_is_remembered_is_bounded_and_used_least_goes_first),
        cmocka_unit_test(other_keys_end_what_was_verified_with_the_old),
        cmocka_unit_test(rechecking_tells_of_expiry_and_revocation),
    };

    return cmocka_run_group_tests_name("verifier", tests, verifier_set_up, verifier_tear_down);
}
