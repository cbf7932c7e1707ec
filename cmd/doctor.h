/* The part of `exeat doctor` that looks at certificates. */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include "cmd/client.h"
#include "cmd/findings.h"

/* Whether the client, as its environment is, would trust the certificate in the file root (NULL: not at hand). */
void doctor_check_trust(const struct client *c, const char *root, struct findings *f);

#endif
