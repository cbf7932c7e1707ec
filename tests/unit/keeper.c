/* The keeper as the role it is, on a real loop; the workers that ask it and the scribe are played here. */
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <sys/wait.h>

#include "authz/issuer.h"
#include "authz/revocation.h"
#include "authz/signer.h"
#include "base/pack.h"
#include "base/say.h"
#include "certs/leaf.h"
#include "handoff/assertion.h"
#include "journal/record.h"
#include "proxy/limits.h"
#include "proxy/role.h"
#include "tests/unit/ca_fixture.h"
#include "tests/unit/record_fixture.h"

enum { VIOLATION = 42 };

/* The frame of the roles, as far as the keeper knows it. */
const char *role_name(enum role r)
{
    return r == ROLE_WORKER ? "worker" : "another";
}

static int reported, gone;

void role_violation(struct role_context *c, enum role peer, int index, const char *what)
{
    (void)c;
    assert_int_equal(peer, ROLE_WORKER);
    assert_int_equal(index, 0);
    assert_true(*what);
    reported++;
}

void role_distrust(struct role_context *c, const char *what)
{
    (void)c, (void)what;
    _exit(1);
}

#define LABEL_41 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char configuration[] =
    "services:\n"
    "  registry: {hosts: [registry.test], ports: [443, 8443], allow: [\"GET /**\"], scope: a, audit: \"waived: t\"}\n"
    "  files: {hosts: [\"*.files.test\"], ports: [443], allow: [\"GET /**\"], scope: a, audit: \"waived: t\"}\n"
    "  plain: {hosts: [plain.test], plain-ports: [80], allow: [\"GET /**\"], scope: a, audit: \"waived: t\"}\n";

/* Where credentials are granted: the worker shows a token of the issuer ci. */
static const char granting[] =
    "gateway: {name: gw.test}\n"
    "issuers: {ci: {issuer: \"https://ci\", jwks: /ci.jwks, max-lifetime: 1h, leeway: 0s}}\n"
    "services:\n"
    "  registry: {hosts: [registry.test], allow: [\"GET /**\"], scope: a, audit: \"waived: t\", assert: {as: bearer}}\n"
    "  files: {hosts: [\"*.files.test\"], allow: [\"GET /**\"], scope: a, audit: \"waived: t\"}\n";

static const struct conf_key gateway_keys[] = {{"name", CONF_NAME, NULL, NULL, "name", CONF_REQUIRED}};
static const struct conf_section gateway_section = {"gateway", false, gateway_keys, 1, ""};
static const struct conf_section *const granting_sections[] = {&gateway_section, &issuers_section, &services_section, &limits_section};

/* What the scribe does with what it gets. */
enum scribe { ACKNOWLEDGES, REFUSES, IS_SILENT, IS_GONE };

struct bench {
    struct fixture *f;
    struct role_context context;
    struct channel *worker, *scribe;
    struct leaves *leaves; /* the worker's */
    enum scribe how;
    uint64_t last; /* record the scribe has seen */
    struct buf records;
    char story[512]; /* what the worker was answered: "+1 " or "-2 " */
    struct buf chain;
    bool grants;
    struct signer *issuer; /* of those who grant */
    struct revocations *revocations;
    char granted[1024];
    int64_t until_s;
};

static void answer(struct bench *b)
{
    struct buf out = {0};

    pack_u64(&out, b->last);
    if (b->how == REFUSES)
        pack_bytes(&out, SLICE("full"));
    channel_send(b->scribe, b->how == REFUSES ? MSG_REFUSED : MSG_RECORDED, buf_slice(&out), -1);
    buf_free(&out);
}

