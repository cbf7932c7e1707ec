/*
 * One direction of a message's content: through the scanner, held back as long
 * as a match could still begin in it, framed anew, into a stream.
 */
#ifndef PROXY_FLOW_H
#define PROXY_FLOW_H

#include "canary/scan.h"
#include "net/head.h"
#include "net/stream.h"

/*
 * Somebody else who must let content go (proxy/lookout.c): looks at the next bytes, of all of them; none: it is over. *safe is how
 * many bytes of all that came may go on. False: nothing may any more.
 */
typedef bool flow_gate(void *arg, struct slice bytes, uint64_t *safe);

struct flow {
    struct scan *scan;
    struct scan *guard;  /* of what must not pass, whatever scan says: see flow_guard */
    struct hit caught;   /* what it found */
    flow_gate *gate;     /* see flow_set_gate */
    void *gate_arg;
    bool gate_holds;
    bool barred;         /* gate said that nothing may pass any more */
    uint64_t gate_open;  /* how many bytes of all it lets go so far */
    struct buf held;     /* content not yet safe */
    struct buf ready;    /* framed bytes, kept while there is no stream to write to */
    struct stream *to;   /* NULL: collect in ready */
    enum framing framing; /* as it goes out */
    uint64_t length;     /* of FRAMING_LENGTH when the caller knows it; else 0 */
    bool holds;          /* hold back until the scanner says safe; else pass and only look */
    bool seen;           /* set by who looks at all of the content at once: scan is not asked */
    bool ended;          /* flow_end was called */
    uint64_t released;   /* content bytes let go */
    uint64_t total;      /* content bytes that came in */
};

/* Begin: scanner is kept, token (for its own leak) is borrowed for this call. */
void flow_start(struct flow *f, struct scanner *scanner, struct slice token, enum framing framing, bool holds);
/*
 * Content that only passes (not holds) is held back by guard too (takes it; NULL is fine): of what it looks for, caught then says, no
 * byte is let go, nor an end. After flow_start, before any content.
 */
void flow_guard(struct flow *f, struct scan *guard);
/*
 * Content that only passes is shown to gate too; holds: nothing is let go that it does not call safe, and once it is barred
 * nothing more, nor an end. After flow_start, before any content. gate and arg are kept.
 */
void flow_set_gate(struct flow *f, flow_gate *gate, void *arg, bool holds);
/*
 * Look for what this scanner does from now on, when that is another one: what is held is looked at again, what was let go is gone.
 */
struct hit flow_renew(struct flow *f, struct scanner *scanner, struct slice token);
/* Bytes of content. A found hit means: nothing further is let go (when it holds). */
struct hit flow_data(struct flow *f, struct slice bytes);
/* It may stand still here: what guard holds back goes on when it is clean, the content goes on too. */
void flow_rest(struct flow *f);
/* The content is complete. trailers: whole lines, each with its CRLF; may be empty; only chunked content carries them. */
struct hit flow_end(struct flow *f, struct slice trailers);
/* From now on write to a stream; what is ready goes first (and is kept when keep is set, to be sent again). */
void flow_attach(struct flow *f, struct stream *to, bool keep);
void flow_clear(struct flow *f);

#endif
