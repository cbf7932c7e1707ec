/* authorize(): each reason, and beside it what is allowed. */
#include "base/clock.h"
#include "tests/unit/services.h"

static const struct {
    const char *name, *method, *url;
    enum reason reason;
    const char *rule; /* NULL: "" */
} rows[] = {
    {"a rule allows it", "GET", "https://registry.test/pkg/a", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"the rule's other method", "HEAD", "https://registry.test/pkg/a", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"on the plain port", "GET", "http://registry.test/pkg/a", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"any query", "GET", "https://registry.test/pkg/a?x=1", REASON_ALLOWED, "GET,HEAD /pkg/**"},
    {"an encoded slash in the rest", "GET", "https://registry.test/pkg/@scope%2Fname", REASON_ALLOWED,
     "GET,HEAD /pkg/**"},
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
    {"a service without an attestation", "GET", "https://closed.test/", REASON_HANDOFF_UNATTESTED, NULL},

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
    {"observed: what a capture may be is not relaxed", "GET", "https://watched.test/team/blue/x", REASON_BIND_NOT_ALLOWED, "GET /team/{team}/x"},
    {"observed: TRACE is not relaxed", "TRACE", "https://watched.test/pkg/a", REASON_TRACE_REFUSED, NULL},
    {"observed: ports are not relaxed", "GET", "https://watched.test:8443/", REASON_HOST_NOT_LISTED, NULL},

    {"CONNECT to a listed host", "CONNECT", "registry.test:443", REASON_ALLOWED, NULL},
    {"CONNECT to its plain port", "CONNECT", "registry.test:80", REASON_ALLOWED, NULL},
    {"CONNECT to another host", "CONNECT", "other.test:443", REASON_HOST_NOT_LISTED, NULL},
    {"CONNECT to another port", "CONNECT", "registry.test:22", REASON_HOST_NOT_LISTED, NULL},
    {"CONNECT to a closed service", "CONNECT", "closed.test:443", REASON_HANDOFF_UNATTESTED, NULL},

    {"npm: metadata", "GET", "https://npm.example/left-pad", REASON_ALLOWED, "GET /*?"},
    {"npm: metadata of a scope", "GET", "https://npm.example/@scope%2fname", REASON_ALLOWED, "GET /*?"},
    {"npm: a tarball", "GET", "https://npm.example/left-pad/-/left-pad-1.3.0.tgz", REASON_ALLOWED, "GET /*/-/*.tgz?"},
    {"npm: a tarball of a scope", "GET", "https://npm.example/@scope/name/-/name-1.0.0.tgz", REASON_ALLOWED,
     "GET /@*/*/-/*.tgz?"},
    {"npm: a query", "GET", "https://npm.example/left-pad?write=true", REASON_QUERY_NOT_ALLOWED, "GET /*?"},
    {"npm: search", "GET", "https://npm.example/-/v1/search", REASON_DENIED_BY_RULE, "GET /-/**"},
    {"npm: search, spelt with an encoded slash", "GET", "https://npm.example/-%2Fv1/search", REASON_DENIED_BY_RULE,
     "GET /-/**"},
    {"npm: who am I", "GET", "https://npm.example/-/whoami", REASON_DENIED_BY_RULE, "GET /-/**"},
    {"npm: publish", "PUT", "https://npm.example/left-pad", REASON_METHOD_NOT_ALLOWED, "GET /*?"},
    {"npm: audit", "POST", "https://npm.example/-/npm/v1/security/advisories/bulk", REASON_METHOD_NOT_ALLOWED, NULL},
    {"pypi: the index", "GET", "https://pypi.example/simple/left-pad/", REASON_ALLOWED, "GET,HEAD /simple/*/?"},
    {"pypi: a file", "GET", "https://pypi.example/packages/ab/cd/left_pad-1.0-py3-none-any.whl", REASON_ALLOWED,
     "GET,HEAD /packages/**/*.whl?"},
    {"pypi: upload", "POST", "https://pypi.example/legacy/", REASON_METHOD_NOT_ALLOWED, NULL},
    {"git: the refs", "GET", "https://git.example/team/demo.git/info/refs?service=git-upload-pack", REASON_ALLOWED,
     "GET /**/info/refs?service=git-upload-pack"},
    {"git: the pack", "POST", "https://git.example/team/demo.git/git-upload-pack", REASON_ALLOWED,
     "POST /**/git-upload-pack?"},
    {"git: the refs for a push", "GET", "https://git.example/team/demo.git/info/refs?service=git-receive-pack",
     REASON_QUERY_NOT_ALLOWED, "GET /**/info/refs?service=git-upload-pack"},
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
                                          ENTRY("\"paths\":[\"/**/x/**\"]"), ENTRY("\"paths\":[\"/a**\"]")};
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
     "authorization details; upgrade; client credentials; "},
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
        cmocka_unit_test(a_connect_says_what_is_inside),
        cmocka_unit_test(another_port_is_named_with_those_that_are_listed),
        cmocka_unit_test(each_step_is_told),
        cmocka_unit_test(measure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
