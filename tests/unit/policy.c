/* Services compiled from configuration, and authorize(): each reason, and beside it what is allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/field.h"
#include "authz/policy.h"
#include "base/clock.h"

#define NOW 1700000000

/* The services of shared conformance cases, and what else the rows need. */
static const char main_conf[] =
    "services:\n"
    "  registry:\n"
    "    hosts: [registry.test]\n"
    "    ports: [443]\n"
    "    plain-ports: [80]\n"
    "    allow: [\"GET,HEAD /pkg/**\"]\n"
    "    scope: registry:read\n"
    "    audit: \"waived: a test\"\n"
    "  upload:\n"
    "    hosts: [upload.test]\n"
    "    ports: [443]\n"
    "    plain-ports: [80]\n"
    "    allow: [\"POST,PUT /up/**\", \"GET /up/**\"]\n"
    "    scope: upload:write\n"
    "    audit: \"waived: a test\"\n"
    "  artifacts:\n"
    "    hosts: [artifacts.corp, \"*.artifacts.corp\"]\n"
    "    ports: [443, 8443]\n"
    "    addresses: [\"10.1.2.3:8443\"]\n"
    "    allow-private: true\n"
    "    allow:\n"
    "      - GET /api/{repo}/**\n"
    "      - GET /status?\n"
    "      - GET /find?q=*&kind=file\n"
    "      - DELETE /api/{repo}/tmp/*\n"
    "    deny:\n"
    "      - GET /api/team-a/secret\n"
    "      - GET /api/team-a/**?debug=1\n"
    "    bind: {repo: [team-a, \"@x%2fy\"]}\n"
    "    scope: artifacts:read\n"
    "    client-credentials: strip\n"
    "    target: 100\n"
    "    audit: \"waived: a test\"\n"
    "  exact:\n"
    "    hosts: [own.artifacts.corp]\n"
    "    allow: [\"GET /**\"]\n"
    "    scope: exact:read\n"
    "    client-credentials: allow\n"
    "    audit: \"waived: a test\"\n"
    "  watched:\n"
    "    hosts: [watched.test]\n"
    "    allow: [\"GET /pkg/**\"]\n"
    "    deny: [\"GET /pkg/no\"]\n"
    "    observe: true\n"
    "    scope: watched:read\n"
    "    audit: \"waived: a test\"\n"
    "  closed:\n"
    "    hosts: [closed.test]\n"
    "    allow: [\"GET /**\"]\n"
    "    scope: closed:read\n"
    "  npm:\n"
    "    preset: npm-read\n"
    "    hosts: [npm.example]\n"
    "    scope: npm:read\n"
    "    audit: \"waived: a test\"\n"
    "  pypi:\n"
    "    preset: pypi-read\n"
    "    hosts: [pypi.example]\n"
    "    scope: pypi:read\n"
    "    audit: \"waived: a test\"\n"
    "  git:\n"
    "    preset: git-clone\n"
    "    hosts: [git.example]\n"
    "    scope: git:read\n"
    "    audit: \"waived: a test\"\n";

static const struct conf_section *const sections[] = {&services_section};

/* NULL and why when conf or policy refuse the text. */
static struct policy *compile(const char *text, struct fault *why)
{
    struct conf *c = conf_parse(slice_of(text), "proxy.conf", "/etc/exeat", sections, 1, why);
    struct policy *p = c ? policy_compile(c, why) : NULL;

    conf_free(c);
    return p;
}

static struct policy *compile_main(void)
{
    struct fault why = {0};
    struct policy *p = compile(main_conf, &why);

    if (!p)
        fail_msg("%s", why.text);
    return p;
}

static struct identity *make_identity(const char *scope, const char *details)
{
    struct identity_claims claims = {.sandbox = "s1", .issuer = "https://ci", .issuer_name = "ci", .scope = scope,
                                     .details = details, .issued_s = NOW - 60, .expires_s = NOW + 600};
    struct fault why = {0};
    struct identity *i = identity_make(&claims, &why);

    if (!i)
        fail_msg("%s", why.text);
    return i;
}

#define ALL_SCOPES "registry:read upload:write artifacts:read exact:read watched:read closed:read npm:read pypi:read git:read"

static struct decision decide(const struct policy *p, const struct identity *identity, const char *method,
                              const char *url, const struct head *head, const struct trace *trace)
{
    struct request r = {0};
    struct fault why = {0};
    struct decision d;

    if (!request_from_url(&r, slice_of(method), slice_of(url), &why))
        fail_msg("%s %s: %s", method, url, why.text);
    r.head = head;
    d = authorize(p, identity, &r, NOW, trace);
    request_clear(&r);
    return d;
}

