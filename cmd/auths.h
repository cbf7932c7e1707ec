/*
 * The file that `docker login` and `skopeo login` keep a registry's password in: JSON, {"auths": {"oci.example": {"auth": base64 of
 * "user:password"}}} (containers-auth.json(5)).
 */
#ifndef CMD_AUTHS_H
#define CMD_AUTHS_H

#include "cmd/keeping.h"

/* Does this client keep it there? */
bool auths_are_of(const struct client *c);
/* The password for this place (give), NULL: none. *file (give): the first of its files that is there, or the one that it would write. */
char *auths_read(const struct client *c, const struct keeping_place *p, char **file);

#endif
