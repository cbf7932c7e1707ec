/* What the CA signs: the names an intermediate is held to, the profile of a leaf, and what a strict client makes of it. */
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "base/pack.h"
#include "tests/unit/ca_fixture.h"

/* The leaf of a chain in the form of ca_issue; intermediate may be NULL. */
static X509 *split(const struct buf *chain, X509 **intermediate)
{
    struct unpack u = unpack_start(buf_slice(chain));
    struct slice first = unpack_bytes(&u), second = unpack_bytes(&u);
    X509 *leaf = cert_parse_der(first, NULL);

    assert_true(unpack_done(&u));
    assert_non_null(leaf);
    if (intermediate)
        assert_non_null(*intermediate = cert_parse_der(second, NULL));
    return leaf;
}

/* One leaf of a form of its own. */
static bool issue_at(const struct fixture *f, const char *host, EVP_PKEY *key, int64_t now_s, struct buf *chain,
                     struct ca_issued *issued, struct fault *why)
{
    struct ca_form *form = ca_form_new(f->ca, key, why);
    bool ok = form && ca_issue(form, host, now_s, chain, issued, why);

    ca_form_free(form);
    return ok;
}

static X509 *issue(const struct fixture *f, const char *host, EVP_PKEY *key, struct ca_issued *issued)
{
    struct buf chain = {0};
    X509 *leaf;

    assert_true(issue_at(f, host, key, clock_wall_s(), &chain, issued, NULL));
    leaf = split(&chain, NULL);
    buf_free(&chain);
    return leaf;
}

/* What a strict TLS client that trusts the root says of a leaf for a name (NULL: any) : X509_V_OK or why not. */
static int verdict(const struct fixture *f, X509 *leaf, const char *name, const char *address)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    STACK_OF(X509) *chain = sk_X509_new_null();
    X509 *root = cert_of(f, "root.pem"), *intermediate = cert_of(f, "intermediate.pem");
    X509_VERIFY_PARAM *param;
    int error;

    X509_STORE_add_cert(store, root);
    sk_X509_push(chain, intermediate);
    assert_int_equal(X509_STORE_CTX_init(context, store, leaf, chain), 1);
    param = X509_STORE_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
    X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
    if (name)
        assert_int_equal(X509_VERIFY_PARAM_set1_host(param, name, 0), 1);
    if (address)
        assert_int_equal(X509_VERIFY_PARAM_set1_ip_asc(param, address), 1);
    X509_verify_cert(context);
    error = X509_STORE_CTX_get_error(context);
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    sk_X509_free(chain);
    X509_free(root);
    X509_free(intermediate);
    return error;
}

static const struct {
    const char *name, *issued_for, *asked_for;
    int error;
} names[] = {
    {"a listed name", "registry.test", "registry.test", X509_V_OK},
    {"a name under a suffix", "a.files.test", "a.files.test", X509_V_OK},
    {"two labels under a suffix", "b.a.files.test", "b.a.files.test", X509_V_OK},
    {"another name", "other.test", "other.test", X509_V_ERR_PERMITTED_VIOLATION},
    {"a name that ends like a listed one", "evilregistry.test", "evilregistry.test", X509_V_ERR_PERMITTED_VIOLATION},
    {"the parent of a listed name", "test", "test", X509_V_ERR_PERMITTED_VIOLATION},
    {"a listed name asked for as another", "registry.test", "a.files.test", X509_V_ERR_HOSTNAME_MISMATCH},
    {"a listed name asked for as a name below", "registry.test", "x.registry.test", X509_V_ERR_HOSTNAME_MISMATCH},
};

static void test_names(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ca_issued issued;
        X509 *leaf = issue(f, names[i].issued_for, f->leaf_key, &issued);
        int error = verdict(f, leaf, names[i].asked_for, NULL);

        if (error != names[i].error)
            fail_msg("%s: %s", names[i].name, X509_verify_cert_error_string(error));
        X509_free(leaf);
    }
}