static const struct {
    const char *name, *method, *url;
    enum reason reason;
    const char *rule; /* NULL: "" */
} rows[] = {
    {"a rule allows it", "GET", "https://registry.test/pkg/a", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"the rule's other method", "HEAD", "https://registry.test/pkg/a", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"on the plain port", "GET", "http://registry.test/pkg/a", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"any query", "GET", "https://registry.test/pkg/a?x=1", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"an encoded slash in the rest", "GET", "https://registry.test/pkg/@scope%2Fname", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"the second rule", "GET", "https://upload.test/up/x", REASON_ALLOWED, "GET /up/**"},
    {"outside every rule", "GET", "https://registry.test/private", REASON_PATH_NOT_ALLOWED, NULL},
    {"the root", "GET", "https://registry.test/", REASON_PATH_NOT_ALLOWED, NULL},
    {"two leading slashes", "GET", "https://registry.test//pkg/a", REASON_PATH_NOT_ALLOWED, NULL},
    {"a method no rule has", "POST", "https://registry.test/pkg/a", REASON_METHOD_NOT_ALLOWED, "GET,HEAD /pkg/**"},
    {"a method no rule has, elsewhere", "POST", "https://registry.test/private", REASON_METHOD_NOT_ALLOWED, NULL},
    {"a method in small letters", "get", "https://registry.test/pkg/a", REASON_METHOD_NOT_ALLOWED, "GET,HEAD /pkg/**"},
    {"another rule's method", "DELETE", "https://artifacts.corp/status", REASON_METHOD_NOT_ALLOWED, "GET /status?"},
    {"TRACE", "TRACE", "https://registry.test/pkg/a", REASON_TRACE_REFUSED, NULL},

    {"another host", "GET", "https://other.test/pkg/a", REASON_HOST_NOT_LISTED, NULL},
    {"a suffix trick", "GET", "https://registry.test.other.test/pkg/a", REASON_HOST_NOT_LISTED, NULL},
    {"a prefix trick", "GET", "https://xregistry.test/pkg/a", REASON_HOST_NOT_LISTED, NULL},
    {"a name below an exact host", "GET", "https://a.registry.test/pkg/a", REASON_HOST_NOT_LISTED, NULL},
    {"an address as a name", "GET", "https://127.0.0.1.nip.test/pkg/a", REASON_HOST_NOT_LISTED, NULL},
    {"another port", "GET", "https://registry.test:8443/pkg/a", REASON_HOST_NOT_LISTED, NULL},
    {"plain HTTP to a TLS port", "GET", "http://registry.test:443/pkg/a", REASON_SCHEME_NOT_ALLOWED, NULL},
    {"TLS to a plain port", "GET", "https://registry.test:80/pkg/a", REASON_SCHEME_NOT_ALLOWED, NULL},
    {"below a suffix", "GET", "https://a.b.artifacts.corp/status", REASON_ALLOWED, "GET /status?"},
    {"below a suffix, a long label", "GET",
     "https://aaaaaaaaaabbbbbbbbbbccccccccccddddddddddx.artifacts.corp/status", REASON_HOST_NOT_LISTED, NULL},
    {"below a suffix, a label of 40", "GET",
     "https://aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd.artifacts.corp/status", REASON_ALLOWED, "GET /status?"},
    {"exact beats suffix", "GET", "https://own.artifacts.corp/status", REASON_ALLOWED, "GET /**"},
    {"exact beats suffix on its own ports alone", "GET", "https://own.artifacts.corp:8443/status", REASON_ALLOWED,
     "GET /status?"},
    {"a service without an attestation", "GET", "https://closed.test/", REASON_SERVICE_CLOSED, NULL},

    {"a bound segment", "GET", "https://artifacts.corp/api/team-a/x", REASON_ALLOWED, "GET /api/{repo}/**"},
    {"a bound segment with an encoded slash", "GET", "https://artifacts.corp/api/@x%2Fy/x", REASON_ALLOWED,
     "GET /api/{repo}/**"},
    {"a segment that is not bound", "GET", "https://artifacts.corp/api/team-b/x", REASON_BIND_NOT_ALLOWED,
     "GET /api/{repo}/**"},
    {"another case", "GET", "https://artifacts.corp/api/Team-A/x", REASON_BIND_NOT_ALLOWED, "GET /api/{repo}/**"},
    {"a bound segment and more", "GET", "https://artifacts.corp/api/team-ab/x", REASON_BIND_NOT_ALLOWED,
     "GET /api/{repo}/**"},
    {"the query of the rule", "GET", "https://artifacts.corp/find?kind=file&q=x", REASON_ALLOWED,
     "GET /find?q=*&kind=file"},
    {"another query", "GET", "https://artifacts.corp/find?kind=dir&q=x", REASON_QUERY_NOT_ALLOWED,
     "GET /find?q=*&kind=file"},
    {"one name more", "GET", "https://artifacts.corp/find?kind=file&q=x&z", REASON_QUERY_NOT_ALLOWED,
     "GET /find?q=*&kind=file"},
    {"a query where none may be", "GET", "https://artifacts.corp/status?x", REASON_QUERY_NOT_ALLOWED, "GET /status?"},
    {"deny wins", "GET", "https://artifacts.corp/api/team-a/secret", REASON_DENIED_BY_RULE, "GET /api/team-a/secret"},
    {"deny wins with an encoded slash", "GET", "https://artifacts.corp/api/team-a%2Fsecret", REASON_DENIED_BY_RULE,
     "GET /api/team-a/secret"},
    {"deny wins with an empty segment", "GET", "https://artifacts.corp/api/team-a//secret", REASON_DENIED_BY_RULE,
     "GET /api/team-a/secret"},
    {"deny wins with a parameter", "GET", "https://artifacts.corp/api/team-a/secret;x", REASON_DENIED_BY_RULE,
     "GET /api/team-a/secret"},
    {"deny wins with a trailing slash", "GET", "https://artifacts.corp/api/team-a/secret/", REASON_DENIED_BY_RULE,
     "GET /api/team-a/secret"},
    {"deny is of its method", "DELETE", "https://artifacts.corp/api/team-a/tmp/secret", REASON_ALLOWED,
     "DELETE /api/{repo}/tmp/*"},
    {"beside what is denied", "GET", "https://artifacts.corp/api/team-a/secrets", REASON_ALLOWED, "GET /api/{repo}/**"},
    {"a denied query among others", "GET", "https://artifacts.corp/api/team-a/x?y=2&debug=1", REASON_DENIED_BY_RULE,
     "GET /api/team-a/**?debug=1"},
    {"a denied name with another value", "GET", "https://artifacts.corp/api/team-a/x?debug=0", REASON_ALLOWED,
     "GET /api/{repo}/**"},
    {"observed: no rule for the path", "GET", "https://watched.test/other", REASON_ALLOWED, NULL},
    {"observed: no rule for the method", "POST", "https://watched.test/pkg/a", REASON_ALLOWED, NULL},
    {"observed: a rule there is", "GET", "https://watched.test/pkg/a", REASON_ALLOWED, "GET /pkg/**"},
    {"observed: deny is not relaxed", "GET", "https://watched.test/pkg/no", REASON_DENIED_BY_RULE, "GET /pkg/no"},
    {"observed: TRACE is not relaxed", "TRACE", "https://watched.test/pkg/a", REASON_TRACE_REFUSED, NULL},
    {"observed: ports are not relaxed", "GET", "https://watched.test:8443/", REASON_HOST_NOT_LISTED, NULL},

    {"CONNECT to a listed host", "CONNECT", "registry.test:443", REASON_ALLOWED, NULL},
    {"CONNECT to its plain port", "CONNECT", "registry.test:80", REASON_ALLOWED, NULL},
    {"CONNECT to another host", "CONNECT", "other.test:443", REASON_HOST_NOT_LISTED, NULL},
    {"CONNECT to another port", "CONNECT", "registry.test:22", REASON_HOST_NOT_LISTED, NULL},
    {"CONNECT to a closed service", "CONNECT", "closed.test:443", REASON_SERVICE_CLOSED, NULL},

    {"npm: metadata", "GET", "https://npm.example/left-pad", REASON_ALLOWED, "GET,HEAD /*?"},
    {"npm: metadata of a scope", "GET", "https://npm.example/@scope%2fname", REASON_ALLOWED, "GET,HEAD /*?"},
    {"npm: a tarball", "GET", "https://npm.example/left-pad/-/left-pad-1.3.0.tgz", REASON_ALLOWED, "GET,HEAD /*/*/*?"},
    {"npm: a tarball of a scope", "GET", "https://npm.example/@scope/name/-/name-1.0.0.tgz", REASON_ALLOWED,
     "GET,HEAD /*/*/-/*?"},
    {"npm: a query", "GET", "https://npm.example/left-pad?write=true", REASON_QUERY_NOT_ALLOWED, "GET,HEAD /*?"},
    {"npm: search", "GET", "https://npm.example/-/v1/search", REASON_DENIED_BY_RULE, "GET,HEAD /-/**"},
    {"npm: search, spelt with an encoded slash", "GET", "https://npm.example/-%2Fv1/search", REASON_DENIED_BY_RULE,
     "GET,HEAD /-/**"},
    {"npm: who am I", "GET", "https://npm.example/-/whoami", REASON_DENIED_BY_RULE, "GET,HEAD /-/**"},
    {"npm: publish", "PUT", "https://npm.example/left-pad", REASON_METHOD_NOT_ALLOWED, "GET,HEAD /*?"},
    {"npm: audit", "POST", "https://npm.example/-/npm/v1/security/advisories/bulk", REASON_METHOD_NOT_ALLOWED, NULL},
    {"pypi: the index", "GET", "https://pypi.example/simple/left-pad/", REASON_ALLOWED, "GET,HEAD /simple/*/?"},
    {"pypi: a file", "GET", "https://pypi.example/packages/ab/cd/left_pad-1.0-py3-none-any.whl", REASON_ALLOWED,
     "GET,HEAD /packages/**?"},
    {"pypi: upload", "POST", "https://pypi.example/legacy/", REASON_METHOD_NOT_ALLOWED, NULL},
    {"git: the refs", "GET", "https://git.example/team/demo.git/info/refs?service=git-upload-pack", REASON_ALLOWED,
     "GET /*/*/info/refs?service=git-upload-pack"},
    {"git: the pack", "POST", "https://git.example/team/demo.git/git-upload-pack", REASON_ALLOWED,
     "POST /*/*/git-upload-pack?"},
    {"git: the refs for a push", "GET", "https://git.example/team/demo.git/info/refs?service=git-receive-pack",
     REASON_QUERY_NOT_ALLOWED, "GET /*/*/info/refs?service=git-upload-pack"},
    {"git: a push", "POST", "https://git.example/team/demo.git/git-receive-pack", REASON_PATH_NOT_ALLOWED, NULL},
};

