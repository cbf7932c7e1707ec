/*
 * The sieve that DNS names go through: canaries in the whole name as it is on the wire (a label's length may stand for a letter) and as text,
 * in its labels joined, and in what varies of one client's names one after another, joined (pieces over several questions, in order). Names
 * have no case: a canary is looked for as it is in every encoding of the scanner, and folded to lower case as it is, in base64, base32 and
 * hexadecimal digits at any alignment.
 */
#ifndef PROXY_SIFT_H
#define PROXY_SIFT_H

#include "canary/scan.h"
#include "net/dns_question.h"
#include "proxy/patron.h"

struct sift;

struct sift_find {
    const char *canary; /* its id, borrowed from the sift; NULL: nothing was found */
    const char *encoding;
    const char *place;  /* "name", "labels", "names": the last is spread over several questions */
};

/*
 * json: the registry's file; empty: there are no canaries, and nothing is ever found. scan and names: what scanner_pack and sift_pack
 * wrote for these canaries, or empty. NULL and why when any of it is refused.
 */
struct sift *sift_new(struct slice json, struct slice scan, struct slice names, struct fault *why);
/* The same over a scanner that is there already (a reference is taken) and owns these canaries. */
struct sift *sift_over(struct scanner *exact, const struct registry *canaries, struct slice names, struct fault *why);
/* What was compiled for it beside the scanner, for another process. */
void sift_pack(const struct sift *s, struct buf *out);
/* Another holder; each ends with sift_free. */
struct sift *sift_ref(struct sift *s);
void sift_free(struct sift *s);

/* Look through a host that no DNS question brought: as it is, and its labels joined. */
struct sift_find sift_host(const struct sift *s, struct slice host);

/*
 * Look through a name. varying: so many labels in front are not somebody's domain (sift_varying); they, the first and the last one are
 * each joined to those of the names that p asked for before: of those that were new as this one is_new, and of all.
 */
struct sift_find sift_look(const struct sift *s, struct patron *p, const struct dns_question *q, size_t varying, bool is_new);
/* The labels of q without its last `fixed` ones; 0 when there are no more than those. */
size_t sift_varying(const struct dns_question *q, size_t fixed);

#endif
