/* The registry's file: who may read it, and that writers wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "canary/store.h"

static char directory[] = "/tmp/store.XXXXXX";
static char path[64], lock[80];

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/canaries.json", directory);
    snprintf(lock, sizeof lock, "%s.lock", path);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    unlink(lock);
    return rmdir(directory);
}

static void test_missing_is_empty(void **state)
{
    struct registry *r = registry_load(path, NULL);

    (void)state;
    assert_non_null(r);
    assert_int_equal(registry_count(r), 0);
    assert_false(file_exists(path));
    registry_free(r);
}

static void test_saved_is_read_again(void **state)
{
    struct store *s = store_open(path, NULL);
    struct registry *r;
    struct stat st;

    (void)state;
    assert_non_null(s);
    assert_non_null(registry_mint(store_registry(s), "npm", "vm1", 1, NULL));
    assert_true(store_save(s, NULL));
    store_close(s);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    r = registry_load(path, NULL);
    assert_int_equal(registry_count(r), 1);
    assert_string_equal(registry_get(r, 0)->sandbox, "vm1");
    registry_free(r);
}

static void test_not_saved_is_forgotten(void **state)
{
    struct store *s = store_open(path, NULL);
    struct registry *r;

    (void)state;
    assert_non_null(registry_mint(store_registry(s), "npm", "vm1", 1, NULL));
    store_close(s);
    r = registry_load(path, NULL);
    assert_int_equal(registry_count(r), 1);
    registry_free(r);
}

static void test_readable_by_others(void **state)
{
    struct fault why = {0};

    (void)state;
    chmod(path, 0640);
    assert_null(registry_load(path, &why));
    assert_int_equal(why.kind, FAULT_PERMISSION);
    assert_non_null(strstr(why.text, "chmod 600"));
    assert_null(store_open(path, &why));
    chmod(path, 0600);
}

static void test_no_such_directory(void **state)
{
    struct fault why = {0};

    (void)state;
    assert_null(store_open("/nonexistent/canaries.json", &why));
    assert_non_null(strstr(why.text, "/nonexistent/canaries.json.lock"));
}

/* Ten processes mint one each at the same time: none is lost. */
static void test_writers_wait(void **state)
{
    struct registry *r;

    (void)state;
    for (int i = 0; i < 10; i++)
        if (fork() == 0) {
            struct store *s = store_open(path, NULL);

            _exit(!s || !registry_mint(store_registry(s), "aws", "", 1, NULL) || !store_save(s, NULL));
        }
    for (int i = 0; i < 10; i++) {
        int status;

        assert_true(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    r = registry_load(path, NULL);
    assert_int_equal(registry_count(r), 11);
    registry_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_is_empty),   cmocka_unit_test(test_saved_is_read_again),
        cmocka_unit_test(test_not_saved_is_forgotten), cmocka_unit_test(test_readable_by_others),
        cmocka_unit_test(test_no_such_directory),  cmocka_unit_test(test_writers_wait),
    };

    return cmocka_run_group_tests_name("store", tests, make_directory, remove_directory);
}
