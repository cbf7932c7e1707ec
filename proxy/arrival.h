/*
 * A connection to a transparent listener, before its first request: what the client meant, without a word of a proxy. Its first
 * byte decides. 0x16 begins TLS (RFC 8446 5.1), whose ClientHello names the host; what may begin a method is plain HTTP, of which
 * each request names it; nothing else is understood. For a name that is listed at the port that was meant, TLS is accepted: the
 * token comes in it. Nothing is resolved or dialled before a request is authorised and recorded, and then to what our own look-up
 * finds for the name: the address that the client chose is recorded, and no more.
 */
#ifndef PROXY_ARRIVAL_H
#define PROXY_ARRIVAL_H

#include "net/steer.h"
#include "proxy/session.h"

struct arrival {
    enum steer_way way;
    struct addr meant;     /* what the client connected to, as it thinks */
    char meant_text[56];
    bool decided;          /* the first byte was seen */
    enum scheme scheme;    /* by it */
    char *host;            /* TLS: listed, canonical; NULL: each request says it */
    struct secret *shown;  /* the field's value in which the session's token came, so that to see it again is enough */
    struct ask *ask;       /* for its certificate */
    enum reason reason;    /* why it is refused */
    char detail[240];
};

/* What is next, by the first byte. */
enum arrival_turn { ARRIVAL_TLS, ARRIVAL_PLAIN, ARRIVAL_REFUSED };

/* Of the fresh session's connection fd, from a listener of this address. */
void arrival_begin(struct session *s, int fd, const struct addr *listener);
/* input has its first byte. REFUSED: it is recorded; the session is to be closed. */
enum arrival_turn arrival_decide(struct session *s, struct slice input);
/* After TLS: the handshake begins on the stream; UP or FAIL follows. False: it cannot. */
bool arrival_accept(struct session *s);
/* Record why it is refused; one of many is only counted (limits.source-denials). */
void arrival_refuse(struct session *s);
/* Is its name listed still? */
bool arrival_stands(const struct session *s);
/* The session closes: nobody is asked any further. */
void arrival_cancel(struct arrival *a);
void arrival_free(struct arrival *a); /* NULL is fine */

#endif
