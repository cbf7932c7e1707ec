/* The worker's leaves: what the cache takes, gives and lets go, and a handshake with what it puts on a connection. */
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/pack.h"
#include "certs/leaf.h"
#include "tests/unit/ca_fixture.h"

static EVP_PKEY *public_half(const struct leaves *l)
{
    struct slice der = leaves_public_key(l);
    const unsigned char *at = (const unsigned char *)der.ptr;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)der.len);

    assert_non_null(key);
    return key;
}

/* What the keeper would answer. */
static struct buf chain_for(const struct fixture *f, const char *host, EVP_PKEY *key, int64_t now_s, int64_t *end_s)
{
    struct ca_form *form = ca_form_new(f->ca, key, NULL);
    struct buf chain = {0};
    struct ca_issued issued;

    assert_true(ca_issue(form, host, now_s, &chain, &issued, NULL));
    *end_s = issued.not_after_s;
    ca_form_free(form);
    return chain;
}

static struct leaf *add(const struct fixture *f, struct leaves *l, const char *host, int64_t now_s)
{
    EVP_PKEY *key = public_half(l);
    int64_t end_s;
    struct buf chain = chain_for(f, host, key, now_s, &end_s);
    struct leaf *leaf = leaves_add(l, host, buf_slice(&chain), end_s, NULL);

    assert_non_null(leaf);
    buf_free(&chain);
    EVP_PKEY_free(key);
    return leaf;
}

static const struct {
    const char *name;
    int64_t after_s; /* since it was issued; it lives for 24 h and began an hour before */
    bool found;
} ages[] = {
    {"fresh", 0, true},
    {"a little more than a tenth of its life left", 24 * HOUR_S - 9001, true},
    {"a tenth of its life left", 24 * HOUR_S - 9000, false},
    {"ended", 24 * HOUR_S + 1, false},
    {"not begun: issued while the clock was ahead", -25 * HOUR_S, false},
};

static void test_ages(void **state)
{
    struct fixture *f = *state;
    struct leaves *l = leaves_new(4, NULL);
    int64_t now_s = clock_wall_s();

    add(f, l, "registry.test", now_s);
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++)
        if (!!leaves_find(l, "registry.test", now_s + ages[i].after_s) != ages[i].found)
            fail_msg("%s", ages[i].name);
    assert_null(leaves_find(l, "other.test", now_s));
    assert_null(leaves_find(l, "REGISTRY.test", now_s));
    leaves_free(l);
}

/* A leaf that lives for less than 50 minutes still needs five of them. */
static void test_short_life(void **state)
{
    struct fixture *f = *state;
    struct leaves *l = leaves_new(4, NULL);
    EVP_PKEY *key = public_half(l);
    int64_t now_s = clock_wall_s(), end_s;
    struct buf chain = chain_for(f, "registry.test", key, now_s, &end_s);

    assert_non_null(leaves_add(l, "registry.test", buf_slice(&chain), now_s - HOUR_S + 600, NULL));
    assert_non_null(leaves_find(l, "registry.test", now_s - HOUR_S + 299));
    assert_null(leaves_find(l, "registry.test", now_s - HOUR_S + 300));
    buf_free(&chain);
    EVP_PKEY_free(key);
    leaves_free(l);
}

static void test_least_recently_found_goes_first(void **state)
{
    struct fixture *f = *state;
    struct leaves *l = leaves_new(2, NULL);
    int64_t now_s = clock_wall_s();
    struct leaf *held;

    add(f, l, "a.files.test", now_s);
    held = leaf_ref(add(f, l, "b.files.test", now_s));
    assert_non_null(leaves_find(l, "a.files.test", now_s));
    add(f, l, "c.files.test", now_s);
    assert_int_equal(leaves_count(l), 2);
    assert_null(leaves_find(l, "b.files.test", now_s));
    assert_non_null(leaves_find(l, "a.files.test", now_s));
    assert_non_null(leaves_find(l, "c.files.test", now_s));
    leaf_unref(held);
    leaves_free(l);
}

static void test_a_newer_leaf_replaces(void **state)
{
    struct fixture *f = *state;
    struct leaves *l = leaves_new(2, NULL);
    int64_t now_s = clock_wall_s();
    struct leaf *first, *second;

    add(f, l, "a.files.test", now_s);
    first = leaf_ref(add(f, l, "registry.test", now_s));
    second = add(f, l, "registry.test", now_s + HOUR_S);
    assert_ptr_not_equal(first, second);
    assert_ptr_equal(leaves_find(l, "registry.test", now_s), second);
    assert_int_equal(leaves_count(l), 2);
    leaf_unref(first);
    leaves_free(l);
}

enum spoil { NOTHING, OTHER_KEY, OTHER_HOST, CUT, LONGER, LEAF_ALONE, SWAPPED, OTHER_ISSUER };