static void every_request_has_one_reason(void **state)
{
    struct policy *p = compile_main();
    struct identity *identity = make_identity(ALL_SCOPES, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct decision d = decide(p, identity, rows[i].method, rows[i].url, NULL, NULL);

        if (d.reason != rows[i].reason || d.allowed != (d.reason == REASON_ALLOWED))
            fail_msg("%s: %s (%s)", rows[i].name, reason_code(d.reason), d.detail);
        if (strcmp(d.rule, rows[i].rule ? rows[i].rule : "") != 0)
            fail_msg("%s: rule \"%s\"", rows[i].name, d.rule);
        if (d.allowed != (d.detail[0] == '\0'))
            fail_msg("%s: detail \"%s\"", rows[i].name, d.detail);
        if (d.observed != (strncmp(rows[i].name, "observed: no rule", 17) == 0))
            fail_msg("%s: observed", rows[i].name);
    }
    identity_unref(identity);
    policy_free(p);
}

static void a_target_has_a_limit(void **state)
{
    struct policy *p = compile_main();
    struct identity *identity = make_identity(ALL_SCOPES, NULL);
    char url[200] = "https://artifacts.corp/api/team-a/";

    (void)state;
    memset(url + strlen(url), 'x', 100 - strlen("/api/team-a/"));
    assert_true(decide(p, identity, "GET", url, NULL, NULL).allowed);
    strncat(url, "x", 2);
    assert_int_equal(decide(p, identity, "GET", url, NULL, NULL).reason, REASON_TARGET_TOO_LONG);
    identity_unref(identity);
    policy_free(p);
}

static void without_a_token_nothing_is_told(void **state)
{
    static const char *const urls[] = {"https://registry.test/pkg/a", "https://other.test/", "https://closed.test/",
                                       "https://registry.test:8443/"};
    struct policy *p = compile_main();

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct decision d = decide(p, NULL, "GET", urls[i], NULL, NULL);

        assert_int_equal(d.reason, REASON_TOKEN_MISSING);
        assert_null(d.service);
        assert_string_equal(d.detail, "there is no leave token");
        assert_int_equal(decide(p, NULL, "TRACE", urls[i], NULL, NULL).reason, REASON_TOKEN_MISSING);
    }
    assert_int_equal(decide(p, NULL, "CONNECT", "other.test:443", NULL, NULL).reason, REASON_TOKEN_MISSING);
    policy_free(p);
}

static void a_token_that_no_leeway_saves_is_refused(void **state)
{
    struct identity_claims claims = {.sandbox = "s1", .scope = "registry:read", .expires_s = NOW - 300};
    struct policy *p = compile_main();
    struct identity *late = identity_make(&claims, NULL);

    (void)state;
    assert_true(decide(p, late, "GET", "https://registry.test/pkg/a", NULL, NULL).allowed);
    identity_unref(late);
    claims.expires_s--;
    late = identity_make(&claims, NULL);
    assert_int_equal(decide(p, late, "GET", "https://registry.test/pkg/a", NULL, NULL).reason, REASON_TOKEN_EXPIRED);
    identity_unref(late);
    policy_free(p);
}

static const struct {
    const char *name, *scope, *method, *url;
    enum reason reason;
} scopes[] = {
    {"its scope alone", "registry:read", "GET", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"its scope among others", "a registry:read b", "CONNECT", "registry.test:443", REASON_ALLOWED},
    {"another scope", "upload:write", "GET", "https://registry.test/pkg/a", REASON_SCOPE_MISSING},
    {"no scope", "", "GET", "https://registry.test/pkg/a", REASON_SCOPE_MISSING},
    {"a longer scope", "registry:reader", "GET", "https://registry.test/pkg/a", REASON_SCOPE_MISSING},
    {"another scope in a CONNECT", "upload:write", "CONNECT", "registry.test:443", REASON_SCOPE_MISSING},
    {"observe does not relax scopes", "registry:read", "GET", "https://watched.test/", REASON_SCOPE_MISSING},
};

