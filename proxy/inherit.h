/*
 * Sockets that a service manager opened for us (sd_listen_fds(3)): LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES. They are this
 * process's from the first call on, and no child's.
 */
#ifndef PROXY_INHERIT_H
#define PROXY_INHERIT_H

#include "base/fault.h"

/* Take them out of the environment. Refuses what is neither a stream socket that listens nor a bound datagram socket. Without any: true. */
bool inherit_begin(struct fault *why);
/* Of this type (SOCK_STREAM, SOCK_DGRAM) the one named so, or else one on this address ("127.0.0.1:3128", "unix:/run/x"); given. -1: none. */
int inherit_find(const char *name, const char *address, int type);
/* Refuses (FAULT_SYNTAX) when one was not asked for: somebody counts on it to be served. */
bool inherit_end(struct fault *why);

#endif
