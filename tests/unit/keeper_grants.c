/* The keeper's grants: a credential for a leave token that it verifies itself. */
#include "tests/unit/keeper_fixture.h"

struct shown {
    const char *audience, *scope, *jti;
    int64_t issued, expires; /* from now */
    const char *listener, *certificate; /* that it is bound to */
};

#define CERTIFICATE "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq"
#define OTHER "qponmlkjihgfedcbazyxwvutsrqponmlkjihgfedcba"

/* A leave token (give). */
static char *token_of(struct bench *b, const struct shown *t)
{
    int64_t now = clock_wall_s();
    struct signer_claims claims = {.issuer = "https://ci", .sandbox = strcmp(t->jti, "held") == 0 ? "vm-held" : "vm1", .client_id = "c", .audience = t->audience,
                                   .listener = t->listener, .certificate = t->certificate, .scope = t->scope, .jti = t->jti, .issued_s = now + t->issued, .expires_s = now + t->expires};
    struct buf out = {0};

    assert_true(signer_issue(b->issuer, &claims, &out, NULL));
    return buf_take_text(&out);
}

static void ask_grant_at(struct bench *b, const char *service, const char *token, const char *listener, const char *certificate)
{
    struct buf out = {0};

    b->granted[0] = '\0';
    pack_u32(&out, 4);
    pack_u64(&out, b->context.generation);
    pack_bytes(&out, slice_of(service));
    pack_bytes(&out, slice_of(token));
    pack_bytes(&out, slice_of(listener));
    pack_bytes(&out, slice_of(certificate));
    channel_send(b->worker, MSG_GRANT, buf_slice(&out), -1);
    buf_free(&out);
    turn(b);
}

static void ask_grant(struct bench *b, const char *service, const char *token)
{
    ask_grant_at(b, service, token, "in", "");
}

static const struct {
    const char *name, *service;
    struct shown token;
    const char *answer; /* how it begins, or the reason */
} grants_asked[] = {
    {"a good token", "registry", {"gw.test", "a b", "good", 0, 600, NULL, NULL}, "Bearer eyJ"},
    {"a token that is over", "registry", {"gw.test", "a", "over", -900, -1, NULL, NULL}, "token_expired"},
    {"a token for another gateway", "registry", {"other.test", "a", "else", 0, 600, NULL, NULL}, "token_audience"},
    {"a token without the service's scope", "registry", {"gw.test", "b", "narrow", 0, 600, NULL, NULL}, "scope_missing"},
    {"a token that lives too long", "registry", {"gw.test", "a", "long", 0, 7200, NULL, NULL}, "token_lifetime"},
    {"a token that was revoked", "registry", {"gw.test", "a", "taken-back", 0, 600, NULL, NULL}, "token_revoked"},
    {"a sandbox in quarantine", "registry", {"gw.test", "a", "held", 0, 600, NULL, NULL}, "sandbox_quarantined"},
    {"a token bound to this listener", "registry", {"gw.test", "a", "here", 0, 600, "in", NULL}, "Bearer eyJ"},
    {"a token bound to another listener", "registry", {"gw.test", "a", "there", 0, 600, "vm1", NULL}, "token_binding"},
    {"a token bound to a certificate that nobody showed", "registry", {"gw.test", "a", "cert", 0, 600, NULL, CERTIFICATE}, "token_binding"},
    {"a service that has no credential", "files", {"gw.test", "a", "good", 0, 600, NULL, NULL}, "policy_changed"},
    {"a service that is not there", "nobody", {"gw.test", "a", "good", 0, 600, NULL, NULL}, "policy_changed"},
};

static void grants_by_token(struct bench *b)
{
    assert_true(revocations_add(b->revocations, REVOKE_JTI, SLICE("taken-back"), 0, NULL));
    assert_true(revocations_suspend(b->revocations, REVOKE_QUARANTINE, &(struct suspension){.name = SLICE("vm-held"), .by = SLICE("admin")}, NULL));
    for (size_t i = 0; i < sizeof grants_asked / sizeof *grants_asked; i++) {
        char *token = token_of(b, &grants_asked[i].token);

        buf_clear(&b->records);
        ask_grant(b, grants_asked[i].service, token);
        if (!slice_starts(slice_of(b->granted), slice_of(grants_asked[i].answer)))
            fail_msg("%s: %s", grants_asked[i].name, b->granted);
        if (strcmp(grants_asked[i].answer, "policy_changed") != 0)
            must_record(b, *grants_asked[i].answer == 'B' ? "\"action\":\"allow\"" : "\"action\":\"deny\"");
        free(token);
    }
}