static void a_service_wants_its_scope(void **state)
{
    struct policy *p = compile_main();

    (void)state;
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
        struct identity *identity = make_identity(scopes[i].scope, NULL);
        struct decision d = decide(p, identity, scopes[i].method, scopes[i].url, NULL, NULL);

        if (d.reason != scopes[i].reason)
            fail_msg("%s: %s (%s)", scopes[i].name, reason_code(d.reason), d.detail);
        identity_unref(identity);
    }
    policy_free(p);
}

#define ENTRY(members) "[{\"type\":\"http_egress\"," members "}]"

static const struct {
    const char *name, *details, *method, *url;
    enum reason reason;
} details[] = {
    {"no entry for us", "[{\"type\":\"other\"}]", "GET", "https://registry.test/pkg/a", REASON_DETAILS_NOT_ALLOWED},
    {"an entry of nothing else", "[{\"type\":\"http_egress\"}]", "GET", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"its host", ENTRY("\"locations\":[\"registry.test\"]"), "GET", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"another host", ENTRY("\"locations\":[\"other.test\"]"), "GET", "https://registry.test/pkg/a",
     REASON_DETAILS_NOT_ALLOWED},
    {"another host does not widen", ENTRY("\"locations\":[\"other.test\"]"), "GET", "https://other.test/",
     REASON_HOST_NOT_LISTED},
    {"a suffix", ENTRY("\"locations\":[\"*.artifacts.corp\"]"), "GET", "https://a.artifacts.corp/status",
     REASON_ALLOWED},
    {"a suffix is not itself", ENTRY("\"locations\":[\"*.artifacts.corp\"]"), "GET", "https://artifacts.corp/status",
     REASON_DETAILS_NOT_ALLOWED},
    {"a scheme", ENTRY("\"locations\":[\"https://registry.test\"]"), "GET", "https://registry.test/pkg/a",
     REASON_ALLOWED},
    {"the other scheme", ENTRY("\"locations\":[\"https://registry.test\"]"), "GET", "http://registry.test/pkg/a",
     REASON_DETAILS_NOT_ALLOWED},
    {"a scheme means its port", ENTRY("\"locations\":[\"https://artifacts.corp\"]"), "GET",
     "https://artifacts.corp:8443/status", REASON_DETAILS_NOT_ALLOWED},
    {"a port", ENTRY("\"locations\":[\"artifacts.corp:8443\"]"), "GET", "https://artifacts.corp:8443/status",
     REASON_ALLOWED},
    {"another port", ENTRY("\"locations\":[\"artifacts.corp:8443\"]"), "GET", "https://artifacts.corp/status",
     REASON_DETAILS_NOT_ALLOWED},
    {"its method", ENTRY("\"actions\":[\"HEAD\",\"GET\"]"), "GET", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"another method", ENTRY("\"actions\":[\"HEAD\"]"), "GET", "https://registry.test/pkg/a",
     REASON_DETAILS_NOT_ALLOWED},
    {"a method does not widen", ENTRY("\"actions\":[\"POST\"]"), "POST", "https://registry.test/pkg/a",
     REASON_METHOD_NOT_ALLOWED},
    {"its path", ENTRY("\"paths\":[\"/x\",\"/pkg/*\"]"), "GET", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"its path, spelt with an escape", ENTRY("\"paths\":[\"/%70kg/*\"]"), "GET", "https://registry.test/pkg/a",
     REASON_ALLOWED},
    {"another path", ENTRY("\"paths\":[\"/pkg/*\"]"), "GET", "https://registry.test/pkg/a/b",
     REASON_DETAILS_NOT_ALLOWED},
    {"each entry by itself", "[{\"type\":\"http_egress\",\"actions\":[\"HEAD\"]},{\"type\":\"http_egress\","
     "\"paths\":[\"/x\"]}]", "GET", "https://registry.test/pkg/a", REASON_DETAILS_NOT_ALLOWED},
    {"the second entry", "[{\"type\":\"http_egress\",\"actions\":[\"HEAD\"]},{\"type\":\"http_egress\","
     "\"paths\":[\"/pkg/a\"]}]", "GET", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"observe does not relax them", ENTRY("\"paths\":[\"/x\"]"), "GET", "https://watched.test/other",
     REASON_DETAILS_NOT_ALLOWED},
    {"a CONNECT does not ask them", ENTRY("\"paths\":[\"/x\"]"), "CONNECT", "registry.test:443", REASON_ALLOWED},
};

static void a_token_narrows_and_never_widens(void **state)
{
    struct policy *p = compile_main();

    (void)state;
    for (size_t i = 0; i < sizeof details / sizeof *details; i++) {
        struct identity *identity = make_identity(ALL_SCOPES, details[i].details);
        struct decision d = decide(p, identity, details[i].method, details[i].url, NULL, NULL);

        if (d.reason != details[i].reason)
            fail_msg("%s: %s (%s)", details[i].name, reason_code(d.reason), d.detail);
        identity_unref(identity);
    }
    policy_free(p);
}

static void a_path_of_a_token_is_a_pattern_without_captures(void **state)
{
    static const char *const refused[] = {ENTRY("\"paths\":[\"/{x}\"]"), ENTRY("\"paths\":[\"/a/../b\"]"),
                                          ENTRY("\"paths\":[\"/**/x\"]"), ENTRY("\"paths\":[\"/a*\"]")};
    struct fault why = {0};

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct identity_claims claims = {.sandbox = "s1", .details = refused[i]};

        assert_null(identity_make(&claims, &why));
        assert_int_equal(why.reason, REASON_TOKEN_CLAIMS);
    }
}

static const struct {
    const char *name, *field, *url;
    enum reason reason;
} credentials[] = {
    {"no credential", "Accept", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"Authorization", "Authorization", "https://registry.test/pkg/a", REASON_CREDENTIAL_FOREIGN},
    {"in small letters", "authorization", "https://registry.test/pkg/a", REASON_CREDENTIAL_FOREIGN},
    {"Cookie", "Cookie", "https://registry.test/pkg/a", REASON_CREDENTIAL_FOREIGN},
    {"X-Api-Key", "X-API-Key", "https://registry.test/pkg/a", REASON_CREDENTIAL_FOREIGN},
    {"X-Api-Key with underscores", "X_Api_Key", "https://registry.test/pkg/a", REASON_CREDENTIAL_FOREIGN},
    {"Private-Token", "PRIVATE-TOKEN", "https://registry.test/pkg/a", REASON_CREDENTIAL_FOREIGN},
    {"a one-time password of npm", "npm-otp", "https://registry.test/pkg/a", REASON_CREDENTIAL_FOREIGN},
    {"the proxy's own is not foreign", "Proxy-Authorization", "https://registry.test/pkg/a", REASON_ALLOWED},
    {"a preset refuses too", "Authorization", "https://npm.example/left-pad", REASON_CREDENTIAL_FOREIGN},
    {"observe does not relax it", "Authorization", "https://watched.test/other", REASON_CREDENTIAL_FOREIGN},
    {"strip", "Authorization", "https://artifacts.corp/status", REASON_ALLOWED},
    {"allow", "Authorization", "https://own.artifacts.corp/", REASON_ALLOWED},
    {"the path comes before", "Authorization", "https://registry.test/private", REASON_PATH_NOT_ALLOWED},
};

