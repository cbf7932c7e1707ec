/* The tighter policy: what clients need by the manifest, what a gateway would make of a probe, and that each check has a remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "audit/check.h"
#include "audit/clients.h"
#include "audit/fate.h"
#include "audit/remedy.h"
#include "base/clock.h"

static struct target *open_service(const char *keys, struct manifest **m)
{
    struct fault why = {0};
    struct buf text = {0};
    struct target *t = NULL;

    buf_printf(&text, "owner: { name: us, statement: ours }\nservices:\n  s: { url: \"http://s.test:8099/base\", address: 127.0.0.1, %s }\n", keys);
    *m = manifest_parse(buf_slice(&text), "manifest.yaml", "/", &why);
    if (*m)
        t = target_open(*m, "s", &why);
    if (!t)
        fail_msg("%s: %s", keys, why.text);
    buf_free(&text);
    return t;
}

static const struct {
    const char *name, *keys;
    const char *preset; /* NULL: none */
    const char *rules;  /* each ended by a semicolon */
} needs[] = {
    {"a kind has its preset", "kind: npm", "npm-read", ""},
    {"another kind, another", "kind: oci", "oci-pull", ""},
    {"what the manifest names goes before the kind", "kind: npm, clients: { preset: pypi-read }", "pypi-read", ""},
    {"none is none", "kind: npm, clients: { preset: none, allow: [\"GET /x\"] }", NULL, "GET /x;"},
    {"rules as they are written", "clients: { allow: [\"GET /base/a/**\", \"POST /base/b\"] }", NULL, "GET /base/a/**;POST /base/b;"},
    {"rules of its own for a kind", "kind: oci, clients: { allow: [\"GET /v2/**\"] }", NULL, "GET /v2/**;"},
    {"beside what is protected", "protected: [/pool/a/x.deb]", NULL, "GET,HEAD /base/pool/a/*?;"},
    {"at the root what is protected alone", "protected: [/ok]", NULL, "GET,HEAD /base/ok?;"},
    {"a folder stays one", "protected: [/v2/, /v2/lib/]", NULL, "GET,HEAD /base/v2/?;GET,HEAD /base/v2/lib/?;"},
    {"the root", "protected: [/]", NULL, "GET,HEAD /base/?;"},
    {"what is fetched", "protected: [/a/x], fetch: \"/mirror/{nonce}_1.deb\"", NULL, "GET,HEAD /base/a/*?;GET,HEAD /base/mirror/*?;"},
    {"a folder of the client's choice", "fetch: \"/m/{nonce}/manifests/latest\"", NULL, "GET,HEAD /base/m/*/manifests/*?;"},
    {"names of a query", "fetch: \"/get?kind=deb&name={nonce}\"", NULL, "GET,HEAD /base/get?kind=*&name=*;"},
    {"a query without names", "fetch: \"/get?{nonce}\"", NULL, "GET,HEAD /base/get;"},
    {"what no rule can say", "protected: [\"/a*b\"]", NULL, "GET,HEAD /base/**?;"},
    {"nothing is named", "kind: http", NULL, "GET,HEAD /base/**?;"},
};

static void clients_need(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        struct manifest *m;
        struct target *t = open_service(needs[i].keys, &m);
        const struct preset *p = clients_preset(t);
        struct buf rules = {0};

        for (size_t j = 0; j < clients_rule_count(t); j++) {
            clients_rule(t, j, &rules);
            buf_char(&rules, ';');
        }
        if ((p ? strcmp(p->name, needs[i].preset ? needs[i].preset : "") != 0 : needs[i].preset != NULL) || !slice_is(buf_slice(&rules), needs[i].rules))
            fail_msg("%s: %s, \"%.*s\"", needs[i].name, p ? p->name : "no preset", SLICE_ARG(buf_slice(&rules)));
        buf_free(&rules);
        target_free(t);
        manifest_free(m);
    }
}

#define POLICY(keys) "services:\n  s:\n    hosts: [s.test]\n    plain-ports: [8099]\n    addresses: [\"127.0.0.1:8099\"]\n    scope: \"s:read\"\n" keys
#define READ         POLICY("    allow: [\"GET,HEAD /base/ok?\", \"GET /base/q?name=*\"]\n")
#define LAX          POLICY("    allow: [\"GET,PUT /**\"]\n    client-credentials: allow\n    body: 10\n")
#define DENY         POLICY("    allow: [\"GET /**\"]\n    deny: [\"GET /base/metrics\"]\n    target: 100\n    forward-fields: [Accept]\n")

