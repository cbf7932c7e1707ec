/* Where the commands that read the journal find it. */
#ifndef CMD_JOURNAL_H
#define CMD_JOURNAL_H

#include "cmd/command.h"

#define JOURNAL_OPTION \
    {"directory", 'd', OPTION_TEXT, "DIR", NULL, "read this journal (a copy, say) and no configuration", false, false}

/* --directory, or journal.directory of the configuration (give); NULL and why. */
char *journal_directory(const struct invocation *inv, struct fault *why);

#endif
