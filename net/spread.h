/*
 * Datagram sockets that share one address (SO_REUSEPORT), each source address at one of them: a flood from one place fills the queue of one
 * socket, and loses the datagrams of those alone who are at the same. Which that is nobody outside can choose.
 */
#ifndef NET_SPREAD_H
#define NET_SPREAD_H

#include "net/addr.h"

#define SPREAD_SOCKETS 8

/*
 * Open all of them on a, non-blocking; fds gets SPREAD_SOCKETS descriptors (give). Port 0: the kernel's choice, told in *a. False and errno;
 * nothing is open then. Another socket there is in the way (EADDRINUSE), also one that would share, unless ours says that its own are there.
 */
bool spread_open(struct addr *a, bool ours, int fds[SPREAD_SOCKETS]);
/* One that somebody else opened, for all sources: as much room as each of ours has. */
void spread_use(int fd);

#endif
