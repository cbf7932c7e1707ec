/* Handoff without processes: where credentials are kept, what can be sent, and what a token endpoint is asked and answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "handoff/sts.h"

static void names_that_may_stand_in_a_files_name(void **state)
{
    static const struct {
        const char *name, *sandbox;
        bool ok;
    } rows[] = {
        {"a plain name", "vm-1.test_x", true},
        {"that of a CI system's job", "gitlab:20:302", true},
        {"a colon in front", ":x", false},
        {"nothing", "", false},
        {"the directory above", "..", false},
        {"a hidden file", ".x", false},
        {"an option of a program", "-x", false},
        {"a slash", "a/b", false},
        {"a blank", "a b", false},
        {"a percent sign", "a%2f", false},
        {"a byte beyond ASCII", "\xc3\xa4", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (source_takes(slice_of(rows[i].sandbox)) != rows[i].ok)
            fail_msg("%s", rows[i].name);
    assert_false(source_takes(slice_make("a\0b", 3)));
}

static void each_sandbox_has_its_own_words(void **state)
{
    struct source s;
    char **words;

    (void)state;
    assert_true(source_parse("exec:/bin/get --for={sandbox} {sandbox}", &s, NULL));
    assert_true(source_is_per_sandbox(&s));
    words = source_words(&s, "vm1");
    assert_string_equal(words[0], "/bin/get");
    assert_string_equal(words[1], "--for=vm1");
    assert_string_equal(words[2], "vm1");
    assert_null(words[3]);
    source_words_free(words);
}

static void what_can_be_sent(void **state)
{
    static const struct {
        const char *name;
        enum handoff_form form;
        const char *secret, *value, *part; /* value NULL: refused */
    } rows[] = {
        {"bearer", FORM_BEARER, "12345678", "Bearer 12345678", "12345678"},
        {"bearer, too short", FORM_BEARER, "1234567", NULL, NULL},
        {"bearer with a blank", FORM_BEARER, "1234 5678", NULL, NULL},
        {"a line more", FORM_BARE, "12345678\r\nX: y", NULL, NULL},
        {"a byte beyond ASCII", FORM_BARE, "12345678\xff", NULL, NULL},
        {"basic", FORM_BASIC, "u:12345678", "Basic dToxMjM0NTY3OA==", "12345678"},
        {"basic, the first colon parts", FORM_BASIC, "u:1234:5678", "Basic dToxMjM0OjU2Nzg=", "1234:5678"},
        {"basic, a short password", FORM_BASIC, "user-name:1234567", NULL, NULL},
        {"basic without a colon", FORM_BASIC, "user-name-12345678", NULL, NULL},
        {"bare with a scheme", FORM_BARE, "token 12345678", "token 12345678", "12345678"},
        {"bare, a blank behind", FORM_BARE, "12345678 ", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct handoff h = {.form = rows[i].form};
        struct slice secret = slice_of(rows[i].secret);
        struct buf value = {0};

        if (handoff_check(&h, secret, NULL) != (rows[i].value != NULL))
            fail_msg("%s", rows[i].name);
        handoff_value(&h, secret, &value);
        if (rows[i].value && (!slice_is(buf_slice(&value), rows[i].value) ||
                              !slice_is(handoff_secret_part(&h, secret), rows[i].part)))
            fail_msg("%s: %.*s", rows[i].name, SLICE_ARG(buf_slice(&value)));
        buf_free(&value);
    }
}

static void a_form_is_escaped(void **state)
{
    struct handoff h = {.client = "a b", .wants_audience = "https://x", .wants_resource = "", .wants_scope = "r:w"};
    struct buf out = {0};

    (void)state;
    sts_form(&h, SLICE("e.y.J"), &out);
    assert_true(slice_search(buf_slice(&out), SLICE("&subject_token=e.y.J&")) > 0);
    assert_true(slice_ends(buf_slice(&out), SLICE("&audience=https%3A%2F%2Fx&scope=r%3Aw&client_id=a%20b")));
    buf_clear(&out);
    sts_authorization(&h, SLICE("s:t"), &out);
    assert_true(slice_is(buf_slice(&out), "Basic YSUyMGI6cyUzQXQ=")); /* a%20b:s%3At, RFC 6749 2.3.1 */
    buf_free(&out);
}

static void answers_of_a_token_endpoint(void **state)
{
    static const struct {
        const char *name;
        int status;
        const char *body, *token; /* token NULL: refused */
        int64_t lives;
    } rows[] = {
        {"a token", 200, "{\"access_token\":\"abc\",\"token_type\":\"Bearer\",\"expires_in\":60}", "abc", 60},
        {"a token without an end", 200, "{\"access_token\":\"abc\",\"token_type\":\"bearer\"}", "abc", 0},
        {"a token that is no OAuth token", 200, "{\"access_token\":\"abc\",\"token_type\":\"N_A\"}", "abc", 0},
        {"years", 200, "{\"access_token\":\"abc\",\"token_type\":\"Bearer\",\"expires_in\":999999999}", "abc", 86400},
        {"a member twice", 200, "{\"access_token\":\"a\",\"access_token\":\"b\",\"token_type\":\"Bearer\"}", NULL, 0},
        {"no JSON", 200, "<html>", NULL, 0},
        {"no object", 200, "[]", NULL, 0},
        {"nothing", 200, "", NULL, 0},
        {"a token that is no text", 200, "{\"access_token\":1,\"token_type\":\"Bearer\"}", NULL, 0},
        {"an empty token", 200, "{\"access_token\":\"\",\"token_type\":\"Bearer\"}", NULL, 0},
        {"no type", 200, "{\"access_token\":\"abc\"}", NULL, 0},
        {"an end that is a text", 200, "{\"access_token\":\"abc\",\"token_type\":\"Bearer\",\"expires_in\":\"60\"}", NULL, 0},
        {"another status", 201, "{\"access_token\":\"abc\",\"token_type\":\"Bearer\"}", NULL, 0},
        {"a refusal", 400, "{\"error\":\"invalid_target\"}", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sts_token t;
        struct fault why = {0};
        bool ok = sts_read(rows[i].status, slice_of(rows[i].body), &t, &why);

        if (ok != (rows[i].token != NULL) || (!ok && why.reason != REASON_EXCHANGE_FAILED))
            fail_msg("%s: %s", rows[i].name, why.text);
        if (ok && (!slice_is(secret_slice(t.token), rows[i].token) || t.lives_s != rows[i].lives))
            fail_msg("%s: another token or end", rows[i].name);
        secret_free(t.token);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_may_stand_in_a_files_name),
        cmocka_unit_test(each_sandbox_has_its_own_words),
        cmocka_unit_test(what_can_be_sent),
        cmocka_unit_test(a_form_is_escaped),
        cmocka_unit_test(answers_of_a_token_endpoint),
    };

    return cmocka_run_group_tests_name("handoff", tests, NULL, NULL);
}
