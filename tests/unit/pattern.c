/* Path and query patterns, and the presets' rules as patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/path.h"
#include "authz/pattern.h"

static struct pattern *parse(const char *text)
{
    struct fault why = {0};
    struct pattern *p = pattern_parse(slice_of(text), &why);

    if (!p)
        fail_msg("%s: %s", text, why.text);
    return p;
}

static const struct {
    const char *name, *pattern, *path;
    bool matches;
} paths[] = {
    {"the same", "/a/b", "/a/b", true},
    {"longer", "/a/b", "/a/bc", false},
    {"shorter", "/a/b", "/a", false},
    {"a trailing slash more", "/a/b", "/a/b/", false},
    {"a trailing slash less", "/a/b/", "/a/b", false},
    {"another case", "/a/b", "/A/b", false},
    {"the root", "/", "/", true},
    {"the root and more", "/", "/a", false},
    {"* is one segment", "/a/*", "/a/b", true},
    {"* is not two", "/a/*", "/a/b/c", false},
    {"* is not empty", "/a/*", "/a/", false},
    {"* holds an encoded slash", "/*", "/@scope%2Fname", true},
    {"* in the middle", "/a/*/c", "/a/b/c", true},
    {"* in the middle, empty", "/a/*/c", "/a//c", false},
    {"* in the middle, something else behind", "/a/*/c", "/a/b/d", false},
    {"* and a slash", "/a/*/", "/a/b/", true},
    {"* and a slash that is missing", "/a/*/", "/a/b", false},
    {"* twice", "/*/*", "/a/b", true},
    {"* twice, once there", "/*/*", "/a", false},
    {"** is the rest", "/a/**", "/a/b/c", true},
    {"** is an empty rest", "/a/**", "/a/", true},
    {"** does not eat the slash before it", "/a/**", "/a", false},
    {"** starts at a segment", "/a/**", "/ab", false},
    {"** everywhere", "/**", "/", true},
    {"** everywhere, deep", "/**", "/a/b//c/", true},
    {"** behind *", "/*/**", "/a/b/c", true},
    {"** behind an empty *", "/*/**", "//b/c", false},
    {"a prefix trick: two leading slashes", "/pkg/**", "//pkg/a", false},
    {"a capture is one segment", "/api/{repo}/x", "/api/team-a/x", true},
    {"a capture is not empty", "/api/{repo}/x", "/api//x", false},
    {"an encoded pattern matches its canonical spelling", "/%61/caf%c3%a9", "/a/caf%C3%A9", true},
    {"an encoded slash is not a slash", "/a%2fb", "/a/b", false},
    {"a slash is not an encoded slash", "/a/b", "/a%2Fb", false},
    {"an encoded asterisk is text", "/%2A", "/b", false},
    {"an encoded asterisk matches itself", "/%2a", "/%2A", true},
    {"encoded braces are text", "/%7Bx%7D", "/%7Bx%7D", true},
    {"printable characters are encoded for you", "/a|b", "/a%7Cb", true},
    {"an empty segment is text", "/a//b", "/a//b", true},
    {"an ending", "/a/*.tgz", "/a/b.tgz", true},
    {"an ending, in the middle of the path", "/*.git/x", "/b.git/x", true},
    {"an ending alone is not one", "/a/*.tgz", "/a/.tgz", false},
    {"another ending", "/a/*.tgz", "/a/b.zip", false},
    {"an ending that goes on", "/a/*.tgz", "/a/b.tgz.exe", false},
    {"an ending in another case", "/a/*.tgz", "/a/b.TGZ", false},
    {"an ending in the next segment", "/a/*.tgz", "/a/b/c.tgz", false},
    {"an ending and a slash", "/a/*.tgz", "/a/b.tgz/", false},
    {"an ending and a parameter", "/a/*.tgz", "/a/b.tgz;x", false},
    {"a parameter with the ending", "/a/*.tgz", "/a/b;x.tgz", true},
    {"an ending in a segment with an encoded slash", "/a/*.tgz", "/a/b%2Fc.tgz", true},
    {"a segment shorter than its ending", "/a/*.tgz", "/a/b", false},
    {"an ending inside an escape", "/*F", "/a%2F", false},
    {"an ending that is all but the sign of an escape", "/*2F", "/a%2F", false},
    {"an ending behind an escape", "/*F", "/a%2FF", true},
    {"a beginning", "/@*/x", "/@scope/x", true},
    {"a beginning alone is not one", "/@*/x", "/@/x", false},
    {"another beginning", "/@*/x", "/scope/x", false},
    {"a beginning and an ending", "/v*.info", "/v1.info", true},
    {"a beginning and an ending that overlap", "/aba*aba", "/ababa", false},
    {"a beginning and an ending, nothing between", "/ab*cd", "/abcd", false},
    {"** in the middle", "/**/x", "/a/b/x", true},
    {"** in the middle, one", "/**/x", "/a/x", true},
    {"** in the middle, none", "/**/x", "/x", true},
    {"** in the middle, something else behind", "/**/x", "/a/b/y", false},
    {"** in the middle, more behind", "/**/x", "/a/x/b", false},
    {"** in the middle takes all but the end", "/**/x", "/x/x/x", true},
    {"** in the middle does not start inside a segment", "/**/x", "/ax", false},
    {"** in the middle holds no empty segment in front", "/**/x", "//x", false},
    {"** in the middle holds no empty segment", "/**/x", "/a//b/x", false},
    {"** in the middle holds no empty segment behind", "/**/x", "/a//x", false},
    {"** in the middle behind text", "/a/**/x", "/a/b/c/x", true},
    {"** in the middle behind text, none", "/a/**/x", "/a/x", true},
    {"** in the middle behind text, the text again", "/a/**/x", "/a/a/x", true},
    {"** in the middle is not the text before it", "/a/**/a/x", "/a/x", false},
    {"** in the middle behind other text", "/a/**/x", "/b/c/x", false},
    {"** in the middle behind *", "/*/**/x", "/a/b/x", true},
    {"** in the middle behind *, none", "/*/**/x", "/a/x", true},
    {"** in the middle behind *, which is there", "/*/**/x", "/x", false},
    {"** in the middle before *", "/**/@v/*.zip", "/code.test/hello/@v/v1.zip", true},
    {"** in the middle before *, which is empty", "/**/@v/*", "/code.test/@v/", false},
    {"** in the middle before two segments, one there", "/**/a/b", "/b", false},
    {"** in the middle before a slash", "/**/x/", "/a/x/", true},
    {"** in the middle before a slash that is missing", "/**/x/", "/a/x", false},
    {"** alone before a slash", "/**/", "/a/b/", true},
    {"** alone before a slash, none", "/**/", "/", true},
    {"** alone before a slash that is missing", "/**/", "/a/b", false},
    {"** in the middle holds an encoded slash", "/**/x", "/a%2Fb/x", true},
    {"an encoded slash is not that before the end", "/**/x", "/a%2Fx", false},
};

