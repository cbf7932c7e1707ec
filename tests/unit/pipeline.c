/*
 * Tokens of CI systems: claims as GitLab and GitHub document them, what they are good for by an issuer's map, and how two
 * issuers, two jobs and two keys are kept apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/unit/verifier_fixture.h"

#define GITLAB_URI "https://gitlab.test/oauth/discovery/keys"
#define GITHUB_URI "https://actions.test/.well-known/jwks"
#define PUBLISHED "algorithms: [RS256], types: [JWT], max-lifetime: 1h, leeway: 30s, pin-source: false"
#define ISSUERS \
    "issuers:\n" \
    "  gitlab: { issuer: 'https://gitlab.test', jwks-uri: '" GITLAB_URI "', " PUBLISHED ",\n" \
    "    sandbox: '{project_id}:{job_id}', jwks-max-age: 2h,\n" \
    "    map: { 'project_path:my-group/my-project': npm:read, 'project_path:my-group/my-project & ref_protected:true': git:read } }\n" \
    "  github: { issuer: 'https://actions.test', jwks-uri: '" GITHUB_URI "', " PUBLISHED ",\n" \
    "    map: { 'repository_owner:octo-org & ref:refs/heads/main': [npm:read] } }\n" \
    "  both: { issuer: both, jwks: jw, algorithms: [RS256], types: [at+jwt, JWT], map: { 'sub:vm1': x, 'team:a': 'x y' }, scope-claim: narrows }\n" \
    "  jw: { jwks: jw, algorithms: [RS256], type: JWT }\n"
#define RS "{\"kid\":\"k1\",\"typ\":\"JWT\",\"alg\":\"RS256\"}"

static EVP_PKEY *github;
static struct issuers *all;

static char *set_of(EVP_PKEY *key, const char *kid)
{
    struct buf set = {0};

    buf_text(&set, "{\"keys\":[");
    forge_jwk(&set, key, kid);
    buf_text(&set, "]}");
    return buf_take_text(&set);
}

static void publish(const char *uri, EVP_PKEY *key, const char *kid, int64_t at_s)
{
    char *set = set_of(key, kid);

    assert_true(issuers_set_keys(all, strcmp(uri, GITLAB_URI) == 0 ? SLICE("gitlab") : SLICE("github"), slice_of(uri), slice_of(set), at_s, NULL));
    free(set);
}

static struct issuers *compile(const char *yaml)
{
    static const struct conf_section *const sections[] = {&issuers_section};
    char *set = set_of(rsa, "k1");
    struct bundle *files = bundle_new();
    struct fault why = {0};
    struct issuers *made;
    struct conf *c = conf_parse(slice_of(yaml), "proxy.conf", "/", sections, 1, &why);

    if (!c)
        fail_msg("%s", why.text);
    bundle_add(files, "issuer.jw.jwks", slice_of(set));
    bundle_add(files, "issuer.both.jwks", slice_of(set));
    if (!(made = issuers_compile(c, files, &why)))
        fail_msg("%s", why.text);
    conf_free(c);
    bundle_free(files);
    free(set);
    return made;
}

static int set_up(void **state)
{
    if (verifier_set_up(state))
        return -1;
    github = EVP_RSA_gen(2048);
    all = compile(ISSUERS);
    publish(GITLAB_URI, rsa, "k1", NOW);
    publish(GITHUB_URI, github, "k1", NOW);
    return 0;
}

static int tear_down(void **state)
{
    issuers_free(all);
    EVP_PKEY_free(github);
    return verifier_tear_down(state);
}

/* The payload of a GitLab ID token (docs.gitlab.com, "ID token authentication", token payload). */
static json_t *gitlab_claims(void)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:[{s:s, s:s}], s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
                     "s:i, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:s}",
                     "namespace_id", "72", "namespace_path", "my-group", "project_id", "20", "project_path",
                     "my-group/my-project", "user_id", "1", "user_login", "sample-user", "user_email",
                     "sample-user@example.com", "user_identities", "provider", "github", "extern_uid", "2435223452345",
                     "pipeline_id", "574", "pipeline_source", "push", "job_id", "302", "ref", "feature-branch-1", "ref_type",
                     "branch", "ref_path", "refs/heads/feature-branch-1", "ref_protected", "false", "environment",
                     "test-environment2", "environment_protected", "false", "deployment_tier", "testing", "runner_id", 1,
                     "runner_environment", "self-hosted", "sha", "714a629c0b401fdce83e847fc9589983fc6f46bc", "jti",
                     "235b3a54-b797-45c7-ae9a-f72d7bc6ef5b", "iss", "https://gitlab.test", "iat", NOW - 7, "nbf", NOW - 12,
                     "exp", NOW + 3593, "sub", "project_path:my-group/my-project:ref_type:branch:ref:feature-branch-1", "aud",
                     "gw.example");
}

