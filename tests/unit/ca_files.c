/* The CA's files: made once, kept from others, renewed when they must be, refused when they do not fit. */
#include <openssl/x509v3.h>

#include "tests/unit/ca_fixture.h"

static void test_modes(void **state)
{
    static const struct {
        const char *name;
        mode_t mode;
    } rows[] = {{"root.key", 0600}, {"intermediate.key", 0600}, {"root.pem", 0644}, {"intermediate.pem", 0644}};
    struct fixture *f = *state;
    struct stat st;

    for (size_t i = 0; i < 4; i++) {
        char *path = path_of(f, rows[i].name);

        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, rows[i].mode);
        free(path);
    }
    assert_int_equal(stat(f->directory, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void test_init_refuses_to_overwrite(void **state)
{
    struct fixture *f = *state;
    struct fault why = {0};

    assert_false(ca_init(f->directory, NAME, &why));
    assert_int_equal(why.kind, FAULT_REFUSED);
    remove_of(f, "root.pem");
    assert_false(ca_init(f->directory, NAME, &why));
    remove_of(f, "root.key");
    assert_true(ca_init(f->directory, NAME, NULL));
}

static void test_init_refuses_names(void **state)
{
    char longest[66];
    struct fault why = {0};

    (void)state;
    memset(longest, 'a', 65);
    longest[65] = '\0';
    assert_false(ca_init("/nonexistent", longest, &why));
    assert_int_equal(why.kind, FAULT_USAGE);
    assert_false(ca_init("/nonexistent", "", &why));
    assert_int_equal(why.kind, FAULT_USAGE);
    assert_false(ca_init("/nonexistent/ca", NAME, &why));
    assert_int_equal(why.kind, FAULT_IO);
}

static const struct {
    const char *name;
    const char *hosts[4];
    size_t n;
    bool issued;
    const char *permitted[4];
    size_t n_permitted;
} sets[] = {
    {"the same hosts", {"registry.test", "*.files.test"}, 2, false, {"files.test", "registry.test"}, 2},
    {"in another order", {"*.files.test", "registry.test"}, 2, false, {"files.test", "registry.test"}, 2},
    {"a suffix and its own name are one", {"files.test", "*.files.test", "registry.test"}, 3, false,
     {"files.test", "registry.test"}, 2},
    {"a host more", {"registry.test", "*.files.test", "npm.test"}, 3, true, {"files.test", "npm.test", "registry.test"}, 3},
    {"a host less", {"registry.test"}, 1, true, {"registry.test"}, 1},
    {"no host at all permits nothing that exists", {NULL}, 0, true, {"invalid"}, 1},
};

static void check_permitted(const struct fixture *f, size_t row)
{
    X509 *x = cert_of(f, "intermediate.pem");
    struct constraint have;

    assert_true(constraint_of_cert(x, &have));
    assert_int_equal(have.n, sets[row].n_permitted);
    for (size_t i = 0; i < have.n; i++)
        assert_string_equal(have.names[i], sets[row].permitted[i]);
    constraint_clear(&have);
    X509_free(x);
}

static void test_host_sets(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        bool issued;

        assert_true(ensure(f, hosts, 2, &issued, NULL));
        assert_true(ensure(f, sets[i].hosts, sets[i].n, &issued, NULL));
        if (issued != sets[i].issued)
            fail_msg("%s: %s", sets[i].name, issued ? "issued" : "kept");
        check_permitted(f, i);
        ca_free(f->ca);
        assert_non_null(f->ca = load(f, NULL));
    }
}

static void test_most_names(void **state)
{
    struct fixture *f = *state;
    char text[CONSTRAINT_MOST + 1][32];
    const char *list[CONSTRAINT_MOST + 1];
    struct fault why = {0};
    bool issued;

    for (size_t i = 0; i <= CONSTRAINT_MOST; i++) {
        snprintf(text[i], sizeof text[i], "host-%zu.test", i);
        list[i] = text[i];
    }
    assert_true(ensure(f, list, CONSTRAINT_MOST, &issued, NULL));
    assert_false(ensure(f, list, CONSTRAINT_MOST + 1, &issued, &why));
    assert_int_equal(why.kind, FAULT_LIMIT);
}

#define NO_IPV4 ",excluded;IP:0.0.0.0/0.0.0.0"
#define NO_IPV6 ",excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0"

/* An intermediate that permits more than it seems to is no intermediate of ours, whoever signed it. */
static void test_constraints_are_read_strictly(void **state)
{
    static const struct {
        const char *name, *value;
        bool ok;
    } rows[] = {
        {"as ours", "critical,permitted;DNS:a.test" NO_IPV4 NO_IPV6, true},
        {"not critical: who does not know them may pass over them", "permitted;DNS:a.test" NO_IPV4 NO_IPV6, false},
        {"no address is excluded", "critical,permitted;DNS:a.test", false},
        {"IPv6 is not excluded", "critical,permitted;DNS:a.test" NO_IPV4, false},
        {"not every address is excluded", "critical,permitted;DNS:a.test,excluded;IP:10.0.0.0/255.0.0.0" NO_IPV6, false},
        {"an address is permitted", "critical,permitted;DNS:a.test,permitted;IP:10.0.0.1/255.255.255.255" NO_IPV4 NO_IPV6, false},
        {"no name is permitted", "critical,excluded;IP:0.0.0.0/0.0.0.0" NO_IPV6, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        X509_EXTENSION *e = X509V3_EXT_nconf_nid(NULL, NULL, NID_name_constraints, rows[i].value);
        struct constraint have;
        X509 *x = X509_new();

        assert_non_null(e);
        assert_int_equal(X509_add_ext(x, e, -1), 1);
        if (constraint_of_cert(x, &have) != rows[i].ok)
            fail_msg("%s", rows[i].name);
        constraint_clear(&have);
        X509_EXTENSION_free(e);
        X509_free(x);
    }
}

static void test_root_offline(void **state)
{
    static const char *const more[] = {"registry.test", "*.files.test", "npm.test"};
    struct fixture *f = *state;
    struct fault why = {0};
    bool issued;

    remove_of(f, "root.key");
    assert_true(ensure(f, hosts, 2, &issued, NULL));
    assert_false(issued);
    assert_false(ensure(f, more, 3, &issued, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    assert_non_null(strstr(why.text, "npm.test"));
    assert_non_null(strstr(why.text, "root.key"));
    /* One that permits more is good enough: what services no longer list, the keeper does not sign. */
    assert_true(ensure(f, more, 1, &issued, &why));
    assert_false(issued);
}

/* An intermediate of this root, key beside it, that ends left_s from now. */
static void age(const struct fixture *f, int64_t left_s)
{
    struct buf pem = read_of(f, "root.key"), text = {0};
    EVP_PKEY *root_key = cert_parse_key(buf_slice(&pem), "root.key", NULL), *key = cert_new_key(NULL);
    X509 *root = cert_of(f, "root.pem");
    X509_NAME *subject = cert_name(NAME, "Exeat intermediate", key, NULL);
    X509 *x = cert_new(key, subject, root, clock_wall_s() + left_s - 365 * DAY_S, clock_wall_s() + left_s, NULL);
    struct constraint want;
    struct secret *key_pem = cert_key_pem(key, NULL);

    assert_true(constraint_of_hosts(hosts, 2, &want, NULL));
    assert_true(cert_add_authority(x, 0, NULL) && constraint_add(x, &want, NULL) && cert_sign(x, root_key, NULL));
    assert_true(cert_pem(x, &text, NULL));
    write_of(f, "intermediate.pem", 0644, buf_slice(&text));
    write_of(f, "intermediate.key", 0600, secret_slice(key_pem));
    constraint_clear(&want);
    secret_free(key_pem);
    X509_NAME_free(subject);
    X509_free(x);
    X509_free(root);
    EVP_PKEY_free(key);
    EVP_PKEY_free(root_key);
    buf_free(&text);
    buf_free(&pem);
}

static const struct {
    const char *name;
    int64_t left_s;
    bool root_key, ok, issued;
} ages[] = {
    {"half of its life left", 180 * DAY_S, true, true, false},
    {"less than a third left", 120 * DAY_S, true, true, true},
    {"ended", -DAY_S, true, true, true},
    {"less than a third left, root offline: it still does", 120 * DAY_S, false, true, false},
    {"ended, root offline", -DAY_S, false, false, false},
};

static void test_ages(void **state)
{
    struct fixture *f = *state;
    struct buf root_key = read_of(f, "root.key");

    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        bool issued, ok;

        write_of(f, "root.key", 0600, buf_slice(&root_key));
        age(f, ages[i].left_s);
        if (!ages[i].root_key)
            remove_of(f, "root.key");
        ok = ensure(f, hosts, 2, &issued, NULL);
        if (ok != ages[i].ok || issued != ages[i].issued)
            fail_msg("%s", ages[i].name);
    }
    buf_free(&root_key);
}

/* What a crash, a copy or a hand leaves behind is mended from root.key. */
static void test_broken_pairs_are_replaced(void **state)
{
    static const struct {
        const char *name, *file;
    } rows[] = {
        {"no certificate", "intermediate.pem"},
        {"no key", "intermediate.key"},
    };
    struct fixture *f = *state;
    struct buf root = read_of(f, "root.pem"), root_key = read_of(f, "root.key");
    bool issued;

    for (size_t i = 0; i < 2; i++) {
        remove_of(f, rows[i].file);
        assert_true(ensure(f, hosts, 2, &issued, NULL) && issued);
    }
    write_of(f, "intermediate.key", 0600, buf_slice(&root_key));
    assert_true(ensure(f, hosts, 2, &issued, NULL) && issued);
    write_of(f, "intermediate.pem", 0644, SLICE("garbage\n"));
    assert_true(ensure(f, hosts, 2, &issued, NULL) && issued);
    remove_of(f, "root.pem");
    remove_of(f, "root.key");
    assert_true(ca_init(f->directory, NAME, NULL));
    assert_true(ensure(f, hosts, 2, &issued, NULL) && issued);
    ca_free(f->ca);
    assert_non_null(f->ca = load(f, NULL));
    buf_free(&root);
    buf_free(&root_key);
}

static const struct {
    const char *name, *file, *like; /* file gets the content of like, or "" */
    mode_t mode;
    enum fault_kind kind;
} spoilt[] = {
    {"the key readable by others", "intermediate.key", "intermediate.key", 0640, FAULT_PERMISSION},
    {"another key", "intermediate.key", "root.key", 0600, FAULT_REFUSED},
    {"a certificate where the key should be", "intermediate.key", "root.pem", 0600, FAULT_SYNTAX},
    {"the root in place of the intermediate", "intermediate.pem", "root.pem", 0644, FAULT_REFUSED},
    {"the intermediate in place of the root", "root.pem", "intermediate.pem", 0644, FAULT_REFUSED},
    {"an empty certificate", "intermediate.pem", "", 0644, FAULT_SYNTAX},
};

static void test_load_refuses(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        struct buf kept = read_of(f, spoilt[i].file), other = {0};
        struct fault why = {0};
        struct ca *ca;

        if (spoilt[i].like[0])
            other = read_of(f, spoilt[i].like);
        write_of(f, spoilt[i].file, spoilt[i].mode, buf_slice(&other));
        ca = load(f, &why);
        if (ca || why.kind != spoilt[i].kind)
            fail_msg("%s: kind %d, %s", spoilt[i].name, (int)why.kind, why.text);
        write_of(f, spoilt[i].file, strstr(spoilt[i].file, ".key") ? 0600 : 0644, buf_slice(&kept));
        buf_free(&kept);
        buf_free(&other);
    }
    ca_free(f->ca);
    assert_non_null(f->ca = load(f, NULL));
}

static void test_ensure_refuses(void **state)
{
    struct fixture *f = *state;
    char *root_key = path_of(f, "root.key"), *key = path_of(f, "intermediate.key");
    struct buf other = read_of(f, "intermediate.key");
    struct fault why = {0};
    bool issued;

    assert_int_equal(chmod(key, 0644), 0);
    assert_false(ensure(f, hosts, 2, &issued, &why));
    assert_int_equal(why.kind, FAULT_PERMISSION);
    assert_non_null(strstr(why.text, "chmod 600"));
    assert_int_equal(chmod(key, 0600), 0);
    assert_int_equal(chmod(root_key, 0644), 0);
    assert_false(ensure(f, hosts, 1, &issued, &why));
    assert_int_equal(why.kind, FAULT_PERMISSION);
    write_of(f, "root.key", 0600, buf_slice(&other));
    assert_false(ensure(f, hosts, 1, &issued, &why));
    assert_int_equal(why.kind, FAULT_REFUSED);
    remove_of(f, "root.pem");
    assert_false(ensure(f, hosts, 2, &issued, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    buf_free(&other);
    free(root_key);
    free(key);
}

/* The keeper gets the intermediate; the root's key stays where it is. */
static void test_bundle(void **state)
{
    struct fixture *f = *state;
    struct bundle *files = bundle_new();
    struct slice bytes;

    assert_true(ca_add_files(f->directory, files, NULL));
    assert_true(bundle_get(files, "ca/intermediate.key", &bytes));
    assert_false(bundle_get(files, "ca/root.key", &bytes));
    bundle_free(files);
}

static void test_shown(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0}, json = {0}, pem = {0}, root = read_of(f, "root.pem");
    struct fault why = {0};

    assert_true(ca_describe(f->directory, false, &text, NULL) && ca_describe(f->directory, true, &json, NULL));
    assert_true(slice_search(buf_slice(&text), SLICE("permits      files.test and names below it\n")) > 0);
    assert_true(slice_search(buf_slice(&json), SLICE("\"permitted\":[\"files.test\",\"registry.test\"]")) > 0);
    assert_true(slice_starts(buf_slice(&json), SLICE("{\"schema\":\"exeat.ca/1\",\"root\":{\"subject\":\"CN=Exeat root ")));
    assert_true(slice_search(buf_slice(&json), SLICE("PRIVATE")) < 0);
    assert_true(ca_export(f->directory, &pem, NULL));
    assert_true(slice_equals(buf_slice(&pem), buf_slice(&root)));
    remove_of(f, "root.pem");
    assert_false(ca_export(f->directory, &pem, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    buf_free(&text);
    buf_free(&json);
    buf_free(&pem);
    buf_free(&root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(test_modes),
        ROW(test_init_refuses_to_overwrite),
        cmocka_unit_test(test_init_refuses_names),
        ROW(test_host_sets),
        ROW(test_most_names),
        cmocka_unit_test(test_constraints_are_read_strictly),
        ROW(test_root_offline),
        ROW(test_ages),
        ROW(test_broken_pairs_are_replaced),
        ROW(test_load_refuses),
        ROW(test_ensure_refuses),
        ROW(test_bundle),
        ROW(test_shown),
    };

    return cmocka_run_group_tests_name("ca_files", tests, NULL, NULL);
}
