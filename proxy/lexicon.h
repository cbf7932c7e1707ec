/*
 * The patterns of all canaries, compiled once for every role that looks for them, and in a process of its own: thousands take seconds,
 * in which a role would answer nobody, and the supervisor watch over none. What comes of it goes into the roles' bundles; a role without it
 * compiles by itself.
 */
#ifndef PROXY_LEXICON_H
#define PROXY_LEXICON_H

#include <sys/types.h>

#include "proxy/config.h"

/* What a bundle has of it; each may be empty. Borrowed. */
struct lexicon {
    struct slice scan;  /* scanner_pack */
    struct slice names; /* sift_pack, where hosts are looked through */
};
struct lexicon lexicon_of(const struct bundle *files);
/* When a role has read it: it is large, and nobody asks again. */
void lexicon_drop(struct bundle *files);
/* Those that from (NULL: none) has. */
void lexicon_copy(struct bundle *to, const struct bundle *from);

/* ---- for the supervisor ---- */

/* c has all it needs by now: there is nothing to compile, or before (NULL: nothing) has had the same compiled. */
bool lexicon_share(struct gateway_config *c, const struct gateway_config *before);

/* A compilation under way; pid 0: none. */
struct lexicon_work {
    pid_t pid;
    int fd;
};
bool lexicon_start(struct lexicon_work *w, const struct gateway_config *c, struct fault *why);
/* Its process has ended with this status of wait(2): into c, which it was started for. False and why: nothing came of it. */
bool lexicon_finish(struct lexicon_work *w, int status, struct gateway_config *c, struct fault *why);
/* It is no longer wanted; fine when there is none. */
void lexicon_stop(struct lexicon_work *w);
/* All of it, and wait: while there is nobody to serve yet. */
bool lexicon_make(struct gateway_config *c, struct fault *why);

#endif