/* The payload of a GitHub Actions OIDC token (docs.github.com, "OpenID Connect reference"). */
static json_t *github_claims(void)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
                     "s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i}",
                     "jti", "c56e5a1e-2f1c-4b32-9c0e-3a1d1f4a3a55", "sub", "repo:octo-org/octo-repo:ref:refs/heads/main", "aud",
                     "gw.example", "ref", "refs/heads/main", "sha", "c040cae0f0dc81641728557b80f09cfa23b83fe5", "repository",
                     "octo-org/octo-repo", "repository_owner", "octo-org", "actor_id", "12", "repository_visibility", "private",
                     "repository_id", "74", "repository_owner_id", "65", "run_id", "22259804324", "run_number", "10",
                     "run_attempt", "2", "runner_environment", "github-hosted", "actor", "octocat", "workflow", "ci",
                     "head_ref", "", "base_ref", "", "event_name", "push", "ref_protected", "true", "ref_type", "branch",
                     "workflow_ref", "octo-org/octo-repo/.github/workflows/ci.yml@refs/heads/main", "job_workflow_ref",
                     "octo-org/octo-repo/.github/workflows/ci.yml@refs/heads/main", "iss", "https://actions.test", "nbf",
                     NOW - 600, "exp", NOW + 300, "iat", NOW);
}

/* One claim has this value (JSON; NULL: is absent). */
static json_t *but(json_t *claims, const char *name, const char *value)
{
    if (name && value)
        json_object_set_new(claims, name, json_loads(value, JSON_DECODE_ANY, NULL));
    else if (name)
        json_object_del(claims, name);
    return claims;
}

/* Takes claims. */
static struct identity *judge_claims(struct verifier *v, const char *header, json_t *claims, EVP_PKEY *key, int64_t now,
                                     struct fault *why)
{
    struct token_context context = {.listener = "in", .source = "10.0.0.2", .now_s = now};
    char *payload = json_dumps(claims, JSON_COMPACT);
    struct buf token = {0};
    struct identity *i;

    forge_token(&token, header, payload, key);
    i = verifier_check(v, buf_slice(&token), &context, why);
    buf_free(&token);
    free(payload);
    json_decref(claims);
    return i;
}

static struct verifier *verifier_of_all(void)
{
    return verifier_new(all, "gw.example", revocations, 8);
}

