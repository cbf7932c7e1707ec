/* Owns the way from argv to a command's run(); the table is made by the Makefile from cmd/NAME.c. */
#include "cmd/command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/guess.h"
#include "base/say.h"
#include "cmd/help.h"

#define COMMAND(name) extern const struct command name;
#include "cmd/commands.def"
#undef COMMAND

static const struct command *const commands[] = {
#define COMMAND(name) &name,
#include "cmd/commands.def"
#undef COMMAND
    NULL,
};

const struct option_spec command_options[] = {
    {"config", 'c', OPTION_TEXT, "FILE", NULL,
     "read this configuration ($EXEAT_CONFIG, else " COMMAND_CONFIG ")", false, false},
    {"format", 0, OPTION_CHOICE, "text|json", "text|json", "how to write the answer (text)", false, false},
    {"quiet", 'q', OPTION_FLAG, NULL, NULL, "say only errors", false, false},
    {"verbose", 'v', OPTION_FLAG, NULL, NULL, "say what happens", false, false},
    {"help", 'h', OPTION_FLAG, NULL, NULL, "this text", false, false},
    {"version", 0, OPTION_FLAG, NULL, NULL, "the version", false, false},
    {0},
};

const struct command *const *commands_all(void)
{
    return commands;
}

/* The group a subcommand is in, NULL for a command of its own. */
static const struct command *group_of(const struct command *c)
{
    for (const struct command *const *g = commands; *g; g++)
        for (const struct command *const *s = (*g)->subcommands; s && *s; s++)
            if (*s == c)
                return *g;
    return NULL;
}

void command_title(const struct command *c, struct buf *out)
{
    const struct command *group = group_of(c);

    buf_text(out, "exeat ");
    if (group)
        buf_printf(out, "%s ", group->name);
    buf_text(out, c->name);
}

/* One line on stderr: who (without the program's name, which say adds), what, where to read more. */
static void say_for(const struct command *c, const char *text, const char *more)
{
    struct buf title = {0};
    char *who;

    if (!c) {
        say_error("%s%s", text, more ? "; see: exeat --help" : "");
        return;
    }
    command_title(c, &title);
    who = buf_take_text(&title);
    if (more)
        say_error("%s: %s; see: %s --help", who + strlen("exeat "), text, who);
    else
        say_error("%s: %s", who + strlen("exeat "), text);
    free(who);
}

/* What is off first of all: none was named, or it is not here. */
static bool is_no_configuration(const struct invocation *inv, const struct fault *why)
{
    return why->kind == FAULT_MISSING && inv->config && slice_starts(slice_of(why->text), slice_of(inv->config)) &&
           slice_ends(slice_of(why->text), slice_of(strerror(ENOENT))) && !file_exists(inv->config);
}

int command_fail(const struct invocation *inv, const struct fault *why)
{
    struct buf text = {0};
    char *line;

    buf_printf(&text, "%s%s", why->text, is_no_configuration(inv, why) ? "; name yours with -c FILE or $EXEAT_CONFIG, or make one: exeat init DIR" : "");
    line = buf_take_text(&text);
    say_for(inv->command, line, NULL);
    free(line);
    switch (why->kind) {
    case FAULT_REFUSED:
        return STATUS_NO;
    case FAULT_USAGE:
    case FAULT_SYNTAX:
    case FAULT_PERMISSION:
    case FAULT_MISSING:
    case FAULT_LIMIT:
        return STATUS_USAGE;
    default:
        return STATUS_FAILED;
    }
}

int command_misuse(const struct invocation *inv, const char *format, ...)
{
    struct buf text = {0};
    char *line;
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    line = buf_take_text(&text);
    say_for(inv->command, line, "");
    free(line);
    return STATUS_USAGE;
}

int command_print(const struct invocation *inv, struct buf *out)
{
    struct fault why = {0};
    bool ok = file_write_fd(STDOUT_FILENO, buf_slice(out), &why);

    buf_free(out);
    if (ok)
        return STATUS_YES;
    fault_prefix(&why, "standard output");
    say_for(inv->command, why.text, NULL);
    return STATUS_FAILED;
}