static void grants_nothing_for_what_is_closed(struct bench *b)
{
    const struct suspension shut = {.name = SLICE("registry"), .by = SLICE("admin")};
    char *token = token_of(b, &(struct shown){"gw.test", "a b", "good", 0, 600, NULL, NULL});

    assert_true(revocations_suspend(b->revocations, REVOKE_CLOSE, &shut, NULL));
    ask_grant(b, "registry", token);
    assert_string_equal(b->granted, "service_closed");
    must_record(b, "\"action\":\"deny\"");
    assert_true(revocations_suspend(b->revocations, REVOKE_OPEN, &shut, NULL));
    ask_grant(b, "registry", token);
    assert_true(slice_starts(slice_of(b->granted), SLICE("Bearer ")));
    free(token);
}

static void a_service_closed_by_hand_has_no_grants(void **state)
{
    grant_tests = true;
    assert_int_equal(status_of(state, grants_nothing_for_what_is_closed, ACKNOWLEDGES), 0);
    grant_tests = false;
}

static void grants(void **state)
{
    grant_tests = true;
    assert_int_equal(status_of(state, grants_by_token, ACKNOWLEDGES), 0);
    grant_tests = false;
}

static void grants_by_certificate(struct bench *b)
{
    char *token = token_of(b, &(struct shown){"gw.test", "a", "cert", 0, 600, NULL, CERTIFICATE});
    char *both = token_of(b, &(struct shown){"gw.test", "a", "both", 0, 600, "in", CERTIFICATE});

    ask_grant_at(b, "registry", token, "in", CERTIFICATE);
    assert_true(slice_starts(slice_of(b->granted), SLICE("Bearer ")));
    ask_grant_at(b, "registry", token, "in", OTHER);
    assert_string_equal(b->granted, "token_binding");
    ask_grant_at(b, "registry", both, "in", CERTIFICATE);
    assert_true(slice_starts(slice_of(b->granted), SLICE("Bearer ")));
    ask_grant_at(b, "registry", both, "other", CERTIFICATE);
    assert_string_equal(b->granted, "token_binding");
    ask_grant_at(b, "registry", both, "in", "");
    assert_string_equal(b->granted, "token_binding");
    must_record(b, "\"reason\":\"token_binding\"");
    free(token);
    free(both);
}

static void a_bound_token_is_good_in_its_place_alone(void **state)
{
    grant_tests = true;
    assert_int_equal(status_of(state, grants_by_certificate, ACKNOWLEDGES), 0);
    grant_tests = false;
}

/* No longer than a minute, nor than the token: whatever comes first. */
static void grants_for_a_while(struct bench *b)
{
    char *token = token_of(b, &(struct shown){"gw.test", "a", "long", 0, 600, NULL, NULL});
    char *ends = token_of(b, &(struct shown){"gw.test", "a", "short", 0, 20, NULL, NULL});
    int64_t now;

    ask_grant(b, "registry", token);
    now = clock_wall_s();
    assert_in_range(b->until_s, now + 50, now + 60);
    ask_grant(b, "registry", ends);
    assert_in_range(b->until_s, now + 10, now + 21);
    must_record(b, "\"sandbox\":\"vm1\"");
    must_record(b, "\"kind\":\"assert\"");
    free(token);
    free(ends);
}

static void a_grant_is_short(void **state)
{
    grant_tests = true;
    assert_int_equal(status_of(state, grants_for_a_while, ACKNOWLEDGES), 0);
    grant_tests = false;
}

static void grants_nothing(struct bench *b)
{
    char *token = token_of(b, &(struct shown){"gw.test", "a", "good", 0, 600, NULL, NULL});

    ask_grant(b, "registry", token);
    assert_string_equal(b->granted, b->how == IS_SILENT ? "" : "record_unavailable");
    free(token);
}

static void no_record_no_grant(void **state)
{
    grant_tests = true;
    assert_int_equal(status_of(state, grants_nothing, REFUSES), 0);
    assert_int_equal(status_of(state, grants_nothing, IS_SILENT), 0);
    assert_int_equal(status_of(state, grants_nothing, IS_GONE), 0);
    grant_tests = false;
}

static void changes_a_token(struct bench *b)
{
    char *token = token_of(b, &(struct shown){"gw.test", "a", "good", 0, 600, NULL, NULL});

    token[strlen(token) - 10] = token[strlen(token) - 10] == 'A' ? 'B' : 'A';
    ask_grant(b, "registry", token);
    assert_string_equal(b->granted, "token_signature");
    ask_grant(b, "registry", "");
    assert_string_equal(b->granted, "token_malformed");
    free(token);
}

static void a_changed_token_gets_nothing(void **state)
{
    grant_tests = true;
    assert_int_equal(status_of(state, changes_a_token, ACKNOWLEDGES), 0);
    grant_tests = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(grants),
        ROW(a_service_closed_by_hand_has_no_grants),
        ROW(a_bound_token_is_good_in_its_place_alone),
        ROW(a_grant_is_short),
        ROW(no_record_no_grant),
        ROW(a_changed_token_gets_nothing),
    };

    return cmocka_run_group_tests_name("keeper grants", tests, NULL, NULL);
}