static void a_foreign_credential_is_refused(void **state)
{
    struct policy *p = compile_main();
    struct identity *identity = make_identity(ALL_SCOPES, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof credentials / sizeof *credentials; i++) {
        struct field fields[] = {{SLICE("Host"), SLICE("h")}, {slice_of(credentials[i].field), SLICE("secret")}};
        struct head head = {.fields = fields, .n_fields = 2};
        struct decision d = decide(p, identity, "GET", credentials[i].url, &head, NULL);

        if (d.reason != credentials[i].reason)
            fail_msg("%s: %s (%s)", credentials[i].name, reason_code(d.reason), d.detail);
        if (strstr(d.detail, "secret"))
            fail_msg("%s: the detail tells the value", credentials[i].name);
    }
    identity_unref(identity);
    policy_free(p);
}

static const struct {
    const char *name, *service, *field;
    bool forwarded;
} forwards[] = {
    {"an ordinary field", "registry", "X-Anything", true},
    {"Range", "registry", "Range", true},
    {"Host", "npm", "Host", true},
    {"Content-Length", "npm", "content-length", true},
    {"a credential, refused", "registry", "Authorization", false},
    {"a credential, stripped", "artifacts", "Authorization", false},
    {"a credential, allowed", "exact", "Authorization", true},
    {"the proxy's credential, whatever is allowed", "exact", "Proxy-Authorization", false},
    {"Exeat-Token, whatever is allowed", "exact", "Exeat-Token", false},
    {"Connection", "registry", "Connection", false},
    {"Upgrade", "registry", "Upgrade", false},
    {"HTTP2-Settings", "registry", "HTTP2-Settings", false},
    {"X-Forwarded-For", "registry", "X-Forwarded-For", false},
    {"X-Forwarded-Prefix", "registry", "x-forwarded-prefix", false},
    {"X_Forwarded_For", "registry", "X_Forwarded_For", false},
    {"X-Real-IP", "registry", "X-Real-IP", false},
    {"True-Client-IP", "registry", "True-Client-IP", false},
    {"Forwarded", "registry", "Forwarded", false},
    {"X-HTTP-Method-Override", "registry", "X-HTTP-Method-Override", false},
    {"X-HTTP-Method", "registry", "X-HTTP-Method", false},
    {"X-Original-URL", "registry", "X-Original-URL", false},
    {"Remote-User", "registry", "Remote-User", false},
    {"a preset's field", "npm", "if-none-match", true},
    {"not a preset's field", "npm", "npm-session", false},
    {"git's own field", "git", "Git-Protocol", true},
    {"git's body is typed", "git", "Content-Type", true},
    {"git's field is not npm's", "npm", "Git-Protocol", false},
};

static const struct service *find_service(const struct policy *p, const char *name)
{
    for (size_t i = 0; i < policy_count(p); i++)
        if (strcmp(service_name(policy_service(p, i)), name) == 0)
            return policy_service(p, i);
    fail_msg("no service %s", name);
    return NULL;
}

static void fields_are_forwarded_by_list(void **state)
{
    struct policy *p = compile_main();

    (void)state;
    for (size_t i = 0; i < sizeof forwards / sizeof *forwards; i++)
        if (service_forwards_field(find_service(p, forwards[i].service), slice_of(forwards[i].field)) !=
            forwards[i].forwarded)
            fail_msg("%s", forwards[i].name);
    policy_free(p);
}

static void written_fields_stand_for_the_presets(void **state)
{
    struct policy *p = compile("services:\n  a:\n    preset: npm-read\n    hosts: [a.test]\n    scope: a\n"
                               "    forward-fields: [X-One, Accept, X-Forwarded-For]\n", NULL);
    const struct service *s = policy_service(p, 0);

    (void)state;
    assert_true(service_forwards_field(s, SLICE("x-one")));
    assert_true(service_forwards_field(s, SLICE("X-Forwarded-For")));
    assert_false(service_forwards_field(s, SLICE("User-Agent")));
    assert_false(service_forwards_field(s, SLICE("Cookie")));
    policy_free(p);
}

/* A service a with what it needs, and the lines of a row. */
#define A "services:\n  a:\n    hosts: [a.test]\n    scope: a:read\n"
#define RULE "    allow: [\"GET /**\"]\n"
#define B "  b:\n    scope: b:read\n" RULE

