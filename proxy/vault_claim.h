/* A grant under way. Private to proxy/vault*. */
#ifndef PROXY_VAULT_CLAIM_H
#define PROXY_VAULT_CLAIM_H

#include <sys/queue.h>

#include "authz/issuer.h"
#include "authz/revocation.h"
#include "base/id.h"
#include "handoff/assertion.h"
#include "handoff/handoff.h"
#include "proxy/vault.h"

struct strongbox {
    const struct conf *conf;
    const struct policy *policy;
    struct handoffs *handoffs;
    struct issuers *issuers;   /* NULL when no service has a handoff */
    struct assertion_key *key; /* NULL when none is signed for */
    const char *gateway;
    int64_t overrun_s;
};

/* What one worker asks for one sandbox and service, until it is answered. */
struct claim {
    TAILQ_ENTRY(claim) link;
    const struct visitor *visitor;
    struct visitor *answer_to;
    uint32_t id, fetch; /* the worker's, and ours to the supervisor; 0: none is open */
    struct strongbox *box;
    const struct handoff *handoff;
    struct identity *identity;
    struct record_wait wait;
    struct secret *value;
    int64_t until_s;
    char jti[ID_TEXT_LEN + 1];
    char *flight; /* waits for this exchange; NULL: for none */
};

struct vault {
    struct role_context *context;
    struct recorder *recorder;
    struct revocations *revocations;
    TAILQ_HEAD(claims_list, claim) claims;
    uint32_t last_fetch;
    unsigned char seed[32];
};

extern struct vault vault;

/* No: recorded, answered, and freed. */
void claim_refuse(struct claim *c, enum reason reason, const char *text);
/* Yes, when it is recorded: until then, but no longer than GRANT_MAX_S. Takes value. */
void claim_grant(struct claim *c, struct secret *value, int64_t until_s);
/* Ask the supervisor for what the service's source holds; vault_fetched goes on. */
void claim_fetch(struct claim *c);
/* The end of what the leave token allows. */
int64_t claim_token_end(const struct claim *c);
/*
 * A token for the service's audience (for an exchange: the token endpoint), appended to out; c->jti is its. *until_s: its end.
 */
bool claim_sign(struct claim *c, int64_t *until_s, struct buf *out, struct fault *why);

/* proxy/vault_exchange.c: by a token that is still good, by the exchange under way, or by one that begins. */
void vault_exchange_open(void);
void vault_exchange_attach(int fd);
void vault_exchange_begin(struct claim *c);
/* The secret of the gateway's client is here; "" when it has none. */
void vault_exchange_go_on(struct claim *c, struct slice secret);

#endif
