/*
 * The scanner: what looks for canaries in the bytes that pass, and one scan per
 * direction of an exchange, which says how far the bytes may go. The parts, each to be grown by itself: the
 * registry says which secrets there are, views (view.h) in what shapes they stand in raw bytes, the database
 * finds those, a needle (needle.h) finds the leave token, and the scan holds back.
 */
#ifndef CANARY_SCAN_H
#define CANARY_SCAN_H

#include "canary/canary.h"

struct scanner; /* one per process; not for several threads at once */

/* r is kept and unchanged while s lives. No canaries is fine: every scan is clean at no cost. */
struct scanner *scanner_new(const struct registry *r, struct fault *why);
/* What was compiled for it, for another process with the same canaries (database.h); nothing without canaries. */
void scanner_pack(const struct scanner *s, struct buf *out);
/* As scanner_new, by what scanner_pack wrote; packed is borrowed for the call. Empty: it is compiled here. */
struct scanner *scanner_unpack(const struct registry *r, struct slice packed, struct fault *why);
/* One holder more, to be given back by scanner_free(). */
struct scanner *scanner_ref(struct scanner *s);
/* One holder less. A scan under way holds its scanner too. */
void scanner_free(struct scanner *s);
/* Takes the registry: it is freed with the scanner. */
void scanner_own(struct scanner *s, struct registry *r);
/* H: the most bytes a scan ever holds back (scan_hold for one). */
size_t scanner_hold(const struct scanner *s);

struct hit {
    bool found;
    const char *canary;   /* id; borrowed from the registry; "leave-token" for extra */
    const char *encoding; /* "identity", "base64", "base64url" */
    uint64_t from, to;    /* raw bytes [from, to) of the scanned text or stream */
};

/* The whole of a small text (target, field, head, collected body): one call, no stream. */
struct hit scanner_text(const struct scanner *s, struct slice text);
/* The same, and the leave token extra (may be empty) is matched too, as in scan_start. */
struct hit scanner_text_with(const struct scanner *s, struct slice text, struct slice extra);

/*
 * A stream with hold-back. Feed raw bytes in order. After a call, *safe is how many bytes of the stream, counted
 * from its start, may be forwarded, and never less than before: no byte at or after the first byte of a match ever
 * is. Of an encoding that is the first character that carries bits of the secret. finish makes the rest
 * safe or finds the match that the end completes. A hit stays: later calls give it again, and *safe stands.
 *
 * extra: the leave token of this exchange (may be empty; borrowed for the call). 24 or more consecutive
 * characters of its signature are a match (needle.h). A scan that is fed nothing opens no stream.
 */
struct scan;
struct scan *scan_start(struct scanner *s, struct slice extra);
struct hit scan_feed(struct scan *c, struct slice bytes, uint64_t *safe);
/* The whole stream at once, as the one feed of a scan: half the price of a feed. */
struct hit scan_feed_whole(struct scan *c, struct slice bytes, uint64_t *safe);
struct hit scan_finish(struct scan *c, uint64_t *safe);
/*
 * What came so far is looked at as if it ended here, and is safe when nothing is in it; the stream goes on. What began before
 * is then found where it ends: of such a hit, the bytes up to *safe were let go.
 */
struct hit scan_pause(struct scan *c, uint64_t *safe);
/* The most bytes this scan holds back. */
size_t scan_hold(const struct scan *c);
/* So many bytes of the stream went by before it began: offsets count them. Before it is fed. */
void scan_skip(struct scan *c, uint64_t n);
/* Is it one of this scanner's? */
bool scan_is_of(const struct scan *c, const struct scanner *s);
void scan_free(struct scan *c);

#endif
