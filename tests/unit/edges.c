/* proxy/edges.h: each edge once, then counted; and authz/destination.h: where a service may send on to. */
#include "proxy/edges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "authz/destination.h"

static struct sight sight_of(const char *service, enum edge_kind kind, const char *host)
{
    struct sight s = {.service = service, .host = "asked.test", .listed = ""};

    s.edge.kind = kind;
    s.edge.why = "";
    s.edge.to.query = slice_make("", 0);
    snprintf(s.edge.to.scheme, sizeof s.edge.to.scheme, "https");
    snprintf(s.edge.to.host, sizeof s.edge.to.host, "%s", host);
    s.edge.to.port = 443;
    return s;
}

static bool is_first(struct edges *e, const char *service, enum edge_kind kind, const char *host, int64_t ms)
{
    struct sight s = sight_of(service, kind, host);
    const struct sight *told = edges_see(e, &s, ms, ms / 1000);

    if (told) {
        assert_int_equal(told->count, 1);
        assert_string_equal(told->service, service);
    }
    return told != NULL;
}

static void an_edge_is_told_once_and_then_counted(void **state)
{
    struct edges *e = edges_new();
    const struct sight *s;

    (void)state;
    assert_true(is_first(e, "npm", EDGE_TARBALL, "a.test", 0));
    assert_null(edges_next(e, EDGES_MS - 1, false));
    for (int i = 1; i <= 1000; i++)
        assert_false(is_first(e, "npm", EDGE_TARBALL, "a.test", i * 10));
    assert_true(is_first(e, "npm", EDGE_LOCATION, "a.test", 10)); /* another kind, place or service is another edge */
    assert_true(is_first(e, "npm", EDGE_TARBALL, "b.test", 10));
    assert_true(is_first(e, "pip", EDGE_TARBALL, "a.test", 10));
    s = edges_next(e, EDGES_MS, false);
    assert_non_null(s);
    assert_int_equal(s->count, 1000);
    assert_int_equal(s->first_s, 0);
    assert_int_equal(s->last_s, 10);
    assert_string_equal(s->edge.to.host, "a.test");
    assert_null(edges_next(e, EDGES_MS, false));
    edges_free(e);
}

static void one_that_is_quiet_for_a_minute_is_a_first_again(void **state)
{
    struct edges *e = edges_new();

    (void)state;
    assert_true(is_first(e, "npm", EDGE_TARBALL, "a.test", 0));
    assert_null(edges_next(e, EDGES_MS, false));
    assert_true(is_first(e, "npm", EDGE_TARBALL, "a.test", EDGES_MS + 1));
    edges_free(e);
}

static void what_makes_it_worse_is_an_edge_of_its_own(void **state)
{
    struct edges *e = edges_new();
    struct sight s = sight_of("npm", EDGE_TARBALL, "a.test");

    (void)state;
    assert_non_null(edges_see(e, &s, 0, 0));
    s.edge.downgrade = true;
    assert_non_null(edges_see(e, &s, 0, 0));
    s.edge.presigned = true;
    s.edge.signature.lifetime_s = 60;
    assert_non_null(edges_see(e, &s, 0, 0));
    s.edge.signature.lifetime_s = 61; /* another with each: no edge of its own */
    assert_null(edges_see(e, &s, 0, 0));
    s.refused = true;
    assert_non_null(edges_see(e, &s, 0, 0));
    edges_free(e);
}

static void a_flood_of_places_is_counted_together(void **state)
{
    struct edges *e = edges_new();
    const struct sight *s;
    size_t firsts = 0;
    bool others = false;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        char host[40];

        snprintf(host, sizeof host, "h%d.test", i);
        firsts += is_first(e, "npm", EDGE_TARBALL, host, 0);
    }
    assert_true(firsts >= EDGES_MOST && firsts <= EDGES_MOST + 1);
    assert_true(is_first(e, "pip", EDGE_TARBALL, "a.test", 0)); /* of another service: its others */
    while ((s = edges_next(e, 0, true)))
        if (s->edge.kind == EDGE_OTHERS && strcmp(s->service, "npm") == 0)
            others = s->count == 10000 - EDGES_MOST - 1;
    assert_true(others);
    edges_free(e);
}

static const struct row {
    const char *requirement, *destination;
    bool is_tls;
    const char *host;
    uint16_t port;
    bool was_plain, holds;
} table[] = {
    {"a host", "a.test", true, "a.test", 443, false, true},
    {"another port than the scheme's", "a.test", true, "a.test", 8443, false, false},
    {"another host", "a.test", true, "b.test", 443, false, false},
    {"a name below a host", "a.test", true, "x.a.test", 443, false, false},
    {"down to plain HTTP", "a.test", false, "a.test", 80, false, false},
    {"plain HTTP from plain HTTP", "a.test", false, "a.test", 80, true, true},
    {"up from plain HTTP", "a.test", true, "a.test", 443, true, true},
    {"plain HTTP as listed", "http://a.test", false, "a.test", 80, false, true},
    {"listed for plain HTTP alone", "http://a.test", true, "a.test", 443, false, false},
    {"https in words", "https://a.test", true, "a.test", 443, false, true},
    {"a port", "a.test:8443", true, "a.test", 8443, false, true},
    {"the scheme's port beside it", "a.test:8443", true, "a.test", 443, false, false},
    {"below a suffix", "*.a.test", true, "x.y.a.test", 443, false, true},
    {"the suffix itself", "*.a.test", true, "a.test", 443, false, false},
    {"a suffix with scheme and port", "http://*.a.test:81", false, "x.a.test", 81, false, true},
    {"case of the list", "A.Test", true, "a.test", 443, false, true},
};

static void a_destination_holds_its_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *r = &table[i];
        struct destination d;

        if (!destination_parse(slice_of(r->destination), &d, NULL) ||
            destination_holds(&d, r->is_tls, slice_of(r->host), r->port, r->was_plain) != r->holds)
            fail_msg("%s", r->requirement);
    }
}

static void what_is_no_destination_is_refused(void **state)
{
    static const char *const texts[] = {"", "*", "*.test", "a.*", "a.test/x", "https://", "ftp://a.test", "a.test:", "a.test:0",
                                        "a.test:65536", "u@a.test", "10.0.0.1", "[::1]", "a b.test", "a_b.test", "http://*", "//a.test"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct destination d;
        struct fault why = {0};

        if (destination_parse(slice_of(texts[i]), &d, &why) || !why.text[0])
            fail_msg("\"%s\" is taken", texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edge_is_told_once_and_then_counted),
        cmocka_unit_test(one_that_is_quiet_for_a_minute_is_a_first_again),
        cmocka_unit_test(what_makes_it_worse_is_an_edge_of_its_own),
        cmocka_unit_test(a_flood_of_places_is_counted_together),
        cmocka_unit_test(a_destination_holds_its_places),
        cmocka_unit_test(what_is_no_destination_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
