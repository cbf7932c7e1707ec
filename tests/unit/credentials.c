/* The token inside a credential field, and what looks like a token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "authz/token.h"

static void credentials_are_read_strictly(void **state)
{
    static const struct {
        const char *name, *value, *token; /* token NULL: refused */
    } rows[] = {
        {"Bearer", "Bearer a.b.c", "a.b.c"},
        {"bearer in other case", "bEARER a.b.c", "a.b.c"},
        {"Bearer with more blanks", "Bearer   a.b.c", "a.b.c"},
        {"Basic, user jwt", "Basic and0OmEuYi5j", "a.b.c"},                    /* jwt:a.b.c */
        {"Basic in other case", "BASIC and0OmEuYi5j", "a.b.c"},
        {"Basic, empty user", "Basic OmEuYi5j", "a.b.c"},                      /* :a.b.c */
        {"Basic, the sandbox as user", "Basic dm0xOmEuYi5j", "a.b.c"},         /* vm1:a.b.c */
        {"Basic, split at the first colon", "Basic and0OmE6Yg==", "a:b"},      /* jwt:a:b */
        {"Basic, one padding character", "Basic and0OmEuYmM=", "a.bc"},        /* jwt:a.bc */
        {"nothing", "", NULL},
        {"scheme alone", "Bearer", NULL},
        {"scheme and a blank", "Bearer ", NULL},
        {"token alone", "a.b.c", NULL},
        {"two tokens", "Bearer a.b.c d.e.f", NULL},
        {"two credentials", "Bearer a.b.c, Basic and0OmEuYi5j", NULL},
        {"two credentials without a blank", "Bearer a.b.c,Basic", NULL},
        {"parameters", "Bearer token=\"a.b.c\", x=y", NULL},
        {"blank at the end", "Bearer a.b.c ", NULL},
        {"blank in front", " Bearer a.b.c", NULL},
        {"tab instead of a blank", "Bearer\ta.b.c", NULL},
        {"control character", "Bearer a.b\x01.c", NULL},
        {"byte beyond ASCII", "Bearer a.b\xc3\xa4.c", NULL},
        {"Negotiate", "Negotiate YII=", NULL},
        {"Digest", "Digest username=\"jwt\"", NULL},
        {"scheme with more letters", "Bearers a.b.c", NULL},
        {"Basic without colon", "Basic YS5iLmM=", NULL},                       /* a.b.c */
        {"Basic, empty password", "Basic and0Og==", NULL},                     /* jwt: */
        {"Basic, nothing but a colon", "Basic Og==", NULL},
        {"Basic, missing padding", "Basic and0OmE6Yg", NULL},
        {"Basic, too much padding", "Basic and0OmEuYi5j====", NULL},
        {"Basic, padding in the middle", "Basic and0=OmEuYi5j", NULL},
        {"Basic, last bits not zero", "Basic and0OmE6Yh==", NULL},
        {"Basic, URL alphabet", "Basic and0OmE_Yi5j", NULL},
        {"Basic, not base64 at all", "Basic jwt:a.b.c", NULL},
        {"Basic, newline inside", "Basic anc\nOmEuYi5j", NULL},
        {"Basic, newline in the password", "Basic and0OmEKYg==", NULL},        /* jwt:a\nb */
        {"Basic, NUL in the user", "Basic agB0OmEuYi5j", NULL},                /* j\0t:a.b.c */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf scratch = {0};
        struct slice token = {0};
        struct fault why = {0};
        bool ok = token_from_credentials(slice_of(rows[i].value), &scratch, &token, &why);

        if (ok != (rows[i].token != NULL))
            fail_msg("%s: %s", rows[i].name, ok ? "accepted" : why.text);
        if (ok && !slice_is(token, rows[i].token))
            fail_msg("%s: %.*s", rows[i].name, SLICE_ARG(token));
        if (!ok && why.reason != REASON_TOKEN_MALFORMED)
            fail_msg("%s: %s", rows[i].name, reason_code(why.reason));
        buf_free(&scratch);
    }
}

static void size_is_capped(void **state)
{
    struct buf value = {0}, scratch = {0};
    struct fault why = {0};
    struct slice token;

    (void)state;
    buf_text(&value, "Bearer ");
    while (buf_len(&value) < TOKEN_CREDENTIAL_MAX)
        buf_char(&value, 'a');
    assert_true(token_from_credentials(buf_slice(&value), &scratch, &token, &why));
    buf_char(&value, 'a');
    assert_false(token_from_credentials(buf_slice(&value), &scratch, &token, &why));
    assert_int_equal(why.reason, REASON_TOKEN_OVERSIZE);
    buf_free(&value);
    buf_free(&scratch);
}

static void what_looks_like_a_token(void **state)
{
    static const struct {
        const char *text;
        bool looks;
    } rows[] = {
        {"eyJh.eyJi.c2ln", true}, {"eyJh.x.y", true},     {"eyJh-_.A-_.9-_", true}, {"eyJ.a.b", true},
        {"", false},              {"eyJ", false},         {"eyJh.eyJi", false},     {"eyJh.eyJi.", false},
        {"eyJh..c", false},       {"eyJh.b.c.d", false},  {"eyJh.b.c=", false},     {"eyJh.b.c ", false},
        {"eyKh.b.c", false},      {"Bearer eyJh.b.c", false}, {"eyJh.b+.c", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (token_looks_like(slice_of(rows[i].text)) != rows[i].looks)
            fail_msg("\"%s\"", rows[i].text);
    assert_false(token_looks_like(slice_make("eyJh.b\0.c", 9)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credentials_are_read_strictly),
        cmocka_unit_test(size_is_capped),
        cmocka_unit_test(what_looks_like_a_token),
    };

    return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