/* A leaf for an address, as somebody who stole the intermediate's key would make it. */
static X509 *steal(const struct fixture *f, const char *address)
{
    struct buf pem = read_of(f, "intermediate.key");
    EVP_PKEY *key = cert_parse_key(buf_slice(&pem), "key", NULL);
    X509 *issuer = cert_of(f, "intermediate.pem");
    X509 *x = cert_new(f->leaf_key, NULL, issuer, clock_wall_s() - HOUR_S, clock_wall_s() + HOUR_S, NULL);
    GENERAL_NAMES *san = GENERAL_NAMES_new();
    GENERAL_NAME *name = GENERAL_NAME_new();

    GENERAL_NAME_set0_value(name, GEN_IPADD, a2i_IPADDRESS(address));
    sk_GENERAL_NAME_push(san, name);
    assert_true(cert_add_end_entity(x, X509v3_KU_DIGITAL_SIGNATURE, NULL) && cert_add_server_auth(x, NULL));
    assert_int_equal(X509_add1_ext_i2d(x, NID_subject_alt_name, san, 1, X509V3_ADD_DEFAULT), 1);
    assert_true(cert_sign(x, key, NULL));
    GENERAL_NAMES_free(san);
    X509_free(issuer);
    EVP_PKEY_free(key);
    buf_free(&pem);
    return x;
}

static void test_addresses(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "10.1.2.3", "8.8.8.8", "::1", "2001:db8::1"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        X509 *leaf = steal(f, addresses[i]);

        assert_int_equal(verdict(f, leaf, NULL, addresses[i]), X509_V_ERR_EXCLUDED_VIOLATION);
        X509_free(leaf);
    }
}

/* path length 0: the holder of the intermediate's key cannot make another authority. */
static void test_no_authority_below(void **state)
{
    struct fixture *f = *state;
    X509 *issuer = cert_of(f, "intermediate.pem");

    assert_int_equal(X509_get_pathlen(issuer), 0);
    assert_int_equal(X509_check_ca(issuer), 1);
    X509_free(issuer);
}

static bool is_critical(const X509 *x, int nid)
{
    int at = X509_get_ext_by_NID(x, nid, -1);

    assert_true(at >= 0);
    assert_int_equal(X509_get_ext_by_NID(x, nid, at), -1);
    return X509_EXTENSION_get_critical(X509_get_ext(x, at));
}

static void test_authorities(void **state)
{
    struct fixture *f = *state;
    X509 *root = cert_of(f, "root.pem"), *intermediate = cert_of(f, "intermediate.pem");
    const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(root);

    assert_int_equal(X509_check_ca(root), 1);
    assert_int_equal(X509_get_pathlen(root), 1);
    assert_int_equal(X509_get_key_usage(root), X509v3_KU_KEY_CERT_SIGN | X509v3_KU_CRL_SIGN);
    assert_true(is_critical(root, NID_basic_constraints) && is_critical(root, NID_key_usage));
    assert_in_range(cert_not_after(root) - cert_not_before(root), 3650 * (int64_t)DAY_S, 3652 * (int64_t)DAY_S);
    assert_true(cert_is_p256(X509_get0_pubkey(root)));
    assert_int_equal(X509_get_key_usage(intermediate), X509v3_KU_KEY_CERT_SIGN | X509v3_KU_CRL_SIGN);
    assert_int_equal(X509_get_extended_key_usage(intermediate), XKU_SSL_SERVER);
    assert_true(is_critical(intermediate, NID_name_constraints));
    assert_int_equal(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(intermediate), id), 0);
    assert_true(cert_is_p256(X509_get0_pubkey(intermediate)));
    assert_int_equal(X509_get_version(root), X509_VERSION_3);
    X509_free(root);
    X509_free(intermediate);
}

static void check_san(const X509 *leaf, const char *host)
{
    GENERAL_NAMES *san = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    const GENERAL_NAME *name;

    assert_int_equal(sk_GENERAL_NAME_num(san), 1);
    name = sk_GENERAL_NAME_value(san, 0);
    assert_int_equal(name->type, GEN_DNS);
    assert_true(slice_is(slice_make(ASN1_STRING_get0_data(name->d.dNSName), (size_t)ASN1_STRING_length(name->d.dNSName)),
                         host));
    GENERAL_NAMES_free(san);
}