static void on_scribe(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct bench *b = arg;
    struct unpack u = unpack_start(payload);
    uint64_t first = unpack_u64(&u);
    uint32_t n = unpack_u32(&u);
    struct slice batch = u.left;
    enum record_kind kind;
    bool bad = false;

    assert_int_equal(type, MSG_RECORDS);
    assert_int_equal(fd, -1);
    b->last = first + n - 1;
    while (record_next(&batch, &kind, &b->records, &bad)) {
        assert_int_equal(kind, b->grants ? RECORD_GRANT : RECORD_CERTIFICATE);
        buf_char(&b->records, '\n');
    }
    assert_false(bad);
    if (b->how == ACKNOWLEDGES || b->how == REFUSES)
        answer(b);
}

static void on_grant(struct bench *b, uint16_t type, struct unpack *u)
{
    struct slice text;
    uint16_t reason = type == MSG_NOT_GRANTED ? unpack_u16(u) : 0;

    if (type == MSG_GRANTED) {
        b->until_s = (int64_t)unpack_u64(u);
        assert_int_equal(unpack_u64(u), 0); /* the sandbox's own: no mark */
        assert_int_equal(unpack_u8(u), 0);
    }
    text = unpack_bytes(u);
    snprintf(b->granted, sizeof b->granted, "%.*s", SLICE_ARG(reason ? slice_of(reason_code(reason)) : text));
    if (type == MSG_GRANTED)
        assert_true(slice_ends(text, unpack_bytes(u))); /* what must not come back */
    assert_true(unpack_done(u));
}

static void on_worker(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct bench *b = arg;
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    size_t used = strlen(b->story);

    assert_int_equal(fd, -1);
    if (type == MSG_GRANTED || type == MSG_NOT_GRANTED) {
        on_grant(b, type, &u);
        return;
    }
    if (type == MSG_CERTIFIED) {
        unpack_u64(&u);
        buf_clear(&b->chain);
        buf_append(&b->chain, unpack_bytes(&u));
    } else {
        assert_int_equal(type, MSG_NOT_CERTIFIED);
        assert_true(unpack_bytes(&u).len > 0);
    }
    assert_true(unpack_done(&u));
    snprintf(b->story + used, sizeof b->story - used, "%c%u ", type == MSG_CERTIFIED ? '+' : '-', id);
}

static void on_gone(void *arg)
{
    (void)arg;
    gone++;
}

static const struct channel_handler scribe_handler = {on_scribe, on_gone}, worker_handler = {on_worker, on_gone};

static struct channel *join(struct bench *b, enum role role, int index, const struct channel_handler *handler)
{
    int fds[2];

    assert_true(channel_pair(fds, NULL));
    keeper_ops.on_peer(&b->context, role, index, fds[0]);
    return channel_new(b->context.loop, fds[1], handler, b);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

/* A question takes four hops over channels: as many turns of the loop at least, however slow each is. */
static void turn(struct bench *b)
{
    struct timer *t = timer_new(b->context.loop, stop_loop, b->context.loop);

    for (int i = 0; i < 10; i++) {
        timer_set(t, 4);
        loop_run(b->context.loop);
    }
    timer_free(t);
}

static void send_key(struct bench *b, struct slice der)
{
    struct buf out = {0};

    pack_bytes(&out, der);
    channel_send(b->worker, MSG_LEAF_KEY, buf_slice(&out), -1);
    buf_free(&out);
}

static void ask_by(struct bench *b, uint64_t generation, uint32_t id, const char *host)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, generation);
    pack_bytes(&out, slice_of(host));
    channel_send(b->worker, MSG_CERTIFY, buf_slice(&out), -1);
    buf_free(&out);
}

static void ask(struct bench *b, uint32_t id, const char *host)
{
    ask_by(b, b->context.generation, id, host);
}

static bool grant_tests;

