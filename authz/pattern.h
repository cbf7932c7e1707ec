/*
 * Path and query patterns of rules and tokens. Segments stand for themselves, or are
 *
 *     *        one segment that is not empty; "*.tgz", "@*", "a*b": one that begins and ends so, with more between
 *     **       at the end: the rest, also none, whatever it is. Before the end: any number of segments, also none, and no
 *              empty ones. Once in a pattern
 *     {name}   one segment that is not empty, captured
 *
 * Behind "?" stand the names the query must have, exactly these and once each, in any order: "?service=x&v=*" ("*": any
 * value; "?" alone: no query). Without "?" any query will do. Text is canonicalised as requests are (authz/path.h), so
 * "%2A" is an asterisk. Pure.
 */
#ifndef AUTHZ_PATTERN_H
#define AUTHZ_PATTERN_H

#include "base/fault.h"
#include "base/slice.h"

enum { PATTERN_CAPTURES = 8 };

struct pattern;

/* NULL and why (FAULT_SYNTAX, without a place) when text is not a pattern. */
struct pattern *pattern_parse(struct slice text, struct fault *why);
/* The same pattern for paths that path_loosen() has loosened; a trailing slash more is fine for it. */
struct pattern *pattern_loosen(const struct pattern *p);
void pattern_free(struct pattern *p);

size_t pattern_capture_count(const struct pattern *p);
const char *pattern_capture_name(const struct pattern *p, size_t i);

/* path is canonical. captures may be NULL; its slices borrow from path. */
bool pattern_matches_path(const struct pattern *p, struct slice path, struct slice captures[PATTERN_CAPTURES]);
/* Does the query have exactly the names of the pattern? query: without "?", empty when there is none. */
bool pattern_matches_query(const struct pattern *p, struct slice query);
/* Does it have them among others? For deny rules, which nobody may evade by adding one more. */
bool pattern_finds_query(const struct pattern *p, struct slice query);

#endif
