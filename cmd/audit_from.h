/* `exeat audit SERVICE --from SANDBOX`: does a planted secret come out of that sandbox by this service, and how? */
#ifndef CMD_AUDIT_FROM_H
#define CMD_AUDIT_FROM_H

#include "audit/target.h"
#include "cmd/command.h"

/* Options are audit's. Returns a command_status: 1 it came out, 3 it cannot be told. */
int audit_from(const struct invocation *inv, const struct manifest *m, struct target *t, unsigned allowed);

#endif