static void test_leaf_profile(void **state)
{
    struct fixture *f = *state;
    struct ca_issued issued;
    int64_t now_s = clock_wall_s();
    X509 *leaf = issue(f, "registry.test", f->leaf_key, &issued), *issuer = cert_of(f, "intermediate.pem");
    unsigned char serial[CERT_SERIAL_LEN];

    assert_int_equal(X509_NAME_entry_count(X509_get_subject_name(leaf)), 0);
    check_san(leaf, "registry.test");
    assert_true(is_critical(leaf, NID_subject_alt_name));
    assert_true(is_critical(leaf, NID_key_usage) && is_critical(leaf, NID_basic_constraints));
    assert_false(is_critical(leaf, NID_ext_key_usage));
    assert_int_equal(X509_get_key_usage(leaf), X509v3_KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER);
    assert_int_equal(X509_check_ca(leaf), 0);
    assert_int_equal(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(leaf), X509_get0_subject_key_id(issuer)), 0);
    assert_int_equal(ASN1_STRING_length(X509_get0_subject_key_id(leaf)), 20);
    assert_in_range(cert_not_before(leaf), now_s - HOUR_S, now_s - HOUR_S + 2);
    assert_in_range(cert_not_after(leaf), now_s + DAY_S, now_s + DAY_S + 2);
    assert_int_equal(issued.not_after_s, cert_not_after(leaf));
    cert_serial(leaf, serial);
    assert_memory_equal(serial, issued.serial, sizeof serial);
    assert_int_equal(X509_pubkey_digest(leaf, EVP_sha256(), (unsigned char[64]){0}, NULL), 1);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(leaf), f->leaf_key), 1);
    X509_free(leaf);
    X509_free(issuer);
}

static void test_chain_is_leaf_and_intermediate(void **state)
{
    struct fixture *f = *state;
    struct buf chain = {0};
    struct ca_issued issued;
    X509 *leaf, *sent, *issuer = cert_of(f, "intermediate.pem");

    assert_true(issue_at(f, "registry.test", f->leaf_key, clock_wall_s(), &chain, &issued, NULL));
    leaf = split(&chain, &sent);
    assert_int_equal(X509_cmp(sent, issuer), 0);
    X509_free(leaf);
    X509_free(sent);
    X509_free(issuer);
    buf_free(&chain);
}

/* A form is written over: nothing of the leaf before may stay. */
static void test_a_form_serves_many_hosts(void **state)
{
    static const char *const list[] = {"registry.test", "a.files.test", "registry.test"};
    struct fixture *f = *state;
    struct ca_form *form = ca_form_new(f->ca, f->leaf_key, NULL);
    unsigned char before[CERT_SERIAL_LEN] = {0};

    for (size_t i = 0; i < 3; i++) {
        struct buf chain = {0};
        struct ca_issued issued;
        X509 *leaf;

        assert_true(ca_issue(form, list[i], clock_wall_s() + (int64_t)i, &chain, &issued, NULL));
        leaf = split(&chain, NULL);
        check_san(leaf, list[i]);
        assert_true(is_critical(leaf, NID_subject_alt_name));
        assert_int_equal(X509_get_ext_count(leaf), 6);
        assert_int_equal(verdict(f, leaf, list[i], NULL), X509_V_OK);
        assert_memory_not_equal(before, issued.serial, sizeof before);
        memcpy(before, issued.serial, sizeof before);
        X509_free(leaf);
        buf_free(&chain);
    }
    ca_form_free(form);
}

static void test_serials_differ(void **state)
{
    struct fixture *f = *state;
    struct ca_issued first, second;

    X509_free(issue(f, "registry.test", f->leaf_key, &first));
    X509_free(issue(f, "registry.test", f->leaf_key, &second));
    assert_memory_not_equal(first.serial, second.serial, sizeof first.serial);
}

