/* Pieces of help that the screen (help.c) and the manual (man.c) share. */
#ifndef CMD_HELP_H
#define CMD_HELP_H

#include "cmd/command.h"

/* The options every command has. */
extern const struct option_spec command_options[];

/* Call each for every paragraph (joined to one line) and every verbatim line (it starts with a space). */
void help_paragraphs(const char *text, void (*each)(void *arg, struct slice text, bool verbatim), void *arg);
/* Every line as it stands, indented. */
void help_lines(const char *text, void (*each)(void *arg, struct slice text, bool verbatim), void *arg);
/* "-c, --config FILE" */
void help_option(const struct option_spec *o, struct buf *out);
/* "exeat token issue [options] SANDBOX" */
void help_usage(const struct command *c, struct buf *out);

#endif
