/* Services compiled from configuration: what is accepted, what is refused and where, and what they answer. */
#include "authz/field.h"
#include "tests/unit/services.h"

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
    {"Content_Length, which CGI takes for the length", "registry", "Content_Length", false},
    {"Transfer_Encoding", "registry", "Transfer_Encoding", false},
    {"Content-Length", "registry", "Content-Length", true},
    {"X-Real-IP", "registry", "X-Real-IP", false},
    {"True-Client-IP", "registry", "True-Client-IP", false},
    {"Forwarded", "registry", "Forwarded", false},
    {"X-HTTP-Method-Override", "registry", "X-HTTP-Method-Override", false},
    {"X-HTTP-Method", "registry", "X-HTTP-Method", false},
    {"X-Original-URL", "registry", "X-Original-URL", false},
    {"Remote-User", "registry", "Remote-User", false},
    {"X-Remote-User", "registry", "X-Remote-User", false},
    {"X_Remote_Group", "registry", "X_Remote_Group", false},
    {"what a front proxy of Kubernetes says", "registry", "X-Remote-Extra-Scopes", false},
    {"impersonation", "registry", "Impersonate-User", false},
    {"Sudo, somebody else's account", "registry", "Sudo", false},
    {"a claim of an OpenID proxy", "registry", "OIDC_CLAIM_sub", false},
    {"Via, which is the gateway's to write", "registry", "Via", false},
    {"X-Method", "registry", "X-Method", false},
    {"a name that only begins like Via", "registry", "Viable", true},
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

