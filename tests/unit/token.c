/*
 * What a token says: every way it can be wrong, beside the right ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/verifier_fixture.h"

#define X32 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static void a_good_token_proves_all_its_words(void **state)
{
    struct token_context context = {.listener = "vm", .source = "10.0.0.2", .now_s = NOW};
    char *payload = payload_with("authorization_details",
                                 "[{\"type\":\"http_egress\",\"locations\":[\"https://npm.example/\",\"*.corp:8443\"],"
                                 "\"actions\":[\"GET\"],\"paths\":[\"/a/**\"]},{\"type\":\"other\",\"x\":1}]");
    struct verifier *v = make_verifier();
    struct buf token = {0};
    struct fault why = {0};
    struct identity *i;

    (void)state;
    forge_token(&token, HEADER, payload, ec);
    i = verifier_check(v, buf_slice(&token), &context, &why);
    if (!i)
        fail_msg("%s", why.text);
    assert_string_equal(identity_sandbox(i), "vm1");
    assert_string_equal(identity_issuer(i), "ci");
    assert_string_equal(identity_issuer_name(i), "ci");
    assert_string_equal(identity_jti(i), "j1");
    assert_string_equal(identity_kid(i), "e1");
    assert_string_equal(identity_client_id(i), "cli");
    assert_string_equal(identity_scope(i), "npm:read git:read");
    assert_string_equal(identity_listener(i), "");
    assert_true(identity_has_scope(i, "git:read"));
    assert_false(identity_has_scope(i, "git:rea"));
    assert_false(identity_has_scope(i, ""));
    assert_int_equal(identity_issued_s(i), 999900);
    assert_int_equal(identity_expires_s(i), 1000500);
    assert_true(identity_has_details(i));
    assert_int_equal(identity_detail_count(i), 1);
    assert_string_equal(identity_detail(i, 0)->locations[0], "https://npm.example");
    assert_string_equal(identity_detail(i, 0)->locations[1], "*.corp:8443");
    assert_string_equal(identity_detail(i, 0)->methods[0], "GET");
    assert_string_equal(identity_detail(i, 0)->paths[0], "/a/**");
    identity_unref(i);
    verifier_free(v);
    buf_free(&token);
    free(payload);
}

static void headers_are_judged_strictly(void **state)
{
    static const struct {
        const char *name, *header;
        enum reason expected;
    } rows[] = {
        {"as issued", HEADER, REASON_NONE},
        {"typ with application/", "{\"typ\":\"application/at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\"}", REASON_NONE},
        {"typ in other case", "{\"typ\":\"Application/AT+JWT\",\"alg\":\"ES256\",\"kid\":\"e1\"}", REASON_NONE},
        {"x5t beside kid", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"x5t\":\"abc\"}", REASON_NONE},
        {"white space inside", "{ \"typ\" : \"at+jwt\", \"alg\":\"ES256\",\"kid\":\"e1\" }", REASON_NONE},
        {"typ JWT", "{\"typ\":\"JWT\",\"alg\":\"ES256\",\"kid\":\"e1\"}", REASON_TOKEN_TYPE},
        {"typ application/ alone", "{\"typ\":\"application/\",\"alg\":\"ES256\",\"kid\":\"e1\"}", REASON_TOKEN_TYPE},
        {"typ with it twice", "{\"typ\":\"application/application/at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\"}",
         REASON_TOKEN_TYPE},
        {"no typ", "{\"alg\":\"ES256\",\"kid\":\"e1\"}", REASON_TOKEN_TYPE},
        {"typ no text", "{\"typ\":1,\"alg\":\"ES256\",\"kid\":\"e1\"}", REASON_TOKEN_MALFORMED},
        {"alg none", "{\"typ\":\"at+jwt\",\"alg\":\"none\",\"kid\":\"e1\"}", REASON_TOKEN_ALGORITHM},
        {"alg None", "{\"typ\":\"at+jwt\",\"alg\":\"None\",\"kid\":\"e1\"}", REASON_TOKEN_ALGORITHM},
        {"alg in lower case", "{\"typ\":\"at+jwt\",\"alg\":\"es256\",\"kid\":\"e1\"}", REASON_TOKEN_ALGORITHM},
        {"alg with NUL after it", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\\u0000\",\"kid\":\"e1\"}",
         REASON_TOKEN_MALFORMED},
        {"no alg", "{\"typ\":\"at+jwt\",\"kid\":\"e1\"}", REASON_TOKEN_ALGORITHM},
        {"alg no text", "{\"typ\":\"at+jwt\",\"alg\":[\"ES256\"],\"kid\":\"e1\"}", REASON_TOKEN_MALFORMED},
        {"alg not of the issuer", "{\"typ\":\"at+jwt\",\"alg\":\"HS256\",\"kid\":\"e1\"}", REASON_TOKEN_ALGORITHM},
        {"alg of another key", "{\"typ\":\"at+jwt\",\"alg\":\"RS256\",\"kid\":\"e1\"}", REASON_TOKEN_ALGORITHM},
        {"no kid", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\"}", REASON_TOKEN_KEY_UNKNOWN},
        {"unknown kid", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e2\"}", REASON_TOKEN_KEY_UNKNOWN},
        {"kid of another issuer", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"s1\"}", REASON_TOKEN_KEY_UNKNOWN},
        {"kid as a path", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"../../dev/null\"}",
         REASON_TOKEN_KEY_UNKNOWN},
        {"crit", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"crit\":[\"exp\"]}", REASON_TOKEN_MALFORMED},
        {"unknown crit", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"crit\":[\"x\"],\"x\":1}",
         REASON_TOKEN_MALFORMED},
        {"empty crit", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"crit\":[]}", REASON_TOKEN_MALFORMED},
        {"jku", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"jku\":\"https://x.test/\"}",
         REASON_TOKEN_MALFORMED},
        {"jwk", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"jwk\":{\"kty\":\"EC\"}}",
         REASON_TOKEN_MALFORMED},
        {"x5u", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"x5u\":\"https://x.test/\"}",
         REASON_TOKEN_MALFORMED},
        {"x5c", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"x5c\":[\"AA\"]}", REASON_TOKEN_MALFORMED},
        {"cty", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"cty\":\"JWT\"}", REASON_TOKEN_MALFORMED},
        {"b64", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"b64\":false}", REASON_TOKEN_MALFORMED},
        {"zip", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\",\"zip\":\"DEF\"}", REASON_TOKEN_MALFORMED},
        {"alg twice", "{\"typ\":\"at+jwt\",\"alg\":\"none\",\"alg\":\"ES256\",\"kid\":\"e1\"}", REASON_TOKEN_MALFORMED},
        {"not JSON", "typ", REASON_TOKEN_MALFORMED},
        {"a list", "[]", REASON_TOKEN_MALFORMED},
        {"trailing bytes", HEADER "x", REASON_TOKEN_MALFORMED},
        {"two objects", HEADER HEADER, REASON_TOKEN_MALFORMED},
        {"not UTF-8", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\",\"kid\":\"e1\xff\"}", REASON_TOKEN_MALFORMED},
    };
    char *payload = payload_with(NULL, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf token = {0};

        forge_token(&token, rows[i].header, payload, ec);
        check_row(rows[i].name, buf_slice(&token), rows[i].expected);
        buf_free(&token);
    }
    free(payload);
}

static void claims_are_judged_strictly(void **state)
{
    static const struct {
        const char *name, *claim, *value;
        enum reason expected;
    } rows[] = {
        {"unknown claims are for others", "colour", "{\"a\":[1,2.5,null]}", REASON_NONE},
        {"no iss", "iss", NULL, REASON_TOKEN_CLAIMS},
        {"iss no text", "iss", "[\"ci\"]", REASON_TOKEN_CLAIMS},
        {"unknown iss", "iss", "\"CI\"", REASON_TOKEN_ISSUER},
        {"iss of another issuer", "iss", "\"hs\"", REASON_TOKEN_ALGORITHM},
        {"aud lists us", "aud", "[\"other\",\"gw.example\"]", REASON_NONE},
        {"no aud", "aud", NULL, REASON_TOKEN_CLAIMS},
        {"aud of another", "aud", "\"gw.example.evil\"", REASON_TOKEN_AUDIENCE},
        {"aud in other case", "aud", "\"GW.example\"", REASON_TOKEN_AUDIENCE},
        {"aud lists others", "aud", "[\"a\",\"b\"]", REASON_TOKEN_AUDIENCE},
        {"aud lists nobody", "aud", "[]", REASON_TOKEN_CLAIMS},
        {"aud lists us and a number", "aud", "[\"gw.example\",1]", REASON_TOKEN_CLAIMS},
        {"aud an object", "aud", "{\"gw.example\":1}", REASON_TOKEN_CLAIMS},
        {"no sub", "sub", NULL, REASON_TOKEN_CLAIMS},
        {"empty sub", "sub", "\"\"", REASON_TOKEN_CLAIMS},
        {"sub no text", "sub", "1", REASON_TOKEN_CLAIMS},
        {"sub with a blank", "sub", "\"a b\"", REASON_TOKEN_CLAIMS},
        {"sub with a newline", "sub", "\"a\\nb\"", REASON_TOKEN_CLAIMS},
        {"sub with NUL", "sub", "\"vm1\\u0000x\"", REASON_TOKEN_MALFORMED},
        {"sub beyond ASCII", "sub", "\"v\xc3\xa4m\"", REASON_TOKEN_CLAIMS},
        {"sub of 128", "sub", "\"" X32 X32 X32 X32 "\"", REASON_NONE},
        {"sub of 129", "sub", "\"" X32 X32 X32 X32 "x\"", REASON_TOKEN_CLAIMS},
        {"no jti", "jti", NULL, REASON_TOKEN_CLAIMS},
        {"jti a number", "jti", "7", REASON_TOKEN_CLAIMS},
        {"no client_id in an at+jwt", "client_id", NULL, REASON_TOKEN_CLAIMS},
        {"client_id no text", "client_id", "null", REASON_TOKEN_CLAIMS},
        {"no scope", "scope", NULL, REASON_NONE},
        {"scope a list", "scope", "[\"npm:read\"]", REASON_TOKEN_CLAIMS},
        {"scope empty", "scope", "\"\"", REASON_TOKEN_CLAIMS},
        {"scope with two blanks", "scope", "\"a  b\"", REASON_TOKEN_CLAIMS},
        {"scope with a blank at the end", "scope", "\"a \"", REASON_TOKEN_CLAIMS},
        {"scope with a tab", "scope", "\"a\\tb\"", REASON_TOKEN_CLAIMS},
        {"scope with a quote", "scope", "\"a\\\"\"", REASON_TOKEN_CLAIMS},
        {"scope with a backslash", "scope", "\"a\\\\\"", REASON_TOKEN_CLAIMS},
        {"no exp", "exp", NULL, REASON_TOKEN_CLAIMS},
        {"exp a text", "exp", "\"1000500\"", REASON_TOKEN_CLAIMS},
        {"exp with a fraction", "exp", "1000500.5", REASON_TOKEN_CLAIMS},
        {"exp in scientific form", "exp", "1e6", REASON_TOKEN_CLAIMS},
        {"exp negative", "exp", "-1", REASON_TOKEN_CLAIMS},
        {"exp past the year 9999", "exp", "253402300800", REASON_TOKEN_CLAIMS},
        {"exp too big for any number", "exp", "99999999999999999999", REASON_TOKEN_MALFORMED},
        {"exp before iat", "exp", "999899", REASON_TOKEN_CLAIMS},
        {"exp equal to iat", "exp", "999900", REASON_TOKEN_CLAIMS},
        {"expired within leeway", "exp", "999971", REASON_NONE},
        {"expired by leeway", "exp", "999970", REASON_TOKEN_EXPIRED},
        {"life of max-lifetime", "exp", "1000800", REASON_NONE},
        {"life over max-lifetime", "exp", "1000801", REASON_TOKEN_LIFETIME},
        {"no iat", "iat", NULL, REASON_TOKEN_CLAIMS},
        {"iat a text", "iat", "\"999900\"", REASON_TOKEN_CLAIMS},
        {"iat zero", "iat", "0", REASON_TOKEN_CLAIMS},
        {"iat ahead within leeway", "iat", "1000030", REASON_NONE},
        {"iat ahead of leeway", "iat", "1000031", REASON_TOKEN_NOT_YET_VALID},
        {"nbf behind", "nbf", "999999", REASON_NONE},
        {"nbf ahead within leeway", "nbf", "1000030", REASON_NONE},
        {"nbf ahead of leeway", "nbf", "1000031", REASON_TOKEN_NOT_YET_VALID},
        {"nbf a text", "nbf", "\"1\"", REASON_TOKEN_CLAIMS},
        {"nbf null", "nbf", "null", REASON_TOKEN_CLAIMS},
        {"cnf names this listener", "cnf", "{\"exeat-listener\":\"in\"}", REASON_NONE},
        {"cnf names another listener", "cnf", "{\"exeat-listener\":\"vm1\"}", REASON_TOKEN_BINDING},
        {"cnf names a longer listener", "cnf", "{\"exeat-listener\":\"inside\"}", REASON_TOKEN_BINDING},
        {"cnf a number", "cnf", "{\"exeat-listener\":1}", REASON_TOKEN_CLAIMS},
        {"cnf empty", "cnf", "{}", REASON_TOKEN_CLAIMS},
        {"cnf a text", "cnf", "\"in\"", REASON_TOKEN_CLAIMS},
        {"cnf by no certificate", "cnf", "{\"x5t#S256\":\"abc\"}", REASON_TOKEN_CLAIMS},
        {"cnf by a certificate that is no text", "cnf", "{\"x5t#S256\":1}", REASON_TOKEN_CLAIMS},
        {"cnf by a certificate that nobody showed", "cnf", "{\"x5t#S256\":\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq\"}",
         REASON_TOKEN_BINDING},
        {"cnf by DPoP key", "cnf", "{\"jkt\":\"abc\"}", REASON_TOKEN_BINDING},
        {"cnf with one part unknown", "cnf", "{\"exeat-listener\":\"in\",\"jkt\":\"a\"}", REASON_TOKEN_BINDING},
        {"details of another type", "authorization_details", "[{\"type\":\"payment\",\"x\":1}]", REASON_NONE},
        {"details empty", "authorization_details", "[]", REASON_NONE},
        {"details an object", "authorization_details", "{\"type\":\"http_egress\"}", REASON_TOKEN_CLAIMS},
        {"details null", "authorization_details", "null", REASON_TOKEN_CLAIMS},
        {"details with a member we do not know", "authorization_details",
         "[{\"type\":\"http_egress\",\"datatypes\":[\"x\"]}]", REASON_TOKEN_CLAIMS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *payload = payload_with(rows[i].claim, rows[i].value);
        struct buf token = {0};

        forge_token(&token, HEADER, payload, ec);
        check_row(rows[i].name, buf_slice(&token), rows[i].expected);
        buf_free(&token);
        free(payload);
    }
}

static void payloads_that_say_a_claim_twice_or_are_no_object_are_refused(void **state)
{
    static const char *const payloads[] = {
        "{\"iss\":\"ci\",\"iss\":\"ci\"}",
        "{\"iss\":\"ci\",\"sub\":\"vm1\",\"sub\":\"vm2\",\"aud\":\"gw.example\"}",
        "{\"iss\":\"ci\",\"cnf\":{\"exeat-listener\":\"a\",\"exeat-listener\":\"in\"}}",
        "[]", "null", "\"ci\"", "", "{\"iss\":\"ci\"} ,", "{\"iss\":\"ci\"}\n{}", "\xef\xbb\xbf{\"iss\":\"ci\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        struct buf token = {0};

        forge_token(&token, HEADER, payloads[i], ec);
        check_row(payloads[i], buf_slice(&token), REASON_TOKEN_MALFORMED);
        buf_free(&token);
    }
}

/* The good token's text with a change to it. */
static void only_the_exact_compact_form_is_read(void **state)
{
    char *payload = payload_with(NULL, NULL), *text;
    struct buf good = {0};
    size_t first, second, len;

    (void)state;
    forge_token(&good, HEADER, payload, ec);
    text = buf_take_text(&good);
    len = strlen(text);
    first = (size_t)(strchr(text, '.') - text);
    second = (size_t)(strrchr(text, '.') - text);
    const struct {
        const char *name, *before, *after;
        size_t from, to; /* of the good token */
        enum reason expected;
    } rows[] = {
        {"as issued", "", "", 0, len, REASON_NONE},
        {"empty", "", "", 0, 0, REASON_TOKEN_MALFORMED},
        {"two dots alone", "..", "", 0, 0, REASON_TOKEN_MALFORMED},
        {"blank before", " ", "", 0, len, REASON_TOKEN_MALFORMED},
        {"blank after", "", " ", 0, len, REASON_TOKEN_MALFORMED},
        {"newline after", "", "\n", 0, len, REASON_TOKEN_MALFORMED},
        {"padding of one", "", "=", 0, len, REASON_TOKEN_MALFORMED},
        {"padding of two", "", "==", 0, len, REASON_TOKEN_MALFORMED},
        {"a fourth part", "", ".e30", 0, len, REASON_TOKEN_MALFORMED},
        {"five parts, as JWE", "", ".e30.e30", 0, len, REASON_TOKEN_MALFORMED},
        {"an empty fourth part", "", ".", 0, len, REASON_TOKEN_MALFORMED},
        {"two parts", "", "", 0, second, REASON_TOKEN_MALFORMED},
        {"empty signature", "", "", 0, second + 1, REASON_TOKEN_MALFORMED},
        {"empty header", "", "", first, len, REASON_TOKEN_MALFORMED},
        {"signature one character short", "", "", 0, len - 1, REASON_TOKEN_MALFORMED},
        {"signature one byte short", "", "", 0, len - 2, REASON_TOKEN_SIGNATURE},
        {"signature one byte long", "", "A", 0, len, REASON_TOKEN_SIGNATURE},
        {"standard base64 alphabet", "", "+/", 0, len - 2, REASON_TOKEN_MALFORMED},
        {"JSON serialisation", "{\"payload\":\"", "\"}", 0, len, REASON_TOKEN_MALFORMED},
        {"scheme in front", "Bearer ", "", 0, len, REASON_TOKEN_MALFORMED},
        {"last bits not zero", "", "B", 0, len - 1, REASON_TOKEN_MALFORMED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf token = {0};

        buf_text(&token, rows[i].before);
        buf_append(&token, slice_cut(slice_of(text), rows[i].from, rows[i].to));
        buf_text(&token, rows[i].after);
        check_row(rows[i].name, buf_slice(&token), rows[i].expected);
        buf_free(&token);
    }
    free(text);
    free(payload);
}

static void size_is_capped(void **state)
{
    struct buf text = {0}, token = {0};
    char *payload, *claims;

    (void)state;
    buf_char(&text, '"');
    for (int i = 0; i < 7000; i++)
        buf_char(&text, 'x');
    buf_text(&text, "\"");
    payload = buf_take_text(&text);
    claims = payload_with("colour", payload);
    forge_token(&token, HEADER, claims, ec);
    free(claims);
    assert_true(buf_len(&token) > 8192);
    check_row("over 8192 bytes", buf_slice(&token), REASON_TOKEN_OVERSIZE);
    buf_free(&token);
    payload[5000] = '"';
    payload[5001] = '\0';
    claims = payload_with("colour", payload);
    forge_token(&token, HEADER, claims, ec);
    free(claims);
    check_row("under 8192 bytes", buf_slice(&token), REASON_NONE);
    buf_free(&token);
    free(payload);
}

static void a_jwt_that_is_no_at_jwt_needs_no_client_id(void **state)
{
    static const char payload[] = "{\"iss\":\"hs\",\"sub\":\"vm1\",\"aud\":\"gw.example\",\"jti\":\"j\",\"iat\":999900,"
                                  "\"exp\":1000500}";
    struct buf token = {0};

    (void)state;
    forge_mac_token(&token, "{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"s1\"}", payload, SHARED);
    check_row("type: JWT", buf_slice(&token), REASON_NONE);
    buf_free(&token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_token_proves_all_its_words),
        cmocka_unit_test(headers_are_judged_strictly),
        cmocka_unit_test(claims_are_judged_strictly),
        cmocka_unit_test(payloads_that_say_a_claim_twice_or_are_no_object_are_refused),
        cmocka_unit_test(only_the_exact_compact_form_is_read),
        cmocka_unit_test(size_is_capped),
        cmocka_unit_test(a_jwt_that_is_no_at_jwt_needs_no_client_id),
    };

    return cmocka_run_group_tests_name("token", tests, verifier_set_up, verifier_tear_down);
}
