/* `exeat explain --dns NAME`: the other half of cmd/explain.c. */
#ifndef CMD_EXPLAIN_H
#define CMD_EXPLAIN_H

#include "cmd/command.h"

/* Returns the exit status. */
int explain_dns(const struct invocation *inv);

/* Of either half's JSON answer: a comma, the name and the text. */
void explain_member(struct buf *out, const char *name, const char *value);

#endif
