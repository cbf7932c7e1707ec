/*
 * Places: where a listener is. "127.0.0.1:3128" and "[::1]:3128" (TCP), "unix:/run/exeat/vm1.sock", "vsock:CID:PORT" (a port of
 * this host's vsock that only the guest CID may use). Parsing is pure; opening makes a listening socket.
 *
 * A guest's vsock is a unix socket of the host under Firecracker and Cloud Hypervisor: when the guest connects to port N of the
 * host (CID 2), the VMM connects to the path of its device with "_N" behind it. Such a place is "unix:PATH_N".
 */
#ifndef NET_PLACE_H
#define NET_PLACE_H

#include <sys/types.h>

#include "base/fault.h"
#include "net/addr.h"

enum place_kind { PLACE_TCP, PLACE_UNIX, PLACE_VSOCK };

struct place {
    enum place_kind kind;
    struct addr addr;        /* TCP */
    const char *path;        /* unix; borrowed from the text */
    uint32_t cid, port;      /* vsock */
};

#define PLACE_PATH_MAX 107 /* bytes of a socket's path */

/* text is kept as long as the place. False and why (no place in it) when it is none of them. Port 0 of TCP is read as such. */
bool place_parse(const char *text, struct place *out, struct fault *why);
/* Would both bind? Not on one port of one address, nor where one of them takes all addresses. */
bool place_collides(const struct place *a, const struct place *b);

/* Who may connect to a unix socket: its owner, and the group when one is said. */
struct place_owner {
    uid_t uid; /* (uid_t)-1: whoever runs this */
    gid_t gid; /* (gid_t)-1: no group */
};

/* "USER", "USER:GROUP", ":GROUP"; names or numbers. Asks the system's user database. NULL: nobody but who runs this. */
bool place_owner_find(const char *text, struct place_owner *out, struct fault *why);

/* Have an existing socket be the owner's. */
bool place_give(const char *path, const struct place_owner *owner);

/*
 * A listening socket, non-blocking; -1 and errno. shared: SO_REUSEPORT (TCP). A unix socket that a crash left there is replaced,
 * anything else of that name is not (EEXIST); it has mode 0600, or 0660 with a group.
 */
int place_listen(const struct place *p, bool shared, const struct place_owner *owner);

#endif