/* Keys of an issuer and of assertions, and revocations that are empty. */
static void prepare_grants(struct bench *b)
{
    char *issuer = path_of(b->f, "ci.key"), *keys = path_of(b->f, "assertion"), *list = path_of(b->f, "revocations");
    struct buf jwks;

    b->grants = true;
    assert_true(file_exists(issuer) || signer_create(b->f->directory, "ci", NULL));
    b->issuer = signer_load(issuer, NULL);
    jwks = read_of(b->f, "ci.jwks");
    bundle_add(b->context.files, "issuer.ci.jwks", buf_slice(&jwks));
    assert_true(assertion_ensure(keys, NULL) && assertion_add_files(keys, b->context.files, NULL));
    b->context.conf = conf_parse(slice_of(granting), "proxy.conf", "/", granting_sections, 4, NULL);
    b->revocations = revocations_create(list, NULL);
    keeper_ops.on_resource(&b->context, MSG_SHARED, SLICE("revocations"), false, dup(revocations_fd(b->revocations)));
    buf_free(&jwks);
    free(issuer);
    free(keys);
    free(list);
}

static void start(struct bench *b, struct fixture *f, enum scribe how)
{
    static const struct conf_section *const sections[] = {&services_section};
    struct fault why = {0};

    *b = (struct bench){.f = f, .how = how};
    b->context.role = ROLE_KEEPER;
    b->context.generation = 7;
    b->context.loop = loop_new();
    b->context.files = bundle_new();
    assert_true(ca_add_files(f->directory, b->context.files, NULL));
    b->context.conf = conf_parse(slice_of(configuration), "proxy.conf", "/", sections, 1, &why);
    if (grant_tests)
        prepare_grants(b);
    if (!b->context.conf || !(b->context.policy = policy_compile(b->context.conf, &why)))
        fail_msg("%s", why.text);
    if (how != IS_GONE) {
        b->scribe = join(b, ROLE_SCRIBE, 0, &scribe_handler);
        b->last = 0;
        b->how = ACKNOWLEDGES;
        answer(b);
        b->how = how;
    }
    b->worker = join(b, ROLE_WORKER, 0, &worker_handler);
    b->leaves = leaves_new(8, NULL);
    assert_true(keeper_ops.start(&b->context, NULL));
    turn(b);
}

/* Who broke the table is told of once, and heard no more; the keeper goes on with its other workers. */
static void go_on_with_another(struct bench *b)
{
    assert_int_equal(reported, 1);
    assert_int_equal(gone, 1);
    b->story[0] = '\0';
    b->worker = join(b, ROLE_WORKER, 1, &worker_handler);
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 5, "registry.test");
    turn(b);
    assert_string_equal(b->story, "+5 ");
}

/* Each test in a process of its own: the role is one per process. */
static int status_of(void **state, void (*test)(struct bench *b), enum scribe how)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static struct bench b;

        setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failure ends this process alone */
        say_level(SAY_ERROR);
        start(&b, *state, how);
        test(&b);
        if (reported)
            go_on_with_another(&b);
        _exit(reported ? VIOLATION : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must_record(struct bench *b, const char *what)
{
    if (slice_search(buf_slice(&b->records), slice_of(what)) < 0)
        fail_msg("no %s in %.*s", what, SLICE_ARG(buf_slice(&b->records)));
}

static void certify(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 5, "registry.test");
    turn(b);
    assert_string_equal(b->story, "+5 ");
    assert_non_null(leaves_add(b->leaves, "registry.test", buf_slice(&b->chain), INT64_MAX, NULL));
    must_record(b, "\"action\":\"allow\"");
    must_record(b, "\"service\":\"registry\"");
    must_record(b, "\"generation\":7");
    must_record(b, "\"detail\":\"worker 0\"");
    must_record(b, "\"host\":\"registry.test\"");
    must_record(b, "\"serial\":\"");
    must_record(b, "\"not_after\":");
}

static void test_certifies(void **state)
{
    assert_int_equal(status_of(state, certify, ACKNOWLEDGES), 0);
}

static void wait_for_record(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 1, "registry.test");
    ask(b, 2, "registry.test");
    turn(b);
    must_record(b, "registry.test");
    assert_string_equal(b->story, "");
    answer(b);
    turn(b);
    assert_string_equal(b->story, "+1 +2 ");
    assert_int_equal(b->last, 1); /* one certificate for both */
}

