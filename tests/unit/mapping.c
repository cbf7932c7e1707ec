/* From claims to scopes, and from claims to sandboxes: what an entry of a map means, and how jobs are told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "authz/issuer.h"

/* A conf with one issuer that has this in its item; NULL and why when the tables refuse it. */
static struct conf *read_conf(const char *item, struct fault *why)
{
    static const struct conf_section *const sections[] = {&issuers_section};
    struct buf text = {0};
    struct conf *c;

    buf_printf(&text, "issuers:\n  gitlab: { jwks: x, %s }\n", item);
    c = conf_parse(buf_slice(&text), "proxy.conf", "/", sections, 1, why);
    buf_free(&text);
    return c;
}

static json_t *read_claims(const char *text)
{
    json_t *claims = json_loads(text, 0, NULL);

    if (!claims)
        fail_msg("no JSON: %s", text);
    return claims;
}

static void an_entry_of_a_map_is_read_or_refused_with_its_place(void **state)
{
    static const struct {
        const char *name, *map, *says; /* says NULL: accepted */
    } rows[] = {
        {"one claim, one scope", "{\"project_path:acme/x\": npm:read}", NULL},
        {"a list of scopes", "{\"project_path:acme/x\": [npm:read, git:read]}", NULL},
        {"scopes with a blank between them", "{\"project_path:acme/x\": \"npm:read git:read\"}", NULL},
        {"two conditions", "{\"project_path:acme/x & ref_protected:true\": npm:read}", NULL},
        {"a value with colons", "{\"sub:repo:acme/x:ref:refs/heads/main\": npm:read}", NULL},
        {"a value with a blank", "{\"environment:blue green\": npm:read}", NULL},
        {"a whole segment", "{\"project_path:acme/*\": npm:read}", NULL},
        {"a whole segment in the middle", "{\"sub:repo:acme/*:ref:refs/heads/main\": npm:read}", NULL},
        {"the rest", "{\"project_path:acme/**\": npm:read}", NULL},
        {"eight conditions", "{\"a:1 & b:1 & c:1 & d:1 & e:1 & f:1 & g:1 & h:1\": x}", NULL},
        {"nine conditions", "{\"a:1 & b:1 & c:1 & d:1 & e:1 & f:1 & g:1 & h:1 & i:1\": x}", "more than 8"},
        {"no entry", "{}", "nobody is in it"},
        {"no value", "{\"project_path:\": x}", "expected CLAIM:VALUE"},
        {"no claim", "{\":acme/x\": x}", "expected CLAIM:VALUE"},
        {"no colon", "{\"project_path\": x}", "expected CLAIM:VALUE"},
        {"no condition after &", "{\"a:1 & \": x}", "expected CLAIM:VALUE"},
        {"a claim with a blank", "{\"project path:acme\": x}", "expected CLAIM:VALUE"},
        {"a claim that is a URL", "{\"https://acme.example/team:x\": x}", "cannot be named here"},
        {"part of a segment", "{\"project_path:acme/x*\": x}", "one whole segment"},
        {"part of a segment, behind", "{\"project_path:acme/*x\": x}", "one whole segment"},
        {"the rest in the middle", "{\"project_path:acme/**/x\": x}", "one whole segment"},
        {"three stars", "{\"project_path:acme/***\": x}", "one whole segment"},
        {"the rest behind a segment's part", "{\"project_path:acme**\": x}", "one whole segment"},
        {"the first of two conditions is none", "{\"project_path & a:1\": x}", "project_path"},
        {"a tab in a scope", "{\"project_path:acme/x\": \"a\\tb\"}", "a value is one line"},
        {"a letter above ASCII in a scope", "{\"project_path:acme/x\": \"\u00e4\"}", "expected scopes"},
        {"no scope", "{\"project_path:acme/x\": []}", "gives no scope"},
        {"an empty scope", "{\"project_path:acme/x\": \"\"}", "expected scopes"},
        {"two blanks", "{\"project_path:acme/x\": \"a  b\"}", "expected scopes"},
        {"a quote in a scope", "{\"project_path:acme/x\": 'a\"b'}", "expected scopes"},
        {"an entry twice", "{\"project_path:acme/x\": a, \"project_path:acme/x\": b}", "proxy.conf:2:"},
        {"a list", "[a]", "expected names with lists"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        struct buf item = {0};
        struct mapping *m = NULL;
        struct conf *c;
        bool ok;
        char *text;

        buf_printf(&item, "map: %s", rows[i].map);
        text = buf_take_text(&item);
        c = read_conf(text, &why);
        ok = c && mapping_compile(conf_item(c, "issuers", 0), &m, &why);
        if (rows[i].says ? ok || !strstr(why.text, rows[i].says) || !strstr(why.text, "proxy.conf:2:") : !ok || !m)
            fail_msg("%s: %s", rows[i].name, ok ? "accepted" : why.text);
        mapping_free(m);
        conf_free(c);
        free(text);
    }
}

static void a_condition_means_exactly_what_it_says(void **state)
{
    static const struct {
        const char *name, *condition, *claims;
        bool holds;
    } rows[] = {
        {"the text", "project_path:acme/x", "{\"project_path\":\"acme/x\"}", true},
        {"another text", "project_path:acme/x", "{\"project_path\":\"acme/y\"}", false},
        {"more than the text", "project_path:acme/x", "{\"project_path\":\"acme/x/y\"}", false},
        {"a longer name", "project_path:acme/x", "{\"project_path\":\"acme/xy\"}", false},
        {"less than the text", "project_path:acme/x", "{\"project_path\":\"acme\"}", false},
        {"other case", "project_path:acme/x", "{\"project_path\":\"Acme/x\"}", false},
        {"absent", "project_path:acme/x", "{\"project\":\"acme/x\"}", false},
        {"null", "project_path:null", "{\"project_path\":null}", false},
        {"a list with it", "project_path:acme/x", "{\"project_path\":[\"acme/x\"]}", false},
        {"an object", "project_path:acme/x", "{\"project_path\":{\"acme/x\":1}}", false},
        {"a blank at the end", "project_path:acme/x", "{\"project_path\":\"acme/x \"}", false},
        {"true as a text", "ref_protected:true", "{\"ref_protected\":\"true\"}", true},
        {"true as a boolean", "ref_protected:true", "{\"ref_protected\":true}", true},
        {"false is not true", "ref_protected:true", "{\"ref_protected\":false}", false},
        {"1 is not true", "ref_protected:true", "{\"ref_protected\":1}", false},
        {"True is not true", "ref_protected:true", "{\"ref_protected\":\"True\"}", false},
        {"a number", "project_id:20", "{\"project_id\":20}", true},
        {"a number as a text", "project_id:20", "{\"project_id\":\"20\"}", true},
        {"another number", "project_id:20", "{\"project_id\":200}", false},
        {"a number with zeros in front", "project_id:20", "{\"project_id\":\"020\"}", false},
        {"a fraction", "project_id:20", "{\"project_id\":20.0}", false},
        {"a segment", "project_path:acme/*", "{\"project_path\":\"acme/x\"}", true},
        {"two segments for one", "project_path:acme/*", "{\"project_path\":\"acme/x/y\"}", false},
        {"no segment for one", "project_path:acme/*", "{\"project_path\":\"acme/\"}", false},
        {"nothing for one", "project_path:acme/*", "{\"project_path\":\"acme\"}", false},
        {"another owner", "project_path:acme/*", "{\"project_path\":\"acme2/x\"}", false},
        {"an owner that begins so", "project_path:acme/*", "{\"project_path\":\"acme-x/y\"}", false},
        {"a segment does not reach over a colon", "sub:repo:acme/*", "{\"sub\":\"repo:acme/x:pull_request\"}", false},
        {"a segment between others", "sub:repo:acme/*:ref:refs/heads/main",
         "{\"sub\":\"repo:acme/x:ref:refs/heads/main\"}", true},
        {"and no other ref", "sub:repo:acme/*:ref:refs/heads/main", "{\"sub\":\"repo:acme/x:ref:refs/heads/other\"}", false},
        {"and no ref that has it inside", "sub:repo:acme/*:ref:refs/heads/main",
         "{\"sub\":\"repo:acme/x:ref:refs/heads/y:ref:refs/heads/main\"}", false},
        {"any value of one segment", "environment:*", "{\"environment\":\"prod\"}", true},
        {"any value of one segment, empty", "environment:*", "{\"environment\":\"\"}", false},
        {"one segment of the rest", "project_path:acme/**", "{\"project_path\":\"acme/x\"}", true},
        {"more of the rest", "project_path:acme/**", "{\"project_path\":\"acme/x/y/z\"}", true},
        {"the rest is not empty", "project_path:acme/**", "{\"project_path\":\"acme/\"}", false},
        {"nor is a segment of it", "project_path:acme/**", "{\"project_path\":\"acme//x\"}", false},
        {"nor the last one", "project_path:acme/**", "{\"project_path\":\"acme/x/\"}", false},
        {"the rest does not reach over a colon", "sub:repo:acme/**", "{\"sub\":\"repo:acme/x:ref:y\"}", false},
        {"an owner that begins so, for the rest", "project_path:acme/**", "{\"project_path\":\"acme2/x\"}", false},
        {"both conditions", "project_path:acme/x & ref_protected:true",
         "{\"project_path\":\"acme/x\",\"ref_protected\":\"true\"}", true},
        {"only the first", "project_path:acme/x & ref_protected:true",
         "{\"project_path\":\"acme/x\",\"ref_protected\":\"false\"}", false},
        {"only the second", "project_path:acme/x & ref_protected:true",
         "{\"project_path\":\"acme/y\",\"ref_protected\":\"true\"}", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        struct buf item = {0};
        struct mapping *m = NULL;
        struct conf *c;
        json_t *claims = read_claims(rows[i].claims);

        buf_printf(&item, "map: {\"%s\": s}", rows[i].condition);
        buf_char(&item, '\0');
        c = read_conf(buf_slice(&item).ptr, &why);
        if (!c || !mapping_compile(conf_item(c, "issuers", 0), &m, &why))
            fail_msg("%s: %s", rows[i].name, why.text);
        if (mapping_holds(m, 0, claims) != rows[i].holds)
            fail_msg("%s: %s", rows[i].name, rows[i].holds ? "does not hold" : "holds");
        json_decref(claims);
        mapping_free(m);
        conf_free(c);
        buf_free(&item);
    }
}

static void scopes_of_all_entries_that_hold_are_added_up(void **state)
{
    struct conf *c = read_conf("map: {\"a:1\": [x, y], \"a:*\": [y, z], \"a:2\": w}", NULL);
    json_t *one = read_claims("{\"a\":\"1\"}"), *three = read_claims("{\"a\":3}"), *none = read_claims("{\"b\":1}");
    struct buf out = {0};
    struct mapping *m;

    (void)state;
    assert_true(mapping_compile(conf_item(c, "issuers", 0), &m, NULL));
    assert_true(mapping_scopes(m, one, &out));
    assert_true(slice_is(buf_slice(&out), "x y z"));
    buf_clear(&out);
    assert_true(mapping_scopes(m, three, &out));
    assert_true(slice_is(buf_slice(&out), "y z"));
    buf_clear(&out);
    assert_false(mapping_scopes(m, none, &out));
    assert_int_equal(buf_len(&out), 0);
    json_decref(one);
    json_decref(three);
    json_decref(none);
    mapping_free(m);
    conf_free(c);
    buf_free(&out);
}

static void an_entry_that_names_no_owner_is_wide(void **state)
{
    static const struct {
        const char *condition;
        bool wide;
    } rows[] = {
        {"project_path:acme/x", false}, {"project_path:acme/*", false},   {"project_path:*/x", true},
        {"project_path:**", true},      {"ref:main", true},               {"ref_protected:true", true},
        {"sub:repo:acme/x:*", false},   {"sub:repo:*/x:ref:y", true},     {"repository_owner:acme", false},
        {"namespace_id:72", false},     {"ref:main & project_id:20", false}, {"ref:main & environment:prod", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf item = {0};
        struct mapping *m;
        struct conf *c;

        buf_printf(&item, "map: {\"%s\": s}", rows[i].condition);
        buf_char(&item, '\0');
        c = read_conf(buf_slice(&item).ptr, NULL);
        assert_true(mapping_compile(conf_item(c, "issuers", 0), &m, NULL));
        if (mapping_is_wide(m, 0) != rows[i].wide)
            fail_msg("%s", rows[i].condition);
        mapping_free(m);
        conf_free(c);
        buf_free(&item);
    }
}

#define X32 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static void a_template_names_the_sandbox_or_is_refused(void **state)
{
    static const struct {
        const char *name, *template, *claims, *made, *says; /* template NULL: none; says: of the configuration or the token */
    } rows[] = {
        {"sub, when nothing is said", NULL, "{\"sub\":\"project_path:a/x:ref:m\"}", "gitlab:project_path:a/x:ref:m", NULL},
        {"two claims", "{project_id}:{job_id}", "{\"project_id\":\"20\",\"job_id\":302}", "gitlab:20:302", NULL},
        {"text around them", "p{project_id}:j{job_id}!", "{\"project_id\":\"20\",\"job_id\":\"302\"}", "gitlab:p20:j302!", NULL},
        {"a value with the character between", "{a}:{b}", "{\"a\":\"x:y\",\"b\":\"z\"}", "gitlab:x%3Ay:z", NULL},
        {"the same the other way round", "{a}:{b}", "{\"a\":\"x\",\"b\":\"y:z\"}", "gitlab:x:y%3Az", NULL},
        {"a percent sign", "{a}:{b}", "{\"a\":\"x%3Ay\",\"b\":\"z\"}", "gitlab:x%253Ay:z", NULL},
        {"a path stays", "{project_path}:{job_id}", "{\"project_path\":\"acme/x\",\"job_id\":\"1\"}", "gitlab:acme/x:1", NULL},
        {"a blank", "{a}", "{\"a\":\"x y\"}", "gitlab:x%20y", NULL},
        {"beyond ASCII", "{a}", "{\"a\":\"\xc3\xa4\"}", "gitlab:%C3%A4", NULL},
        {"128 bytes", "{a}", "{\"a\":\"" X32 X32 X32 "xxxxxxxxxxxxxxxxxxxxxxxxx\"}", "gitlab:" X32 X32 X32 "xxxxxxxxxxxxxxxxxxxxxxxxx", NULL},
        {"129 bytes", "{a}", "{\"a\":\"" X32 X32 X32 "xxxxxxxxxxxxxxxxxxxxxxxxxx\"}", NULL, "over 128"},
        {"a claim that is missing", "{project_id}:{job_id}", "{\"project_id\":\"20\"}", NULL, "job_id, which names the sandbox"},
        {"a claim that is empty", "{a}", "{\"a\":\"\"}", NULL, "a, which names"},
        {"a claim that is null", "{a}", "{\"a\":null}", NULL, "a, which names"},
        {"a claim that is a list", "{a}", "{\"a\":[\"x\"]}", NULL, "a, which names"},
        {"a claim that is a boolean", "{a}", "{\"a\":true}", NULL, "a, which names"},
        {"a claim that is a fraction", "{a}", "{\"a\":1.5}", NULL, "a, which names"},
        {"no claim", "job", "{}", NULL, "no claim is in it"},
        {"an empty template", "", "{}", NULL, "no claim is in it"},
        {"nothing between two claims", "{a}{b}", "{}", NULL, "need a character between them"},
        {"a character that values have too", "{a}-{b}", "{}", NULL, "need a character between them"},
        {"a claim twice", "{a}:{a}", "{}", NULL, "twice"},
        {"an unclosed brace", "{a", "{}", NULL, "brace"},
        {"a closing brace alone", "{a}:b}", "{}", NULL, "brace"},
        {"a closing brace in front", "}{a}", "{}", NULL, "brace"},
        {"no name between braces", "{}", "{}", NULL, "the name of a claim"},
        {"a blank in it", "{a} {b}", "{}", NULL, "cannot be in a name"},
        {"a percent sign in it", "{a}%{b}", "{}", NULL, "cannot be in a name"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *claims = read_claims(rows[i].claims);
        struct buf item = {0}, out = {0};
        struct naming *n = NULL;
        struct fault why = {0};
        struct conf *c;
        bool ok;

        buf_printf(&item, rows[i].template ? "sandbox: \"%s\"" : "issuer: x", rows[i].template);
        buf_char(&item, '\0');
        c = read_conf(buf_slice(&item).ptr, &why);
        assert_non_null(c);
        ok = naming_compile(conf_item(c, "issuers", 0), true, &n, &why) && naming_make(n, claims, &out, &why);
        if (rows[i].made ? !ok || !slice_is(buf_slice(&out), rows[i].made) : ok || !strstr(why.text, rows[i].says))
            fail_msg("%s: %.*s %s", rows[i].name, SLICE_ARG(buf_slice(&out)), why.text);
        naming_free(n);
        json_decref(claims);
        conf_free(c);
        buf_free(&item);
        buf_free(&out);
    }
}

static void an_issuer_of_our_own_names_sandboxes_by_sub(void **state)
{
    struct conf *c = read_conf("issuer: x", NULL);
    struct naming *n;

    (void)state;
    assert_true(naming_compile(conf_item(c, "issuers", 0), false, &n, NULL));
    assert_null(n);
    assert_false(naming_is_written(n));
    conf_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_of_a_map_is_read_or_refused_with_its_place),
        cmocka_unit_test(a_condition_means_exactly_what_it_says),
        cmocka_unit_test(scopes_of_all_entries_that_hold_are_added_up),
        cmocka_unit_test(an_entry_that_names_no_owner_is_wide),
        cmocka_unit_test(a_template_names_the_sandbox_or_is_refused),
        cmocka_unit_test(an_issuer_of_our_own_names_sandboxes_by_sub),
    };

    return cmocka_run_group_tests_name("mapping", tests, NULL, NULL);
}
