/*
 * Where a credential is kept: "file:NAME", "env:NAME", or what a program prints ("exec:PROGRAM WORD ..."). {sandbox} in a
 * file's name or a program's words stands for the sandbox, so that each has its own.
 */
#ifndef HANDOFF_SOURCE_H
#define HANDOFF_SOURCE_H

#include "base/buf.h"
#include "base/fault.h"
#include "base/secret.h"

enum { CREDENTIAL_MAX = 4096, SOURCE_WORDS_MAX = 32 };

enum source_kind { SOURCE_NONE, SOURCE_FILE, SOURCE_ENV, SOURCE_EXEC };

struct source {
    enum source_kind kind;
    const char *rest; /* behind the scheme; borrowed */
};

/* text is kept. False and why (without a place) when it is none of the three, or a program without an absolute path. */
bool source_parse(const char *text, struct source *out, struct fault *why);
bool source_is_per_sandbox(const struct source *s);
/* May this sandbox's name stand in a file's name or a program's words: letters, digits and . _ - :, none of .-: in front? */
bool source_takes(struct slice sandbox);

/*
 * Is it there, and nobody else's to read or change? Of a file: a regular one, mode 0600 or less, what is in it is not
 * looked at; of a program: executable, not to be written by group or others. What is for each sandbox cannot be looked at
 * before there is one, but its directory can.
 */
bool source_check(const struct source *s, struct fault *why);
/*
 * Read it now (file, env). sandbox is "" for a source of all. NULL and why; never for SOURCE_EXEC (assert).
 */
struct secret *source_read(const struct source *s, const char *sandbox, struct fault *why);
/* The words of the program, ended by NULL (give: source_words_free). */
char **source_words(const struct source *s, const char *sandbox);
void source_words_free(char **words);

#endif