static void test_no_answer_before_the_record(void **state)
{
    assert_int_equal(status_of(state, wait_for_record, IS_SILENT), 0);
}

/* What one worker can have waiting for one certificate is bounded; the question over it has a certificate of its own. */
static void ask_the_same_often(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    for (uint32_t i = 0; i <= 1024; i++)
        ask(b, i, "registry.test");
    turn(b);
    assert_int_equal(b->last, 2);
}

static void test_what_waits_for_one_certificate_is_bounded(void **state)
{
    assert_int_equal(status_of(state, ask_the_same_often, IS_SILENT), 0);
}

static void ask_without_record(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 1, "registry.test");
    turn(b);
    assert_string_equal(b->story, "-1 ");
}

static void test_no_record_no_certificate(void **state)
{
    assert_int_equal(status_of(state, ask_without_record, REFUSES), 0);
    assert_int_equal(status_of(state, ask_without_record, IS_GONE), 0);
}

static const struct {
    const char *name, *host;
    bool certified;
} hosts_asked[] = {
    {"a listed name", "registry.test", true},
    {"a name under a listed suffix", "a.files.test", true},
    {"a name under a listed name, which the intermediate would permit", "a.registry.test", false},
    {"the suffix itself, which the intermediate would permit", "files.test", false},
    {"a label under a suffix that policy finds too long", LABEL_41 ".files.test", false},
    {"another name", "other.test", false},
    {"a name that is listed for plain HTTP alone", "plain.test", false},
};

static void ask_hosts(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    for (size_t i = 0; i < sizeof hosts_asked / sizeof *hosts_asked; i++) {
        b->story[0] = '\0';
        buf_clear(&b->records);
        ask(b, 9, hosts_asked[i].host);
        turn(b);
        if (strcmp(b->story, hosts_asked[i].certified ? "+9 " : "-9 ") != 0)
            fail_msg("%s: %s", hosts_asked[i].name, b->story);
        must_record(b, hosts_asked[i].host);
        must_record(b, hosts_asked[i].certified ? "\"action\":\"allow\"" : "\"reason\":\"host_not_listed\"");
    }
}

static void test_exactly_the_listed_hosts(void **state)
{
    assert_int_equal(status_of(state, ask_hosts, ACKNOWLEDGES), 0);
}

static void leave(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 1, "registry.test");
    turn(b);
    channel_free(b->worker);
    turn(b);
    answer(b);
    turn(b);
    b->worker = join(b, ROLE_WORKER, 0, &worker_handler);
    b->how = ACKNOWLEDGES;
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 2, "registry.test");
    turn(b);
    assert_string_equal(b->story, "+2 ");
}

static void test_a_worker_leaves_and_comes_back(void **state)
{
    assert_int_equal(status_of(state, leave, IS_SILENT), 0);
}

/* ---- grants ---- */

struct shown {
    const char *audience, *scope, *jti;
    int64_t issued, expires; /* from now */
};

/* A leave token (give). */
static char *token_of(struct bench *b, const struct shown *t)
{
    int64_t now = clock_wall_s();
    struct signer_claims claims = {.issuer = "https://ci", .sandbox = strcmp(t->jti, "held") == 0 ? "vm-held" : "vm1", .client_id = "c", .audience = t->audience,
                                   .scope = t->scope, .jti = t->jti, .issued_s = now + t->issued, .expires_s = now + t->expires};
    struct buf out = {0};

    assert_true(signer_issue(b->issuer, &claims, &out, NULL));
    return buf_take_text(&out);
}

static void ask_grant(struct bench *b, const char *service, const char *token)
{
    struct buf out = {0};

    b->granted[0] = '\0';
    pack_u32(&out, 4);
    pack_u64(&out, b->context.generation);
    pack_bytes(&out, slice_of(service));
    pack_bytes(&out, slice_of(token));
    channel_send(b->worker, MSG_GRANT, buf_slice(&out), -1);
    buf_free(&out);
    turn(b);
}

