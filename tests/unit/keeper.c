/* The keeper's certificates: which names, when, and what it does to who asks otherwise. */
#include "tests/unit/keeper_fixture.h"

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
        ROW(test_two_generations),
        ROW(test_what_was_built_is_given_up),
        ROW(test_what_cannot_be_built_changes_nothing),
        ROW(test_violations),
        cmocka_unit_test(test_start_without_files),
    };

    return cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
}
