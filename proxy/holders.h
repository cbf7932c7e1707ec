/*
 * Who holds which of the gateway's identities: one sandbox at a time, until no leave token of it that was shown is good any more.
 * Kept in the state directory's file `holders`, so that a restart gives nobody the identity of another. An identity is told
 * by its SHA-256 alone; the file has no secret, and no place of one.
 */
#ifndef PROXY_HOLDERS_H
#define PROXY_HOLDERS_H

#include "base/fault.h"
#include "base/slice.h"

struct holders;

enum holders_answer { HOLDERS_YES, HOLDERS_ANOTHER, HOLDERS_FULL, HOLDERS_UNWRITTEN };

/*
 * What the file at path says (kept; absent: nobody holds any). NULL and why when it cannot be read, or everybody can write it: then nobody
 * knows who holds what. Lines whose time is over are left out.
 */
struct holders *holders_open(const char *path, int64_t now_s, struct fault *why);
void holders_free(struct holders *h);

/*
 * identity is who's from now on, until until_s at least, unless it is another's: HOLDERS_ANOTHER. YES only when the file says so
 * too: of a time that grows it is told ahead, at most HOLDERS_AHEAD_S. UNWRITTEN fills why.
 */
enum { HOLDERS_AHEAD_S = 300, HOLDERS_MOST = 4096 };
enum holders_answer holders_take(struct holders *h, struct slice identity, struct slice who, int64_t until_s, int64_t now_s,
                                 struct fault *why);

#endif
