/*
 * A real worker on a kernel and among roles that a fuzzer holds in its hands: policy, tokens, canaries and certificates of
 * two services, registry.test (read) and upload.test (written to), each on 443 and, plain, on 80. One for the process; what
 * a run leaves behind is gone when world_drain says so.
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include "proxy/counters.h"
#include "tests/fuzz/lib/pki.h"
#include "tests/fuzz/lib/roles.h"

#define WORLD_CANARY "npm_q7Rz2LkVw9TbXc4MnH8sJd5Fg1Yp" /* whose random part begins at 4 */

#define WORLD_GENERATION 1
#define WORLD_EXPLICIT 3128   /* ports of its listeners */
#define WORLD_TRANSPARENT 443

struct world {
    struct roles *roles;
    const struct counters *counters;
    struct pki services, gateway;
    SSL_CTX *client;
};

/* Made at the first call. */
struct world *world_get(void);
/* A turn of the worker's loop that waits for nothing. */
void world_turn(void);
/* The same some time later. */
void world_advance(int64_t ms);
int64_t world_now_s(void);
/* A token of sandbox, good for 15 minutes, for both services. jti is its name. */
void world_token(const char *sandbox, const char *jti, struct buf *out);
void world_revoke(const char *jti);
/* A new context for a service's TLS (give). */
SSL_CTX *world_service(const char *host);
/* Client connections that are open, and idle ones to services. */
uint64_t world_open(void);
uint64_t world_pooled(void);
uint64_t world_exchanges(void);

#endif