static const struct {
    const char *name;
    enum spoil how;
    bool taken;
} chains[] = {
    {"as the keeper gave it", NOTHING, true},
    {"for another key", OTHER_KEY, false},
    {"for another host", OTHER_HOST, false},
    {"cut short", CUT, false},
    {"a byte too long", LONGER, false},
    {"without the intermediate", LEAF_ALONE, false},
    {"intermediate first", SWAPPED, false},
    {"with another intermediate", OTHER_ISSUER, false},
};

/* An intermediate that was issued after this chain: a new key, the same hosts. */
static void put_other_issuer(const struct fixture *f, struct buf *out)
{
    bool issued;
    char *path = path_of(f, "intermediate.pem");
    X509 *x;
    struct buf der = {0};

    unlink(path);
    assert_true(ensure(f, hosts, 2, &issued, NULL) && issued);
    x = cert_of(f, "intermediate.pem");
    assert_true(cert_der(x, &der, NULL));
    pack_bytes(out, buf_slice(&der));
    X509_free(x);
    buf_free(&der);
    free(path);
}

static void spoil(const struct fixture *f, struct buf *chain, enum spoil how)
{
    struct unpack u = unpack_start(buf_slice(chain));
    struct slice leaf = unpack_bytes(&u), issuer = unpack_bytes(&u);
    struct buf out = {0};

    pack_bytes(&out, how == SWAPPED ? issuer : leaf);
    if (how == OTHER_ISSUER)
        put_other_issuer(f, &out);
    else if (how != LEAF_ALONE)
        pack_bytes(&out, how == SWAPPED ? leaf : issuer);
    if (how == CUT)
        buf_truncate(&out, buf_len(&out) - 1);
    if (how == LONGER)
        buf_char(&out, 0);
    buf_free(chain);
    *chain = out;
}

static void test_chains(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct leaves *l = leaves_new(4, NULL);
        EVP_PKEY *key = public_half(l);
        int64_t end_s;
        struct buf chain = chain_for(f, chains[i].how == OTHER_HOST ? "a.files.test" : "registry.test",
                                     chains[i].how == OTHER_KEY ? f->leaf_key : key, clock_wall_s(), &end_s);
        struct fault why = {0};

        spoil(f, &chain, chains[i].how);
        if (!!leaves_add(l, "registry.test", buf_slice(&chain), end_s, &why) != chains[i].taken ||
            leaves_count(l) != chains[i].taken)
            fail_msg("%s: %s", chains[i].name, why.text);
        buf_free(&chain);
        EVP_PKEY_free(key);
        leaves_free(l);
    }
}

/* A client that trusts the root alone; its handshake with a server that has leaf. Returns what verification said. */
static long handshake(const struct fixture *f, const struct leaves *l, const struct leaf *leaf, const char *name,
                      int *n_sent)
{
    SSL_CTX *server_context = SSL_CTX_new(TLS_server_method()), *client_context = SSL_CTX_new(TLS_client_method());
    SSL *server = SSL_new(server_context), *client;
    BIO *near, *far;
    char *root = path_of(f, "root.pem");
    long verdict;

    assert_int_equal(SSL_CTX_load_verify_file(client_context, root), 1);
    SSL_CTX_set_verify(client_context, SSL_VERIFY_PEER, NULL);
    client = SSL_new(client_context);
    SSL_set1_host(client, name);
    BIO_new_bio_pair(&near, 65536, &far, 65536);
    SSL_set_bio(client, near, near);
    SSL_set_bio(server, far, far);
    SSL_set_connect_state(client);
    SSL_set_accept_state(server);
    assert_true(leaf_use(l, leaf, server, NULL));
    assert_true(leaf_use(l, leaf, server, NULL));
    for (int i = 0; i < 4; i++) {
        SSL_do_handshake(client);
        SSL_do_handshake(server);
    }
    verdict = SSL_get_verify_result(client);
    *n_sent = SSL_get_peer_cert_chain(client) ? sk_X509_num(SSL_get_peer_cert_chain(client)) : 0;
    SSL_free(client);
    SSL_free(server);
    SSL_CTX_free(client_context);
    SSL_CTX_free(server_context);
    free(root);
    return verdict;
}

static void test_handshake(void **state)
{
    struct fixture *f = *state;
    struct leaves *l = leaves_new(4, NULL);
    struct leaf *leaf = add(f, l, "registry.test", clock_wall_s());
    int n_sent;

    assert_int_equal(handshake(f, l, leaf, "registry.test", &n_sent), X509_V_OK);
    assert_int_equal(n_sent, 2);
    assert_int_equal(handshake(f, l, leaf, "a.files.test", &n_sent), X509_V_ERR_HOSTNAME_MISMATCH);
    leaf = add(f, l, "other.test", clock_wall_s());
    assert_int_equal(handshake(f, l, leaf, "other.test", &n_sent), X509_V_ERR_PERMITTED_VIOLATION);
    leaves_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(test_ages),
        ROW(test_short_life),
        ROW(test_least_recently_found_goes_first),
        ROW(test_a_newer_leaf_replaces),
        ROW(test_chains),
        ROW(test_handshake),
    };

    return cmocka_run_group_tests_name("leaf", tests, NULL, NULL);
}
