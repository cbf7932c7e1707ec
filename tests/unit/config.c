/* proxy/config: what a whole configuration is refused for, what it warns of, what each role is handed; the example. */
#include "proxy/config.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "authz/signer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "canary/canary.h"
#include "certs/ca.h"
#include "proxy/limits.h"

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void put(const char *name, mode_t mode, struct slice bytes)
{
    char *path = file_join(folder, name);
    struct fault why = {0};

    if (!file_replace(path, mode, bytes, &why))
        fail_msg("%s", why.text);
    free(path);
}

static void put_canaries(void)
{
    struct registry *r = registry_new();
    struct buf text = {0};

    assert_non_null(registry_mint(r, "generic", "", clock_wall_s(), NULL));
    registry_json(r, &text);
    put("canaries.json", 0600, buf_slice(&text));
    buf_free(&text);
    registry_free(r);
}

/* A folder with an issuer, canaries, a CA and a PEM file to trust. */
static int set_up(void **state)
{
    struct fault why = {0};
    struct buf pem = {0};
    char *ca, *root;

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/exeat-config-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    ca = file_join(folder, "ca");
    root = file_join(folder, "ca/root.pem");
    if (!signer_create(folder, "ci", &why) || !ca_init(ca, "gw.example", &why) || !file_read(root, 65536, &pem, &why))
        fail_msg("%s", why.text);
    put("corp-ca.pem", 0644, buf_slice(&pem));
    put_canaries();
    buf_free(&pem);
    free(ca);
    free(root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct gateway_config *load(const char *text, struct fault *why)
{
    char *path = file_join(folder, "proxy.conf");
    struct gateway_config *c;

    put("proxy.conf", 0644, slice_of(text));
    c = gateway_config_load(path, why);
    free(path);
    return c;
}

static struct gateway_config *must(const char *text)
{
    struct fault why = {0};
    struct gateway_config *c = load(text, &why);

    if (!c)
        fail_msg("refused: %s", why.text);
    return c;
}

#define GATEWAY "gateway: {name: gw.example}\n"
#define LISTEN "listen: {a: {address: \"127.0.0.1:3128\"}}\n"
#define ISSUER "issuers: {ci: {jwks: ci.jwks}}\n"
#define GOOD GATEWAY LISTEN ISSUER
#define DNS(address, answer) "dns: {own: {address: \"" address "\", answer: \"" answer "\"}}\n"

static void test_refusals(void **state)
{
    static const struct {
        const char *name, *text, *fault; /* fault: what the text holds */
    } rows[] = {
        {"no listener", GATEWAY ISSUER, "proxy.conf: no listener: name one"},
        {"gateway name with capitals", "gateway: {name: GW.example}\n" LISTEN ISSUER,
         "proxy.conf:1:17: gateway.name: expected a host name in lower case, found \"GW.example\""},
        {"gateway name is an address", "gateway: {name: 10.0.0.1}\n" LISTEN ISSUER, "proxy.conf:1:17: gateway.name"},
        {"no workers", "gateway: {name: a, workers: 0}\n" LISTEN ISSUER,
         "proxy.conf:1:29: gateway.workers: expected auto or 1 to 64, found \"0\""},
        {"too many workers", "gateway: {name: a, workers: 65}\n" LISTEN ISSUER, "found \"65\""},
        {"listener without a port", GATEWAY "listen: {a: {address: 127.0.0.1}}\n" ISSUER,
         "proxy.conf:2:23: listen.a: expected an address such as 127.0.0.1:3128"},
        {"listener by name", GATEWAY "listen: {a: {address: \"localhost:3128\"}}\n" ISSUER, ":2:23: listen.a: expected"},
        {"unix listener for nobody", GATEWAY "listen: {a: {address: \"unix:/run/a\"}}\n" ISSUER,
         ":2:23: listen.a: a unix socket or vsock is for one sandbox: say which"},
        {"transparent listener that is no TCP address",
         GATEWAY "listen: {a: {address: \"unix:/run/a\", sandbox: s, mode: transparent}}\n" ISSUER,
         ":2:23: listen.a: a transparent listener is a TCP address"},
        {"transparent listener with TLS of its own",
         GATEWAY "listen: {a: {address: \"127.0.0.1:1\", mode: transparent, tls: {cert: c, key: k}}}\n" ISSUER,
         "listen.a: a transparent listener shows the services' certificates"},
        {"token file for nobody", GATEWAY "listen: {a: {address: \"127.0.0.1:1\", token-file: s}}\n" ISSUER,
         ":2:50: listen.a: token-file is for a listener of one sandbox"},
        {"owner of a port", GATEWAY "listen: {a: {address: \"127.0.0.1:1\", sandbox: s, owner: root}}\n" ISSUER,
         ":2:57: listen.a: only a unix socket has an owner"},
        {"publish on a unix socket", GATEWAY LISTEN ISSUER "publish: {address: \"unix:/run/p\"}\n",
         "publish: only TCP addresses are served"},
        {"one port twice", GATEWAY "listen:\n  a: {address: \"127.0.0.1:1\"}\n  b: {address: \"127.0.0.1:1\"}\n" ISSUER,
         ":4:16: listen.b: 127.0.0.1:1 is taken already by listen.a"},
        {"one port twice, all addresses",
         GATEWAY "listen:\n  a: {address: \"127.0.0.1:1\"}\n  b: {address: \"0.0.0.0:1\"}\n" ISSUER, "taken already"},
        {"publish on a listener's port", GOOD "publish: {address: \"127.0.0.1:3128\"}\n",
         ":4:20: publish: 127.0.0.1:3128 is taken already by listen.a"},
        {"publish on a socket file", GOOD "publish: {address: \"unix:p\"}\n", ":4:20: publish: only TCP"},
        {"admin on TCP", GOOD "admin: {address: \"127.0.0.1:1\"}\n",
         ":4:18: admin.address: expected unix:FILE, found \"127.0.0.1:1\""},
        {"keys from plain HTTP", GATEWAY LISTEN "issuers: {gl: {issuer: i, jwks-uri: \"http://gl.example/keys\"}}\n",
         ":3:37: jwks-uri: who can read or change plain HTTP"},
        {"no file of CAs for published keys", GATEWAY LISTEN "issuers: {gl: {issuer: i, jwks-uri: \"https://gl.example/k\", jwks-ca-file: none.pem}}\n",
         "none.pem: No such file"},
        {"a file of CAs that has none", GATEWAY LISTEN "issuers: {gl: {issuer: i, jwks-uri: \"https://gl.example/k\", jwks-ca-file: ci.jwks}}\n",
         "ci.jwks: "},
        {"name server by name", GOOD "resolver: {servers: [dns.example]}\n",
         ":4:22: resolver.servers: expected address and port such as 127.0.0.53:53, found \"dns.example\""},
        {"name server on every address", GOOD "resolver: {servers: [\"10.0.0.1:53\", \"0.0.0.0:53\"]}\n",
         ":4:37: resolver.servers: 0.0.0.0:53 is every address, and no server's; name one"},
        {"name server on every IPv6 address", GOOD "resolver: {servers: [\"[::]:53\"]}\n", ":4:22: resolver.servers: [::]:53 is every address"},
        {"name server on every address, mapped", GOOD "resolver: {servers: [\"[::ffff:0.0.0.0]:53\"]}\n", ":4:22: resolver.servers: [::ffff:0.0.0.0]:53 is every"},
        {"DNS listener on every address", GOOD DNS("0.0.0.0:53", "10.0.0.1"), ":4:22: dns.own: 0.0.0.0:53 is every address"},
        {"DNS listener on every IPv6 address", GOOD DNS("[::]:53", "10.0.0.1"), ":4:22: dns.own: [::]:53 is every address"},
        {"DNS listener on every address, mapped", GOOD DNS("[::ffff:0.0.0.0]:53", "10.0.0.1"), ":4:22: dns.own: [::ffff:0.0.0.0]:53 is "},
        {"name server that is our own", GOOD "resolver: {servers: [\"10.0.0.1:53\"]}\n" DNS("10.0.0.1:53", "real"),
         ":4:22: resolver.servers: 10.0.0.1:53 is dns.own, and the gateway would ask itself; name a server that knows where listed names are"},
        {"own name server behind another's", GOOD "resolver: {servers: [\"10.0.0.2:53\", \"10.0.0.1:53\"]}\n" DNS("10.0.0.1:53", "real"),
         ":4:37: resolver.servers: 10.0.0.1:53 is dns.own"},
        {"own name server that only steers", GOOD "resolver: {servers: [\"10.0.0.1:53\"]}\n" DNS("10.0.0.1:53", "10.0.0.1"), ":4:22: resolver.servers"},
        {"own name server, mapped", GOOD "resolver: {servers: [\"[::ffff:10.0.0.1]:53\"]}\n" DNS("10.0.0.1:53", "real"), ":4:22: resolver.servers"},
        {"own name server behind NAT64", GOOD "resolver: {servers: [\"[64:ff9b::a00:1]:53\"]}\n" DNS("10.0.0.1:53", "real"), ":4:22: resolver.servers"},
        {"own mapped DNS listener as name server", GOOD "resolver: {servers: [\"10.0.0.1:53\"]}\n" DNS("[::ffff:10.0.0.1]:53", "real"), ":4:22: resolver.servers"},
        {"own IPv6 name server, written otherwise", GOOD "resolver: {servers: [\"[fd00:0::1]:53\"]}\n" DNS("[fd00::1]:53", "real"), ":4:22: resolver.servers"},
        {"own name server at the default address", GOOD DNS("127.0.0.53:53", "real"),
         ":1:1: resolver.servers: 127.0.0.53:53 is dns.own"},
        {"no name server", GOOD "resolver: {servers: []}\n", "resolver.servers: name at least one"},
        {"no time for a look-up", GOOD "resolver: {timeout: 0}\n", ":4:21: resolver.timeout"},
        {"only to observe leaks", GOOD "canaries: {on-leak: observe}\n",
         ":4:21: canaries.on-leak: observe is not in this version; use block or quarantine"},
        {"a limit too low", GOOD "limits: {head: 512}\n",
         ":4:16: limits.head must be between 1024 and 1048576"},
        {"a time too long", GOOD "limits: {dial-time: 1h}\n",
         ":4:21: limits.dial-time must be between 100 and 600000 milliseconds"},
        {"missing key set", GATEWAY LISTEN "issuers: {x: {jwks: x.jwks}}\n", ":3:21: "},
        {"missing canaries", GOOD "canaries: {file: none.json}\n", ":4:18: "},
        {"missing ca-file", GOOD "services: {s: {hosts: a.example, scope: s, allow: \"GET /\", ca-file: none.pem}}\n",
         ":4:69: "},
        {"an error of a service", GOOD "services: {s: {hosts: \"a b\", scope: s, allow: \"GET /\"}}\n", ":4:23: "},
        {"a section nobody knows", GOOD "servces: {}\n", ":4:1: no section \"servces\"; did you mean \"services\"?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        struct gateway_config *c = load(rows[i].text, &why);

        if (c)
            fail_msg("%s: accepted", rows[i].name);
        if (!strstr(why.text, rows[i].fault) || strncmp(why.text, folder, strlen(folder)) != 0)
            fail_msg("%s:\n  want %s\n  have %s", rows[i].name, rows[i].fault, why.text);
    }
}

static void test_files_of_others(void **state)
{
    struct fault why = {0};
    char *path = file_join(folder, "canaries.json");

    (void)state;
    assert_int_equal(chmod(path, 0644), 0);
    assert_null(load(GOOD "canaries: {file: canaries.json}\n", &why));
    assert_non_null(strstr(why.text, "chmod 600"));
    put("canaries.json", 0600, SLICE("{}"));
    assert_null(load(GOOD "canaries: {file: canaries.json}\n", &why));
    assert_int_equal(why.kind, FAULT_SYNTAX);
    assert_non_null(strstr(why.text, "canaries.json"));
    put_canaries();
    free(path);
}

static void test_values(void **state)
{
    struct gateway_config *c = must("gateway: {name: gw.example, state: s, workers: 3, user-prefix: gate}\n" LISTEN ISSUER
                                    "publish: {address: \"127.0.0.1:9464\"}\nadmin: {address: \"unix:a.sock\"}\n");
    char want[128];

    (void)state;
    assert_int_equal(c->workers, 3);
    assert_string_equal(c->name, "gw.example");
    assert_string_equal(c->user_prefix, "gate");
    assert_string_equal(c->publish, "127.0.0.1:9464");
    snprintf(want, sizeof want, "%s/s", folder);
    assert_string_equal(c->state, want);
    snprintf(want, sizeof want, "unix:%s/a.sock", folder);
    assert_string_equal(c->admin, want);
    gateway_config_free(c);
    c = must(GOOD);
    assert_in_range(c->workers, 1, 64);
    assert_string_equal(c->state, folder);
    assert_null(c->admin);
    assert_null(c->publish);
    gateway_config_free(c);
}

#define TWO GATEWAY LISTEN "issuers:\n  ci: {jwks: ci.jwks}\n"
#define CI_ISSUER(more) TWO "  gl: {issuer: 'https://gl.example', jwks-uri: 'https://gl.example/keys', jwks-ca-file: corp-ca.pem, " more "}\n"

/* warning is in the last of n. */
static void check_warnings(const char *name, const char *text, const char *warning, size_t n)
{
    struct gateway_config *c = must(text);

    if (c->n_warnings != n)
        fail_msg("%s: %zu warnings", name, c->n_warnings);
    if (n && !strstr(c->warnings[n - 1], warning))
        fail_msg("%s: %s", name, c->warnings[n - 1]);
    gateway_config_free(c);
}

static void test_warnings(void **state)
{
    static const struct {
        const char *name, *text, *warning; /* NULL: none */
    } rows[] = {
        {"nothing to say", GOOD, NULL},
        {"a waived audit", GOOD "services: {s: {hosts: a.example, scope: s, allow: \"GET /\", ca-file: corp-ca.pem, "
         "audit: \"waived: why not\"}}\n", "services.s is open without an audit (waived: why not)"},
        {"a service that nobody audited", GOOD "services: {s: {hosts: a.example, scope: s, allow: \"GET /\", ca-file: corp-ca.pem}}\n",
         "services.s is closed: nobody has audited it; see: exeat audit --help"},
        {"a shared listener", GATEWAY "listen: {a: {address: \"10.0.0.1:1\"}}\n" ISSUER,
         ":2:23: listen.a is shared by sandboxes: tokens without cnf are held only to the address that shows them first; give each sandbox a "
         "listener of its own (sandbox: NAME)"},
        {"an issuer with all that can be said", CI_ISSUER("sandbox: '{a}:{b}', map: {'project_path:acme/x': s}"), NULL},
        {"a map that anybody can fulfil", CI_ISSUER("sandbox: '{a}:{b}', map: {'project_path:acme/x': s, 'ref:main & project_path:*/x': s}"),
         "issuers.gl: \"ref:main & project_path:*/x\" says nothing of whose it is"},
        {"published keys and no map", CI_ISSUER("sandbox: '{a}:{b}'"), "issuers.gl has no map: whoever gets a token there"},
        {"jobs that share a sub", CI_ISSUER("map: {'project_path:acme/x': s}"), "issuers.gl names sandboxes by sub, which many jobs share"},
        {"two issuers that may name the same sandbox", TWO "  other: {jwks: ci.jwks}\n",
         "issuers.ci and issuers.other may name the same sandbox"},
        {"two issuers whose sandboxes are told apart", TWO "  other: {jwks: ci.jwks, sandbox: '{sub}'}\n", NULL},
        {"a listener of one sandbox", GATEWAY "listen: {a: {address: \"10.0.0.1:1\", sandbox: s}}\n" ISSUER, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_warnings(rows[i].name, rows[i].text, rows[i].warning, rows[i].warning ? 1 : 0);
}

#define SERVICE_WITH(more) GOOD "services: {s: {hosts: a.example, scope: s, ca-file: corp-ca.pem, " more "}}\n"

/* Of a service that nobody audited: that is the first warning. */
static void test_warnings_of_closed_services(void **state)
{
    static const struct {
        const char *name, *text, *warning;
    } rows[] = {
        {"a weakness that is accepted", GOOD "services: {s: {hosts: a.example, scope: s, allow: \"GET /\", ca-file: corp-ca.pem, "
         "accept: {AN-1: \"behind a wall until 2199-12-31\"}}}\n", "services.s accepts AN-1 until 2199-12-31: behind a wall"},
        {"a weakness that was", GOOD "services: {s: {hosts: a.example, scope: s, allow: \"GET /\", ca-file: corp-ca.pem, "
         "accept: {AN-1: \"behind a wall until 2020-12-31\"}}}\n", "services.s accepts AN-1 no more since 2020-12-31"},
        {"a service that observes", SERVICE_WITH("allow: \"GET /\", observe: true"), "services.s only observes: its rules refuse nothing"},
        {"contents that are not looked into", SERVICE_WITH("allow: \"GET /\", unscannable: allow"), "services.s takes contents that cannot be"},
        {"anything may be written", SERVICE_WITH("allow: \"GET,PUT /**\""), "services.s may be written to anywhere, by allow \"GET,PUT /**\""},
        {"what a folder takes is written there", SERVICE_WITH("allow: \"GET,PUT /up/**\""), NULL},
        {"anything may be read", SERVICE_WITH("allow: \"GET,HEAD,OPTIONS /**\""), NULL},
        {"one credential for whoever comes first", SERVICE_WITH("allow: \"GET /\", credential: {from: 'env:EXEAT_TEST'}"),
         "services.s has one credential, which one sandbox at a time may use"},
        {"one credential for all", SERVICE_WITH("allow: \"GET /\", shared-identity: accepted, credential: {from: 'env:EXEAT_TEST'}"),
         "services.s cannot tell sandboxes apart"},
        {"a credential that can be read on the way", SERVICE_WITH("allow: \"GET /\", inject-plain: accepted, assert: {as: bearer}"),
         "services.s: the gateway's credential may go out over plain HTTP"},
    };

    (void)state;
    assert_int_equal(setenv("EXEAT_TEST", "a-credential-0123", 1), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_warnings(rows[i].name, rows[i].text, rows[i].warning ? rows[i].warning : "services.s is closed", rows[i].warning ? 2 : 1);
}

static void test_no_canaries(void **state)
{
    char *path = file_join(folder, "canaries.json");
    struct gateway_config *c;

    (void)state;
    assert_int_equal(unlink(path), 0);
    c = must(GOOD);
    assert_int_equal(c->n_warnings, 1);
    assert_non_null(strstr(c->warnings[0], "there are no canaries"));
    gateway_config_free(c);
    put_canaries();
    free(path);
}

static bool has(const struct bundle *b, const char *name)
{
    struct slice bytes;

    return bundle_get(b, name, &bytes);
}

/* Each role sees its own and nothing more. */
static void test_bundles(void **state)
{
    static const struct {
        const char *name;
        unsigned roles; /* bits */
    } rows[] = {
        {"proxy.conf", 1 << ROLE_WORKER | 1 << ROLE_PORTER | 1 << ROLE_KEEPER | 1 << ROLE_SCRIBE | 1 << ROLE_CLERK | 1 << ROLE_USHER},
        {"issuer.ci.jwks", 1 << ROLE_WORKER},
        {"canaries.json", 1 << ROLE_WORKER}, /* and the usher's, where it has something to answer */
        {"service.s.ca", 1 << ROLE_WORKER},
        {"ca.root.pem", 1 << ROLE_WORKER},
        {"ca.intermediate.pem", 1 << ROLE_WORKER},
        {"ca/intermediate.key", 1 << ROLE_KEEPER},
        {"ca/intermediate.pem", 1 << ROLE_KEEPER},
        {"ca/root.pem", 1 << ROLE_KEEPER},
        {"ca/root.key", 0},
        {"ca.system", 0}, /* one service has its own, the other speaks no TLS, and the issuer has its own */
        {"issuer.gl.ca", 1 << ROLE_CLERK},
        {"issuer.gl.jwks", 0},
    };
    struct gateway_config *c = must(CI_ISSUER("map: {a:b: s}") "services: {s: {hosts: a.example, scope: s, allow: \"GET /\", "
                                         "ca-file: corp-ca.pem, audit: \"waived: test\"}, plain: {hosts: p.example, plain-ports: 80, "
                                         "scope: s, allow: \"GET /\", audit: \"waived: test\"}}\n");
    struct fault why = {0};
    bool issued = false;

    (void)state;
    if (!gateway_ensure_ca(c, &issued, &why))
        fail_msg("%s", why.text);
    assert_true(issued);
    for (enum role r = ROLE_WORKER; r < N_ROLES; r++) {
        struct bundle *b = gateway_bundle(c, r);

        if (!b)
            fail_msg("%s", why.text);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (has(b, rows[i].name) != ((rows[i].roles & 1u << r) != 0))
                fail_msg("%s of role %d", rows[i].name, (int)r);
        bundle_free(b);
    }
    assert_true(gateway_ensure_ca(c, &issued, &why));
    assert_false(issued);
    gateway_config_free(c);
}

/* What a role reads from its bundle is what was written. */
static void test_roles_read_the_same(void **state)
{
    struct gateway_config *c = must(GOOD "limits: {head: 16k}\n");
    struct bundle *b = gateway_bundle(c, ROLE_SCRIBE);
    struct slice text;
    struct buf again = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *conf;

    (void)state;
    assert_true(bundle_get(b, "proxy.conf", &text));
    conf = conf_parse(text, "proxy.conf", "/", sections, n, NULL);
    assert_non_null(conf);
    assert_int_equal(limits_read(conf).head, 16384);
    conf_print(conf, false, &again);
    assert_true(slice_equals(buf_slice(&again), text));
    buf_free(&again);
    conf_free(conf);
    bundle_free(b);
    gateway_config_free(c);
}

/* ---- the example ---- */

/* The part of the example between "NAME:" and the next section (give). */
static char *section_text(struct slice example, const char *name)
{
    struct slice left = example, line;
    struct buf out = {0};
    bool inside = false;

    while (slice_next(&left, '\n', &line)) {
        if (line.len && line.ptr[0] != ' ' && line.ptr[0] != '#')
            inside = line.len > strlen(name) && slice_starts(line, slice_of(name)) && line.ptr[strlen(name)] == ':';
        else if (inside)
            buf_printf(&out, "%.*s\n", SLICE_ARG(line));
    }
    return buf_take_text(&out);
}

/* "  key:" or "  # key:" stands there. */
static bool names_key(const char *text, const char *key)
{
    const char *last = strrchr(key, '.');
    char plain[80], commented[80];

    last = last ? last + 1 : key;
    snprintf(plain, sizeof plain, "  %s:", last);
    snprintf(commented, sizeof commented, "# %s:", last);
    return strstr(text, plain) || strstr(text, commented);
}

static void test_example_names_every_key(void **state)
{
    struct buf example = {0};
    struct fault why = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    (void)state;
    if (!file_read("proxy.conf.example", 1 << 20, &example, &why))
        fail_msg("%s", why.text);
    for (size_t s = 0; s < n; s++) {
        char *text = section_text(buf_slice(&example), sections[s]->name);

        for (size_t k = 0; k < sections[s]->n_keys; k++)
            if (!names_key(text, sections[s]->keys[k].name))
                fail_msg("proxy.conf.example does not have %s.%s", sections[s]->name, sections[s]->keys[k].name);
        free(text);
    }
    buf_free(&example);
}

static void test_example_loads(void **state)
{
    struct buf example = {0};
    struct fault why = {0};
    struct gateway_config *c;
    const struct conf_item *limits;

    (void)state;
    if (!file_read("proxy.conf.example", 1 << 20, &example, &why))
        fail_msg("%s", why.text);
    buf_char(&example, '\0');
    c = must(buf_slice(&example).ptr);
    limits = conf_section(c->conf, "limits");
    for (size_t k = 0; k < limits_section.n_keys; k++) {
        const struct conf_key *key = &limits_section.keys[k];
        char text[80];
        struct conf *other;
        const struct conf_section *const only[] = {&limits_section};

        assert_true(conf_is_written(limits, key->name));
        snprintf(text, sizeof text, "limits: {%s: %s}\n", key->name, key->fallback);
        other = conf_parse(slice_of(text), "t", "/", only, 1, &why);
        if (conf_number(conf_section(other, "limits"), key->name) != conf_number(limits, key->name))
            fail_msg("the example's limits.%s is not the default", key->name);
        conf_free(other);
    }
    gateway_config_free(c);
    buf_free(&example);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_files_of_others),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_warnings_of_closed_services),
        cmocka_unit_test(test_no_canaries),
        cmocka_unit_test(test_bundles),
        cmocka_unit_test(test_roles_read_the_same),
        cmocka_unit_test(test_example_names_every_key),
        cmocka_unit_test(test_example_loads),
    };

    return cmocka_run_group_tests_name("config", tests, set_up, tear_down);
}
