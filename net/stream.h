/*
 * A byte stream: a connected socket, with or without TLS on it. Hides socket,
 * OpenSSL and loop; speaks in six events.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <openssl/ssl.h>

#include "base/fault.h"
#include "base/slice.h"
#include "net/lane.h"
#include "net/loop.h"
#include "net/meter.h"

struct stream;

enum stream_event {
    STREAM_UP,   /* the TLS handshake is done */
    STREAM_DATA, /* stream_input() has grown */
    STREAM_ROOM, /* stream_pending() has fallen under STREAM_LOW */
    STREAM_END,  /* the peer ended properly: FIN, in TLS after close_notify; all input was delivered */
    STREAM_CUT,  /* reset, or in TLS a FIN without close_notify: not an end */
    STREAM_FAIL, /* the handshake failed, or TLS broke: stream_fault() says why */
};

#define STREAM_LOW (64 * 1024)    /* back-pressure: ROOM is told when pending falls under this ... */
#define STREAM_HIGH (256 * 1024)  /* ... and writers stop when pending is over this */
#define STREAM_INPUT (64 * 1024)  /* unread input over this stops reading from the socket */

typedef void stream_on(void *arg, enum stream_event event);

/*
 * Takes fd (non-blocking, connected). on may be called from the loop only, never
 * from inside a call to the stream. After END, CUT or FAIL no more input comes; after END, what concerns writing
 * still does: ROOM, and CUT when the peer takes no more. CUT and FAIL are the last.
 */
struct stream *stream_new(struct loop *l, int fd, stream_on *on, void *arg);
/*
 * Whose time its events take (kept; NULL: nobody's): while that lane is out, they wait for a next turn. The lane
 * outlives the stream's stay in it.
 */
void stream_set_lane(struct stream *s, struct lane *lane);
/* Change who is told (a connection goes from pool to exchange and back). */
void stream_set_handler(struct stream *s, stream_on *on, void *arg);

/*
 * Begin TLS on what is now plain, or through the TLS that there is (once): takes ssl, whose accept or connect state is
 * set. Input already read and not consumed is handed to TLS. UP or FAIL follows.
 */
void stream_start_tls(struct stream *s, SSL *ssl);
/* What its handshake stood still for is there (tls.h, TLS_WAIT): it goes on by the end of the turn. */
void stream_go_on(struct stream *s);
/* A client's: did it show a ticket in its handshake? */
bool stream_was_shown_ticket(const struct stream *s);
/* SHA-256 of the certificate (DER) that the peer showed and that was verified; false: none. */
bool stream_peer_digest(const struct stream *s, unsigned char digest[32]);

/* What was read and not yet consumed; borrowed until the next call on this stream or the end of the event. */
struct slice stream_input(const struct stream *s);
void stream_consume(struct stream *s, size_t n);
/*
 * For whoever was given bytes and needs more: the socket is asked once again at the end of the turn, when nobody has heard
 * from it that it is empty. A reset that comes together with the last bytes is announced by no event of its own.
 */
void stream_look_again(struct stream *s);
bool stream_is_ended(const struct stream *s); /* END, CUT or FAIL has been told */
/*
 * Asks the socket itself, for what the loop has not seen yet: true when the peer has neither said anything nor ended.
 * What is TLS's own (session tickets) is taken in and does not count. After false the stream is fit for stream_close only.
 */
bool stream_is_quiet(struct stream *s);
/* The same by what the loop was told a moment ago, without asking anybody. False: that is not known, or it is not quiet. */
bool stream_seems_quiet(const struct stream *s);
/* The same question for bytes alone: an end is told by its event. After true the stream is fit for stream_close only. */
bool stream_has_spoken(struct stream *s);

/*
 * Write. Small pieces wait for stream_flush (one system call an answer); large ones go
 * out at once. False when the stream is broken; the event comes later.
 */
bool stream_write(struct stream *s, struct slice bytes);
void stream_flush(struct stream *s);
/* Where small pieces are collected: append straight to it, then stream_flush. */
struct buf *stream_out(struct stream *s);
size_t stream_pending(const struct stream *s);

/* No more will be written: when all is out, close_notify and FIN. Input goes on. */
void stream_end(struct stream *s);

/*
 * Close now: what waits is dropped; with clean set, a close_notify is tried
 * (keeps the TLS session resumable), otherwise the peer sees a cut. Memory goes at the end of the turn.
 */
static inline void stream_close(struct stream *s, bool clean);
/* The same, and what the kernel had counted on it when the last was written (NULL: no matter). False: it does not tell, or s is NULL. */
bool stream_close_counted(struct stream *s, bool clean, struct meter *count);

static inline void stream_close(struct stream *s, bool clean)
{
    stream_close_counted(s, clean, NULL);
}

/*
 * TLS buffers: a busy stream keeps them (no allocation a record), an idle one gives them back (kilobytes a
 * connection). A stream begins as idle.
 */
void stream_set_busy(struct stream *s, bool busy);

const struct fault *stream_fault(const struct stream *s);
uint64_t stream_bytes_in(const struct stream *s);  /* off the wire */
uint64_t stream_bytes_out(const struct stream *s); /* onto the wire */

#endif
