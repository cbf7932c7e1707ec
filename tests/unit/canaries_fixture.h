/* A scanner of a hundred canaries of every kind, as the fixture of a test. For tests only; include after cmocka.h. */
#ifndef TESTS_UNIT_CANARIES_FIXTURE_H
#define TESTS_UNIT_CANARIES_FIXTURE_H

#include "canary/scan.h"

struct fixture {
    struct registry *registry;
    struct scanner *scanner;
};

static int with_hundred(void **state)
{
    static const char *const kinds[] = {"aws", "generic", "github", "jwt", "npm", "password"};
    static struct fixture f;

    f.registry = registry_new();
    for (int i = 0; i < 100; i++)
        assert_non_null(registry_mint(f.registry, kinds[i % 6], "vm1", 1767323045 + i, NULL));
    f.scanner = scanner_new(f.registry, NULL);
    assert_non_null(f.scanner);
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    struct fixture *f = *state;

    scanner_free(f->scanner);
    registry_free(f->registry);
    return 0;
}

#endif
