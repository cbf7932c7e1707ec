/*
 * The BIO between OpenSSL and a socket. It remembers that the last read took all the kernel had, so that
 * OpenSSL's question for more is answered without a system call until the loop says that more came.
 *
 * Where a client speaks TLS to the proxy itself, a tunnel's TLS goes through that one: then there is a wire over the socket, and
 * one over its SSL.
 */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/slice.h"

struct wire;

/* recv(2) and send(2), again when a signal came between; no SIGPIPE. */
ssize_t wire_recv(int fd, void *into, size_t room, int flags);
ssize_t wire_send(int fd, const void *bytes, size_t len);

/*
 * Put ssl on a socket (not owned). early: bytes that were already read from it, copied. *n_in and *n_out (kept) count
 * what passes. The wire belongs to ssl, and is borrowed until SSL_free.
 */
struct wire *wire_attach(SSL *ssl, int fd, struct slice early, uint64_t *n_in, uint64_t *n_out);
/* The same over another TLS (kept, and it outlives this one): a tunnel of a client that speaks TLS to the proxy. */
struct wire *wire_attach_over(SSL *ssl, struct wire *under, struct slice early);
/*
 * The loop says that the socket is readable: reads may ask the kernel again. closed: the peer's end is there too, so from
 * now on a short read does not mean that the socket is empty.
 */
void wire_is_ready(struct wire *w, bool closed);
/*
 * The handshake is done, or the peer said something. What it sends from here on without saying anything has a bound, at which
 * the connection is cut: key updates (RFC 8446 4.6.3) cost their sender nothing, and one SSL_read takes all there are.
 */
void wire_has_spoken(struct wire *w);
/* The kernel had no more at the last read, and OpenSSL holds nothing undelivered. */
bool wire_is_drained(const struct wire *w);
/* The socket was not asked whether it is empty: the last read took less than there was room for. */
bool wire_has_guessed(const struct wire *w);
/* It was asked, by somebody else, and it is. */
void wire_is_empty(struct wire *w);
/* The last read or write could not be done now; any other failure of it is one for good. */
bool wire_waits(const struct wire *w);

#endif
