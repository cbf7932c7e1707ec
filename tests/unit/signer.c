/* The local issuer's private side: files, form of the token, signature. */
#include <fcntl.h>
#include <jansson.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "authz/signer.h"
#include "base/file.h"
#include "base/text.h"

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/exeat-signer-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    static const char *const names[] = {"ci.key", "ci.jwks", "other.key", "other.jwks"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = file_join(directory, names[i]);

        unlink(path);
        free(path);
    }
    return rmdir(directory);
}

static struct signer *make(const char *name)
{
    struct fault why = {0};
    struct buf path = {0};
    struct signer *s;
    char *text;

    assert_true(signer_create(directory, name, &why));
    buf_printf(&path, "%s/%s.key", directory, name);
    text = buf_take_text(&path);
    s = signer_load(text, &why);
    assert_non_null(s);
    free(text);
    return s;
}

static json_t *decode(struct slice part)
{
    struct buf bytes = {0};
    json_t *object;

    assert_true(text_unbase64url(part, &bytes));
    object = json_loadb(buf_slice(&bytes).ptr, buf_len(&bytes), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    buf_free(&bytes);
    return object;
}

static void text_is(json_t *object, const char *name, const char *value)
{
    assert_string_equal(json_string_value(json_object_get(object, name)), value);
}

static void files_have_the_right_modes_and_are_not_replaced(void **state)
{
    struct fault why = {0};
    struct signer *s = make("ci");
    char *key = file_join(directory, "ci.key"), *jwks = file_join(directory, "ci.jwks");
    struct stat st;

    (void)state;
    assert_int_equal(stat(key, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(jwks, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_false(signer_create(directory, "ci", &why));
    assert_int_equal(why.kind, FAULT_REFUSED);
    signer_free(s);
    free(key);
    free(jwks);
}

static void the_jwks_holds_one_public_key_under_its_thumbprint(void **state)
{
    struct signer *s = make("ci");
    char *path = file_join(directory, "ci.jwks");
    json_t *set = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    json_t *jwk = json_array_get(json_object_get(set, "keys"), 0);

    (void)state;
    assert_int_equal(json_array_size(json_object_get(set, "keys")), 1);
    text_is(jwk, "kty", "EC");
    text_is(jwk, "crv", "P-256");
    text_is(jwk, "alg", "ES256");
    text_is(jwk, "use", "sig");
    text_is(jwk, "kid", signer_kid(s));
    assert_int_equal(strlen(signer_kid(s)), 43);
    assert_null(json_object_get(jwk, "d"));
    json_decref(set);
    free(path);
    signer_free(s);
}

static void keys_that_others_can_read_or_of_another_kind_are_refused(void **state)
{
    char *path = file_join(directory, "ci.key");
    struct fault why = {0};
    EVP_PKEY *key;
    FILE *file;

    (void)state;
    signer_free(make("ci"));
    assert_int_equal(chmod(path, 0640), 0);
    assert_null(signer_load(path, &why));
    assert_int_equal(why.kind, FAULT_PERMISSION);

    assert_true(file_replace(path, 0600, SLICE("no PEM"), &why));
    assert_null(signer_load(path, &why));
    assert_int_equal(why.kind, FAULT_SYNTAX);

    key = EVP_EC_gen("P-384");
    file = fopen(path, "w");
    assert_true(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
    fclose(file);
    EVP_PKEY_free(key);
    assert_null(signer_load(path, &why));
    assert_non_null(strstr(why.text, "P-256"));
    assert_null(signer_load("/nonexistent/ci.key", &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    free(path);
}

static struct signer_claims everything(void)
{
    return (struct signer_claims){
        .issuer = "ci", .sandbox = "vm \"1\"", .audience = "gw.example", .client_id = "cli", .jti = "j1",
        .scope = "npm:read git:read", .listener = "vm1", .issued_s = 1000, .expires_s = 1900, .not_before_s = 1001,
        .details = "[ {\"type\": \"http_egress\", \"locations\": [\"npm.example\"]} ]",
    };
}

static void a_token_says_what_it_was_asked_to(void **state)
{
    struct signer *s = make("ci");
    struct signer_claims c = everything();
    struct fault why = {0};
    struct buf token = {0};
    struct slice rest, part;
    json_t *header, *claims;

    (void)state;
    assert_true(signer_issue(s, &c, &token, &why));
    rest = buf_slice(&token);
    assert_true(slice_next(&rest, '.', &part));
    header = decode(part);
    assert_true(slice_next(&rest, '.', &part));
    claims = decode(part);
    assert_int_equal(rest.len, 86);
    text_is(header, "typ", "at+jwt");
    text_is(header, "alg", "ES256");
    text_is(header, "kid", signer_kid(s));
    assert_int_equal(json_object_size(header), 3);
    text_is(claims, "iss", "ci");
    text_is(claims, "sub", "vm \"1\"");
    text_is(claims, "aud", "gw.example");
    text_is(claims, "client_id", "cli");
    text_is(claims, "jti", "j1");
    text_is(claims, "scope", "npm:read git:read");
    text_is(json_object_get(claims, "cnf"), "exeat-listener", "vm1");
    assert_int_equal(json_integer_value(json_object_get(claims, "iat")), 1000);
    assert_int_equal(json_integer_value(json_object_get(claims, "exp")), 1900);
    assert_int_equal(json_integer_value(json_object_get(claims, "nbf")), 1001);
    assert_int_equal(json_array_size(json_object_get(claims, "authorization_details")), 1);
    json_decref(header);
    json_decref(claims);
    buf_free(&token);
    signer_free(s);
}

static void each_token_has_its_own_jti(void **state)
{
    struct signer *s = make("ci");
    struct signer_claims c = {.issuer = "ci", .sandbox = "vm1", .audience = "gw", .client_id = "cli",
                              .issued_s = 1000, .expires_s = 1900};
    struct fault why = {0};
    char *first = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct buf token = {0};
        struct slice rest, part;
        json_t *claims;
        const char *jti;

        assert_true(signer_issue(s, &c, &token, &why));
        rest = buf_slice(&token);
        slice_next(&rest, '.', &part);
        slice_next(&rest, '.', &part);
        claims = decode(part);
        jti = json_string_value(json_object_get(claims, "jti"));
        assert_int_equal(strlen(jti), 36);
        assert_null(json_object_get(claims, "scope"));
        assert_null(json_object_get(claims, "nbf"));
        assert_null(json_object_get(claims, "cnf"));
        if (first)
            assert_string_not_equal(jti, first);
        free(first);
        first = text_copy(slice_of(jti));
        json_decref(claims);
        buf_free(&token);
    }
    free(first);
    signer_free(s);
}

static void what_cannot_be_issued_leaves_nothing_behind(void **state)
{
    struct signer *s = make("ci");
    struct signer_claims c = everything();
    struct fault why = {0};
    struct buf token = {0};

    (void)state;
    c.sandbox = NULL;
    assert_false(signer_issue(s, &c, &token, &why));
    assert_int_equal(why.kind, FAULT_USAGE);
    c = everything();
    c.details = "[{\"type\": \"http_egress\", \"colour\": [\"red\"]}]";
    assert_false(signer_issue(s, &c, &token, &why));
    assert_non_null(strstr(why.text, "colour"));
    assert_int_equal(buf_len(&token), 0);
    buf_free(&token);
    signer_free(s);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(files_have_the_right_modes_and_are_not_replaced),
        ROW(the_jwks_holds_one_public_key_under_its_thumbprint),
        ROW(keys_that_others_can_read_or_of_another_kind_are_refused),
        ROW(a_token_says_what_it_was_asked_to),
        ROW(each_token_has_its_own_jti),
        ROW(what_cannot_be_issued_leaves_nothing_behind),
    };

    return cmocka_run_group_tests_name("signer", tests, NULL, NULL);
}
