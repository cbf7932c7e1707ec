/* Owns the values given on the command line; knows no command. */
#include "cmd/option.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/guess.h"
#include "base/slice.h"
#include "base/text.h"

struct given {
    const char *name; /* the spec's */
    char *text;       /* NULL for a flag */
    int64_t number;
};

struct option_set {
    char **argv;
    int argc, next;
    bool no_more_options; /* -- was seen */
    struct given *given;
    size_t n_given;
    const char **args;
    size_t n_args;
};

static void *grow(void *array, size_t n, size_t each)
{
    void *grown = realloc(array, n * each);

    if (!grown)
        abort();
    return grown;
}

static void add_arg(struct option_set *s, const char *arg)
{
    s->args = grow(s->args, s->n_args + 2, sizeof *s->args);
    s->args[s->n_args++] = arg;
    s->args[s->n_args] = NULL;
}

struct option_set *option_new(int argc, char **argv, int first)
{
    struct option_set *s = grow(NULL, 1, sizeof *s);

    *s = (struct option_set){.argc = argc, .argv = argv, .next = first};
    s->args = grow(NULL, 1, sizeof *s->args);
    s->args[0] = NULL;
    return s;
}

void option_free(struct option_set *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_given; i++)
        free(s->given[i].text);
    free(s->given);
    free(s->args);
    free(s);
}

static const struct option_spec *find_long(const struct option_spec *table, struct slice name)
{
    for (; table && table->name; table++)
        if (slice_is(name, table->name))
            return table;
    return NULL;
}

static const struct option_spec *find_letter(const struct option_spec *table, char letter)
{
    for (; table && table->name; table++)
        if (table->letter == letter)
            return table;
    return NULL;
}

static bool read_number(const struct option_spec *spec, const char *text, int64_t *number)
{
    uint64_t n;

    switch (spec->type) {
    case OPTION_TIME:
        return conf_parse_time(slice_of(text), number);
    case OPTION_SIZE:
        return conf_parse_size(slice_of(text), number);
    default:
        if (!slice_decimal(slice_of(text), (uint64_t)1 << 53, &n))
            return false;
        *number = (int64_t)n;
        return true;
    }
}

static bool is_choice(const char *choices, const char *text)
{
    struct slice left = slice_of(choices), one;

    while (slice_next(&left, '|', &one))
        if (slice_is(one, text))
            return true;
    return false;
}

static bool check_value(const struct option_spec *spec, const char *text, int64_t *number, struct fault *why)
{
    static const char *const wanted[] = {
        [OPTION_COUNT] = "a whole number",
        [OPTION_TIME] = "a time such as 15m",
        [OPTION_SIZE] = "a size such as 64k",
    };

    switch (spec->type) {
    case OPTION_FLAG:
        return true;
    case OPTION_TEXT:
        return *text ? true : fault_set(why, FAULT_USAGE, "--%s wants %s, not an empty text", spec->name, spec->value);
    case OPTION_CHOICE:
        return is_choice(spec->choices, text)
                   ? true
                   : fault_set(why, FAULT_USAGE, "--%s wants one of %s, not \"%s\"", spec->name, spec->choices, text);
    default:
        return read_number(spec, text, number)
                   ? true
                   : fault_set(why, FAULT_USAGE, "--%s wants %s, not \"%s\"", spec->name, wanted[spec->type], text);
    }
}

static bool give(struct option_set *s, const struct option_spec *spec, const char *text, struct fault *why)
{
    struct given g = {.name = spec->name};

    if (text && !check_value(spec, text, &g.number, why))
        return false;
    if (spec->type != OPTION_FLAG && !spec->repeat && option_count(s, spec->name))
        return fault_set(why, FAULT_USAGE, "--%s is given twice", spec->name);
    g.text = text ? text_copy(slice_of(text)) : NULL;
    s->given = grow(s->given, s->n_given + 1, sizeof *s->given);
    s->given[s->n_given++] = g;
    return true;
}

/* The value of an option: joined to it, or the next word. */
static const char *take_value(struct option_set *s, const struct option_spec *spec, const char *joined,
                              struct fault *why)
{
    if (joined)
        return joined;
    if (s->next < s->argc)
        return s->argv[s->next++];
    fault_set(why, FAULT_USAGE, "--%s wants a value: %s", spec->name, spec->value);
    return NULL;
}