static void paths_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct pattern *p = parse(paths[i].pattern);

        if (pattern_matches_path(p, slice_of(paths[i].path), NULL) != paths[i].matches)
            fail_msg("%s: %s and %s", paths[i].name, paths[i].pattern, paths[i].path);
        pattern_free(p);
    }
}

static void captures_are_what_stands_there(void **state)
{
    struct pattern *p = parse("/{a}/x/{b-2}/**");
    struct slice captures[PATTERN_CAPTURES];

    (void)state;
    assert_int_equal(pattern_capture_count(p), 2);
    assert_string_equal(pattern_capture_name(p, 0), "a");
    assert_string_equal(pattern_capture_name(p, 1), "b-2");
    assert_true(pattern_matches_path(p, SLICE("/one/x/two%2F/"), captures));
    assert_true(slice_is(captures[0], "one"));
    assert_true(slice_is(captures[1], "two%2F"));
    pattern_free(p);
    p = parse("/{a}/**/x/{b}/*.tgz");
    assert_true(pattern_matches_path(p, SLICE("/one/m/n/x/two/y.tgz"), captures));
    assert_true(slice_is(captures[0], "one"));
    assert_true(slice_is(captures[1], "two"));
    pattern_free(p);
}

static const struct {
    const char *name, *query_pattern, *query;
    bool matches, found; /* exactly; among others */
} queries[] = {
    {"no query in the pattern: any", "", "a=1", true, true},
    {"no query in the pattern: none", "", "", true, true},
    {"a question mark alone: none", "?", "", true, true},
    {"a question mark alone: not one", "?", "a", false, false},
    {"the same", "?service=git-upload-pack", "service=git-upload-pack", true, true},
    {"another value", "?service=git-upload-pack", "service=git-receive-pack", false, false},
    {"a longer value", "?service=git-upload-pack", "service=git-upload-packs", false, false},
    {"no query", "?service=git-upload-pack", "", false, false},
    {"one more", "?a=1", "a=1&b=2", false, true},
    {"one more in front", "?a=1", "b=2&a=1", false, true},
    {"an empty one more", "?a=1", "a=1&", false, true},
    {"one more behind a semicolon", "?a=*", "a=1;b=2", false, true},
    {"behind a semicolon", "?b=2", "a=1;b=2", false, true},
    {"twice", "?a=1", "a=1&a=1", false, true},
    {"twice, another value", "?a=1", "a=1&a=2", false, true},
    {"any value", "?a=*", "a=xyz", true, true},
    {"any value, empty", "?a=*", "a=", true, true},
    {"any value, none written", "?a=*", "a", false, true},
    {"any order", "?a=1&b=2", "b=2&a=1", true, true},
    {"one of two", "?a=1&b=2", "a=1", false, false},
    {"a bare name", "?flag", "flag", true, true},
    {"a bare name with an empty value", "?flag", "flag=", false, true},
    {"a bare name with a value", "?flag", "flag=1", false, false},
    {"an empty value", "?flag=", "flag=", true, true},
    {"an empty value, none written", "?flag=", "flag", false, true},
    {"a name spelt with escapes", "?service=x", "%73ervice=%78", true, true},
    {"a reserved character stays encoded", "?a=%2f", "a=%2F", true, true},
    {"a reserved character is not its escape", "?a=%2f", "a=/", false, false},
    {"a bad escape", "?a=*&b=1", "a=1&b=%zz", false, false},
    {"an escaped equals sign is no equals sign", "?a=1", "a%3D1", false, false},
    {"another case", "?a=1", "A=1", false, false},
};

