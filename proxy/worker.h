/*
 * What one worker works with. Made once by worker.c; sessions and exchanges borrow it.
 */
#ifndef PROXY_WORKER_H
#define PROXY_WORKER_H

#include <sys/queue.h>

#include "authz/token.h"
#include "base/secret.h"
#include "canary/scan.h"
#include "certs/leaf.h"
#include "net/tls.h"
#include "proxy/keyring.h"
#include "proxy/asks.h"
#include "proxy/counters.h"
#include "proxy/edges.h"
#include "proxy/limits.h"
#include "proxy/quota.h"
#include "proxy/recorder.h"
#include "proxy/role.h"
#include "proxy/upstream.h"
#include "proxy/wallet.h"

struct session;
struct terms;

struct worker {
    struct role_context *role;
    struct loop *loop;
    struct terms *terms;  /* in force; the next three are of it */
    struct limits limits;
    struct message_limits messages;
    struct scanner *scanner;
    const char *gateway;  /* its name */
    char via[280];        /* "1.1 gw.example" */

    struct revocations *revocations;
    struct pins *pins;
    struct spent *spent;
    uint64_t revocations_seen;
    struct verifier *verifier;
    struct keyring *keyring; /* keys that issuers publish */
    int64_t want_ms;         /* the second in which unknown kids were told of, and how many */
    unsigned wants;

    struct tls_server *tls_server;
    struct leaves *leaves;

    struct recorder *recorder;
    struct asks *porter, *keeper;
    struct wallet *wallet; /* credentials that the keeper granted */
    struct pool *pool;
    struct counters *counters;
    struct tally *tally;
    struct parties *parties;
    struct edges *edges; /* that answers were seen to have */
    struct lanes *lanes;
    struct lane idle; /* of connections nobody uses */
    struct quota quota;

    TAILQ_HEAD(session_list, session) sessions;
    TAILQ_HEAD(all_strangers, session) strangers; /* of them without a good token, oldest first */
    size_t n_sessions;
    uint64_t next_conn; /* number of the next client connection */
    bool stopping, finishing;
};

/* The trust towards a service's TLS. */
struct tls_client *worker_trust(const struct worker *w, const struct service *s);
/* Changes with all that makes a connection to the service another one: its configuration, the CAs it is trusted by. */
uint64_t worker_mark(const struct worker *w, const struct service *s);
void worker_count(struct worker *w, enum counter c, int64_t by);
/* A session has ended; accepting may go on. */
void worker_session_ended(struct worker *w);

#endif
