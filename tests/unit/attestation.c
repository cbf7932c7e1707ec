/* Attestations: which of them open a service, and what is said of those that do not. */
#include "handoff/attestation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/text.h"
#include "tests/unit/scratch.h"

enum { NOW = 1800000000, DAY = 24 * 60 * 60 };

static const char configuration[] = "services:\n"
    "  npm: {hosts: [npm.test], allow: [\"GET /**\"], scope: a}\n"
    "  git: {hosts: [git.test], allow: [\"GET /**\"], scope: a, audit-max-age: 1h}\n"
    "attesters:\n"
    "  ci: {jwks: ci.jwks, services: [npm]}\n";

static const struct conf_section *const sections[] = {&services_section, &attesters_section};
static struct scratch scratch;
static const char *const directory = scratch.path;
static struct conf *conf;
static struct policy *policy;
static struct signer *own, *ci, *stranger;

static struct signer *make_signer(const char *name)
{
    char path[256];
    struct signer *s;

    assert_true(signer_create(directory, name, NULL));
    snprintf(path, sizeof path, "%s/%s.key", directory, name);
    assert_non_null(s = signer_load(path, NULL));
    return s;
}

static int begin(void **state)
{
    struct fault why = {0};

    (void)state;
    scratch_make(&scratch);
    own = make_signer(ATTESTATION_KEY);
    ci = make_signer("ci");
    stranger = make_signer("stranger");
    conf = conf_parse(slice_of(configuration), "proxy.conf", directory, sections, 2, &why);
    if (!conf || !(policy = policy_compile(conf, &why)))
        fail_msg("%s", why.text);
    return 0;
}

static int end(void **state)
{
    char *path;

    (void)state;
    signer_free(own);
    signer_free(ci);
    signer_free(stranger);
    policy_free(policy);
    conf_free(conf);
    path = file_join(directory, ATTESTATION_DIRECTORY);
    rmdir(path);
    free(path);
    scratch_remove(&scratch);
    return 0;
}

static const struct service *service(const char *name)
{
    for (size_t i = 0; i < policy_count(policy); i++)
        if (strcmp(service_name(policy_service(policy, i)), name) == 0)
            return policy_service(policy, i);
    fail();
    return NULL;
}

static struct attestation good(const char *name)
{
    return (struct attestation){.attester = "gw.test", .service = name, .digest = service_digest(service(name)),
                                .at_s = NOW - 60, .is_passing = true};
}

/* What the gateway says of service npm (or git) that has this text in its file. */
static const struct attested *judged(const char *name, struct slice text)
{
    struct bundle *files = bundle_new();
    struct fault why = {0};
    char *state = file_join(directory, ATTESTATION_DIRECTORY), file[64], *path;

    assert_true(file_make_directory(state, 0700, NULL));
    snprintf(file, sizeof file, "%s.jwt", name);
    path = file_join(state, file);
    assert_true(file_replace(path, 0600, text, NULL));
    if (!attestation_add_files(directory, conf, policy, files, &why) || !attestation_use(policy, conf, files, NOW, &why))
        fail_msg("%s", why.text);
    assert_int_equal(unlink(path), 0);
    bundle_free(files);
    free(path);
    free(state);
    return service_attested(service(name));
}

static const struct attested *judged_claims(const struct signer *key, const struct attestation *a, const char *name)
{
    struct buf token = {0};
    const struct attested *out;

    assert_true(attestation_sign(key, a, &token, NULL));
    out = judged(name, buf_slice(&token));
    buf_free(&token);
    return out;
}

static void test_nobody_has_audited_it(void **state)
{
    struct bundle *files = bundle_new();
    struct buf why = {0};

    (void)state;
    assert_true(attestation_add_files(directory, conf, policy, files, NULL));
    assert_true(attestation_use(policy, conf, files, NOW, NULL));
    bundle_free(files);
    assert_false(service_is_open(service("npm"), NOW));
    attested_explain(service_attested(service("npm")), NOW, &why);
    assert_true(slice_is(buf_slice(&why), "nobody has audited it"));
    buf_free(&why);
}

