/*
 * What a token is signed with: libjwt is asked for a second opinion, and its traps are refused.
 */
#include <jwt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/verifier_fixture.h"

#define JWT_HEADER "{\"typ\":\"JWT\",\"alg\":\"ES256\",\"kid\":\"e1\"}"

/* What libjwt says of the signature with this key text. (It refuses every typ but JWT, so no at+jwt here.) */
static bool libjwt_accepts(struct slice token, const char *key, size_t len)
{
    char *text = text_copy(token);
    jwt_t *jwt = NULL;
    bool ok = jwt_decode(&jwt, text, (const unsigned char *)key, (int)len) == 0;

    jwt_free(jwt);
    free(text);
    return ok;
}

static void signatures_of_each_algorithm_and_what_libjwt_says(void **state)
{
    static const char rs[] = "{\"typ\":\"JWT\",\"alg\":\"RS256\",\"kid\":\"r1\"}";
    static const char hs[] = "{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"s1\"}";
    char *payload = payload_with("iss", "\"jw\""), *shared = payload_with("iss", "\"hs\"");
    char *ec_pem = forge_pem(ec), *rsa_pem = forge_pem(rsa);
    struct buf tokens[6] = {{0}};
    const struct {
        const char *name, *key;
        enum reason expected;
        bool agreed;
    } rows[6] = {
        {"ES256", ec_pem, REASON_NONE, true},
        {"RS256", rsa_pem, REASON_NONE, true},
        {"HS256 of an issuer that lists it", SHARED, REASON_NONE, true},
        {"ES256 by a key of somebody else", ec_pem, REASON_TOKEN_SIGNATURE, false},
        {"HS256 by another shared key", SHARED, REASON_TOKEN_SIGNATURE, false},
        {"an EC signature under an RSA key", rsa_pem, REASON_TOKEN_SIGNATURE, false},
    };

    (void)state;
    forge_token(&tokens[0], JWT_HEADER, payload, ec);
    forge_token(&tokens[1], rs, payload, rsa);
    forge_mac_token(&tokens[2], hs, shared, SHARED);
    forge_token(&tokens[3], JWT_HEADER, payload, ec2);
    forge_mac_token(&tokens[4], hs, shared, "another key of thirty-two bytes!");
    forge_token(&tokens[5], rs, payload, ec);
    for (size_t i = 0; i < 6; i++) {
        check_row(rows[i].name, buf_slice(&tokens[i]), rows[i].expected);
        if (libjwt_accepts(buf_slice(&tokens[i]), rows[i].key, strlen(rows[i].key)) != rows[i].agreed)
            fail_msg("%s: libjwt says otherwise", rows[i].name);
        buf_free(&tokens[i]);
    }
    free(payload);
    free(shared);
    free(ec_pem);
    free(rsa_pem);
}

/* Each of these libjwt 1.10.2 accepts (measured); they are the reason why it does not verify for us. */
static void traps_of_libjwt_are_refused(void **state)
{
    static const char old[] = "{\"iss\":\"jw\",\"sub\":\"vm1\",\"aud\":\"gw.example\",\"client_id\":\"cli\","
                              "\"jti\":\"j\",\"iat\":999900,\"exp\":999950}";
    static const char hs_e1[] = "{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"e1\"}";
    static const char hs_r1[] = "{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"r1\"}";
    static const char none[] = "{\"typ\":\"JWT\",\"alg\":\"none\",\"kid\":\"e1\"}";
    static const char small[] = "{\"typ\":\"JWT\",\"alg\":\"es256\",\"kid\":\"e1\"}";
    static const char crit[] = "{\"typ\":\"JWT\",\"alg\":\"ES256\",\"kid\":\"e1\",\"crit\":[\"x\"]}";
    char *payload = payload_with("iss", "\"jw\"");
    char *twice = payload_with("iss", "\"jw\",\"iss\":\"jw\"");
    char *ec_pem = forge_pem(ec), *rsa_pem = forge_pem(rsa);
    struct buf t[11] = {{0}};
    const struct {
        const char *name, *key;
        enum reason expected;
    } rows[] = {
        {"HS256 by the text of the EC public key", ec_pem, REASON_TOKEN_ALGORITHM},
        {"HS256 by the text of the RSA public key", rsa_pem, REASON_TOKEN_ALGORITHM},
        {"no key: alg none, empty signature", NULL, REASON_TOKEN_MALFORMED},
        {"no key: ES256 with any signature", NULL, REASON_TOKEN_SIGNATURE},
        {"expired", ec_pem, REASON_TOKEN_EXPIRED},
        {"alg in lower case", ec_pem, REASON_TOKEN_ALGORITHM},
        {"unknown crit", ec_pem, REASON_TOKEN_MALFORMED},
        {"a claim twice", ec_pem, REASON_TOKEN_MALFORMED},
        {"padding at the end", ec_pem, REASON_TOKEN_MALFORMED},
        {"newline at the end", ec_pem, REASON_TOKEN_MALFORMED},
        {"blank at the end", ec_pem, REASON_TOKEN_MALFORMED},
    };

    (void)state;
    forge_mac_token(&t[0], hs_e1, payload, ec_pem);
    forge_mac_token(&t[1], hs_r1, payload, rsa_pem);
    forge_token(&t[2], none, payload, NULL);
    forge_token(&t[3], JWT_HEADER, payload, ec2);
    forge_token(&t[4], JWT_HEADER, old, ec);
    forge_token(&t[5], small, payload, ec);
    forge_token(&t[6], crit, payload, ec);
    forge_token(&t[7], JWT_HEADER, twice, ec);
    for (int i = 8; i < 11; i++)
        forge_token(&t[i], JWT_HEADER, payload, ec);
    buf_text(&t[8], "==");
    buf_text(&t[9], "\n");
    buf_text(&t[10], " ");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!libjwt_accepts(buf_slice(&t[i]), rows[i].key, rows[i].key ? strlen(rows[i].key) : 0))
            print_message("libjwt here refuses this one too: %s\n", rows[i].name);
        check_row(rows[i].name, buf_slice(&t[i]), rows[i].expected);
        buf_free(&t[i]);
    }
    free(payload);
    free(twice);
    free(ec_pem);
    free(rsa_pem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signatures_of_each_algorithm_and_what_libjwt_says),
        cmocka_unit_test(traps_of_libjwt_are_refused),
    };

    return cmocka_run_group_tests_name("libjwt", tests, verifier_set_up, verifier_tear_down);
}