static void queries_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        char text[64] = "/x";
        struct pattern *p = parse(strncat(text, queries[i].query_pattern, sizeof text - 3));

        if (pattern_matches_query(p, slice_of(queries[i].query)) != queries[i].matches)
            fail_msg("%s: exactly", queries[i].name);
        if (pattern_finds_query(p, slice_of(queries[i].query)) != queries[i].found)
            fail_msg("%s: among others", queries[i].name);
        pattern_free(p);
    }
}

/* No request has one; a slice may. */
static void a_nul_is_not_the_end_of_a_value(void **state)
{
    struct pattern *p = parse("/x?a=1");

    (void)state;
    assert_true(pattern_matches_query(p, SLICE("a=1")));
    assert_false(pattern_matches_query(p, SLICE("a=1\0")));
    assert_false(pattern_matches_query(p, SLICE("a\0b=1")));
    assert_false(pattern_finds_query(p, SLICE("a=1\0\0bd")));
    pattern_free(p);
}

static const struct {
    const char *name, *pattern;
} refused[] = {
    {"empty", ""},
    {"no slash", "pkg/**"},
    {"an asterisk alone", "*"},
    {"** twice", "/**/x/**"},
    {"** twice, side by side", "/**/**"},
    {"*** ", "/***"},
    {"** beside text", "/a**"},
    {"** beside text, behind", "/**.tgz"},
    {"* twice in a segment", "/a*b*"},
    {"* beside an escape", "/*%2e"},
    {"* beside an encoded slash", "/a%2f*"},
    {"* beside a parameter", "/*;x"},
    {"* beside a capture", "/{a}*"},
    {"* beside a space", "/* x"},
    {"a capture beside text", "/v{n}"},
    {"a capture that is not closed", "/{n"},
    {"a brace that was not opened", "/n}"},
    {"a capture without a name", "/{}"},
    {"a capture of a strange name", "/{a b}"},
    {"a capture with a dot", "/{a.b}"},
    {"a capture twice", "/{a}/{a}"},
    {"nine captures", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}"},
    {"a dot segment", "/a/../b"},
    {"an encoded dot segment", "/a/%2e%2e/b"},
    {"a dot segment behind a wildcard", "/*/../b"},
    {"encoded twice", "/%252e"},
    {"a backslash", "/a\\b"},
    {"a space", "/a b"},
    {"a fragment", "/a#b"},
    {"a control", "/a\tb"},
    {"octets above ASCII", "/caf\xc3\xa9"},
    {"a bad escape", "/%zz"},
    {"an empty name", "/a?=1"},
    {"an empty pair", "/a?b=1&"},
    {"a name twice", "/a?b=1&b=2"},
    {"a name twice, spelt with an escape", "/a?b=1&%62=2"},
    {"* inside a value", "/a?b=x*"},
    {"* for a name", "/a?*=1"},
    {"* for a whole query", "/a?*"},
    {"a capture in the query", "/a?b={c}"},
    {"a semicolon", "/a?b=1;c=2"},
    {"a bad escape in the query", "/a?b=%zz"},
    {"a space in the query", "/a?b=c d"},
    {"seventeen names", "/a?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q"},
};

