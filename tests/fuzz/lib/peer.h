/*
 * The far end of a connection: a client of the gateway, or a service behind it, with or without TLS. Does what it is told;
 * what it hears is kept.
 */
#ifndef TESTS_PEER_H
#define TESTS_PEER_H

#include <openssl/ssl.h>

#include "base/buf.h"

enum peer_end {
    PEER_OPEN,
    PEER_ENDED, /* a proper end: FIN, in TLS after close_notify */
    PEER_CUT,   /* anything else */
};

struct peer {
    int fd; /* -1: closed from here */
    SSL *ssl;
    bool up;      /* plain, or the handshake is done */
    bool stalled; /* reads nothing */
    bool ending;  /* sends its end when all is out */
    bool shut;
    enum peer_end end;
    struct buf in, out;
    size_t plain; /* bytes of in that came before TLS */
};

/* Takes fd, the far end of a pair. */
void peer_init(struct peer *p, int fd);
void peer_clear(struct peer *p);
/* Takes ssl, with its accept or connect state set; everything from here on is TLS. */
void peer_start_tls(struct peer *p, SSL *ssl);
void peer_send(struct peer *p, struct slice bytes);
/* Its end, when all is out. */
void peer_finish(struct peer *p);
void peer_reset(struct peer *p);
/* From now on each pump of any peer says at most n bytes, so that they come alone; 0: all it has. */
void peer_pieces(size_t n);
/* Move what can be moved. True when anything did. */
bool peer_pump(struct peer *p);

#endif