static const struct {
    const char *name, *service;
    struct shown token;
    const char *answer; /* how it begins, or the reason */
} grants_asked[] = {
    {"a good token", "registry", {"gw.test", "a b", "good", 0, 600}, "Bearer eyJ"},
    {"a token that is over", "registry", {"gw.test", "a", "over", -900, -1}, "token_expired"},
    {"a token for another gateway", "registry", {"other.test", "a", "else", 0, 600}, "token_audience"},
    {"a token without the service's scope", "registry", {"gw.test", "b", "narrow", 0, 600}, "scope_missing"},
    {"a token that lives too long", "registry", {"gw.test", "a", "long", 0, 7200}, "token_lifetime"},
    {"a token that was revoked", "registry", {"gw.test", "a", "taken-back", 0, 600}, "token_revoked"},
    {"a sandbox in quarantine", "registry", {"gw.test", "a", "held", 0, 600}, "sandbox_quarantined"},
    {"a service that has no credential", "files", {"gw.test", "a", "good", 0, 600}, "policy_changed"},
    {"a service that is not there", "nobody", {"gw.test", "a", "good", 0, 600}, "policy_changed"},
};

static void grants_by_token(struct bench *b)
{
    assert_true(revocations_add(b->revocations, REVOKE_JTI, SLICE("taken-back"), 0, NULL));
    assert_true(revocations_quarantine(b->revocations, &(struct quarantine){.sandbox = SLICE("vm-held"), .by = SLICE("admin")}, NULL));
    for (size_t i = 0; i < sizeof grants_asked / sizeof *grants_asked; i++) {
        char *token = token_of(b, &grants_asked[i].token);

        buf_clear(&b->records);
        ask_grant(b, grants_asked[i].service, token);
        if (!slice_starts(slice_of(b->granted), slice_of(grants_asked[i].answer)))
            fail_msg("%s: %s", grants_asked[i].name, b->granted);
        if (strcmp(grants_asked[i].answer, "policy_changed") != 0)
            must_record(b, i ? "\"action\":\"deny\"" : "\"action\":\"allow\"");
        free(token);
    }
}

static void grants(void **state)
{
    grant_tests = true;
    assert_int_equal(status_of(state, grants_by_token, ACKNOWLEDGES), 0);
    grant_tests = false;
}