static void what_is_no_pattern_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct fault why = {0};
        struct pattern *p = pattern_parse(slice_of(refused[i].pattern), &why);

        if (p)
            fail_msg("%s: %s", refused[i].name, refused[i].pattern);
        if (why.kind != FAULT_SYNTAX || why.text[0] == '\0')
            fail_msg("%s: no reason", refused[i].name);
    }
}

static const struct {
    const char *name, *pattern, *path;
    bool matches;
} looses[] = {
    {"the same", "/-/v1/search", "/-/v1/search", true},
    {"an encoded slash", "/-/v1/search", "/-/v1%2Fsearch", true},
    {"empty segments", "/-/v1/search", "//-//v1///search", true},
    {"a trailing slash", "/-/v1/search", "/-/v1/search/", true},
    {"parameters", "/-/v1/search", "/-;a/v1;b=c/search;d", true},
    {"an encoded reserved character", "/@scope/x", "/%40scope/x", true},
    {"the pattern encoded", "/-/v1%2Fsearch", "/-/v1/search", true},
    {"the pattern with a parameter", "/a;v=1/b", "/a/b", true},
    {"a wildcard", "/*/secret", "/a;x/secret", true},
    {"a wildcard behind an encoded slash", "/a/*/c", "/a%2Fb/c", true},
    {"the rest", "/-/**", "/-%2Fx/y", true},
    {"an ending", "/*.key", "/a%2Fb.key;x", false},
    {"an ending behind an encoded slash", "/**/*.key", "/a%2Fb.key;x", true},
    {"a beginning", "/_*/x", "//_a;b/x/", true},
    {"** in the middle", "/a/**/x", "/a%2Fb//c/x;y", true},
    {"** in the middle and a trailing slash", "/a/**/x", "/a/b/x/", true},
    {"** in the middle, none, and a trailing slash", "/a/**/x", "/a/x/", true},
    {"** in the middle before a slash", "/a/**/x/", "/a/b/x/", true},
    {"something else", "/-/v1/search", "/-/v1/searches", false},
    {"something below", "/-/v1/search", "/-/v1/search/x", false},
};

static void loosened_patterns_match_careless_readings(void **state)
{
    struct buf path = {0};

    (void)state;
    for (size_t i = 0; i < sizeof looses / sizeof *looses; i++) {
        struct pattern *p = parse(looses[i].pattern), *loose = pattern_loosen(p);

        buf_clear(&path);
        path_loosen(slice_of(looses[i].path), &path);
        if (pattern_matches_path(loose, buf_slice(&path), NULL) != looses[i].matches)
            fail_msg("%s: %s and %.*s", looses[i].name, looses[i].pattern, SLICE_ARG(buf_slice(&path)));
        pattern_free(p);
        pattern_free(loose);
    }
    buf_free(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_match),
        cmocka_unit_test(captures_are_what_stands_there),
        cmocka_unit_test(queries_match),
        cmocka_unit_test(a_nul_is_not_the_end_of_a_value),
        cmocka_unit_test(what_is_no_pattern_is_refused),
        cmocka_unit_test(loosened_patterns_match_careless_readings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
