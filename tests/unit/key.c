/* Verification keys: what a JWK must be, and what verifies under it. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "authz/key.h"
#include "tests/unit/forge.h"

#define ES (1u << ALGORITHM_ES256)
#define RS (1u << ALGORITHM_RS256)
#define HS (1u << ALGORITHM_HS256)

/* RFC 7515 appendix A.1.1, A.2.1 and A.3.1; the public members, and a kid. */
#define X "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
#define Y "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
#define N                                                                                                     \
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-" \
    "pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2Cap" \
    "Hg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h" \
    "4FRWyuXpoQ"
#define K "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
#define EC_HEAD "\"kid\":\"a\",\"kty\":\"EC\",\"crv\":\"P-256\""
#define EC_JWK "{" EC_HEAD ",\"x\":\"" X "\",\"y\":\"" Y "\"}"
#define RSA_JWK "{\"kid\":\"a\",\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"" N "\"}"
#define OCT_JWK "{\"kid\":\"a\",\"kty\":\"oct\",\"k\":\"" K "\"}"
#define WITH(jwk_members) "{" EC_HEAD ",\"x\":\"" X "\",\"y\":\"" Y "\"," jwk_members "}"
#define PAYLOAD ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

static struct key *read_jwk(const char *text, unsigned allowed, struct fault *why)
{
    json_t *jwk = json_loads(text, 0, NULL);
    struct key *k;

    assert_non_null(jwk);
    k = key_from_jwk(jwk, allowed, why);
    json_decref(jwk);
    return k;
}

static bool verifies(const struct key *k, const char *input, const char *signature)
{
    struct buf bytes = {0};
    bool ok;

    assert_true(text_unbase64url(slice_of(signature), &bytes));
    ok = key_verify(k, slice_of(input), buf_slice(&bytes));
    buf_free(&bytes);
    return ok;
}