static const struct command *find(const struct command *const *table, const char *name)
{
    for (; *table; table++)
        if (strcmp((*table)->name, name) == 0)
            return *table;
    return NULL;
}

/* A word that names no command: say so, with the nearest that would. */
static int unknown(const struct invocation *inv, const struct command *const *table, const char *word)
{
    struct guess g = {.word = word};

    for (const struct command *const *t = table; *t; t++)
        if ((*t)->topic != TOPIC_HIDDEN)
            guess_try(&g, (*t)->name);
    if (g.best)
        return command_misuse(inv, "no command \"%s\"; did you mean \"%s\"?", word, g.best);
    return command_misuse(inv, "no command \"%s\"", word);
}

static int print_help(const struct invocation *inv)
{
    struct buf out = {0};

    if (inv->command)
        command_help(inv->command, &out);
    else
        command_list(&out);
    return command_print(inv, &out);
}

/* --help and --version, wherever they stand; STATUS_YES when one of them was answered, else -1. */
static int answer_about(const struct invocation *inv, const struct option_set *set)
{
    struct buf out = {0};

    if (option_flag(set, "version")) {
        buf_text(&out, "exeat " EXEAT_VERSION "\n");
        return command_print(inv, &out);
    }
    return option_flag(set, "help") ? print_help(inv) : -1;
}

static bool fill(struct invocation *inv, const struct option_set *set)
{
    const char *format = option_text(set, "format"), *named = getenv("EXEAT_CONFIG");

    inv->options = set;
    inv->args = option_args(set, &inv->n_args);
    inv->config = option_text(set, "config");
    if (!inv->config)
        inv->config = named && *named ? named : COMMAND_CONFIG;
    inv->json = format && strcmp(format, "json") == 0;
    inv->quiet = option_flag(set, "quiet");
    inv->verbose = option_flag(set, "verbose");
    if (inv->quiet && inv->verbose)
        return false;
    say_level(inv->quiet ? SAY_ERROR : inv->verbose ? SAY_DEBUG : SAY_NOTE);
    return true;
}

static int check_and_run(struct invocation *inv, const struct option_set *set)
{
    const struct command *c = inv->command;
    struct fault why = {0};
    int status;

    if ((status = answer_about(inv, set)) >= 0)
        return status;
    if (!option_complete(set, c->options, &why))
        return command_misuse(inv, "%s", why.text);
    if (!fill(inv, set))
        return command_misuse(inv, "--quiet and --verbose at once");
    if (inv->json && !c->has_json)
        return command_misuse(inv, "there is no JSON form of this");
    if (inv->n_args < c->min_args)
        return command_misuse(inv, "it wants %s", c->arguments);
    if (inv->n_args > c->max_args)
        return command_misuse(inv, "\"%s\" is one word too many", inv->args[c->max_args]);
    return c->run(inv);
}

/*
 * Read options up to a word, then step down the table by it; in the end all options and words of the command.
 * "help" in front of the words is --help behind them.
 */
static int descend(struct invocation *inv, struct option_set *set)
{
    const struct command *const *table = commands;
    struct fault why = {0};
    const char *word;
    bool help = false;
    int status;

    while (table) {
        if (!option_read(set, NULL, command_options, false, &why))
            return command_misuse(inv, "%s", why.text);
        if ((status = answer_about(inv, set)) >= 0)
            return status;
        if (!(word = option_next_word(set)))
            return help ? print_help(inv) : command_misuse(inv, "it wants a command");
        if (!inv->command && !help && strcmp(word, "help") == 0) {
            help = true;
            continue;
        }
        const struct command *c = find(table, word);
        if (!c)
            return unknown(inv, table, word);
        inv->command = c;
        table = c->subcommands;
    }
    if (help)
        return print_help(inv);
    if (!option_read(set, inv->command->options, command_options, true, &why))
        return command_misuse(inv, "%s", why.text);
    return check_and_run(inv, set);
}

int command_main(int argc, char **argv)
{
    struct option_set *set = option_new(argc, argv, argc > 0 ? 1 : 0);
    struct invocation inv = {.program = argc > 0 ? argv[0] : "exeat"};
    int status;

    signal(SIGPIPE, SIG_IGN);
    status = descend(&inv, set);
    option_free(set);
    return status;
}
