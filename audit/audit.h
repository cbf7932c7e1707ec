/*
 * One audit of one service: baselines first, then the catalogue, then the judgement. Takes as long as the budget's rate
 * makes it; a service that stops answering ends it early.
 */
#ifndef AUDIT_AUDIT_H
#define AUDIT_AUDIT_H

#include "audit/check.h"
#include "audit/target.h"
#include "handoff/attestation.h"

struct audit_options {
    unsigned allowed;          /* RUN_* */
    const char *const *named;  /* --check: these alone (NULL-ended); NULL: all */
    int64_t rate, requests;    /* 0: the manifest's */
    const struct service *service; /* of the gateway that is to go by this audit: what it accepts counts; NULL: the manifest's */
    /* What is weak is asked again through this gateway, with this leave token (kept): what is good there is covered. NULL: not. */
    const struct addr *gateway;
    const char *leave_token, *gateway_ca;
    void (*on_finding)(void *arg, const struct check *c, const struct finding *f, size_t done, size_t all); /* may be NULL */
    void *arg;
};

struct audit_result {
    const struct check *check;
    const struct check_group *group;
    struct finding finding;
    struct evidence evidence;
    struct evidence through;         /* the same probes through the gateway */
    struct finding through_finding;  /* and their verdict */
    bool is_covered;                 /* weak at the service, closed by the gateway's rules */
    bool is_accepted;
    const char *accept_reason; /* as it is written, in force or not; NULL: not there */
    int64_t accepted_until_s;  /* of a gateway's; 0: the reason says it */
};

struct audit;

/*
 * t is kept, and given a credential when it has none and the issuer's key is there. NULL and why when the listener cannot
 * be had or nobody listens at the service's address.
 */
struct audit *audit_run(struct target *t, const struct audit_options *o, struct fault *why);
void audit_free(struct audit *a);

size_t audit_count(const struct audit *a);
const struct audit_result *audit_result(const struct audit *a, size_t i);
const struct target *audit_target(const struct audit *a);
/* Does this verdict, by itself: critical or high, not good, and not accepted? */
bool audit_keeps_from_passing(const struct audit_result *r);
bool audit_is_passing(const struct audit *a);
/* When the first of the accepted weaknesses is accepted no more; 0: none is, or they have no place in a gateway's configuration. */
int64_t audit_accepted_until_s(const struct audit *a);
/* What came from the gateway for the first path, when it let that not through, so that nothing is covered (borrowed); "": it did. */
struct slice audit_shut_out(const struct audit *a);
size_t audit_requests(const struct audit *a);
/* How many it was allowed; whether that left some of this check's unasked; and how many would do for all (0: these did). */
size_t audit_budget(const struct audit *a);
bool audit_left_unasked(const struct audit *a, const struct audit_result *r);
size_t audit_would_do(const struct audit *a);
int64_t audit_began_s(const struct audit *a);
int64_t audit_took_ms(const struct audit *a);
/* As the service calls itself (Server, or a field of its own), cut to what can be printed; "" when it does not. */
const char *audit_version(const struct audit *a);
/* Every exchange, baselines first: for the log of exchanges. */
void audit_each_turn(const struct audit *a, void (*visit)(void *arg, const char *check, const struct turn *x), void *arg);

#define AUDIT_PROBES ATTESTATION_PROBES

#endif