static const struct {
    const char *name, *text;
    const char *wrong; /* part of the message; NULL: accepted */
} configurations[] = {
    {"the least", A RULE, NULL},
    {"no hosts", "services:\n  a:\n    scope: a\n" RULE, "hosts"},
    {"an empty list of hosts", "services:\n  a:\n    hosts: []\n    scope: a\n" RULE, "at least one host"},
    {"no scope", "services:\n  a:\n    hosts: [a.test]\n" RULE, "scope"},
    {"two scopes", "services:\n  a:\n    hosts: [a.test]\n    scope: \"a b\"\n" RULE, "proxy.conf:4:12"},
    {"an empty scope", "services:\n  a:\n    hosts: [a.test]\n    scope: \"\"\n" RULE, "expected a scope"},
    {"no rules", A, "allow"},
    {"no rules, and observe", A "    observe: true\n", NULL},
    {"no rules, and a preset", A "    preset: npm-read\n", NULL},
    {"an unknown preset", A "    preset: npm\n", "preset"},
    {"an unknown key", A RULE "    inject: x\n", "inject"},

    {"a host in capitals", "services:\n  a:\n    hosts: [A.Test]\n    scope: a\n" RULE, NULL},
    {"an address for a host", "services:\n  a:\n    hosts: [10.0.0.1]\n    scope: a\n" RULE, "proxy.conf:3:13"},
    {"a URL for a host", "services:\n  a:\n    hosts: [\"https://a.test\"]\n    scope: a\n" RULE, "proxy.conf:3"},
    {"an underscore", "services:\n  a:\n    hosts: [a_b.test]\n    scope: a\n" RULE, "proxy.conf:3"},
    {"a host twice", "services:\n  a:\n    hosts: [a.test, A.test.]\n    scope: a\n" RULE, "listed twice"},
    {"a suffix", "services:\n  a:\n    hosts: [\"*.a.test\"]\n    scope: a\n" RULE, NULL},
    {"a suffix of one label", "services:\n  a:\n    hosts: [\"*.test\"]\n    scope: a\n" RULE, "at least two labels"},
    {"everything", "services:\n  a:\n    hosts: [\"*\"]\n    scope: a\n" RULE, "expected a name or *.suffix"},
    {"an asterisk inside", "services:\n  a:\n    hosts: [\"a.*.test\"]\n    scope: a\n" RULE, "*.suffix"},
    {"an asterisk beside text", "services:\n  a:\n    hosts: [\"a*.test\"]\n    scope: a\n" RULE, "*.suffix"},

    {"ports", A RULE "    ports: [443, 8443]\n    plain-ports: [80]\n", NULL},
    {"port 0", A RULE "    ports: [0]\n", "proxy.conf:6"},
    {"port 65536", A RULE "    ports: [65536]\n", "1 to 65535"},
    {"a port by name", A RULE "    ports: [https]\n", "1 to 65535"},
    {"a port twice", A RULE "    ports: [443, 443]\n", "listed twice"},
    {"a port for both", A RULE "    ports: [80]\n    plain-ports: [80]\n", "TLS port too"},
    {"no ports at all", A RULE "    ports: []\n", "at least one port"},

    {"a public address", A RULE "    addresses: [\"8.8.8.8:443\"]\n", NULL},
    {"loopback by address", A RULE "    addresses: [\"127.0.0.1:8443\"]\n", NULL},
    {"IPv6 by address", A RULE "    addresses: [\"[::1]:8443\"]\n", NULL},
    {"a private address", A RULE "    addresses: [\"10.0.0.1:443\"]\n", "allow-private"},
    {"a private address that is fine", A RULE "    addresses: [\"10.0.0.1:443\"]\n    allow-private: true\n", NULL},
    {"metadata by address", A RULE "    addresses: [\"169.254.169.254:80\"]\n    allow-private: true\n", "never"},
    {"multicast by address", A RULE "    addresses: [\"224.0.0.1:80\"]\n", "never"},
    {"an address without a port", A RULE "    addresses: [10.0.0.1]\n", "IP:PORT"},
    {"an address with port 0", A RULE "    addresses: [\"8.8.8.8:0\"]\n", "IP:PORT"},
    {"a name for an address", A RULE "    addresses: [\"a.test:443\"]\n", "IP:PORT"},

    {"a rule without a method", A "    allow: [/pkg]\n", "proxy.conf:5:13"},
    {"a rule without a path", A "    allow: [GET]\n", "expected a rule"},
    {"a rule with a URL", A "    allow: [\"GET https://a.test/\"]\n", "starts with /"},
    {"a method in small letters", A "    allow: [\"get /x\"]\n", "capital"},
    {"an asterisk for a method", A "    allow: [\"* /x\"]\n", "capital"},
    {"an empty method", A "    allow: [\"GET, /x\"]\n", "expected a rule"},
    {"a method twice", A "    allow: [\"GET,GET /x\"]\n", "twice"},
    {"CONNECT in a rule", A "    allow: [\"CONNECT /x\"]\n", "CONNECT"},
    {"TRACE in a rule", A "    allow: [\"GET,TRACE /x\"]\n", "TRACE"},
    {"a method of our own", A "    allow: [\"PROPFIND /x\"]\n", NULL},
    {"a bad pattern in the second rule", A "    allow: [\"GET /x\", \"GET /**/x\"]\n", "proxy.conf:5:23"},
    {"a dot segment in a rule", A "    allow: [\"GET /a/../b\"]\n", "dot segment"},
    {"a bad deny rule", A RULE "    deny: [\"GET x\"]\n", "proxy.conf:6"},
    {"a capture in a deny rule", A RULE "    deny: [\"GET /{x}\"]\n", NULL},
    {"a capture without bind", A "    allow: [\"GET /{x}\"]\n", "no values"},
    {"a capture with bind", A "    allow: [\"GET /{x}\"]\n    bind: {x: [a, b]}\n", NULL},
    {"a bind that no rule captures", A RULE "    bind: {x: [a]}\n", "no allow rule captures {x}"},
    {"a bind of two segments", A "    allow: [\"GET /{x}\"]\n    bind: {x: [a/b]}\n", "one segment"},
    {"a bind of a dot segment", A "    allow: [\"GET /{x}\"]\n    bind: {x: [..]}\n", "one segment"},
    {"a bind of nothing", A "    allow: [\"GET /{x}\"]\n    bind: {x: [\"\"]}\n", "one segment"},

    {"waived", A RULE "    audit: \"waived: ticket 123\"\n", NULL},
    {"waived without a reason", A RULE "    audit: \"waived: \"\n", "waived: REASON"},
    {"waived without a colon", A RULE "    audit: waived\n", "waived: REASON"},
    {"a field", A RULE "    forward-fields: [X-One]\n", NULL},
    {"a field that is no name", A RULE "    forward-fields: [\"X One\"]\n", "not a field name"},
    {"a hop-by-hop field", A RULE "    forward-fields: [Proxy-Authorization]\n", "never forwarded"},
    {"a credential", A RULE "    forward-fields: [Cookie]\n", "client-credentials"},
    {"a credential that is allowed", A RULE "    forward-fields: [Cookie]\n    client-credentials: allow\n", NULL},
    {"another word for credentials", A RULE "    client-credentials: keep\n", "client-credentials"},

    {"two services", A RULE B "    hosts: [b.test]\n", NULL},
    {"the same host, other ports", A RULE B "    hosts: [a.test]\n    ports: [8443]\n", NULL},
    {"the same host and port", A RULE B "    hosts: [a.test]\n", "service a lists a.test port 443 too"},
    {"the same host, TLS here and plain there", A RULE B "    hosts: [a.test]\n    plain-ports: [443]\n", "too"},
    {"a suffix above an exact host", A RULE B "    hosts: [\"*.x.test\", \"*.a.test\"]\n", NULL},
    {"a suffix above a suffix of another service",
     "services:\n  a:\n    hosts: [\"*.b.c.test\"]\n    scope: a\n" RULE B "    hosts: [\"*.c.test\"]\n",
     "a suffix above"},
    {"the same, the other way round",
     "services:\n  a:\n    hosts: [\"*.c.test\"]\n    scope: a\n" RULE B "    hosts: [\"*.b.c.test\"]\n",
     "a suffix above"},
    {"the same, on other ports",
     "services:\n  a:\n    hosts: [\"*.c.test\"]\n    scope: a\n" RULE B "    hosts: [\"*.b.c.test\"]\n    ports: [8443]\n",
     NULL},
    {"a suffix above a suffix of the same service",
     "services:\n  a:\n    hosts: [\"*.c.test\", \"*.b.c.test\"]\n    scope: a\n" RULE, NULL},
};