static void test_it_opens_for_its_time(void **state)
{
    struct attestation a = good("npm");
    const struct attested *found = judged_claims(own, &a, "npm");

    (void)state;
    assert_string_equal(found->trouble, "");
    assert_int_equal(found->at_s, NOW - 60);
    assert_true(service_is_open(service("npm"), NOW));
    assert_true(service_is_open(service("npm"), NOW - 60 + 7 * DAY - 1)); /* audit-max-age: 7d */
    assert_false(service_is_open(service("npm"), NOW - 60 + 7 * DAY));
    a = good("git");
    judged_claims(own, &a, "git");
    assert_true(service_is_open(service("git"), NOW - 60 + 3599));
    assert_false(service_is_open(service("git"), NOW - 60 + 3600));
    a.until_s = NOW + 10; /* something accepted ends earlier */
    judged_claims(own, &a, "git");
    assert_true(service_is_open(service("git"), NOW + 9));
    assert_false(service_is_open(service("git"), NOW + 10));
}

static void test_others_may_audit(void **state)
{
    struct attestation a = good("npm");

    (void)state;
    assert_string_equal(judged_claims(ci, &a, "npm")->trouble, "");
    assert_string_equal(judged_claims(stranger, &a, "npm")->trouble, "its attestation is signed by nobody who may speak for it");
    a = good("git"); /* ci may speak for npm alone */
    assert_string_equal(judged_claims(ci, &a, "git")->trouble, "its attestation is signed by nobody who may speak for it");
}

static void test_what_it_says_counts(void **state)
{
    static const char *const failing[] = {"AN-1", "RL-4", "TV-5", "FU-4", "RD-1", "XT-5", NULL};
    static const unsigned char other[SERVICE_DIGEST_SIZE];
    struct attestation a = good("npm");

    (void)state;
    a.is_passing = false;
    a.failing = failing;
    assert_string_equal(judged_claims(own, &a, "npm")->trouble,
                        "it did not pass its audit of 2027-01-15: AN-1, RL-4, TV-5, FU-4 and 2 more");
    assert_false(service_is_open(service("npm"), NOW));
    a = good("npm");
    a.digest = other;
    assert_string_equal(judged_claims(own, &a, "npm")->trouble, "its audit of 2027-01-15 was of another configuration of it");
    a = good("git");
    assert_string_equal(judged_claims(own, &a, "npm")->trouble, "its attestation is of service \"git\"");
    a = good("npm");
    a.at_s = NOW + 61;
    assert_non_null(strstr(judged_claims(own, &a, "npm")->trouble, "from the future"));
    a.at_s = NOW + 59; /* clocks differ a little */
    assert_string_equal(judged_claims(own, &a, "npm")->trouble, "");
}

/* Signed by the gateway's own key: header and claims as they are given. */
static const char *trouble_of(const char *header, const char *claims)
{
    struct buf token = {0};
    const struct attested *found;

    assert_true(signer_sign(own, slice_of(header), slice_of(claims), &token, NULL));
    found = judged("npm", buf_slice(&token));
    buf_free(&token);
    assert_false(service_is_open(service("npm"), NOW));
    return found->trouble;
}

static void test_other_tokens_of_the_same_key_are_none(void **state)
{
    struct buf header = {0}, claims = {0}, digest = {0};

    (void)state;
    text_hex(&digest, slice_make((const char *)service_digest(service("npm")), SERVICE_DIGEST_SIZE));
    buf_printf(&claims, "{\"sub\":\"npm\",\"iat\":%d,\"probes\":\"99\",\"passing\":true,\"config\":\"%.*s\"}", NOW - 1,
               SLICE_ARG(buf_slice(&digest)));
    buf_char(&claims, '\0');
    buf_printf(&header, "{\"typ\":\"exeat-attestation+jwt\",\"alg\":\"ES256\",\"kid\":\"%s\"}", signer_kid(own));
    buf_char(&header, '\0');
    assert_non_null(strstr(trouble_of(buf_slice(&header).ptr, buf_slice(&claims).ptr), "another version of the probes"));
    assert_non_null(strstr(trouble_of(buf_slice(&header).ptr, "{\"sub\":\"npm\",\"sub\":\"npm\"}"), "cannot be read"));
    assert_non_null(strstr(trouble_of(buf_slice(&header).ptr, "[]"), "cannot be read"));
    assert_non_null(strstr(trouble_of("{\"typ\":\"JWT\"}", buf_slice(&claims).ptr), "cannot be read"));
    assert_non_null(strstr(trouble_of("{\"typ\":\"exeat-attestation+jwt\",\"alg\":\"none\",\"kid\":\"x\"}",
                                      buf_slice(&claims).ptr), "signed by nobody"));
    buf_free(&header);
    buf_free(&claims);
    buf_free(&digest);
}