static void rfc_7515_examples_verify_and_altered_ones_do_not(void **state)
{
    static const struct {
        const char *name, *jwk, *input, *signature;
    } rows[] = {
        {"A.1 HS256", OCT_JWK, "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9" PAYLOAD,
         "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
        {"A.2 RS256", RSA_JWK, "eyJhbGciOiJSUzI1NiJ9" PAYLOAD,
         "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU"
         "Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_"
         "dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0"
         "igcN_IoypGlUPQGe77Rw"},
        {"A.3 ES256", EC_JWK, "eyJhbGciOiJFUzI1NiJ9" PAYLOAD,
         "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault why = {0};
        struct key *k = read_jwk(rows[i].jwk, ES | RS | HS, &why);
        struct buf bytes = {0};

        if (!k || !verifies(k, rows[i].input, rows[i].signature))
            fail_msg("%s does not verify", rows[i].name);
        assert_false(verifies(k, "eyJhbGciOiJFUzI1NiJ9.e30", rows[i].signature));
        assert_true(text_unbase64url(slice_of(rows[i].signature), &bytes));
        assert_false(key_verify(k, slice_of(rows[i].input), SLICE("")));
        assert_false(key_verify(k, slice_of(rows[i].input), slice_cut(buf_slice(&bytes), 0, buf_len(&bytes) - 1)));
        bytes.ptr[bytes.start + 3] ^= 1;
        assert_false(key_verify(k, slice_of(rows[i].input), buf_slice(&bytes)));
        buf_free(&bytes);
        key_free(k);
    }
}

static void an_ecdsa_signature_of_zeros_or_in_der_is_refused(void **state)
{
    struct fault why = {0};
    struct key *k = read_jwk(EC_JWK, ES, &why);
    unsigned char zeros[64] = {0};

    (void)state;
    assert_false(key_verify(k, SLICE("x.y"), slice_make(zeros, sizeof zeros)));
    zeros[31] = zeros[63] = 1;
    assert_false(key_verify(k, SLICE("x.y"), slice_make(zeros, sizeof zeros)));
    assert_false(key_verify(k, SLICE("x.y"), SLICE("\x30\x06\x02\x01\x01\x02\x01\x01")));
    key_free(k);
}

static void keys_are_read_or_refused(void **state)
{
    static const struct {
        const char *name, *jwk;
        unsigned allowed;
        const char *says; /* NULL: accepted */
    } rows[] = {
        {"EC key", EC_JWK, ES, NULL},
        {"RSA key", RSA_JWK, RS, NULL},
        {"shared key", OCT_JWK, HS, NULL},
        {"alg of its type", WITH("\"alg\":\"ES256\""), ES, NULL},
        {"use sig", WITH("\"use\":\"sig\""), ES, NULL},
        {"key_ops verify", WITH("\"key_ops\":[\"verify\"]"), ES, NULL},
        {"members nobody asked for", WITH("\"x5t\":\"abc\",\"ext\":true"), ES, NULL},
        {"no kid", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X "\",\"y\":\"" Y "\"}", ES, "kid"},
        {"empty kid", "{\"kid\":\"\",\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X "\",\"y\":\"" Y "\"}", ES, "kid"},
        {"no kty", "{\"kid\":\"a\"}", ES, "kty"},
        {"not an object", "[]", ES, "not an object"},
        {"unknown kty", "{\"kid\":\"a\",\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" X "\"}", ES, "not known"},
        {"private EC key", WITH("\"d\":\"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI\""), ES, "private"},
        {"private RSA primes", "{\"kid\":\"a\",\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"" N "\",\"p\":\"AQ\"}", RS,
         "private"},
        {"k in an EC key", WITH("\"k\":\"AQ\""), ES, "private"},
        {"use enc", WITH("\"use\":\"enc\""), ES, "use"},
        {"use no text", WITH("\"use\":1"), ES, "use"},
        {"key_ops without verify", WITH("\"key_ops\":[\"sign\"]"), ES, "key_ops"},
        {"key_ops no list", WITH("\"key_ops\":\"verify\""), ES, "key_ops"},
        {"alg of another type", WITH("\"alg\":\"RS256\""), ES | RS, "serves ES256"},
        {"alg in lower case", WITH("\"alg\":\"es256\""), ES, "serves ES256"},
        {"alg none", WITH("\"alg\":\"none\""), ES, "serves ES256"},
        {"algorithm not allowed", EC_JWK, RS, "do not list"},
        {"shared key where public keys are expected", OCT_JWK, ES | RS, "do not list"},
        {"another curve", "{\"kid\":\"a\",\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"" X "\",\"y\":\"" Y "\"}", ES,
         "P-256"},
        {"no curve", "{\"kid\":\"a\",\"kty\":\"EC\",\"x\":\"" X "\",\"y\":\"" Y "\"}", ES, "P-256"},
        {"no y", "{" EC_HEAD ",\"x\":\"" X "\"}", ES, "\"y\""},
        {"short x", "{" EC_HEAD ",\"x\":\"AQAB\",\"y\":\"" Y "\"}", ES, "32 bytes"},
        {"padded x", "{" EC_HEAD ",\"x\":\"" X "=\",\"y\":\"" Y "\"}", ES, "base64url"},
        {"a point not on the curve", "{" EC_HEAD ",\"x\":\"" X "\",\"y\":\"" X "\"}", ES, "not a point"},
        {"RSA of 1024 bits",
         "{\"kid\":\"a\",\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHm"
         "fHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf"
         "63kpaSHSXndS5z5rexMdbBYUsLA9e\"}",
         RS, "bits"},
        {"RSA with an even exponent", "{\"kid\":\"a\",\"kty\":\"RSA\",\"e\":\"Ag\",\"n\":\"" N "\"}", RS, "not a sound"},
        {"RSA without e", "{\"kid\":\"a\",\"kty\":\"RSA\",\"n\":\"" N "\"}", RS, "\"e\""},
        {"shared key of 31 bytes",
         "{\"kid\":\"a\",\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg\"}", HS, "31 bytes"},
        {"empty shared key", "{\"kid\":\"a\",\"kty\":\"oct\",\"k\":\"\"}", HS, "\"k\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault why = {0};
        struct key *k = read_jwk(rows[i].jwk, rows[i].allowed, &why);

        if (rows[i].says ? k || !strstr(why.text, rows[i].says) : !k || strcmp(key_id(k), "a") != 0)
            fail_msg("%s: %s", rows[i].name, k ? "accepted" : why.text);
        key_free(k);
    }
}

static void the_mark_differs_when_the_key_does(void **state)
{
    struct fault why = {0};
    struct key *a = read_jwk(EC_JWK, ES, &why), *same = read_jwk(WITH("\"use\":\"sig\""), ES, &why);
    EVP_PKEY *other = EVP_EC_gen("P-256");
    struct buf text = {0};
    struct key *b;
    char *jwk;

    (void)state;
    forge_jwk(&text, other, "a");
    jwk = buf_take_text(&text);
    b = read_jwk(jwk, ES, &why);
    assert_non_null(b);
    assert_true(key_mark(a) == key_mark(same));
    assert_true(key_mark(a) != key_mark(b));
    free(jwk);
    EVP_PKEY_free(other);
    key_free(a);
    key_free(same);
    key_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_7515_examples_verify_and_altered_ones_do_not),
        cmocka_unit_test(an_ecdsa_signature_of_zeros_or_in_der_is_refused),
        cmocka_unit_test(keys_are_read_or_refused),
        cmocka_unit_test(the_mark_differs_when_the_key_does),
    };

    return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
