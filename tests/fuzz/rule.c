/*
 * Patterns of rules under libFuzzer: a line of pattern, one of path, one of query. A pattern without wildcards matches itself;
 * captures are whole segments of the path; and the loose form that deny rules have matches every plain path that the
 * strict one matches, and every query.
 */
#include "authz/path.h"
#include "authz/pattern.h"
#include "tests/fuzz/lib/fuzz.h"

static void check_captures(const struct pattern *p, struct slice path, const struct slice *captures)
{
    for (size_t i = 0; i < pattern_capture_count(p); i++) {
        struct slice c = captures[i];

        assert(*pattern_capture_name(p, i));
        assert(c.len && c.ptr > path.ptr && c.ptr + c.len <= path.ptr + path.len);
        assert(c.ptr[-1] == '/' && slice_find(c, '/') < 0 && (c.ptr + c.len == path.ptr + path.len || c.ptr[c.len] == '/'));
    }
}

static void match(const struct pattern *p, struct slice path)
{
    struct slice captures[PATTERN_CAPTURES];
    struct pattern *loose = pattern_loosen(p);
    struct buf loosened = {0};

    assert(pattern_capture_count(p) <= PATTERN_CAPTURES);
    path_loosen(path, &loosened);
    if (pattern_matches_path(p, path, captures)) {
        check_captures(p, path, captures);
        assert(path_is_loose(path) || pattern_matches_path(loose, buf_slice(&loosened), NULL));
    }
    buf_free(&loosened);
    pattern_free(loose);
}

/* A path that is a pattern of text alone matches as such. */
static void match_itself(struct slice text)
{
    struct pattern *p;
    struct buf path = {0};

    if (slice_find(text, '*') >= 0 || slice_find(text, '{') >= 0)
        return;
    p = pattern_parse(text, NULL);
    if (p && path_canonical(text, &path, NULL))
        assert(pattern_matches_path(p, buf_slice(&path), NULL));
    pattern_free(p);
    buf_free(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    struct slice text = fuzz_line(&input), raw = fuzz_line(&input), query = fuzz_line(&input);
    struct fault why = {0};
    struct pattern *p = pattern_parse(text, &why);
    struct buf path = {0};

    match_itself(text);
    if (!p) {
        assert(why.kind == FAULT_SYNTAX && why.text[0]);
        return 0;
    }
    if (path_canonical(raw, &path, NULL))
        match(p, buf_slice(&path));
    if (pattern_matches_query(p, query))
        assert(pattern_finds_query(p, query));
    pattern_free(p);
    buf_free(&path);
    return 0;
}