static void test_every_change_is_seen(void **state)
{
    struct attestation a = good("npm");
    struct buf token = {0};
    struct slice text;

    (void)state;
    assert_true(attestation_sign(own, &a, &token, NULL));
    text = buf_slice(&token);
    for (size_t i = 0; i < text.len; i += 7) {
        char *copy = text_copy(text);

        copy[i] = copy[i] == 'A' ? 'B' : 'A';
        judged("npm", slice_of(copy));
        if (service_is_open(service("npm"), NOW))
            fail_msg("character %zu may be changed", i);
        free(copy);
    }
    for (size_t i = 0; i < text.len; i += 5) {
        judged("npm", slice_cut(text, 0, i));
        assert_false(service_is_open(service("npm"), NOW));
    }
    buf_free(&token);
}

static const struct digest_row {
    const char *name, *change;
    bool same;
} digest_rows[] = {
    {"nothing", "", true},
    {"how old an audit may be", "audit-max-age: 1h", true},
    {"a default that is written", "websocket: refuse, inject-plain: refused, observe: false", true},
    {"another rule", "deny: [\"GET /x\"]", false},
    {"another host", "hosts: [npm.test, other.test]", false},
    {"something accepted", "accept: {AN-1: \"known until 2027-12-31\"}", false},
    {"somebody's own credential", "client-credentials: allow", false},
    {"where it hands off to", "hands-off-to: [cdn.test]", false},
    {"the directory of a file", "ca-file: other/dir/../ca.pem", false},
};

static void digest_of(const char *change, unsigned char out[SERVICE_DIGEST_SIZE])
{
    struct buf text = {0};
    struct fault why = {0};
    struct conf *c;
    struct policy *p = NULL;

    buf_printf(&text, "services:\n  npm: {allow: [\"GET /**\"], scope: a%s%s%s}\n",
               strncmp(change, "hosts", 5) == 0 ? "" : ", hosts: [npm.test]", *change ? ", " : "", change);
    c = conf_parse(buf_slice(&text), "t", "/etc", sections, 1, &why);
    if (!c || !(p = policy_compile(c, &why)))
        fail_msg("%s: %s", change, why.text);
    memcpy(out, service_digest(policy_service(p, 0)), SERVICE_DIGEST_SIZE);
    policy_free(p);
    conf_free(c);
    buf_free(&text);
}

static void test_digests(void **state)
{
    unsigned char plain[SERVICE_DIGEST_SIZE], changed[SERVICE_DIGEST_SIZE];

    (void)state;
    digest_of("", plain);
    for (size_t i = 0; i < sizeof digest_rows / sizeof *digest_rows; i++) {
        digest_of(digest_rows[i].change, changed);
        if ((memcmp(plain, changed, sizeof plain) == 0) != digest_rows[i].same)
            fail_msg("%s", digest_rows[i].name);
    }
}

/* What a role is handed has every default in writing, and whole paths: it comes to the same. */
static void test_roles_see_the_same_digest(void **state)
{
    struct buf text = {0};
    struct conf *handed;
    struct policy *p;

    (void)state;
    conf_print(conf, false, &text);
    assert_non_null(handed = conf_parse(buf_slice(&text), "t", "/elsewhere", sections, 2, NULL));
    assert_non_null(p = policy_compile(handed, NULL));
    for (size_t i = 0; i < policy_count(p); i++)
        assert_memory_equal(service_digest(policy_service(p, i)), service_digest(policy_service(policy, i)), SERVICE_DIGEST_SIZE);
    policy_free(p);
    conf_free(handed);
    buf_free(&text);
}

static void test_keys_that_cannot_be_read(void **state)
{
    struct bundle *files = bundle_new();
    struct fault why = {0};

    (void)state;
    bundle_add(files, "attester.ci.jwks", SLICE("{}"));
    assert_false(attestation_use(policy, conf, files, NOW, &why));
    assert_non_null(strstr(why.text, "proxy.conf:5"));
    bundle_free(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_has_audited_it),
        cmocka_unit_test(test_it_opens_for_its_time),
        cmocka_unit_test(test_others_may_audit),
        cmocka_unit_test(test_what_it_says_counts),
        cmocka_unit_test(test_other_tokens_of_the_same_key_are_none),
        cmocka_unit_test(test_every_change_is_seen),
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_roles_see_the_same_digest),
        cmocka_unit_test(test_keys_that_cannot_be_read),
    };

    return cmocka_run_group_tests_name("attestation", tests, begin, end);
}
