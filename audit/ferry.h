/*
 * A way to a unix socket for libcurl, which knows TCP alone where it makes tunnels: a thread that takes connections of this process
 * at a port of loopback, one at a time, and passes their bytes on. Whoever else connects there gets nothing. Private to audit/.
 */
#ifndef AUDIT_FERRY_H
#define AUDIT_FERRY_H

#include "base/fault.h"
#include "net/addr.h"

struct ferry;

/* reach makes a connected socket (-1: it cannot be reached) and is called from the thread. NULL and why. */
struct ferry *ferry_new(int (*reach)(void *arg), void *arg, struct fault *why);
void ferry_free(struct ferry *f);
/* Where it listens. */
const struct addr *ferry_at(const struct ferry *f);
/* A socket, not connected yet, whose connection will be taken; -1. */
int ferry_socket(struct ferry *f);

#endif
