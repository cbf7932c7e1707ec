/* The command line of a helper: `--name value`, `--name=value`, names in full. */
#ifndef SANDBOX_WORDS_H
#define SANDBOX_WORDS_H

#include <stdbool.h>

struct word_spec {
    const char *name; /* "token-file"; a NULL ends the table */
    bool has_value;
    int which;
};

enum { WORD_END = -1, WORD_UNKNOWN = -2, WORD_BARE = -3, WORD_NO_VALUE = -4 };

/*
 * The option at argv[*at], and *at behind it: its which, with *value when it has one; WORD_BARE: a word that is no option, as
 * *value. What is wrong stands in *value, too.
 */
int words_next(int argc, char **argv, int *at, const struct word_spec *specs, const char **value);

#endif
