/* cmd/option: what is understood on the command line, and what is refused in which words. */
#include "cmd/option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/guess.h"

static const struct option_spec own[] = {
    {.name = "sandbox", .letter = 's', .type = OPTION_TEXT, .value = "NAME", .help = "x", .required = true},
    {.name = "dry-run", .letter = 'n', .type = OPTION_FLAG, .help = "x"},
    {.name = "wait", .type = OPTION_TIME, .value = "TIME", .help = "x"},
    {.name = "size", .type = OPTION_SIZE, .value = "SIZE", .help = "x"},
    {.name = "count", .type = OPTION_COUNT, .value = "N", .help = "x"},
    {.name = "host", .letter = 'H', .type = OPTION_TEXT, .value = "HOST", .help = "x", .repeat = true},
    {0},
};
static const struct option_spec global[] = {
    {.name = "format", .type = OPTION_CHOICE, .value = "text|json", .choices = "text|json", .help = "x"},
    {.name = "quiet", .letter = 'q', .type = OPTION_FLAG, .help = "x"},
    {0},
};

enum { WORDS_MOST = 16 };

/* Words of line, cut at single spaces. */
static int split(char *line, char **argv)
{
    int argc = 0;

    while (*line) {
        char *end = line + strcspn(line, " ");

        argv[argc++] = line;
        line = *end ? end + 1 : end;
        *end = '\0';
    }
    return argc;
}

static struct option_set *read_line(char *line, char **argv, struct fault *why, bool *ok)
{
    struct option_set *s = option_new(split(line, argv), argv, 0);

    *ok = option_read(s, own, global, true, why) && option_complete(s, own, why);
    return s;
}

static void test_refusals(void **state)
{
    static const struct {
        const char *name, *line, *fault;
    } rows[] = {
        {"unknown, near", "-s a --sandbx b", "no option --sandbx; did you mean --sandbox?"},
        {"unknown, the beginning of one", "-s a --dry", "no option --dry; did you mean --dry-run?"},
        {"unknown, near a global one", "-s a --fromat json", "no option --fromat; did you mean --format?"},
        {"unknown, far", "-s a --zzzzzz", "no option --zzzzzz"},
        {"unknown letter", "-s a -x", "no option -x"},
        {"unknown letter in a group", "-s a -nx", "no option -x"},
        {"required is missing", "-n", "--sandbox NAME is needed"},
        {"value is missing", "-n --sandbox", "--sandbox wants a value: NAME"},
        {"value of a letter is missing", "-s", "--sandbox wants a value: NAME"},
        {"value is empty", "--sandbox=", "--sandbox wants NAME, not an empty text"},
        {"flag with a value", "-s a --dry-run=yes", "--dry-run takes no value"},
        {"given twice", "-s a --sandbox b", "--sandbox is given twice"},
        {"not a choice", "-s a --format xml", "--format wants one of text|json, not \"xml\""},
        {"not a time", "-s a --wait 15", "--wait wants a time such as 15m, not \"15\""},
        {"not a size", "-s a --size big", "--size wants a size such as 64k, not \"big\""},
        {"not a number", "-s a --count -1", "--count wants a whole number, not \"-1\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        char line[80], *argv[WORDS_MOST];
        bool ok;

        snprintf(line, sizeof line, "%s", rows[i].line);
        option_free(read_line(line, argv, &why, &ok));
        if (ok)
            fail_msg("%s: accepted", rows[i].name);
        if (why.kind != FAULT_USAGE || strcmp(why.text, rows[i].fault) != 0)
            fail_msg("%s:\n  want %s\n  have %s", rows[i].name, rows[i].fault, why.text);
    }
}

static void test_forms(void **state)
{
    static const struct {
        const char *name, *line;
    } rows[] = {
        {"long, apart", "--sandbox a --dry-run one two"},
        {"long, joined", "--sandbox=a --dry-run one two"},
        {"letters, apart", "-s a -n one two"},
        {"letters, joined", "-sa -n one two"},
        {"letters, grouped", "-nsa one two"},
        {"options after words", "one -n two -s a"},
        {"with a global one between", "one -q -n two -s a"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        char line[80], *argv[WORDS_MOST];
        const char *const *args;
        bool ok;
        size_t n;

        snprintf(line, sizeof line, "%s", rows[i].line);
        struct option_set *s = read_line(line, argv, &why, &ok);

        if (!ok)
            fail_msg("%s: %s", rows[i].name, why.text);
        args = option_args(s, &n);
        if (strcmp(option_text(s, "sandbox"), "a") != 0 || !option_flag(s, "dry-run") || n != 2 ||
            strcmp(args[0], "one") != 0 || strcmp(args[1], "two") != 0 || args[2])
            fail_msg("%s: read wrongly", rows[i].name);
        option_free(s);
    }
}

static void test_values(void **state)
{
    char line[] = "-s a --wait 2m --size 4k --count 7 -H x --host y --format json", *argv[16];
    struct fault why = {0};
    bool ok;
    struct option_set *s = read_line(line, argv, &why, &ok);

    (void)state;
    if (!ok)
        fail_msg("%s", why.text);
    assert_int_equal(option_number(s, "wait", 1), 120000);
    assert_int_equal(option_number(s, "size", 1), 4096);
    assert_int_equal(option_number(s, "count", 1), 7);
    assert_int_equal(option_number(s, "other", 42), 42);
    assert_int_equal(option_count(s, "host"), 2);
    assert_string_equal(option_text_at(s, "host", 0), "x");
    assert_string_equal(option_text_at(s, "host", 1), "y");
    assert_string_equal(option_text(s, "format"), "json");
    assert_false(option_flag(s, "quiet"));
    assert_null(option_text(s, "none"));
    option_free(s);
}

static void test_words(void **state)
{
    char line[] = "-q token issue -n -- -s --x -", *argv[WORDS_MOST];
    struct fault why = {0};
    const char *const *args;
    size_t n;
    struct option_set *s = option_new(split(line, argv), argv, 0);

    (void)state;
    assert_true(option_read(s, NULL, global, false, &why));
    assert_string_equal(option_next_word(s), "token");
    assert_true(option_read(s, NULL, global, false, &why));
    assert_string_equal(option_next_word(s), "issue");
    assert_true(option_read(s, own, global, true, &why));
    args = option_args(s, &n);
    assert_int_equal(n, 3);
    assert_string_equal(args[0], "-s");
    assert_string_equal(args[2], "-");
    assert_null(option_next_word(s));
    option_free(s);
}

static void test_guess(void **state)
{
    static const struct {
        const char *name, *word, *best;
    } rows[] = {
        {"one letter off", "configg", "config"},
        {"two letters exchanged", "ocnfig", "config"},
        {"a beginning", "can", "canary"},
        {"the nearest of two", "tokem", "token"},
        {"too far", "banana", NULL},
        {"short words must be nearer", "xyz", NULL},
        {"nothing", "", NULL},
        {"very long", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL},
    };
    static const char *const words[] = {"config", "canary", "token", "tokens", "log"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guess g = {.word = rows[i].word};

        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            guess_try(&g, words[k]);
        if (!g.best != !rows[i].best || (g.best && strcmp(g.best, rows[i].best) != 0))
            fail_msg("%s: %s", rows[i].name, g.best ? g.best : "none");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_forms), cmocka_unit_test(test_values),
        cmocka_unit_test(test_words),    cmocka_unit_test(test_guess),
    };

    return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
