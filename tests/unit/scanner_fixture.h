/*
 * A scanner with one canary, as the fixture of a group: its value is SECRET, which is to be defined before. For tests only; include after
 * cmocka.h.
 */
#ifndef TESTS_UNIT_SCANNER_FIXTURE_H
#define TESTS_UNIT_SCANNER_FIXTURE_H

#include "canary/canary.h"
#include "canary/scan.h"

struct fixture {
    struct registry *registry;
    struct scanner *scanner;
};

static int set_up(void **state)
{
    static const char json[] =
        "{\"schema\":\"exeat.canaries/1\",\"canaries\":[{\"id\":\"npm-1\",\"kind\":\"npm\",\"sandbox\":\"\",\"value\":\"" SECRET
        "\",\"random_from\":4,\"random_len\":22,\"created\":\"2026-01-02T03:04:05Z\"}]}";
    static struct fixture f;

    f.registry = registry_parse(slice_of(json), "one.json", NULL);
    f.scanner = scanner_new(f.registry, NULL);
    assert_non_null(f.scanner);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    scanner_free(f->scanner);
    registry_free(f->registry);
    return 0;
}

#endif
