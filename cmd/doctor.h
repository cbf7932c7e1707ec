/* Parts of `exeat doctor`: certificates, name servers. */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include "cmd/client.h"
#include "cmd/findings.h"

/* Whether the client, as its environment is, would trust the certificate in the file root (NULL: not at hand). */
void doctor_check_trust(const struct client *c, const char *root, struct findings *f);
/* What the name servers of this machine are, and what the gateway's among them say of place, a host. Blocks some seconds at most. */
void doctor_check_names(const char *place, struct findings *f);

#endif
