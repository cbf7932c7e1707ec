/* What the kernel has counted on a TCP connection: bytes of content, without heads; and which connection it is. */
#ifndef NET_METER_H
#define NET_METER_H

#include "net/addr.h"

struct meter {
    struct addr local;
    uint64_t sent;     /* left, each byte once */
    uint64_t resent;   /* left again */
    uint64_t unsent;   /* written, and still with the kernel, which sends them when the socket is closed in order */
    uint64_t received; /* arrived */
};

/* False: fd is no TCP connection, or the kernel does not tell (before Linux 4.19). */
bool meter_read(int fd, struct meter *out);

#endif