/* No longer than a minute, nor than the token: whatever comes first. */
static void grants_for_a_while(struct bench *b)
{
    char *token = token_of(b, &(struct shown){"gw.test", "a", "long", 0, 600});
    char *ends = token_of(b, &(struct shown){"gw.test", "a", "short", 0, 20});
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
    char *token = token_of(b, &(struct shown){"gw.test", "a", "good", 0, 600});

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
    char *token = token_of(b, &(struct shown){"gw.test", "a", "good", 0, 600});

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

/* ---- another configuration ---- */

static const char fewer[] =
    "services:\n"
    "  files: {hosts: [\"*.files.test\", new.test], ports: [443], allow: [\"GET /**\"], scope: a, audit: \"waived: t\"}\n";

static const struct conf_section *const fewer_sections[] = {&services_section};

/* Generation 8 lists no registry.test, and new.test instead; with an intermediate of its own. */
static struct role_set another(struct bench *b)
{
    static const char *const others[] = {"*.files.test", "new.test"};
    struct role_set next = {.generation = 8, .files = bundle_new()};
    bool issued;

    assert_true(ca_ensure_intermediate(b->f->directory, "gw.test", others, 2, &issued, NULL));
    assert_true(ca_add_files(b->f->directory, next.files, NULL));
    next.conf = conf_parse(slice_of(fewer), "proxy.conf", "/", fewer_sections, 1, NULL);
    next.policy = policy_compile(next.conf, NULL);
    assert_non_null(next.policy);
    policy_set_generation(next.policy, 8);
    return next;
}

static void expect(struct bench *b, const char *what, uint64_t generation, const char *host, bool certified)
{
    b->story[0] = '\0';
    ask_by(b, generation, 3, host);
    turn(b);
    if (strcmp(b->story, certified ? "+3 " : "-3 ") != 0)
        fail_msg("%s: %s", what, b->story);
}

/* Is the chain that came last of the intermediate in this set's files? */
static bool is_of(struct bench *b, const struct bundle *files)
{
    struct unpack u = unpack_start(buf_slice(&b->chain));
    struct fault why = {0};
    struct slice pem, der;
    X509 *x;
    bool same;

    unpack_bytes(&u);
    der = unpack_bytes(&u);
    assert_true(bundle_get(files, "ca/intermediate.pem", &pem));
    assert_non_null(x = cert_parse_der(der, &why));
    X509 *kept = cert_parse(pem, "intermediate.pem", &why);
    same = X509_cmp(x, kept) == 0;
    X509_free(kept);
    X509_free(x);
    return same;
}

static void change(struct bench *b)
{
    struct role_set before = {7, b->context.files, b->context.conf, b->context.policy}, next = another(b);

    policy_set_generation(b->context.policy, 7);
    send_key(b, leaves_public_key(b->leaves));
    assert_true(keeper_ops.prepare(&b->context, &next, NULL));
    expect(b, "built, and not in force: the old one", 7, "registry.test", true);
    expect(b, "built, and not in force: not the new one", 8, "new.test", false);
    b->context.generation = 8;
    b->context.policy = next.policy;
    keeper_ops.adopt(&b->context, &before);
    expect(b, "in force, by the old one", 7, "registry.test", true);
    assert_true(is_of(b, before.files));
    expect(b, "in force, a new host by the old one", 7, "new.test", false);
    expect(b, "in force, by the new one", 8, "new.test", true);
    assert_true(is_of(b, next.files));
    expect(b, "in force, an old host by the new one", 8, "registry.test", false);
    expect(b, "a generation that never was goes by the new one", 99, "registry.test", false);
    keeper_ops.settle(&b->context);
    buf_clear(&b->records);
    expect(b, "settled: a straggler", 7, "registry.test", false);
    assert_int_equal(buf_len(&b->records), 0); /* and no accusation */
    expect(b, "settled: an old host", 8, "registry.test", false);
    must_record(b, "\"reason\":\"host_not_listed\"");
    expect(b, "settled: a new host", 8, "new.test", true);
}

static void test_two_generations(void **state)
{
    assert_int_equal(status_of(state, change, ACKNOWLEDGES), 0);
}

static void give_up(struct bench *b)
{
    struct role_set next = another(b);

    policy_set_generation(b->context.policy, 7);
    send_key(b, leaves_public_key(b->leaves));
    assert_true(keeper_ops.prepare(&b->context, &next, NULL));
    keeper_ops.abandon(&b->context);
    expect(b, "given up: the old one", 7, "registry.test", true);
    expect(b, "given up: not the new one", 8, "new.test", false);
}

static void test_what_was_built_is_given_up(void **state)
{
    assert_int_equal(status_of(state, give_up, ACKNOWLEDGES), 0);
}

static void build_without_key(struct bench *b)
{
    struct role_set next = {.generation = 8, .files = bundle_new(), .conf = b->context.conf, .policy = b->context.policy};
    struct fault why = {0};

    send_key(b, leaves_public_key(b->leaves));
    assert_false(keeper_ops.prepare(&b->context, &next, &why));
    assert_true(why.text[0]);
    expect(b, "could not be built: the old one", 7, "registry.test", true);
}

static void test_what_cannot_be_built_changes_nothing(void **state)
{
    assert_int_equal(status_of(state, build_without_key, ACKNOWLEDGES), 0);
}

/* ---- what is not in the table ---- */

static void ask_before_key(struct bench *b)
{
    ask(b, 1, "registry.test");
    turn(b);
}

static void send_two_keys(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    turn(b);
    send_key(b, leaves_public_key(b->leaves));
    turn(b);
}

static void send_garbage_key(struct bench *b)
{
    send_key(b, SLICE("garbage"));
    turn(b);
}

static void send_longer_key(struct bench *b)
{
    struct buf der = {0};

    buf_append(&der, leaves_public_key(b->leaves));
    buf_char(&der, 0);
    send_key(b, buf_slice(&der));
    turn(b);
}

static void send_weak_key(struct bench *b)
{
    EVP_PKEY *key = EVP_RSA_gen(1024);
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(key, &der);

    send_key(b, slice_make(der, (size_t)len));
    turn(b);
}

static void ask_not_canonical(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 1, "Registry.test");
    turn(b);
}