static bool unknown_long(struct slice name, const struct option_spec *own, const struct option_spec *global,
                         struct fault *why)
{
    char *word = text_copy(name);
    struct guess g = {.word = word};

    for (const struct option_spec *t = own; t && t->name; t++)
        guess_try(&g, t->name);
    for (const struct option_spec *t = global; t && t->name; t++)
        guess_try(&g, t->name);
    if (g.best)
        fault_set(why, FAULT_USAGE, "no option --%s; did you mean --%s?", word, g.best);
    else
        fault_set(why, FAULT_USAGE, "no option --%s", word);
    free(word);
    return false;
}

static bool read_long(struct option_set *s, const char *word, const struct option_spec *own,
                      const struct option_spec *global, struct fault *why)
{
    const char *equals = strchr(word, '=');
    struct slice name = equals ? slice_make(word, (size_t)(equals - word)) : slice_of(word);
    const struct option_spec *spec = find_long(own, name);
    const char *value;

    if (!spec && !(spec = find_long(global, name)))
        return unknown_long(name, own, global, why);
    if (spec->type == OPTION_FLAG)
        return equals ? fault_set(why, FAULT_USAGE, "--%s takes no value", spec->name) : give(s, spec, NULL, why);
    value = take_value(s, spec, equals ? equals + 1 : NULL, why);
    return value && give(s, spec, value, why);
}

static bool read_letters(struct option_set *s, const char *letters, const struct option_spec *own,
                         const struct option_spec *global, struct fault *why)
{
    for (; *letters; letters++) {
        const struct option_spec *spec = find_letter(own, *letters);
        const char *value;

        if (!spec && !(spec = find_letter(global, *letters)))
            return fault_set(why, FAULT_USAGE, "no option -%c", *letters);
        if (spec->type == OPTION_FLAG) {
            if (!give(s, spec, NULL, why))
                return false;
            continue;
        }
        value = take_value(s, spec, letters[1] ? letters + 1 : NULL, why);
        return value && give(s, spec, value, why);
    }
    return true;
}

bool option_read(struct option_set *s, const struct option_spec *own, const struct option_spec *global, bool words,
                 struct fault *why)
{
    while (s->next < s->argc) {
        const char *word = s->argv[s->next];
        bool ok = true;

        if (s->no_more_options || word[0] != '-' || !word[1]) {
            if (!words)
                return true;
            s->next++;
            add_arg(s, word);
            continue;
        }
        s->next++;
        if (strcmp(word, "--") == 0)
            s->no_more_options = true;
        else if (word[1] == '-')
            ok = read_long(s, word + 2, own, global, why);
        else
            ok = read_letters(s, word + 1, own, global, why);
        if (!ok)
            return false;
    }
    return true;
}

const char *option_next_word(struct option_set *s)
{
    return s->next < s->argc ? s->argv[s->next++] : NULL;
}

const char *const *option_args(const struct option_set *s, size_t *n)
{
    *n = s->n_args;
    return s->args;
}

bool option_complete(const struct option_set *s, const struct option_spec *own, struct fault *why)
{
    for (; own && own->name; own++)
        if (own->required && !option_count(s, own->name))
            return fault_set(why, FAULT_USAGE, "--%s %s is needed", own->name, own->value ? own->value : "");
    return true;
}

static const struct given *last(const struct option_set *s, const char *name)
{
    for (size_t i = s->n_given; i-- > 0;)
        if (strcmp(s->given[i].name, name) == 0)
            return &s->given[i];
    return NULL;
}

bool option_flag(const struct option_set *s, const char *name)
{
    return last(s, name) != NULL;
}

const char *option_text(const struct option_set *s, const char *name)
{
    const struct given *g = last(s, name);

    return g ? g->text : NULL;
}

int64_t option_number(const struct option_set *s, const char *name, int64_t fallback)
{
    const struct given *g = last(s, name);

    return g ? g->number : fallback;
}

size_t option_count(const struct option_set *s, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_given; i++)
        n += strcmp(s->given[i].name, name) == 0;
    return n;
}

const char *option_text_at(const struct option_set *s, const char *name, size_t i)
{
    for (size_t k = 0; k < s->n_given; k++)
        if (strcmp(s->given[k].name, name) == 0 && i-- == 0)
            return s->given[k].text;
    assert(!"no such option value");
    return NULL;
}