static void configurations_are_judged_with_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configurations / sizeof *configurations; i++) {
        struct fault why = {0};
        struct policy *p = compile(configurations[i].text, &why);

        if ((p != NULL) != (configurations[i].wrong == NULL))
            fail_msg("%s: %s", configurations[i].name, p ? "accepted" : why.text);
        if (!p && (why.kind != FAULT_SYNTAX && why.kind != FAULT_MISSING))
            fail_msg("%s: kind %d", configurations[i].name, why.kind);
        if (!p && (!strstr(why.text, configurations[i].wrong) || strncmp(why.text, "proxy.conf:", 11) != 0))
            fail_msg("%s: %s", configurations[i].name, why.text);
        policy_free(p);
    }
}

static const struct {
    const char *name, *text;
    uint64_t body, target;
} limits[] = {
    {"rules that only read", A RULE, 0, 0},
    {"rules that only read, HEAD too", A "    allow: [\"GET,HEAD /x\"]\n", 0, 0},
    {"one rule that writes", A "    allow: [\"GET /x\", \"POST /y\"]\n", 1 << 20, 0},
    {"deny rules do not count", A RULE "    deny: [\"POST /x\"]\n", 0, 0},
    {"observe alone", A "    observe: true\n", 1 << 20, 0},
    {"written", A RULE "    body: 64k\n    target: 1k\n", 65536, 1024},
    {"a preset that reads", A "    preset: pypi-read\n", 0, 2048},
    {"a preset with a body", A "    preset: git-clone\n", 1 << 20, 2048},
    {"a preset, written", A "    preset: git-clone\n    body: 2m\n    target: 4k\n", 2 << 20, 4096},
    {"a preset with rules of one's own", A "    preset: npm-read\n    allow: [\"POST /x\"]\n", 0, 2048},
};

static void limits_follow_from_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct fault why = {0};
        struct policy *p = compile(limits[i].text, &why);

        if (!p)
            fail_msg("%s: %s", limits[i].name, why.text);
        if (service_body_limit(policy_service(p, 0)) != limits[i].body ||
            service_target_limit(policy_service(p, 0)) != limits[i].target)
            fail_msg("%s", limits[i].name);
        policy_free(p);
    }
}

static void rules_of_ones_own_stand_for_the_presets_and_deny_is_added(void **state)
{
    struct policy *p = compile("services:\n  a:\n    preset: npm-read\n    hosts: [a.test]\n    scope: a\n"
                               "    allow: [\"GET /repo/**\", \"GET /-/**\"]\n    deny: [\"GET /repo/no\"]\n"
                               "    audit: \"waived: a test\"\n", NULL);
    struct identity *i = make_identity("a", NULL);

    (void)state;
    assert_true(decide(p, i, "GET", "https://a.test/repo/x/y/z?q", NULL, NULL).allowed);
    assert_int_equal(decide(p, i, "GET", "https://a.test/left-pad", NULL, NULL).reason, REASON_PATH_NOT_ALLOWED);
    assert_int_equal(decide(p, i, "GET", "https://a.test/repo/no", NULL, NULL).reason, REASON_DENIED_BY_RULE);
    assert_int_equal(decide(p, i, "GET", "https://a.test/-/whoami", NULL, NULL).reason, REASON_DENIED_BY_RULE);
    identity_unref(i);
    policy_free(p);
}

static void a_service_answers_what_its_configuration_says(void **state)
{
    struct policy *p = compile_main();
    const struct service *s = policy_find(p, "artifacts.corp", 8443);
    const char *const *hosts;
    size_t n;

    (void)state;
    assert_string_equal(service_name(s), "artifacts");
    assert_int_equal(service_index(s), 2);
    assert_ptr_equal(policy_service(p, 2), s);
    assert_true(service_is_tls_port(s, 8443));
    assert_false(service_is_plain_port(s, 8443));
    assert_int_equal(service_host_count(s), 2);
    assert_string_equal(service_host(s, 1), "*.artifacts.corp");
    assert_int_equal(service_address_count(s), 1);
    assert_string_equal(service_address(s, 0), "10.1.2.3:8443");
    assert_true(service_allows_private(s));
    assert_null(service_ca_file(s));
    assert_string_equal(service_scope(s), "artifacts:read");
    assert_true(service_strips_credentials(s));
    assert_false(service_allows_unscannable(s));
    assert_false(service_observes(s));
    assert_true(service_is_waived(s));
    assert_string_equal(service_audit(s), "waived: a test");
    assert_false(service_is_waived(policy_find(p, "closed.test", 443)));
    assert_true(service_is_plain_port(policy_find(p, "registry.test", 80), 80));
    assert_true(service_observes(policy_find(p, "watched.test", 443)));
    assert_null(policy_find(p, "artifacts.corp", 80));
    assert_null(policy_find(p, "other.test", 443));
    hosts = policy_hosts(p, &n);
    assert_int_equal(n, 10);
    assert_string_equal(hosts[0], "*.artifacts.corp");
    for (size_t i = 1; i < n; i++)
        assert_true(strcmp(hosts[i - 1], hosts[i]) < 0);
    policy_set_generation(p, 7);
    assert_int_equal(policy_generation(p), 7);
    policy_free(p);
}

static void a_connect_says_what_is_inside(void **state)
{
    struct policy *p = compile_main();
    struct identity *i = make_identity(ALL_SCOPES, NULL);

    (void)state;
    assert_int_equal(decide(p, i, "CONNECT", "registry.test:443", NULL, NULL).scheme, SCHEME_HTTPS);
    assert_int_equal(decide(p, i, "CONNECT", "registry.test:80", NULL, NULL).scheme, SCHEME_HTTP);
    identity_unref(i);
    policy_free(p);
}