static void ask_address(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    ask(b, 1, "127.0.0.1");
    turn(b);
}

static void ask_cut(struct bench *b)
{
    send_key(b, leaves_public_key(b->leaves));
    channel_send(b->worker, MSG_CERTIFY, SLICE("\1\0\0\0\377"), -1);
    turn(b);
}

static void ask_grant_cut(struct bench *b)
{
    channel_send(b->worker, MSG_GRANT, SLICE("\1\0\0\0\377"), -1);
    turn(b);
}

static void ask_another_role(struct bench *b)
{
    channel_send(b->worker, MSG_DIAL, SLICE(""), -1);
    turn(b);
}

static void ask_with_descriptor(struct bench *b)
{
    channel_send(b->worker, MSG_LEAF_KEY, leaves_public_key(b->leaves), 0);
    turn(b);
}

static void ask_unlisted_often(struct bench *b)
{
    char host[32];

    send_key(b, leaves_public_key(b->leaves));
    for (uint32_t i = 0; i < 65; i++) {
        snprintf(host, sizeof host, "host-%u.test", i);
        ask(b, i, host);
    }
    turn(b);
}

static const struct {
    const char *name;
    void (*test)(struct bench *b);
} violations[] = {
    {"a question before the key", ask_before_key},
    {"a second key", send_two_keys},
    {"a key that is none", send_garbage_key},
    {"a key with a byte behind it", send_longer_key},
    {"an RSA key of 1024 bits", send_weak_key},
    {"a host that is not canonical", ask_not_canonical},
    {"an address", ask_address},
    {"a question cut short", ask_cut},
    {"a question for a grant cut short", ask_grant_cut},
    {"a question for the porter", ask_another_role},
    {"a descriptor with a key", ask_with_descriptor},
    {"65 questions for hosts that are not listed", ask_unlisted_often},
};

static void test_violations(void **state)
{
    for (size_t i = 0; i < sizeof violations / sizeof *violations; i++)
        if (status_of(state, violations[i].test, ACKNOWLEDGES) != VIOLATION)
            fail_msg("%s", violations[i].name);
}

static void test_start_without_files(void **state)
{
    struct role_context c = {.role = ROLE_KEEPER, .loop = loop_new(), .files = bundle_new()};
    struct fault why = {0};

    (void)state;
    assert_false(keeper_ops.start(&c, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    bundle_free(c.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(test_certifies),
        ROW(test_no_answer_before_the_record),
        ROW(test_no_record_no_certificate),
        ROW(test_what_waits_for_one_certificate_is_bounded),
        ROW(test_exactly_the_listed_hosts),
        ROW(test_a_worker_leaves_and_comes_back),
        ROW(grants),
        ROW(a_grant_is_short),
        ROW(no_record_no_grant),
        ROW(a_changed_token_gets_nothing),
        ROW(test_two_generations),
        ROW(test_what_was_built_is_given_up),
        ROW(test_what_cannot_be_built_changes_nothing),
        ROW(test_violations),
        cmocka_unit_test(test_start_without_files),
    };

    return cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
}
