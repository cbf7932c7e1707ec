/* Where the relay listens and where it goes to: an address as text, and the sockets for it. No name is ever looked up. */
#ifndef SANDBOX_ENDPOINT_H
#define SANDBOX_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct endpoint {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_storage storage;
    } address;
    socklen_t len;
};

/* "127.0.0.1:3128", "[::1]:3128", "unix:/run/x.sock", "vsock:2:3128"; false: it is none of these. */
bool endpoint_parse(const char *text, struct endpoint *out);
/* The same text again, into size bytes. */
void endpoint_text(const struct endpoint *p, char *out, size_t size);
/* Only this machine, and for a path only who may use the file, can reach it. */
bool endpoint_is_local(const struct endpoint *p);

/*
 * A listening socket, non-blocking; p then has the port that was chosen for port 0. A socket file that nobody listens at
 * any more is replaced; a new one has mode 0600. -1 with errno.
 */
int endpoint_listen(struct endpoint *p, int backlog);
/* Takes a socket file away again. */
void endpoint_remove(const struct endpoint *p);
/* A non-blocking socket on its way there; -1 with errno. EAGAIN: too many are waiting there, try again. */
int endpoint_connect(const struct endpoint *p);

#endif