/* Where it puts in a credential of its own, in a field that no list has for one. */
static void a_field_of_the_gateways_own_is_nobody_elses(void **state)
{
    static const struct {
        const char *field;
        bool credential, forwarded;
    } rows[] = {
        {"X-Who", true, false}, {"x-WHO", true, false}, {"X_Who", true, false}, {"X-Whose", false, true}, {"Authorization", true, false},
        {"Range", false, false}, {"If-Range", false, false}, {"Accept-Encoding", false, false}, {"Accept", false, true},
    };
    struct policy *p = compile("services:\n  a:\n    hosts: [a.test]\n    scope: a\n    allow: [\"GET /**\"]\n    client-credentials: strip\n"
                               "    assert: {as: \"header:X-Who\"}\n", NULL);
    const struct service *s = policy_service(p, 0);

    (void)state;
    assert_string_equal(service_own_field(s), "X-Who");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (service_is_credential(s, slice_of(rows[i].field)) != rows[i].credential ||
            service_forwards_field(s, slice_of(rows[i].field)) != rows[i].forwarded)
            fail_msg("%s", rows[i].field);
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

static void ranges_are_had_where_no_credential_goes_in(void **state)
{
    static const struct {
        const char *name, *more;
        bool forwarded;
    } rows[] = {
        {"a plain service", "", true},
        {"asked to be stripped", "    ranges: strip\n", false},
        {"with a credential", "    credential: {from: \"file:/c\"}\n", false},
        {"with a credential, and allowed", "    credential: {from: \"file:/c\"}\n    ranges: allow\n", true},
        {"with an assertion", "    assert: {as: bearer}\n", false},
        {"with an exchange", "    exchange: {at: \"https://sts.test/token\"}\n", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf text = {0};
        struct policy *p;
        const struct service *s;
        char *yaml;

        buf_printf(&text, "services:\n  a:\n    hosts: [a.test]\n    scope: a\n    allow: [\"GET /**\"]\n%s", rows[i].more);
        yaml = buf_take_text(&text);
        p = compile(yaml, NULL);
        s = policy_service(p, 0);
        if (service_forwards_field(s, SLICE("Range")) != rows[i].forwarded || service_forwards_field(s, SLICE("if-range")) != rows[i].forwarded ||
            service_strips_ranges(s) == rows[i].forwarded || !service_forwards_field(s, SLICE("If-Match")))
            fail_msg("%s", rows[i].name);
        policy_free(p);
        free(yaml);
    }
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
    {"a preset in a folder", A "    preset: npm-read\n    preset-path: /api/npm/all\n", NULL},
    {"a folder of no preset", A RULE "    preset-path: /npm\n", "say which preset"},
    {"a folder that ends in a slash", A "    preset: npm-read\n    preset-path: /npm/\n", "expected a folder such as /npm"},
    {"a folder that begins with none", A "    preset: npm-read\n    preset-path: npm\n", "expected a folder such as /npm"},
    {"a folder with a wildcard", A "    preset: npm-read\n    preset-path: /*\n", "expected a folder such as /npm"},
    {"a folder with a query", A "    preset: npm-read\n    preset-path: /npm?x\n", "expected a folder such as /npm"},
    {"a folder that leads up", A "    preset: npm-read\n    preset-path: /npm/..\n", "a dot segment"},
    {"a folder that is encoded twice", A "    preset: npm-read\n    preset-path: /%2561\n", "encoded twice"},
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
    {"a bad pattern in the second rule", A "    allow: [\"GET /x\", \"GET /a**\"]\n", "proxy.conf:5:23"},
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
    {"a weakness accepted", A RULE "    accept: {AN-1: \"behind a wall until 2027-12-31\"}\n", NULL},
    {"accepted without an end", A RULE "    accept: {AN-1: \"behind a wall\"}\n", "REASON until 2026-12-31"},
    {"accepted until no day", A RULE "    accept: {AN-1: \"behind a wall until 2027-02-30\"}\n", "REASON until 2026-12-31"},
    {"accepted without a reason", A RULE "    accept: {AN-1: \" until 2027-12-31\"}\n", "REASON until 2026-12-31"},
    {"accepted twice over", A RULE "    accept: {AN-1: [\"a until 2027-12-31\", \"b until 2027-12-31\"]}\n", "REASON until 2026-12-31"},
    {"a check of three digits", A RULE "    accept: {AN-999: \"a until 2027-12-31\"}\n", NULL},
    {"a check of four", A RULE "    accept: {AN-1000: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"a check of one letter", A RULE "    accept: {A-1: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"a check of three letters", A RULE "    accept: {ANN-1: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"a check without a hyphen", A RULE "    accept: {AN1: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"a check without a number", A RULE "    accept: {AN-: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"a check whose number begins with 0", A RULE "    accept: {AN-01: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"text behind a check", A RULE "    accept: {AN-1x: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"a check in small letters", A RULE "    accept: {an-1: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
    {"accepted by a day", A RULE "    accept: {AN-1: \"behind a wall by 2027-12-31\"}\n", "REASON until 2026-12-31"},
    {"accepted until a day and more", A RULE "    accept: {AN-1: \"a until 2027-12-31 or so\"}\n", "REASON until 2026-12-31"},
    {"something that is no check", A RULE "    accept: {everything: \"a until 2027-12-31\"}\n", "a check such as AN-1"},
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
     "services:\n  a:\n    hosts: [\"*.c.test\"]\n    scope: a\n" RULE B
     "    hosts: [\"*.b.c.test\"]\n    ports: [8443]\n", NULL},
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

static void names_of_fields_are_tokens(void **state)
{
    (void)state;
    assert_true(field_is_name(SLICE("X-One_2")));
    assert_false(field_is_name(SLICE("")));
    assert_false(field_is_name(SLICE("X:")));
    assert_false(field_is_name(SLICE("X\xc3\xa9")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_forwarded_by_list),
        cmocka_unit_test(a_field_of_the_gateways_own_is_nobody_elses),
        cmocka_unit_test(written_fields_stand_for_the_presets),
        cmocka_unit_test(ranges_are_had_where_no_credential_goes_in),
        cmocka_unit_test(configurations_are_judged_with_their_place),
        cmocka_unit_test(limits_follow_from_the_rules),
        cmocka_unit_test(rules_of_ones_own_stand_for_the_presets_and_deny_is_added),
        cmocka_unit_test(a_service_answers_what_its_configuration_says),
        cmocka_unit_test(names_of_fields_are_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
