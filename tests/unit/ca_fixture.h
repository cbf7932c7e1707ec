/* A state's ca/ directory of its own for each test, with a root, an intermediate for two hosts, and a leaf key. */
#ifndef TESTS_CA_FIXTURE_H
#define TESTS_CA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "certs/ca.h"
#include "certs/cert.h"
#include "certs/constraint.h"

#define NAME "gw.example"
#define ROW(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S };

static const char *const hosts[] = {"registry.test", "*.files.test"};

struct fixture {
    char directory[64];
    struct ca *ca;
    EVP_PKEY *leaf_key;
};

static inline char *path_of(const struct fixture *f, const char *name)
{
    return file_join(f->directory, name);
}

static inline struct buf read_of(const struct fixture *f, const char *name)
{
    char *path = path_of(f, name);
    struct buf out = {0};

    assert_true(file_read(path, CERT_PEM_MAX, &out, NULL));
    free(path);
    return out;
}

static inline void write_of(const struct fixture *f, const char *name, mode_t mode, struct slice bytes)
{
    char *path = path_of(f, name);

    assert_true(file_replace(path, mode, bytes, NULL));
    free(path);
}

static inline void remove_of(const struct fixture *f, const char *name)
{
    char *path = path_of(f, name);

    unlink(path);
    free(path);
}

static inline struct ca *load(const struct fixture *f, struct fault *why)
{
    struct bundle *files = bundle_new();
    struct ca *ca = ca_add_files(f->directory, files, why) ? ca_load_files(files, why) : NULL;

    bundle_free(files);
    return ca;
}

static inline bool ensure(const struct fixture *f, const char *const *list, size_t n, bool *issued, struct fault *why)
{
    return ca_ensure_intermediate(f->directory, NAME, list, n, issued, why);
}

static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char template[] = "/tmp/exeat-ca-XXXXXX";
    bool issued;

    assert_non_null(mkdtemp(template));
    snprintf(f->directory, sizeof f->directory, "%s/ca", template);
    assert_true(ca_init(f->directory, NAME, NULL));
    assert_true(ensure(f, hosts, 2, &issued, NULL));
    assert_true(issued);
    f->ca = load(f, NULL);
    assert_non_null(f->ca);
    f->leaf_key = cert_new_key(NULL);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    static const char *const names[] = {"root.pem", "root.key", "intermediate.pem", "intermediate.key"};
    struct fixture *f = *state;

    for (size_t i = 0; i < 4; i++)
        remove_of(f, names[i]);
    rmdir(f->directory);
    *strrchr(f->directory, '/') = '\0';
    rmdir(f->directory);
    ca_free(f->ca);
    EVP_PKEY_free(f->leaf_key);
    free(f);
    return 0;
}

static inline X509 *cert_of(const struct fixture *f, const char *name)
{
    struct buf pem = read_of(f, name);
    X509 *x = cert_parse(buf_slice(&pem), name, NULL);

    assert_non_null(x);
    buf_free(&pem);
    return x;
}

#endif
