/* Does what a client heard fit what it said? */
#ifndef TESTS_HEARD_H
#define TESTS_HEARD_H

#include "net/head.h"

/* As the world's configuration has them. */
extern const struct message_limits heard_limits;

/*
 * heard is answers, each well-formed, at most one (and interim ones) for each request of said. whole: it ended properly, so
 * the last one is complete. After a CONNECT to port 443 that was granted: TLS. After a 101, which only a handshake of WebSocket is answered with, it is a service's frames, and a
 * proper end has a close frame before it. asserts.
 */
void heard_check(struct slice said, struct slice heard, bool whole);
/* What somebody hears who says by hand what is taken for TLS: records (RFC 8446 5.1), of which the last may be in pieces. asserts. */
void heard_check_tls(struct slice heard);

#endif
