/*
 * Subcommands of the one program `exeat`. cmd/NAME.c defines
 *
 *     const struct command command_NAME = {.name = "NAME", ...};
 *
 * at the start of a line, and the Makefile finds it; nothing else to edit.
 * Help, man pages, suggestions and option parsing come from this struct.
 */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include "base/buf.h"
#include "base/fault.h"
#include "cmd/option.h"

/* Exit statuses, the same for every command. */
enum command_status {
    STATUS_YES = 0,    /* done; a positive answer */
    STATUS_NO = 1,     /* a negative answer */
    STATUS_USAGE = 2,  /* usage, configuration or a file that cannot be read */
    STATUS_FAILED = 3, /* could not tell, or failed */
};

/* Under which heading `exeat --help` lists it. */
enum command_topic {
    TOPIC_GATEWAY,  /* init, serve, status, env */
    TOPIC_POLICY,   /* config, explain */
    TOPIC_LEAVE,    /* token */
    TOPIC_SECRETS,  /* ca, canary */
    TOPIC_EVIDENCE, /* log, why */
    TOPIC_HIDDEN,   /* works, not listed: what exeat runs for itself */
};

struct command;

struct invocation {
    const char *program; /* as it was typed, for commands that we suggest */
    const struct command *command;
    const struct option_set *options; /* its own options, see cmd/option.h */
    const char *const *args;          /* what is left: n_args, and NULL behind them */
    size_t n_args;
    const char *config; /* -c FILE, else $EXEAT_CONFIG, else /etc/exeat/proxy.conf; never NULL */
    bool json;          /* --format json */
    bool quiet, verbose;
};

struct command {
    const char *name;    /* "init"; "issue" for a subcommand of token */
    const char *summary; /* one line, lower case, no full stop */
    /* What follows the options: "METHOD URL", "[FILE...]"; NULL: nothing. Counts are checked before run. */
    const char *arguments;
    size_t min_args, max_args; /* COMMAND_MANY: no upper bound */
    /* Paragraphs of plain text, one blank line between; a line that starts with a space stands as it is. */
    const char *help;
    const char *examples;                     /* lines, each a command to type; NULL: none */
    const struct option_spec *options;        /* ended by a zeroed one; NULL: none */
    const struct command *const *subcommands; /* ended by NULL; then run is NULL */
    enum command_topic topic;
    bool has_json; /* --format json is refused when the command has no such form */
    int (*run)(const struct invocation *inv); /* returns a command_status (sandbox run: another's) */
};

#define COMMAND_MANY ((size_t)-1)
#define COMMAND_CONFIG "/etc/exeat/proxy.conf"

/* Every command, ordered by name, ended by NULL. */
const struct command *const *commands_all(void);
/* Run argv (argv[0] is the program) and return its exit status. */
int command_main(int argc, char **argv);

/* "exeat token issue" into out. */
void command_title(const struct command *c, struct buf *out);
/* `exeat --help`, `exeat NAME --help`. */
void command_list(struct buf *out);
void command_help(const struct command *c, struct buf *out);
/* The man page, roff: exeat(1) when c is NULL; of a group, with its subcommands. */
void command_man_page(const struct command *c, struct buf *out);

/* Say the fault on stderr, after the command's name, and return the status that belongs to its kind. */
int command_fail(const struct invocation *inv, const struct fault *why);
/* The same for words of the caller that are off: says text and where to read more; returns STATUS_USAGE. */
int command_misuse(const struct invocation *inv, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Write everything in out to stdout and empty it; a full disk or a closed pipe gives STATUS_FAILED. */
int command_print(const struct invocation *inv, struct buf *out);

#endif