/* RFC 5280 4.1.2.5: UTCTime until 2049, GeneralizedTime from 2050. */
static void test_time_forms(void **state)
{
    static const struct {
        const char *name;
        int64_t at_s;
        int type;
    } rows[] = {
        {"the last second of 2049", 2524607999, V_ASN1_UTCTIME},
        {"the first second of 2050", 2524608000, V_ASN1_GENERALIZEDTIME},
    };
    struct fixture *f = *state;
    X509 *issuer = cert_of(f, "intermediate.pem");

    for (size_t i = 0; i < 2; i++) {
        X509 *x = cert_new(f->leaf_key, NULL, issuer, 0, rows[i].at_s, NULL);

        if (ASN1_STRING_type(X509_get0_notAfter(x)) != rows[i].type || cert_not_after(x) != rows[i].at_s)
            fail_msg("%s", rows[i].name);
        X509_free(x);
    }
    X509_free(issuer);
}

static const struct {
    const char *name, *type;
    int bits;
    bool accepted;
    unsigned usage;
} keys[] = {
    {"P-256", "P-256", 0, true, X509v3_KU_DIGITAL_SIGNATURE},
    {"RSA of 2048 bits", "RSA", 2048, true, X509v3_KU_DIGITAL_SIGNATURE | X509v3_KU_KEY_ENCIPHERMENT},
    {"RSA of 1024 bits", "RSA", 1024, false, 0},
    {"P-384", "P-384", 0, false, 0},
    {"secp256k1", "secp256k1", 0, false, 0},
    {"Ed25519", "ED25519", 0, false, 0},
};

static EVP_PKEY *draw(const char *type, int bits)
{
    if (bits)
        return EVP_RSA_gen((unsigned)bits);
    return strcmp(type, "ED25519") ? EVP_EC_gen(type) : EVP_PKEY_Q_keygen(NULL, NULL, type);
}

static void test_keys(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        EVP_PKEY *key = draw(keys[i].type, keys[i].bits);
        struct buf chain = {0};
        struct ca_issued issued;
        struct fault why = {0};
        bool ok = issue_at(f, "registry.test", key, clock_wall_s(), &chain, &issued, &why);
        X509 *leaf = ok ? split(&chain, NULL) : NULL;

        if (ok != keys[i].accepted || (ok && X509_get_key_usage(leaf) != keys[i].usage) ||
            (ok && verdict(f, leaf, "registry.test", NULL) != X509_V_OK) || (!ok && why.kind != FAULT_REFUSED))
            fail_msg("%s: %s", keys[i].name, why.text);
        X509_free(leaf);
        buf_free(&chain);
        EVP_PKEY_free(key);
    }
}

static void test_host_forms(void **state)
{
    static const char *const bad[] = {"", "*.files.test", "Registry.test", "registry.test.", "127.0.0.1", "::1",
                                      "a b.test", "a,b.test", "registry.test/x"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf chain = {0};
        struct ca_issued issued;

        if (issue_at(f, bad[i], f->leaf_key, clock_wall_s(), &chain, &issued, NULL) || buf_len(&chain))
            fail_msg("a leaf for \"%s\"", bad[i]);
    }
}

static void test_leaf_ends_with_intermediate(void **state)
{
    struct fixture *f = *state;
    X509 *issuer = cert_of(f, "intermediate.pem"), *leaf;
    int64_t end_s = cert_not_after(issuer);
    struct buf chain = {0};
    struct ca_issued issued;

    assert_true(issue_at(f, "registry.test", f->leaf_key, end_s - HOUR_S, &chain, &issued, NULL));
    leaf = split(&chain, NULL);
    assert_int_equal(issued.not_after_s, end_s);
    assert_int_equal(cert_not_after(leaf), end_s);
    assert_false(issue_at(f, "registry.test", f->leaf_key, end_s, &chain, &issued, NULL));
    assert_false(issue_at(f, "registry.test", f->leaf_key, cert_not_before(issuer) - 1, &chain, &issued, NULL));
    X509_free(leaf);
    X509_free(issuer);
    buf_free(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(test_names),
        ROW(test_addresses),
        ROW(test_no_authority_below),
        ROW(test_authorities),
        ROW(test_leaf_profile),
        ROW(test_chain_is_leaf_and_intermediate),
        ROW(test_a_form_serves_many_hosts),
        ROW(test_serials_differ),
        ROW(test_time_forms),
        ROW(test_keys),
        ROW(test_host_forms),
        ROW(test_leaf_ends_with_intermediate),
    };

    return cmocka_run_group_tests_name("ca", tests, NULL, NULL);
}
