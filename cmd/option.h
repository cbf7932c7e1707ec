/*
 * Options of a command: a table of specifications, and the values that were
 * given. `--name value`, `--name=value`, `-n value`, `-nvalue`, `-qv`; `--`
 * ends them; long names are written in full. Values are checked by type here, so
 * that a command sees only good ones. Secrets are never option values: name a file.
 */
#ifndef CMD_OPTION_H
#define CMD_OPTION_H

#include "base/fault.h"

enum option_type {
    OPTION_FLAG,   /* no value */
    OPTION_TEXT,   /* any text but the empty one */
    OPTION_CHOICE, /* one of choices */
    OPTION_COUNT,  /* 0 .. 2^53 */
    OPTION_TIME,   /* 15m and the like (base/conf.h); milliseconds */
    OPTION_SIZE,   /* 64k and the like; bytes */
};

struct option_spec {
    const char *name;    /* "sandbox": written --sandbox */
    char letter;         /* 's', or 0 */
    enum option_type type;
    const char *value;   /* "NAME": how help calls the value */
    const char *choices; /* "text|json" */
    const char *help;    /* one line */
    bool repeat;         /* may stand several times */
    bool required;
};

struct option_set;

/* argv[first..argc) are to be read; argv is kept. */
struct option_set *option_new(int argc, char **argv, int first);
void option_free(struct option_set *s);
/*
 * Read on where the last read stopped: options of either table (each ended by a zeroed spec, or NULL) and, when
 * words is set, everything else as arguments; without it, stop before the first word that is no option.
 * False and why (FAULT_USAGE) names what is off and suggests the nearest.
 */
bool option_read(struct option_set *s, const struct option_spec *own, const struct option_spec *global, bool words,
                 struct fault *why);
/* The word option_read stopped at, which is consumed; NULL at the end. */
const char *option_next_word(struct option_set *s);
/* The arguments that are no options: *n of them, and NULL behind (borrowed). */
const char *const *option_args(const struct option_set *s, size_t *n);
/* Every required option of the table was given; else false and why. */
bool option_complete(const struct option_set *s, const struct option_spec *own, struct fault *why);

/* Values by long name; the last one given counts. Absent: false, NULL, fallback, 0. */
bool option_flag(const struct option_set *s, const char *name);
const char *option_text(const struct option_set *s, const char *name);
int64_t option_number(const struct option_set *s, const char *name, int64_t fallback); /* COUNT TIME SIZE */
/* For repeat: how many were given, and each in order. */
size_t option_count(const struct option_set *s, const char *name);
const char *option_text_at(const struct option_set *s, const char *name, size_t i);

#endif