static const struct {
    const char *name, *policy;
    struct probe probe;
    enum fate_kind kind;
    enum reason reason;
} fates[] = {
    {"what is allowed", READ, {.path = "/ok"}, FATE_PASSES, REASON_ALLOWED},
    {"another path", READ, {.path = "/other"}, FATE_REFUSED, REASON_PATH_NOT_ALLOWED},
    {"outside the base", READ, {.path = "/ok", .is_bare = true}, FATE_REFUSED, REASON_PATH_NOT_ALLOWED},
    {"a query that no rule has", READ, {.path = "/ok?x=1"}, FATE_REFUSED, REASON_QUERY_NOT_ALLOWED},
    {"a query that one has", READ, {.path = "/q?name=1"}, FATE_PASSES, REASON_ALLOWED},
    {"a method that writes", READ, {.method = "PUT", .path = "/ok"}, FATE_REFUSED, REASON_METHOD_NOT_ALLOWED},
    {"one that is allowed", LAX, {.method = "PUT", .path = "/ok"}, FATE_PASSES, REASON_ALLOWED},
    {"TRACE, whatever is allowed", LAX, {.method = "TRACE", .path = "/ok"}, FATE_REFUSED, REASON_TRACE_REFUSED},
    {"CONNECT, whatever is allowed", LAX, {.method = "CONNECT", .path = "other.test:443", .is_bare = true}, FATE_REFUSED, REASON_HOST_NOT_LISTED},
    {"a whole URL of another host", LAX, {.path = "http://other.test/x"}, FATE_REFUSED, REASON_HOST_NOT_LISTED},
    {"another Host", LAX, {.path = "/ok", .host = "other.test"}, FATE_REFUSED, REASON_AUTHORITY_MISMATCH},
    {"a path that cannot be read", LAX, {.path = "/%zz%"}, FATE_REFUSED, REASON_PATH_INVALID},
    {"content within the limit", LAX, {.method = "PUT", .path = "/ok", .body = {"0123456789", 10}}, FATE_PASSES, REASON_ALLOWED},
    {"content above it", LAX, {.method = "PUT", .path = "/ok", .body = {"0123456789a", 11}}, FATE_REFUSED, REASON_BODY_TOO_LARGE},
    {"a token of the sandbox's", READ, {.path = "/ok", .who = WHO_TOKEN, .token = "t"}, FATE_REFUSED, REASON_CREDENTIAL_FOREIGN},
    {"one that is let through", LAX, {.path = "/ok", .who = WHO_TOKEN, .token = "t"}, FATE_PASSES, REASON_ALLOWED},
    {"the manifest's credential, which the gateway has", READ, {.path = "/ok", .who = WHO_FIRST}, FATE_PASSES, REASON_ALLOWED},
    {"a credential in a field", READ, {.path = "/ok", .fields = {"Cookie: a=b"}}, FATE_REFUSED, REASON_CREDENTIAL_FOREIGN},
    {"a field that only a gateway may say", LAX, {.path = "/ok", .fields = {"X-Forwarded-For: 127.0.0.1"}}, FATE_PLAIN, REASON_ALLOWED},
    {"any other field", LAX, {.path = "/ok", .fields = {"X-Whatever: 1"}}, FATE_PASSES, REASON_ALLOWED},
    {"one that is not on the list", DENY, {.path = "/ok", .fields = {"X-Whatever: 1"}}, FATE_PLAIN, REASON_ALLOWED},
    {"one that is", DENY, {.path = "/ok", .fields = {"Accept: text/x"}}, FATE_PASSES, REASON_ALLOWED},
    {"Accept beside what is tried", DENY, {.path = "/ok", .fields = {"Accept: text/x", "X-Whatever: 1"}}, FATE_PLAIN, REASON_ALLOWED},
    {"a page that is denied", DENY, {.path = "/metrics"}, FATE_REFUSED, REASON_DENIED_BY_RULE},
    {"a target that is too long", DENY, {.path = "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, FATE_REFUSED, REASON_TARGET_TOO_LONG},
};

static struct policy *compile(const char *text)
{
    static const struct conf_section *const sections[] = {&services_section};
    const struct attested good = {.at_s = clock_wall_s(), .until_s = clock_wall_s() + 60};
    struct fault why = {0};
    struct conf *c = conf_parse(slice_of(text), "t", "/", sections, 1, &why);
    struct policy *p = c ? policy_compile(c, &why) : NULL;

    if (!p)
        fail_msg("%s\n%s", why.text, text);
    policy_set_attested(p, 0, &good);
    conf_free(c);
    return p;
}

/* What a gateway reads of a target at most, whatever its service says. */
static void longer_than_any_target(void **state)
{
    static char path[8300] = "/";
    struct manifest *m;
    struct target *t = open_service("kind: http", &m);
    struct policy *p = compile(LAX);
    struct turn *x;

    (void)state;
    memset(path + 1, 'a', sizeof path - 2);
    x = turn_new(&(struct probe){.path = path});
    assert_int_equal(fate_of(p, t, x).kind, FATE_REFUSED);
    turn_free(x);
    path[8000] = 0;
    x = turn_new(&(struct probe){.path = path});
    assert_int_equal(fate_of(p, t, x).kind, FATE_PASSES);
    turn_free(x);
    policy_free(p);
    target_free(t);
    manifest_free(m);
}

static void a_gateway_makes_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        struct manifest *m;
        struct target *t = open_service("kind: http", &m);
        struct policy *p = compile(fates[i].policy);
        struct turn *x = turn_new(&fates[i].probe);
        struct fate f = fate_of(p, t, x);

        if (f.kind != fates[i].kind || f.reason != fates[i].reason)
            fail_msg("%s: %d, %s", fates[i].name, (int)f.kind, reason_code(f.reason));
        turn_free(x);
        policy_free(p);
        target_free(t);
        manifest_free(m);
    }
}

static void every_check_has_a_remedy(void **state)
{
    const struct check_group *g;

    (void)state;
    for (size_t i = 0; (g = check_group_at(i)); i++)
        for (size_t j = 0; j < g->n; j++) {
            const struct remedy *r = remedy_of(g->checks[j].id);

            if ((r->how == REMEDY_NONE) != (r->why_not != NULL))
                fail_msg("%s: a reason goes with REMEDY_NONE, and with nothing else", r->check);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clients_need), cmocka_unit_test(a_gateway_makes_of_it), cmocka_unit_test(longer_than_any_target), cmocka_unit_test(every_check_has_a_remedy)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
