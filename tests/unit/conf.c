/* base/conf: what is read, what is refused and with which words, and that printing and reading agree. */
#include "base/conf.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

static const struct conf_key gate_keys[] = {
    {"name", CONF_NAME, NULL, NULL, "what it is called", CONF_REQUIRED},
    {"title", CONF_TEXT, "", NULL, "for people", 0},
    {"state", CONF_PATH, "state", NULL, "where things are kept", 0},
    {"source", CONF_PATH, NULL, NULL, "where the secret is", CONF_SOURCE},
    {"strict", CONF_BOOL, "true", NULL, "or not", 0},
    {"mode", CONF_CHOICE, "open", "open|shut|ajar", "how it stands", 0},
    {"workers", CONF_COUNT, "2", NULL, "how many", 0},
    {"size", CONF_SIZE, "64k", NULL, "how large", 0},
    {"wait", CONF_TIME, "15m", NULL, "how long", 0},
    {"tls.cert", CONF_PATH, NULL, NULL, "certificate", 0},
    {"tls.key", CONF_PATH, NULL, NULL, "its key", 0},
    {"tls.more.deep", CONF_TEXT, "x", NULL, "nested twice", 0},
};
static const struct conf_key door_keys[] = {
    {"hosts", CONF_LIST, NULL, NULL, "host names", CONF_REQUIRED},
    {"ports", CONF_LIST, "[443, 8443]", NULL, "ports", 0},
    {"bind", CONF_MAP, NULL, NULL, "captures", 0},
};
static const struct conf_section gate = {"gate", false, gate_keys, sizeof gate_keys / sizeof *gate_keys, "the gate", NULL};
static const struct conf_section doors = {"doors", true, door_keys, sizeof door_keys / sizeof *door_keys, "all doors", NULL};
static const struct conf_section *const sections[] = {&gate, &doors};

enum { N_SECTIONS = 2 };

static struct conf *parse(const char *text, struct fault *why)
{
    return conf_parse(slice_of(text), "proxy.conf", "/etc/x", sections, N_SECTIONS, why);
}

static struct conf *must(const char *text)
{
    struct fault why = {0};
    struct conf *c = parse(text, &why);

    if (!c)
        fail_msg("refused: %s", why.text);
    return c;
}

