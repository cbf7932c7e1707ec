/*
 * Handoff edges that a worker has seen, each once: the first sight of one is recorded, those that follow are counted, and
 * told in one record a minute. So an npm document with a thousand tarballs on one host is two records. Bounded: beyond
 * that many, places are counted together, as EDGE_OTHERS of their service. Pure.
 */
#ifndef PROXY_EDGES_H
#define PROXY_EDGES_H

#include "base/id.h"
#include "handoff/edge.h"

enum { EDGES_MOST = 512, EDGES_MS = 60 * 1000 };

/* One edge as it is recorded. Texts are borrowed. */
struct sight {
    struct edge edge;
    struct id id;         /* of the exchange that saw it first */
    const char *service;  /* whose answers have it */
    const char *host;     /* that was asked */
    const char *listed;   /* the service that lists the place; "": none */
    bool declared, refused;
    uint64_t count;       /* how often */
    int64_t first_s, last_s; /* wall clock */
};

struct edges;

struct edges *edges_new(void);
void edges_free(struct edges *e);
/*
 * s was seen (its count and times are not read). Not NULL: it is to be recorded now, as what comes back (borrowed until the
 * next call): s itself, or the others of its service. NULL: it is counted.
 */
const struct sight *edges_see(struct edges *e, const struct sight *s, int64_t now_ms, int64_t wall_s);
/* The next that is due at now_ms and has something to tell, or with all set any that has; NULL: none. Borrowed until the next call. */
const struct sight *edges_next(struct edges *e, int64_t now_ms, bool all);

#endif
