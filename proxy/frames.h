/*
 * One direction of a WebSocket: frames in, what they carry through the scanner, held back as long as a match could still begin in
 * it, framed anew, out. Messages keep their kind and their ends; how they are cut into frames, and the masks, are ours: no byte on
 * the wire is one that the peer chose without its being looked at. At the end of a message all of it goes on that the scan has
 * passed, and the scan itself goes on: what is spread over two messages is found in the second.
 */
#ifndef PROXY_FRAMES_H
#define PROXY_FRAMES_H

#include "canary/scan.h"
#include "net/frame.h"

/* What looks at one kind of payload, from the first frame to the last. */
struct frames_look {
    struct scan *scan, *guard; /* guard: as in flow.h; NULL: none */
    uint64_t total;            /* bytes looked at */
};

struct frames {
    struct scanner *scanner; /* held: which canaries it looks for */
    struct frame_reader reader;
    struct frames_look messages, controls; /* apart: a ping inside a message does not come between its pieces */
    struct hit caught;   /* what a guard found */
    struct buf held;     /* of the message under way, not yet safe */
    uint64_t passed;     /* bytes of messages let go */
    uint64_t bytes;      /* of messages and control frames, let go */
    struct buf *to;
    bool masks;          /* what goes out is masked: it goes to a service */
    bool holds;          /* hold back until the scanner says safe; else pass and only look */
    bool begun;          /* a piece of the message under way is out */
};

/*
 * A reference to scanner is taken, to is kept, token (for its own leak) is borrowed for this call. What comes from the client is held back, what
 * comes from the service only looked at.
 */
void frames_start(struct frames *f, struct scanner *scanner, struct slice token, bool from_client, uint64_t message_max,
                  struct buf *to);
/* Takes both (NULL is fine): nothing of what they look for goes on, and f->caught says that it was there. */
void frames_guard(struct frames *f, struct scan *messages, struct scan *controls);
/*
 * Look for what this scanner does from now on, when that is another one: a message that is under way is looked through as it
 * began, so this is to be said before each frame.
 */
void frames_renew(struct frames *f, struct scanner *scanner, struct slice token);
/* A PIECE or CONTROL that the reader found. A hit: nothing of it went (when it holds). */
struct hit frames_pass(struct frames *f, enum frame_event event, const struct frame *frame);
/* A close frame of our own. */
void frames_say_close(struct frames *f, int code, const char *reason);
void frames_clear(struct frames *f);

#endif