static void test_refusals(void **state)
{
    static const struct {
        const char *name, *text, *fault;
    } rows[] = {
        {"required section key", "doors: {}\n", "1:1: gate needs \"name\": what it is called"},
        {"required key of an item", "gate: {name: a}\ndoors:\n  npm:\n    ports: [1]\n",
         "3:3: doors.npm needs \"hosts\": host names"},
        {"unknown section, near", "gat: {name: a}\n", "1:1: no section \"gat\"; did you mean \"gate\"?"},
        {"unknown section, far", "banana: {}\n", "1:1: no section \"banana\"; `exeat config help` lists them"},
        {"unknown key, near", "gate:\n  name: a\n  wrokers: 2\n",
         "3:3: no key \"wrokers\" in gate; did you mean \"workers\"?"},
        {"unknown key, far", "gate:\n  name: a\n  zzzzzz: 2\n",
         "3:3: no key \"zzzzzz\" in gate; `exeat config help` lists them"},
        {"unknown nested key", "gate: {name: a, tls: {crt: x}}\n",
         "1:23: no key \"tls.crt\" in gate; did you mean \"tls.cert\"?"},
        {"dotted name is no way in", "gate: {name: a, tls.cert: x}\n",
         "1:17: no key \"tls.cert\" in gate; did you mean \"tls.cert\"?"},
        {"nested map as text", "gate: {name: a, tls: yes}\n", "1:22: tls: expected a map of keys"},
        {"duplicate section", "gate: {name: a}\ngate: {name: b}\n",
         "2:1: \"gate\" stands here twice, first in line 1; keep one"},
        {"duplicate key", "gate:\n  name: a\n  name: a\n", "3:3: \"name\" stands here twice, first in line 2; keep one"},
        {"duplicate item", "gate: {name: a}\ndoors:\n  x: {hosts: a}\n  x: {hosts: b}\n",
         "4:3: \"x\" stands here twice, first in line 3; keep one"},
        {"anchor on a value", "gate: {name: &a b}\n", "1:14: anchors (&name) are not used here: write the value out"},
        {"anchor on a map", "gate: &g {name: b}\n", "1:7: anchors (&name) are not used here: write the value out"},
        {"anchor on a list", "gate: {name: a}\ndoors: {x: {hosts: &h [a]}}\n",
         "2:20: anchors (&name) are not used here: write the value out"},
        {"anchor on a name", "&g gate: {name: b}\n", "1:1: anchors (&name) are not used here: write the value out"},
        {"alias", "gate: {name: *a}\n", "1:14: aliases (*name) are not used here: write the value out"},
        {"tag on a value", "gate: {name: !!str a}\n",
         "1:14: tags (!name) are not used here: every value is plain text"},
        {"own tag on a map", "gate: !x {name: a}\n", "1:7: tags (!name) are not used here: every value is plain text"},
        {"merge key", "gate: {<<: {name: a}}\n", "1:8: merge keys (<<) are not used here: write the values out"},
        {"list as a name", "? [a]\n: b\n", "1:3: expected a name before the colon"},
        {"second document", "gate: {name: a}\n---\ngate: {name: b}\n",
         "2:1: a second document (---) begins here; a configuration is one"},
        {"directive", "%YAML 1.1\n---\ngate: {name: a}\n", "1:1: directives (%YAML, %TAG) are not used here"},
        {"block of lines", "gate:\n  name: a\n  title: |\n    x\n    y\n",
         "3:10: a value is one line of text without control characters"},
        {"escaped newline", "gate: {name: a, title: \"x\\ny\"}\n",
         "1:24: a value is one line of text without control characters"},
        {"escaped NUL", "gate: {name: a, title: \"x\\0y\"}\n",
         "1:24: a value is one line of text without control characters"},
        {"line separator", "gate: {name: a, title: \"x\\Ly\"}\n",
         "1:24: a value is one line of text without control characters"},
        {"next line (C1)", "gate: {name: a, title: \"x\\Ny\"}\n",
         "1:24: a value is one line of text without control characters"},
        {"not YAML", "gate:\n  name: [a\n", "3:1: this is not YAML: did not find expected ',' or ']'"},
        {"tab as indentation", "gate:\n\tname: a\n",
         "2:1: this is not YAML: found character that cannot start any token"},
        {"not UTF-8", "gate:\n  name: \xff\n", "2:9: this is not YAML: invalid leading UTF-8 octet"},
        {"too deep", "gate: {name: a, title: [[[[[[[[[[x]]]]]]]]]]}\n",
         "1:30: too deep: nothing here is nested like that"},
        {"root is a list", "- gate\n", "1:1: expected sections, such as \"gateway:\""},
        {"section is a text", "gate: yes\n", "1:7: gate: expected a map of keys"},
        {"named section is a list", "gate: {name: a}\ndoors: [x]\n",
         "2:8: doors: expected names, each with its keys"},
        {"item is a text", "gate: {name: a}\ndoors: {x: y}\n", "2:12: doors.x: expected a map of keys"},
        {"item with a bad name", "gate: {name: a}\ndoors: {\"x y\": {hosts: a}}\n",
         "2:9: \"x y\" is no name (letters, digits and . _ -, at most 63)"},
        {"nothing for a value", "gate:\n  name:\n",
         "2:8: name: expected a name (letters, digits and . _ -, at most 63), found nothing"},
        {"name with a slash", "gate: {name: a/b}\n",
         "1:14: name: expected a name (letters, digits and . _ -, at most 63), found \"a/b\""},
        {"list for a text", "gate: {name: a, title: [x]}\n", "1:24: title: expected a text, found a list"},
        {"map for a text", "gate: {name: a, title: {x: y}}\n", "1:24: title: expected a text, found a map"},
        {"empty file name", "gate: {name: a, state: \"\"}\n", "1:24: state: expected a file name, found \"\""},
        {"yes is not true", "gate: {name: a, strict: yes}\n", "1:25: strict: expected true or false, found \"yes\""},
        {"True is not true", "gate: {name: a, strict: True}\n",
         "1:25: strict: expected true or false, found \"True\""},
        {"not a choice", "gate: {name: a, mode: closed}\n",
         "1:23: mode: expected one of open, shut, ajar, found \"closed\""},
        {"negative count", "gate: {name: a, workers: -1}\n",
         "1:26: workers: expected a whole number, found \"-1\""},
        {"hexadecimal count", "gate: {name: a, workers: 0x10}\n",
         "1:26: workers: expected a whole number, found \"0x10\""},
        {"count over 2^53", "gate: {name: a, workers: 9007199254740993}\n",
         "1:26: workers: expected a whole number, found \"9007199254740993\""},
        {"size with a fraction", "gate: {name: a, size: 1.5k}\n",
         "1:23: size: expected a size such as 64k, found \"1.5k\""},
        {"soon is no time", "gate: {name: a, wait: soon}\n",
         "1:23: wait: expected a time such as 15m, found \"soon\""},
        {"time without a unit", "gate: {name: a, wait: 15}\n",
         "1:23: wait: expected a time such as 15m, found \"15\""},
        {"map for a list", "gate: {name: a}\ndoors: {x: {hosts: {a: b}}}\n",
         "2:20: hosts: expected a list of texts, found a map"},
        {"list in a list", "gate: {name: a}\ndoors: {x: {hosts: [a, [b]]}}\n",
         "2:24: hosts: expected a list of texts, found a list"},
        {"nothing in a list", "gate: {name: a}\ndoors:\n  x:\n    hosts:\n      -\n",
         "5:8: hosts: expected a list of texts, found nothing"},
        {"list for a map", "gate: {name: a}\ndoors: {x: {hosts: a, bind: [b]}}\n",
         "2:29: bind: expected names with lists, such as {repo: [team-a, team-b]}, found a list"},
        {"bad name in a map", "gate: {name: a}\ndoors: {x: {hosts: a, bind: {\"b c\": d}}}\n",
         "2:30: bind: \"b c\" is no name"},
        {"include in a text", "include: x\ngate: {name: a}\n", "1:1: include is not used here"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        struct conf *c = parse(rows[i].text, &why);
        char want[256];

        snprintf(want, sizeof want, "proxy.conf:%s", rows[i].fault);
        if (c)
            fail_msg("%s: accepted", rows[i].name);
        if (why.kind != FAULT_SYNTAX || strcmp(why.text, want) != 0)
            fail_msg("%s:\n  want %s\n  have %s", rows[i].name, want, why.text);
    }
}

static void test_values(void **state)
{
    struct conf *c = must("gate:\n  name: gw.example\n  state: ./here/s\n  source: \"file:tok\"\n  strict: false\n"
                          "  mode: ajar\n  workers: 12\n  size: 2g\n  wait: 250ms\n  tls: {cert: /a.pem}\n"
                          "doors:\n  npm:\n    hosts: npm.example\n    bind: {repo: [a, b], team: c}\n"
                          "  other: {hosts: [x, y]}\n");
    const struct conf_item *g = conf_section(c, "gate"), *npm = conf_find(c, "doors", "npm");

    (void)state;
    assert_string_equal(conf_text(g, "name"), "gw.example");
    assert_string_equal(conf_text(g, "state"), "/etc/x/here/s");
    assert_string_equal(conf_text(g, "source"), "file:/etc/x/tok");
    assert_false(conf_bool(g, "strict"));
    assert_string_equal(conf_text(g, "mode"), "ajar");
    assert_int_equal(conf_number(g, "workers"), 12);
    assert_int_equal(conf_number(g, "size"), 2ll << 30);
    assert_int_equal(conf_number(g, "wait"), 250);
    assert_string_equal(conf_text(g, "tls.cert"), "/a.pem");
    assert_null(conf_text(g, "tls.key"));
    assert_false(conf_has(g, "tls.key"));
    assert_string_equal(conf_text(g, "tls.more.deep"), "x");
    assert_true(conf_has(g, "title") && !conf_is_written(g, "title"));
    assert_int_equal(conf_count(c, "doors"), 2);
    assert_string_equal(conf_name(conf_item(c, "doors", 1)), "other");
    assert_null(conf_find(c, "doors", "third"));
    assert_int_equal(conf_list_count(npm, "hosts"), 1);
    assert_string_equal(conf_list_text(npm, "hosts", 0), "npm.example");
    assert_int_equal(conf_list_count(npm, "ports"), 2);
    assert_string_equal(conf_list_text(npm, "ports", 1), "8443");
    assert_int_equal(conf_map_count(npm, "bind"), 2);
    assert_string_equal(conf_map_name(npm, "bind", 1), "team");
    assert_int_equal(conf_map_list_count(npm, "bind", 0), 2);
    assert_string_equal(conf_map_list_text(npm, "bind", 1, 0), "c");
    conf_free(c);
}

static void test_sources(void **state)
{
    static const struct {
        const char *written, *read;
    } rows[] = {
        {"exec:bin/token --for x", "exec:bin/token --for x"},
        {"env:TOKEN", "env:TOKEN"},
        {"file:/abs", "file:/abs"},
        {"file:rel", "file:/etc/x/rel"},
        {"unix:run/s", "unix:/etc/x/run/s"},
        {"plain", "/etc/x/plain"},
        {"./a", "/etc/x/a"},
        {".", "/etc/x"},
        {"a/", "/etc/x/a"},
        {"a////", "/etc/x/a"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        struct conf *c;

        snprintf(text, sizeof text, "gate: {name: a, source: \"%s\"}\n", rows[i].written);
        c = must(text);
        assert_string_equal(conf_text(conf_section(c, "gate"), "source"), rows[i].read);
        conf_free(c);
    }
}

static void test_absent_sections(void **state)
{
    static const struct conf_key keys[] = {{"n", CONF_COUNT, "7", NULL, "n", 0}};
    static const struct conf_section one = {"one", false, keys, 1, "one", NULL};
    static const struct conf_section *const all[] = {&one};
    static const char *const texts[] = {"", "# nothing\n", "one:\n", "one: {}\n", "---\n...\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct fault why = {0};
        struct conf *c = conf_parse(slice_of(texts[i]), "f", "/", all, 1, &why);

        if (!c)
            fail_msg("%s: %s", texts[i], why.text);
        assert_int_equal(conf_number(conf_section(c, "one"), "n"), 7);
        conf_free(c);
    }
}

static void test_places(void **state)
{
    struct conf *c = must("gate:\n  name: a\ndoors:\n  npm:\n    hosts:\n      - a\n      - b\n");
    const struct conf_item *npm = conf_find(c, "doors", "npm");
    struct fault why = {0};
    struct buf at = {0};

    (void)state;
    assert_false(conf_refuse(npm, "hosts", 1, &why, "%s is off", "b"));
    assert_string_equal(why.text, "proxy.conf:7:9: b is off");
    conf_refuse(npm, "hosts", -1, &why, "all of it");
    assert_string_equal(why.text, "proxy.conf:6:7: all of it");
    conf_refuse(npm, "ports", 0, &why, "not written: the item's place");
    assert_string_equal(why.text, "proxy.conf:4:3: not written: the item's place");
    conf_place(conf_section(c, "gate"), "name", &at);
    assert_true(slice_is(buf_slice(&at), "proxy.conf:2:9"));
    buf_free(&at);
    conf_free(c);
}

static char *printed(const struct conf *c, bool comments)
{
    struct buf out = {0};

    conf_print(c, comments, &out);
    return buf_take_text(&out);
}

static void test_print(void **state)
{
    struct conf *c = must("doors:\n  npm: {hosts: [\"*.x\", 'it''s: #1'], bind: {r: [\"\"]}}\n"
                          "gate: {name: a, title: \"\\\"q\\\" \\\\ \xc3\xa9\", tls: {key: k}}\n");
    char *first = printed(c, false), *commented = printed(c, true), *second, *third;
    struct conf *again = must(first), *more = must(commented);

    (void)state;
    assert_string_equal(first, "gate:\n  name: a\n  title: \"\\\"q\\\" \\\\ \xc3\xa9\"\n  state: /etc/x/state\n"
                               "  strict: true\n  mode: open\n  workers: 2\n  size: 64k\n  wait: 15m\n"
                               "  tls:\n    key: /etc/x/k\n    more:\n      deep: x\n"
                               "\ndoors:\n  npm:\n    hosts: [\"*.x\", \"it's: #1\"]\n    ports: [443, 8443]\n"
                               "    bind: {r: [\"\"]}\n");
    assert_non_null(strstr(commented, "  workers: 2  # default\n"));
    assert_null(strstr(commented, "name: a  # default"));
    second = printed(again, false);
    third = printed(more, false);
    assert_string_equal(first, second);
    assert_string_equal(first, third);
    free(first);
    free(commented);
    free(second);
    free(third);
    conf_free(c);
    conf_free(again);
    conf_free(more);
}

static void test_units(void **state)
{
    static const struct {
        const char *name, *text;
        bool ok;
        int64_t ms;
    } times[] = {
        {"milliseconds", "250ms", true, 250},
        {"seconds", "2s", true, 2000},
        {"minutes", "15m", true, 900000},
        {"hours", "4h", true, 14400000},
        {"days", "7d", true, 604800000},
        {"a bare zero", "0", true, 0},
        {"a bare number", "5", false, 0},
        {"a fraction", "1.5s", false, 0},
        {"a sign", "+1s", false, 0},
        {"a space", "1 s", false, 0},
        {"a leading zero", "01s", false, 0},
        {"upper case", "1S", false, 0},
        {"two units", "1h30m", false, 0},
        {"nothing", "", false, 0},
        {"a unit alone", "s", false, 0},
        {"overflow", "9007199254740992d", false, 0},
    };
    static const struct {
        const char *name, *text;
        bool ok;
        int64_t bytes;
    } sizes[] = {
        {"bytes", "512", true, 512},
        {"kibibytes", "64k", true, 65536},
        {"mebibytes", "256m", true, 268435456},
        {"gibibytes", "1g", true, 1073741824},
        {"zero", "0", true, 0},
        {"upper case", "1K", false, 0},
        {"two letters", "1kb", false, 0},
        {"negative", "-1", false, 0},
        {"overflow", "9007199254740992k", false, 0},
        {"most", "9007199254740992", true, 9007199254740992},
    };
    int64_t n;

    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (conf_parse_time(slice_of(times[i].text), &n) != times[i].ok || (times[i].ok && n != times[i].ms))
            fail_msg("time, %s", times[i].name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (conf_parse_size(slice_of(sizes[i].text), &n) != sizes[i].ok || (sizes[i].ok && n != sizes[i].bytes))
            fail_msg("size, %s", sizes[i].name);
}

struct folder {
    char path[64];
};

static void put(const struct folder *f, const char *name, const char *text)
{
    char *path = file_join(f->path, name);
    struct fault why = {0};

    if (!file_replace(path, 0644, slice_of(text), &why))
        fail_msg("%s", why.text);
    free(path);
}

static void folder_open(struct folder *f)
{
    char *sub;

    snprintf(f->path, sizeof f->path, "/tmp/exeat-conf-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    sub = file_join(f->path, "d");
    assert_int_equal(mkdir(sub, 0755), 0);
    free(sub);
}

static void folder_close(const struct folder *f)
{
    static const char *const names[] = {"proxy.conf", "d/a.conf", "d/b.conf", "d", ""};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = file_join(f->path, names[i]);

        remove(path);
        free(path);
    }
}

static struct conf *load(const struct folder *f, struct fault *why)
{
    char *path = file_join(f->path, "proxy.conf");
    struct conf *c = conf_load(path, sections, N_SECTIONS, why);

    free(path);
    return c;
}

static void test_include(void **state)
{
    struct folder f;
    struct fault why = {0};
    struct conf *c;
    char want[128];

    (void)state;
    folder_open(&f);
    put(&f, "proxy.conf", "include: d/*.conf\ndoors: {main: {hosts: m}}\n");
    put(&f, "d/b.conf", "gate: {name: a, state: s}\n");
    put(&f, "d/a.conf", "doors: {first: {hosts: f}}\n");
    if (!(c = load(&f, &why)))
        fail_msg("%s", why.text);
    assert_int_equal(conf_count(c, "doors"), 2);
    assert_string_equal(conf_name(conf_item(c, "doors", 1)), "first");
    snprintf(want, sizeof want, "%s/d/s", f.path);
    assert_string_equal(conf_text(conf_section(c, "gate"), "state"), want);
    conf_free(c);
    folder_close(&f);
}

/* text with every mention of the directory written DIR (give) */
static char *without_directory(const char *text, const char *directory)
{
    struct slice left = slice_of(text), dir = slice_of(directory);
    struct buf out = {0};
    ptrdiff_t at;

    while ((at = slice_search(left, dir)) >= 0) {
        buf_append(&out, slice_cut(left, 0, (size_t)at));
        buf_text(&out, "DIR");
        left = slice_from(left, (size_t)at + dir.len);
    }
    buf_append(&out, left);
    return buf_take_text(&out);
}

static void test_include_refusals(void **state)
{
    static const struct {
        const char *name, *main, *included, *fault;
    } rows[] = {
        {"a plain name must be there", "include: d/c.conf\ngate: {name: a}\n", "",
         "DIR/proxy.conf:1:10: include: DIR/d/c.conf: no such file"},
        {"an item in two files", "include: [d/a.conf]\ngate: {name: a}\ndoors: {x: {hosts: a}}\n",
         "doors:\n  x: {hosts: b}\n",
         "DIR/d/a.conf:2:3: doors.x stands already in DIR/proxy.conf:3"},
        {"a section in two files", "include: d/a.conf\ngate: {name: a}\n", "gate: {name: b}\n",
         "DIR/d/a.conf:1:1: gate stands already in DIR/proxy.conf:2"},
        {"include in an included file", "include: d/a.conf\ngate: {name: a}\n", "include: b.conf\n",
         "DIR/d/a.conf:1:1: include stands in the first file only"},
        {"a fault in an included file", "include: d/a.conf\ngate: {name: a}\n", "doors: {x: {hots: b}}\n",
         "DIR/d/a.conf:1:13: no key \"hots\" in doors; did you mean \"hosts\"?"},
        {"a map of includes", "include: {a: b}\ngate: {name: a}\n", "",
         "DIR/proxy.conf:1:10: include: expected a file name or a pattern such as services.d/*.conf"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct folder f;
        struct fault why = {0};
        char *have;
        struct conf *c;

        folder_open(&f);
        put(&f, "proxy.conf", rows[i].main);
        put(&f, "d/a.conf", rows[i].included);
        if ((c = load(&f, &why)))
            fail_msg("%s: accepted", rows[i].name);
        have = without_directory(why.text, f.path);
        if (strcmp(have, rows[i].fault) != 0)
            fail_msg("%s:\n  want %s\n  have %s", rows[i].name, rows[i].fault, have);
        free(have);
        folder_close(&f);
    }
}

static void test_include_may_match_none(void **state)
{
    struct folder f;
    struct fault why = {0};
    struct conf *c;

    (void)state;
    folder_open(&f);
    put(&f, "proxy.conf", "include: none.d/*.conf\ngate: {name: a}\n");
    if (!(c = load(&f, &why)))
        fail_msg("%s", why.text);
    conf_free(c);
    folder_close(&f);
}

static void test_files(void **state)
{
    struct folder f;
    struct fault why = {0};
    char path[128];

    (void)state;
    folder_open(&f);
    assert_null(load(&f, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    put(&f, "proxy.conf", "gate: {name: a}\n");
    snprintf(path, sizeof path, "%s/proxy.conf", f.path);
    assert_int_equal(chmod(path, 0666), 0);
    assert_null(load(&f, &why));
    assert_int_equal(why.kind, FAULT_PERMISSION);
    assert_non_null(strstr(why.text, "chmod o-w"));
    folder_close(&f);
}

static void test_schema(void **state)
{
    struct buf out = {0};
    json_error_t e;
    json_t *root, *props, *g;

    (void)state;
    conf_schema(sections, N_SECTIONS, &out);
    root = json_loadb(buf_slice(&out).ptr, buf_len(&out), JSON_REJECT_DUPLICATES, &e);
    if (!root)
        fail_msg("not JSON: %s", e.text);
    props = json_object_get(root, "properties");
    assert_int_equal(json_object_size(props), 3);
    g = json_array_get(json_object_get(json_object_get(props, "gate"), "allOf"), 0);
    assert_int_equal(json_array_size(json_object_get(g, "required")), 1);
    g = json_object_get(g, "properties");
    assert_int_equal(json_object_size(g), 10);
    g = json_object_get(json_object_get(g, "tls"), "properties");
    assert_non_null(json_object_get(json_object_get(json_object_get(g, "more"), "properties"), "deep"));
    json_decref(root);
    buf_free(&out);
}

static void test_help_names_every_key(void **state)
{
    struct buf out = {0};
    char *text;

    (void)state;
    conf_help(sections, N_SECTIONS, &out);
    text = buf_take_text(&out);
    for (size_t s = 0; s < N_SECTIONS; s++)
        for (size_t k = 0; k < sections[s]->n_keys; k++) {
            char row[80];

            snprintf(row, sizeof row, "\n| `%s` | ", sections[s]->keys[k].name);
            if (!strstr(text, row))
                fail_msg("no row for %s", sections[s]->keys[k].name);
        }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_absent_sections),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_include),
        cmocka_unit_test(test_include_refusals),
        cmocka_unit_test(test_include_may_match_none),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_help_names_every_key),
    };

    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
