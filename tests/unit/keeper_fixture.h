/*
 * For tests: the keeper as the role it is, on a real loop; the workers that ask it and the scribe are played here. Each test
 * is a process of its own, since the role is one per process: status_of.
 */
#ifndef TESTS_UNIT_KEEPER_FIXTURE_H
#define TESTS_UNIT_KEEPER_FIXTURE_H

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
static const struct conf_section gateway_section = {.name = "gateway", .keys = gateway_keys, .n_keys = 1, .help = ""};
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

static inline void answer(struct bench *b)
{
    struct buf out = {0};

    pack_u64(&out, b->last);
    if (b->how == REFUSES)
        pack_bytes(&out, SLICE("full"));
    channel_send(b->scribe, b->how == REFUSES ? MSG_REFUSED : MSG_RECORDED, buf_slice(&out), -1);
    buf_free(&out);
}

static inline void on_scribe(void *arg, uint16_t type, struct slice payload, int fd)
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

static inline void on_grant(struct bench *b, uint16_t type, struct unpack *u)
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

static inline void on_worker(void *arg, uint16_t type, struct slice payload, int fd)
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

static inline void on_gone(void *arg)
{
    (void)arg;
    gone++;
}

static const struct channel_handler scribe_handler = {on_scribe, on_gone}, worker_handler = {on_worker, on_gone};

static inline struct channel *join(struct bench *b, enum role role, int index, const struct channel_handler *handler)
{
    int fds[2];

    assert_true(channel_pair(fds, NULL));
    keeper_ops.on_peer(&b->context, role, index, fds[0]);
    return channel_new(b->context.loop, fds[1], handler, b);
}

static inline void stop_loop(void *arg)
{
    loop_stop(arg);
}

/* A question takes four hops over channels: as many turns of the loop at least, however slow each is. */
static inline void turn(struct bench *b)
{
    struct timer *t = timer_new(b->context.loop, stop_loop, b->context.loop);

    for (int i = 0; i < 10; i++) {
        timer_set(t, 4);
        loop_run(b->context.loop);
    }
    timer_free(t);
}

static inline void send_key(struct bench *b, struct slice der)
{
    struct buf out = {0};

    pack_bytes(&out, der);
    channel_send(b->worker, MSG_LEAF_KEY, buf_slice(&out), -1);
    buf_free(&out);
}

static inline void ask_by(struct bench *b, uint64_t generation, uint32_t id, const char *host)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, generation);
    pack_bytes(&out, slice_of(host));
    channel_send(b->worker, MSG_CERTIFY, buf_slice(&out), -1);
    buf_free(&out);
}

static inline void ask(struct bench *b, uint32_t id, const char *host)
{
    ask_by(b, b->context.generation, id, host);
}

static bool grant_tests;

/* Keys of an issuer and of assertions, and revocations that are empty. */
static inline void prepare_grants(struct bench *b)
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

static inline void start(struct bench *b, struct fixture *f, enum scribe how)
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
static inline void go_on_with_another(struct bench *b)
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
static inline int status_of(void **state, void (*test)(struct bench *b), enum scribe how)
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

static inline void must_record(struct bench *b, const char *what)
{
    if (slice_search(buf_slice(&b->records), slice_of(what)) < 0)
        fail_msg("no %s in %.*s", what, SLICE_ARG(buf_slice(&b->records)));
}

#endif
