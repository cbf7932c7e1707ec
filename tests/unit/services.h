/* Services for tests of policy: those of the conformance cases, and what else rows need. Included once. */
#ifndef TESTS_SERVICES_H
#define TESTS_SERVICES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/policy.h"

#define NOW 1700000000

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
    "    allow: [\"GET /pkg/**\", \"GET /team/{team}/x\"]\n"
    "    deny: [\"GET /pkg/no\"]\n"
    "    bind: {team: [red]}\n"
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
static inline struct policy *compile(const char *text, struct fault *why)
{
    struct conf *c = conf_parse(slice_of(text), "proxy.conf", "/etc/exeat", sections, 1, why);
    struct policy *p = c ? policy_compile(c, why) : NULL;

    conf_free(c);
    return p;
}

static inline struct policy *compile_main(void)
{
    struct fault why = {0};
    struct policy *p = compile(main_conf, &why);

    if (!p)
        fail_msg("%s", why.text);
    return p;
}

static inline struct identity *make_identity(const char *scope, const char *details)
{
    struct identity_claims claims = {.sandbox = "s1", .issuer = "https://ci", .issuer_name = "ci", .scope = scope,
                                     .details = details, .issued_s = NOW - 60, .expires_s = NOW + 600};
    struct fault why = {0};
    struct identity *i = identity_make(&claims, &why);

    if (!i)
        fail_msg("%s", why.text);
    return i;
}

#define ALL_SCOPES                                                                                                     \
    "registry:read upload:write artifacts:read exact:read watched:read closed:read npm:read pypi:read git:read"

static inline struct decision decide(const struct policy *p, const struct identity *identity, const char *method,
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

#endif
