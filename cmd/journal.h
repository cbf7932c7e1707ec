/* Where the commands that read the journal find it. */
#ifndef CMD_JOURNAL_H
#define CMD_JOURNAL_H

#include "cmd/command.h"

#define JOURNAL_OPTION \
    {"directory", 'd', OPTION_TEXT, "DIR", NULL, "read this journal (a copy, say) and no configuration", false, false}

/* --directory, or journal.directory of the configuration (give); NULL and why. */
char *journal_directory(const struct invocation *inv, struct fault *why);
/* An option that is RFC 3339, a date, or a time ago: 15m. *ns: since 1970; 0 when it was not given. */
bool journal_moment(const struct invocation *inv, const char *option, int64_t *ns, struct fault *why);

#endif
