/* Compiles the rules of one service: allow, deny and bind, its own and those of its preset; owns what it compiled. */
#include "authz/ruleset.h"

#include <stdlib.h>
#include <string.h>

#include "authz/path.h"
#include "base/text.h"

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* A bound value is a segment, spelt as paths are. */
static char *canonical_segment(const char *text)
{
    struct buf path = {0};
    char *segment = NULL;

    buf_printf(&path, "/%s", text);
    char *raw = buf_take_text(&path);

    if (*text && !strchr(text, '/') && path_canonical(slice_of(raw), &path, NULL))
        segment = text_copy(slice_from(buf_slice(&path), 1));
    free(raw);
    buf_free(&path);
    return segment;
}

static bool read_binds(const struct conf_item *item, struct ruleset *r, struct fault *why)
{
    size_t n = conf_map_count(item, "bind");

    r->binds = must(calloc(n + 1, sizeof *r->binds));
    for (size_t i = 0; i < n; i++) {
        size_t n_values = conf_map_list_count(item, "bind", i);
        struct bind *b = &r->binds[r->n_binds++];

        b->name = text_copy(slice_of(conf_map_name(item, "bind", i)));
        b->values = must(calloc(n_values + 1, sizeof *b->values));
        for (size_t j = 0; j < n_values; j++) {
            const char *text = conf_map_list_text(item, "bind", i, j);

            if (!(b->values[b->count] = canonical_segment(text)))
                return conf_refuse(item, "bind", -1, why, "%s: \"%s\" is not one segment of a path", b->name, text);
            b->count++;
        }
    }
    return true;
}

static bool add_rule(struct ruleset *r, struct rules *to, const char *text, bool loose, struct fault *why)
{
    to->list = must(reallocarray(to->list, to->count + 1, sizeof *to->list));
    return rule_parse(&to->list[to->count++], text, &r->methods, loose, r->binds, r->n_binds, why);
}

static bool read_rule_list(const struct conf_item *item, const char *key, struct ruleset *r, struct rules *to,
                           struct fault *why)
{
    for (size_t i = 0; i < conf_list_count(item, key); i++) {
        struct fault bad = {0};

        if (!add_rule(r, to, conf_list_text(item, key, i), to == &r->deny, &bad))
            return conf_refuse(item, key, (int)i, why, "%s", bad.text);
    }
    return true;
}

/* Those of a preset, in the folder that preset-path names. */
static bool add_preset_rules(const struct conf_item *item, struct ruleset *r, struct rules *to, const char *const *rules,
                             struct fault *why)
{
    const char *folder = conf_text(item, "preset-path");
    struct fault bad = {0};
    bool ok = true;

    for (; ok && *rules; rules++) {
        const char *path = strchr(*rules, '/');
        struct buf text = {0};
        char *whole;

        buf_printf(&text, "%.*s%s%s", (int)(path - *rules), *rules, folder, path);
        whole = buf_take_text(&text);
        ok = add_rule(r, to, whole, true, &bad);
        free(whole);
    }
    return ok || conf_refuse(item, "preset-path", -1, why, "%s", bad.text);
}

static bool check_preset_path(const struct conf_item *item, const struct preset *preset, struct fault *why)
{
    struct slice folder = slice_of(conf_text(item, "preset-path"));

    if (folder.len == 0)
        return true;
    if (!preset)
        return conf_refuse(item, "preset-path", -1, why, "it says where a preset's rules are: say which preset");
    if (folder.ptr[0] != '/' || slice_ends(folder, SLICE("/")) || strpbrk(folder.ptr, "*{}? "))
        return conf_refuse(item, "preset-path", -1, why, "expected a folder such as /npm or /api/npm/all, without wildcards, found \"%s\"",
                           folder.ptr);
    return true;
}

bool ruleset_read(struct ruleset *r, const struct conf_item *item, const struct preset *preset, struct fault *why)
{
    if (!read_binds(item, r, why) || !check_preset_path(item, preset, why) || !read_rule_list(item, "allow", r, &r->allow, why) ||
        !read_rule_list(item, "deny", r, &r->deny, why))
        return false;
    if (preset && r->allow.count == 0 && !add_preset_rules(item, r, &r->allow, preset->allow, why))
        return false;
    if (preset && !add_preset_rules(item, r, &r->deny, preset->deny, why))
        return false;
    for (size_t i = 0; i < r->n_binds; i++)
        if (!r->binds[i].used)
            return conf_refuse(item, "bind", -1, why, "no allow rule captures {%s}", r->binds[i].name);
    if (r->allow.count == 0 && !conf_bool(item, "observe"))
        return conf_refuse(item, "allow", -1, why,
                           "the service has no rules: say allow: [\"GET,HEAD /**\"], or a preset");
    return true;
}

bool ruleset_only_reads(const struct ruleset *r)
{
    uint32_t reads = methods_bit(&r->methods, SLICE("GET")) | methods_bit(&r->methods, SLICE("HEAD"));

    for (size_t i = 0; i < r->allow.count; i++)
        if (r->allow.list[i].methods & ~reads)
            return false;
    return r->allow.count > 0;
}

static void rules_clear(struct rules *r)
{
    for (size_t i = 0; i < r->count; i++)
        rule_clear(&r->list[i]);
    free(r->list);
}

void ruleset_clear(struct ruleset *r)
{
    rules_clear(&r->allow);
    rules_clear(&r->deny);
    for (size_t i = 0; i < r->n_binds; i++) {
        for (size_t j = 0; j < r->binds[i].count; j++)
            free(r->binds[i].values[j]);
        free(r->binds[i].values);
        free(r->binds[i].name);
    }
    free(r->binds);
    *r = (struct ruleset){0};
}