static void a_gitlab_token_gets_the_scopes_of_its_project(void **state)
{
    static const struct {
        const char *name, *claim, *value, *scope; /* scope NULL: refused */
        enum reason reason;
    } rows[] = {
        {"as documented", NULL, NULL, "npm:read", REASON_NONE},
        {"from a protected ref", "ref_protected", "\"true\"", "npm:read git:read", REASON_NONE},
        {"protected, as a boolean", "ref_protected", "true", "npm:read git:read", REASON_NONE},
        {"its own scope is not asked for", "scope", "\"admin\"", "npm:read", REASON_NONE},
        {"nor how it is written", "scope", "[\"admin\"]", "npm:read", REASON_NONE},
        {"of another project", "project_path", "\"my-group/other\"", NULL, REASON_TOKEN_UNMAPPED},
        {"of a group below", "project_path", "\"my-group/my-project/x\"", NULL, REASON_TOKEN_UNMAPPED},
        {"of a project that begins so", "project_path", "\"my-group/my-project2\"", NULL, REASON_TOKEN_UNMAPPED},
        {"of no project", "project_path", NULL, NULL, REASON_TOKEN_UNMAPPED},
        {"of a list of projects", "project_path", "[\"my-group/my-project\"]", NULL, REASON_TOKEN_UNMAPPED},
        {"for another service", "aud", "\"https://vault.example.com\"", NULL, REASON_TOKEN_AUDIENCE},
        {"for the instance itself", "aud", "\"https://gitlab.test\"", NULL, REASON_TOKEN_AUDIENCE},
        {"over before it began", "exp", "999965", NULL, REASON_TOKEN_CLAIMS},
        {"of an hour and a second", "exp", "1003594", NULL, REASON_TOKEN_LIFETIME},
        {"without a job", "job_id", NULL, NULL, REASON_TOKEN_CLAIMS},
        {"without jti", "jti", NULL, NULL, REASON_TOKEN_CLAIMS},
        {"without sub", "sub", NULL, NULL, REASON_TOKEN_CLAIMS},
        {"sub beyond ASCII", "sub", "\"project_path:my-group/my-project:ref_type:branch:ref:\xc3\xa4\"", "npm:read", REASON_NONE},
        {"of another issuer", "iss", "\"https://gitlab.com\"", NULL, REASON_TOKEN_ISSUER},
        {"of an issuer with the same kid", "iss", "\"https://actions.test\"", NULL, REASON_TOKEN_SIGNATURE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verifier *v = verifier_of_all();
        struct fault why = {0};
        struct identity *id = judge_claims(v, RS, but(gitlab_claims(), rows[i].claim, rows[i].value), rsa, NOW, &why);

        if (!id != !rows[i].scope || (!id && why.reason != rows[i].reason))
            fail_msg("%s: %s", rows[i].name, id ? "accepted" : why.text);
        if (id && strcmp(identity_scope(id), rows[i].scope) != 0)
            fail_msg("%s: scope %s", rows[i].name, identity_scope(id));
        if (id) {
            assert_string_equal(identity_sandbox(id), "gitlab:20:302");
            assert_true(slice_starts(slice_of(identity_subject(id)), SLICE("project_path:my-group/my-project:")));
        }
        identity_unref(id);
        verifier_free(v);
    }
}

static void a_github_token_gets_the_scopes_of_its_repository(void **state)
{
    static const struct {
        const char *name, *claim, *value, *header;
        enum reason reason;
    } rows[] = {
        {"as documented", NULL, NULL, "{\"typ\":\"JWT\",\"alg\":\"RS256\",\"x5t\":\"ATxVAuAbDF2GMGKmNQ\",\"kid\":\"k1\"}", REASON_NONE},
        {"of another owner", "repository_owner", "\"octo-org2\"", RS, REASON_TOKEN_UNMAPPED},
        {"owner in other case", "repository_owner", "\"Octo-Org\"", RS, REASON_TOKEN_UNMAPPED},
        {"from a pull request", "ref", "\"refs/pull/1/merge\"", RS, REASON_TOKEN_UNMAPPED},
        {"from a tag called so", "ref", "\"refs/tags/main\"", RS, REASON_TOKEN_UNMAPPED},
        {"for the owner, as by default", "aud", "\"https://github.com/octo-org\"", RS, REASON_TOKEN_AUDIENCE},
        {"with a place for keys", NULL, NULL, "{\"typ\":\"JWT\",\"alg\":\"RS256\",\"kid\":\"k1\",\"jku\":\"https://evil.test/\"}",
         REASON_TOKEN_MALFORMED},
        {"with another kid", NULL, NULL, "{\"typ\":\"JWT\",\"alg\":\"RS256\",\"kid\":\"k2\"}", REASON_TOKEN_KEY_UNPUBLISHED},
        {"as an access token", NULL, NULL, "{\"typ\":\"at+jwt\",\"alg\":\"RS256\",\"kid\":\"k1\"}", REASON_TOKEN_TYPE},
        {"without typ", NULL, NULL, "{\"alg\":\"RS256\",\"kid\":\"k1\"}", REASON_TOKEN_TYPE},
        {"with none", NULL, NULL, "{\"typ\":\"JWT\",\"alg\":\"none\",\"kid\":\"k1\"}", REASON_TOKEN_ALGORITHM},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verifier *v = verifier_of_all();
        struct fault why = {0};
        struct identity *id = judge_claims(v, rows[i].header, but(github_claims(), rows[i].claim, rows[i].value), github, NOW, &why);

        if (id ? rows[i].reason : !rows[i].reason || why.reason != rows[i].reason)
            fail_msg("%s: %s", rows[i].name, id ? "accepted" : why.text);
        if (id)
            assert_string_equal(identity_sandbox(id), "github:repo:octo-org/octo-repo:ref:refs/heads/main");
        identity_unref(id);
        verifier_free(v);
    }
}

/* RFC 8725 2.1: the text of the public key as the secret of an HMAC. */
static void a_public_key_is_no_secret(void **state)
{
    char *pem = forge_pem(rsa), *set = set_of(rsa, "k1"), *payload;
    const char *const secrets[] = {pem, set};
    json_t *claims = gitlab_claims();

    (void)state;
    payload = json_dumps(claims, JSON_COMPACT);
    for (size_t i = 0; i < 2; i++) {
        struct token_context context = {.listener = "in", .source = "10.0.0.2", .now_s = NOW};
        struct verifier *v = verifier_of_all();
        struct buf token = {0};
        struct fault why = {0};

        forge_mac_token(&token, "{\"kid\":\"k1\",\"typ\":\"JWT\",\"alg\":\"HS256\"}", payload, secrets[i]);
        assert_null(verifier_check(v, buf_slice(&token), &context, &why));
        assert_int_equal(why.reason, REASON_TOKEN_ALGORITHM);
        verifier_free(v);
        buf_free(&token);
    }
    json_decref(claims);
    free(payload);
    free(pem);
    free(set);
}

static void each_job_is_a_sandbox_of_its_own(void **state)
{
    struct verifier *v = verifier_of_all();
    struct identity *one = judge_claims(v, RS, gitlab_claims(), rsa, NOW, NULL);
    struct identity *other = judge_claims(v, RS, but(gitlab_claims(), "job_id", "\"303\""), rsa, NOW, NULL);

    (void)state;
    assert_string_equal(identity_sandbox(one), "gitlab:20:302");
    assert_string_equal(identity_sandbox(other), "gitlab:20:303");
    assert_string_equal(identity_subject(one), identity_subject(other));
    identity_unref(one);
    identity_unref(other);
    verifier_free(v);
}

/* An issuer whose sub is taken as it is must not name a sandbox of one whose claims are mapped. */
static void no_issuer_names_a_sandbox_of_another(void **state)
{
    static const struct {
        const char *sub;
        bool accepted;
    } rows[] = {
        {"\"vm1\"", true}, {"\"gitlab\"", true}, {"\"gitlab-20:302\"", true},
        {"\"gitlab:20:302\"", false}, {"\"gitlab:\"", false}, {"\"github:x\"", false}, {"\"both:vm1\"", false}, {"\"jw:vm1\"", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verifier *v = verifier_of_all();
        struct fault why = {0};
        json_t *claims = json_pack("{s:s, s:s, s:s, s:i, s:i}", "iss", "jw", "aud", "gw.example", "jti", "j", "iat", NOW, "exp", NOW + 60);
        struct identity *id = judge_claims(v, RS, but(claims, "sub", rows[i].sub), rsa, NOW, &why);

        if (!id != !rows[i].accepted || (!id && why.reason != REASON_TOKEN_CLAIMS))
            fail_msg("%s: %s", rows[i].sub, id ? "accepted" : why.text);
        identity_unref(id);
        verifier_free(v);
    }
}

static void several_types_and_a_scope_that_narrows(void **state)
{
    static const struct {
        const char *name, *typ, *claim, *value, *scope; /* scope NULL: refused */
        enum reason reason;
    } rows[] = {
        {"a JWT", "JWT", NULL, NULL, "x y", REASON_NONE},
        {"an access token needs client_id", "at+jwt", NULL, NULL, NULL, REASON_TOKEN_CLAIMS},
        {"an access token with client_id", "at+jwt", "client_id", "\"c\"", "x y", REASON_NONE},
        {"so does application/at+jwt", "application/at+jwt", NULL, NULL, NULL, REASON_TOKEN_CLAIMS},
        {"another type", "id+jwt", NULL, NULL, NULL, REASON_TOKEN_TYPE},
        {"narrowed", "JWT", "scope", "\"y z\"", "y", REASON_NONE},
        {"narrowed to nothing", "JWT", "scope", "\"z\"", "", REASON_NONE},
        {"a scope out of form", "JWT", "scope", "[\"x\"]", NULL, REASON_TOKEN_CLAIMS},
        {"in one entry", "JWT", "sub", "\"vm2\"", "x y", REASON_NONE},
        {"in the other", "JWT", "team", "\"b\"", "x", REASON_NONE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verifier *v = verifier_of_all();
        struct fault why = {0};
        char header[100];
        json_t *claims = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i}", "iss", "both", "sub", "vm1", "team", "a", "aud", "gw.example",
                                   "jti", "j", "iat", NOW, "exp", NOW + 60);
        struct identity *id;

        snprintf(header, sizeof header, "{\"kid\":\"k1\",\"typ\":\"%s\",\"alg\":\"RS256\"}", rows[i].typ);
        id = judge_claims(v, header, but(claims, rows[i].claim, rows[i].value), rsa, NOW, &why);
        if (!id != !rows[i].scope || (!id && why.reason != rows[i].reason) || (id && strcmp(identity_scope(id), rows[i].scope) != 0))
            fail_msg("%s: %s", rows[i].name, id ? identity_scope(id) : why.text);
        identity_unref(id);
        verifier_free(v);
    }
}

/* What was verified and is remembered is no better than the key it was verified by. */
static void a_key_that_is_gone_takes_its_tokens_along(void **state)
{
    struct verifier *v = verifier_of_all();
    struct identity *id = judge_claims(v, RS, gitlab_claims(), rsa, NOW, NULL);
    struct fault why = {0};

    (void)state;
    assert_non_null(id);
    publish(GITLAB_URI, rsa, "k1", NOW + 10); /* fetched again, the same */
    assert_true(verifier_recheck(v, id, NOW, &why));

    publish(GITLAB_URI, github, "k2", NOW);
    assert_false(verifier_recheck(v, id, NOW, &why));
    assert_int_equal(why.reason, REASON_TOKEN_KEY_UNPUBLISHED);
    assert_null(judge_claims(v, RS, gitlab_claims(), rsa, NOW, &why));
    assert_int_equal(why.reason, REASON_TOKEN_KEY_UNPUBLISHED);

    publish(GITLAB_URI, github, "k1", NOW); /* another key under its kid */
    assert_false(verifier_recheck(v, id, NOW, &why));
    assert_int_equal(why.reason, REASON_TOKEN_KEY_UNPUBLISHED);
    assert_null(judge_claims(v, RS, gitlab_claims(), rsa, NOW, &why));
    assert_int_equal(why.reason, REASON_TOKEN_SIGNATURE);

    publish(GITLAB_URI, rsa, "k1", NOW);
    assert_true(verifier_recheck(v, id, NOW, &why));
    assert_true(verifier_recheck(v, id, NOW + 3622, &why)); /* exp and leeway */
    assert_false(verifier_recheck(v, id, NOW + 3623, &why));
    assert_int_equal(why.reason, REASON_TOKEN_EXPIRED);
    identity_unref(id);
    verifier_free(v);
}

static void keys_that_are_too_old_close_the_issuer(void **state)
{
    struct verifier *v = verifier_of_all();
    struct fault why = {0};
    struct identity *id;

    (void)state;
    publish(GITLAB_URI, rsa, "k1", NOW - 7100);
    assert_non_null(id = judge_claims(v, RS, gitlab_claims(), rsa, NOW, &why));
    assert_true(verifier_recheck(v, id, NOW + 99, &why));
    assert_false(verifier_recheck(v, id, NOW + 100, &why));
    assert_int_equal(why.reason, REASON_ISSUER_UNAVAILABLE);
    for (int i = 0; i < 30; i++) { /* whose keys are not here is no guesser */
        assert_null(judge_claims(v, RS, gitlab_claims(), rsa, NOW + 100, &why));
        assert_int_equal(why.reason, REASON_ISSUER_UNAVAILABLE);
    }
    publish(GITLAB_URI, rsa, "k1", NOW + 100);
    assert_true(verifier_recheck(v, id, NOW + 100, &why));
    publish(GITLAB_URI, rsa, "k1", NOW);
    identity_unref(id);
    verifier_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gitlab_token_gets_the_scopes_of_its_project),
        cmocka_unit_test(a_github_token_gets_the_scopes_of_its_repository),
        cmocka_unit_test(a_public_key_is_no_secret),
        cmocka_unit_test(each_job_is_a_sandbox_of_its_own),
        cmocka_unit_test(no_issuer_names_a_sandbox_of_another),
        cmocka_unit_test(several_types_and_a_scope_that_narrows),
        cmocka_unit_test(a_key_that_is_gone_takes_its_tokens_along),
        cmocka_unit_test(keys_that_are_too_old_close_the_issuer),
    };

    return cmocka_run_group_tests_name("pipeline", tests, set_up, tear_down);
}
