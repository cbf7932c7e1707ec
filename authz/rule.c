/* Owns the text and the pattern of each rule. Knows one request at a time and no service. */
#include "authz/rule.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

uint32_t methods_bit(const struct methods *m, struct slice method)
{
    for (size_t i = 0; i < m->count; i++)
        if (slice_is(method, m->names[i]))
            return (uint32_t)1 << i;
    return 0;
}

static bool check_method(struct slice method, struct fault *why)
{
    for (size_t i = 0; i < method.len; i++)
        if (!((method.ptr[i] >= 'A' && method.ptr[i] <= 'Z') || method.ptr[i] == '-'))
            return fault_set(why, FAULT_SYNTAX, "a method is written in capital letters, found \"%.*s\"",
                             SLICE_ARG(method));
    if (method.len == 0 || method.len > METHOD_LEN_MAX)
        return fault_set(why, FAULT_SYNTAX, "expected a rule such as \"GET,HEAD /path/**\"");
    if (slice_is(method, "CONNECT") || slice_is(method, "TRACE"))
        return fault_set(why, FAULT_SYNTAX, "%.*s is never a rule's: %s", SLICE_ARG(method),
                         method.ptr[0] == 'C' ? "hosts and ports decide on tunnels" : "it is always refused");
    return true;
}

static bool add_method(struct rule *r, struct slice method, struct methods *m, struct fault *why)
{
    if (!check_method(method, why))
        return false;
    if (methods_bit(m, method) == 0) {
        if (m->count == METHODS_MAX)
            return fault_set(why, FAULT_SYNTAX, "the rules of the service speak of more than %d methods", METHODS_MAX);
        memcpy(m->names[m->count], method.ptr, method.len);
        m->names[m->count++][method.len] = '\0';
    }
    if (r->methods & methods_bit(m, method))
        return fault_set(why, FAULT_SYNTAX, "%.*s stands twice in the rule", SLICE_ARG(method));
    r->methods |= methods_bit(m, method);
    return true;
}

static bool bind_captures(struct rule *r, struct bind *binds, size_t n_binds, struct fault *why)
{
    for (size_t i = 0; i < pattern_capture_count(r->pattern); i++) {
        const char *name = pattern_capture_name(r->pattern, i);
        size_t k = 0;

        while (k < n_binds && strcmp(binds[k].name, name) != 0)
            k++;
        if (k == n_binds)
            return fault_set(why, FAULT_SYNTAX, "{%s} has no values: add bind: {%s: [...]}, or write *", name, name);
        binds[k].used = true;
        r->binds[i] = &binds[k];
    }
    return true;
}

bool rule_parse(struct rule *r, const char *text, struct methods *m, bool loose, struct bind *binds, size_t n_binds,
                struct fault *why)
{
    struct slice rest = slice_of(text), methods, method;

    *r = (struct rule){0};
    if (rest.len > RULE_LEN_MAX)
        return fault_set(why, FAULT_SYNTAX, "a rule is at most %d characters", RULE_LEN_MAX);
    if (slice_find(rest, ' ') < 0)
        return fault_set(why, FAULT_SYNTAX, "expected a rule such as \"GET,HEAD /path/**\", found \"%s\"", text);
    slice_next(&rest, ' ', &methods);
    while (slice_next(&methods, ',', &method))
        if (!add_method(r, method, m, why))
            return false;
    if (!(r->pattern = pattern_parse(slice_trim(rest), why)))
        return false;
    r->text = text_copy(slice_of(text));
    r->len = strlen(text);
    if (loose)
        r->loose = pattern_loosen(r->pattern);
    return loose || bind_captures(r, binds, n_binds, why);
}

void rule_clear(struct rule *r)
{
    free(r->text);
    pattern_free(r->pattern);
    pattern_free(r->loose);
    *r = (struct rule){0};
}

static bool bind_holds(const struct bind *b, struct slice segment)
{
    for (size_t i = 0; i < b->count; i++)
        if (slice_is(segment, b->values[i]))
            return true;
    return false;
}

enum rule_fit rule_judge(const struct rule *r, uint32_t method, const struct request *q, size_t *other)
{
    struct slice captures[PATTERN_CAPTURES];

    if (!pattern_matches_path(r->pattern, buf_slice(&q->path), captures))
        return RULE_OTHER_PATH;
    if (!(r->methods & method))
        return RULE_OTHER_METHOD;
    if (!pattern_matches_query(r->pattern, q->query))
        return RULE_OTHER_QUERY;
    for (size_t i = 0; i < PATTERN_CAPTURES && r->binds[i]; i++)
        if (!bind_holds(r->binds[i], captures[i])) {
            *other = i;
            return RULE_OTHER_BIND;
        }
    return RULE_FITS;
}

bool rule_fits_loosely(const struct rule *r, uint32_t method, const struct request *q, struct slice loose)
{
    return r->loose && r->methods & method && pattern_matches_path(r->loose, loose, NULL) && pattern_matches_query(r->pattern, q->query);
}

bool rule_denies(const struct rule *r, uint32_t method, const struct request *q, struct slice loose)
{
    return r->methods & method && pattern_finds_query(r->pattern, q->query) &&
           (pattern_matches_path(r->pattern, buf_slice(&q->path), NULL) ||
            pattern_matches_path(r->loose, loose, NULL));
}
