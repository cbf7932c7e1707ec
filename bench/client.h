/*
 * Closed-loop HTTP clients on one epoll: each has one request under way, and starts the next when the answer is
 * whole. Through a proxy (CONNECT with a leave token, TLS inside) or straight to a TLS server (with the token in each request).
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include "bench/histogram.h"
#include "bench/wire.h"

struct plan {
    const char *address; /* where to connect: the proxy or the server */
    const char *name;    /* the name in the certificate, SNI and Host */
    const char *tunnel;  /* "origin.bench:8443" for CONNECT; NULL: no proxy */
    const char *token;   /* for Proxy-Authorization of CONNECT, or Authorization of each request; NULL: none */
    const char *authority; /* the Host of requests; NULL: tunnel or name */
    const char *method, *path;
    uint64_t upload; /* bytes of body */
    SSL_CTX *tls;
    unsigned connections;
    bool is_new; /* a connection for each request */
};

struct tally {
    uint64_t requests, failures, bytes_in;
    double seconds;
    struct histogram latency; /* from the first byte written (is_new: from connect) to the last one read */
};

/* Open all connections and make one request on each; not with is_new. plan is kept. */
void clients_open(const struct plan *plan, struct tally *tally);
/* So many requests, all clients together; connections stay open after it. The first failure is told on stderr. */
void clients_run(const struct plan *plan, uint64_t requests, struct tally *tally);

#endif