static void another_port_is_named_with_those_that_are_listed(void **state)
{
    struct policy *p = compile_main();
    struct identity *i = make_identity(ALL_SCOPES, NULL);

    (void)state;
    assert_string_equal(decide(p, i, "CONNECT", "registry.test:8080", NULL, NULL).detail,
                        "port 8080 of registry.test is not listed (443, 80)");
    assert_string_equal(decide(p, i, "CONNECT", "other.test:8080", NULL, NULL).detail, "no service lists other.test");
    identity_unref(i);
    policy_free(p);
}

struct steps {
    char names[512];
    size_t n_failed;
};

static void on_step(void *arg, const char *name, bool ok, const char *detail)
{
    struct steps *s = arg;

    assert_true(s->n_failed == 0);
    assert_true(detail[0] != '\0');
    strncat(s->names, name, sizeof s->names - strlen(s->names) - 1);
    strncat(s->names, ok ? "; " : "!", sizeof s->names - strlen(s->names) - 1);
    s->n_failed += !ok;
}

static const struct {
    const char *name, *method, *url, *steps;
} traces[] = {
    {"an allowed request takes every step", "GET", "https://registry.test/pkg/a",
     "token; destination; service open; method; scope; port; target length; deny rules; allow rules; bind; "
     "authorization details; client credentials; "},
    {"a refusal is the last step", "GET", "https://registry.test/x",
     "token; destination; service open; method; scope; port; target length; deny rules; allow rules!"},
    {"bind is a step", "GET", "https://artifacts.corp/api/x/y",
     "token; destination; service open; method; scope; port; target length; deny rules; allow rules; bind!"},
    {"a CONNECT takes few", "CONNECT", "registry.test:443", "token; destination; service open; scope; "},
};

static void each_step_is_told(void **state)
{
    struct policy *p = compile_main();
    struct identity *i = make_identity(ALL_SCOPES, NULL);

    (void)state;
    for (size_t k = 0; k < sizeof traces / sizeof *traces; k++) {
        struct steps told = {0};
        struct trace trace = {on_step, &told};
        struct decision d = decide(p, i, traces[k].method, traces[k].url, NULL, &trace);

        if (strcmp(told.names, traces[k].steps) != 0)
            fail_msg("%s: %s", traces[k].name, told.names);
        assert_int_equal(d.allowed, told.n_failed == 0);
    }
    identity_unref(i);
    policy_free(p);
}

static void names_of_fields_are_tokens(void **state)
{
    (void)state;
    assert_true(field_is_name(SLICE("X-One_2")));
    assert_false(field_is_name(SLICE("")));
    assert_false(field_is_name(SLICE("X:")));
    assert_false(field_is_name(SLICE("X\xc3\xa9")));
}

enum { N_SERVICES = 100, N_RULES = 20 };

static struct policy *compile_large(void)
{
    struct buf text = {0};
    struct fault why = {0};
    struct policy *p;

    buf_text(&text, "services:\n");
    for (int i = 0; i < N_SERVICES; i++) {
        buf_printf(&text, "  s%d:\n    hosts: [s%d.example]\n    scope: registry:read\n    audit: \"waived: x\"\n"
                          "    deny: [\"GET /-/**\"]\n    allow:\n", i, i);
        for (int k = 0; k < N_RULES; k++)
            buf_printf(&text, "      - GET,HEAD /packages/area%d/*/**\n", k);
    }
    buf_char(&text, '\0');
    p = compile(buf_slice(&text).ptr, &why);
    buf_free(&text);
    if (!p)
        fail_msg("%s", why.text);
    return p;
}

static void measure(void **state)
{
    static const char url[] = "https://s77.example/packages/area19/left-pad/left-pad-1.3.0.tgz";
    struct field fields[] = {{SLICE("Host"), SLICE("s77.example")}, {SLICE("User-Agent"), SLICE("npm/11")},
                             {SLICE("Accept"), SLICE("*/*")}, {SLICE("Accept-Encoding"), SLICE("gzip")},
                             {SLICE("Connection"), SLICE("keep-alive")}, {SLICE("If-None-Match"), SLICE("\"x\"")},
                             {SLICE("Cache-Control"), SLICE("no-cache")}, {SLICE("Pragma"), SLICE("no-cache")}};
    struct head head = {.fields = fields, .n_fields = sizeof fields / sizeof *fields};
    struct policy *p = compile_large();
    struct identity *identity = make_identity("npm:read pypi:read registry:read", NULL);
    struct request r = {0};
    size_t forwarded = 0;
    int64_t start;

    (void)state;
    assert_true(request_from_url(&r, SLICE("GET"), slice_of(url), NULL));
    r.head = &head;
    start = clock_mono_ns();
    for (int i = 0; i < 100000; i++)
        assert_true(authorize(p, identity, &r, NOW, NULL).allowed);
    print_message("authorize, %d services of %d rules, the last one fits: %lld ns\n", N_SERVICES, N_RULES,
                  (long long)(clock_mono_ns() - start) / 100000);
    start = clock_mono_ns();
    for (int i = 0; i < 100000; i++)
        forwarded += service_forwards_field(policy_service(p, 0), fields[i % 8].name);
    print_message("service_forwards_field: %lld ns\n", (long long)(clock_mono_ns() - start) / 100000);
    assert_true(forwarded > 0);
    request_clear(&r);
    identity_unref(identity);
    policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_has_one_reason),
        cmocka_unit_test(a_target_has_a_limit),
        cmocka_unit_test(without_a_token_nothing_is_told),
        cmocka_unit_test(a_token_that_no_leeway_saves_is_refused),
        cmocka_unit_test(a_service_wants_its_scope),
        cmocka_unit_test(a_token_narrows_and_never_widens),
        cmocka_unit_test(a_path_of_a_token_is_a_pattern_without_captures),
        cmocka_unit_test(a_foreign_credential_is_refused),
        cmocka_unit_test(fields_are_forwarded_by_list),
        cmocka_unit_test(written_fields_stand_for_the_presets),
        cmocka_unit_test(configurations_are_judged_with_their_place),
        cmocka_unit_test(limits_follow_from_the_rules),
        cmocka_unit_test(rules_of_ones_own_stand_for_the_presets_and_deny_is_added),
        cmocka_unit_test(a_service_answers_what_its_configuration_says),
        cmocka_unit_test(a_connect_says_what_is_inside),
        cmocka_unit_test(another_port_is_named_with_those_that_are_listed),
        cmocka_unit_test(each_step_is_told),
        cmocka_unit_test(names_of_fields_are_tokens),
        cmocka_unit_test(measure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
