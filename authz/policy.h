/*
 * Policy: services and rules compiled from configuration, and authorize(), the one decision function. Pure:
 * no I/O, no clock, no allocation that outlives the call but what decision_clear() frees.
 */
#ifndef AUTHZ_POLICY_H
#define AUTHZ_POLICY_H

#include "authz/acceptance.h"
#include "authz/attested.h"
#include "authz/destination.h"
#include "authz/identity.h"
#include "authz/request.h"
#include "authz/revocation.h"
#include "base/conf.h"

/* services.NAME.{preset,hosts,ports,plain-ports,addresses,allow-private,ca-file,allow,deny,bind,scope,...} */
extern const struct conf_section services_section;

struct policy;
struct service; /* borrowed from its policy */

/* NULL with "file:line:col: ..." in why when any service is refused. c is borrowed. */
struct policy *policy_compile(const struct conf *c, struct fault *why);
void policy_free(struct policy *p);
uint64_t policy_generation(const struct policy *p);
void policy_set_generation(struct policy *p, uint64_t generation);

/* All listed hosts, exact names and "*.suffix", sorted, each once; *n of them. For the CA's name constraints. */
const char *const *policy_hosts(const struct policy *p, size_t *n);

/*
 * The service that lists (host, port), exact before suffix; NULL when none. host is canonical. Below a suffix, labels
 * are at most 40 characters: longer ones carry something else than names.
 */
const struct service *policy_find(const struct policy *p, const char *host, uint16_t port);
/* The same for whatever port: a service that lists host, the first of several. For those who know only names. */
const struct service *policy_find_host(const struct policy *p, const char *host);
size_t policy_count(const struct policy *p);
const struct service *policy_service(const struct policy *p, size_t i);
/* Does any service list a suffix (*.example), below which a client chooses the name? */
bool policy_lists_suffix(const struct policy *p);

const char *service_name(const struct service *s);
size_t service_index(const struct service *s); /* its place in the policy */
/* Changes with anything that its part of the configuration says; the same in every process. What files hold is not in it. */
uint64_t service_mark(const struct service *s);
bool service_is_tls_port(const struct service *s, uint16_t port);
uint16_t service_tls_port(const struct service *s, size_t i); /* 0 behind the last */
bool service_is_plain_port(const struct service *s, uint16_t port);
uint16_t service_plain_port(const struct service *s, size_t i); /* the same */
size_t service_host_count(const struct service *s);
const char *service_host(const struct service *s, size_t i); /* "npm.example" or "*.npm.example" */
bool service_lists_name(const struct service *s, const char *host); /* by itself, not below a suffix */
/* Of a host that it lists: by "*.suffix" alone? What stands in front of that is the client's to choose. */
bool service_is_below_suffix(const struct service *s, const char *host);
/* Fixed destinations, "10.1.2.3:8443"; when there are any, no look-up is made. */
size_t service_address_count(const struct service *s);
const char *service_address(const struct service *s, size_t i);
bool service_allows_private(const struct service *s);
const char *service_ca_file(const struct service *s); /* absolute path, or NULL: system trust */
bool service_trusts_system(const struct service *s); /* it speaks TLS and has no ca-file */
const char *service_scope(const struct service *s);
uint64_t service_body_limit(const struct service *s); /* request bytes; 0: no body */
uint64_t service_target_limit(const struct service *s); /* authorize() holds it; 0: none but limits.target */
bool service_allows_unscannable(const struct service *s);
bool service_allows_websocket(const struct service *s);
bool service_strips_credentials(const struct service *s); /* client-credentials: strip */
bool service_allows_credentials(const struct service *s); /* client-credentials: allow */
/*
 * The request field that the gateway itself writes for this service, its own credential in it (credential, assert or
 * exchange); NULL: none. A sandbox's field of that name is a foreign credential.
 */
const char *service_own_field(const struct service *s);
/*
 * May its answers send a client on to this place: one of its own, or one that hands-off-to lists? host is canonical; was_plain: the
 * client came by plain HTTP. From https on to plain HTTP only where that is listed.
 */
bool service_sends_on_to(const struct policy *p, const struct service *s, bool is_tls, const char *host, uint16_t port, bool was_plain);
bool service_is_own_place(const struct policy *p, const struct service *s, bool is_tls, const char *host, uint16_t port);
bool service_enforces_edges(const struct service *s); /* handoff-edges: enforce */
/* Entry i of hands-off-to; NULL behind the last. */
const struct destination *service_destination(const struct service *s, size_t i);
/* Are its answers to come without a content coding, so that they can be looked through: for the gateway's credential, or for edges? */
bool service_reads_answers(const struct service *s);
/* Are only whole answers had from it? A part that comes all the same is refused. */
bool service_strips_ranges(const struct service *s);
bool service_asserts_once(const struct service *s); /* assert.once: each request has a token of its own there */
/* Is this request field a credential to this service: by its name, or as the gateway's own? */
bool service_is_credential(const struct service *s, struct slice name);
/*
 * Is this request field forwarded? forward-fields or the preset: what they list. Neither: everything but fields that
 * claim what only a gateway may say (X-Forwarded-For, X-HTTP-Method-Override, ...). Credentials only with
 * client-credentials: allow, hop-by-hop fields never, Host and Content-Length always: they are the proxy's to write.
 * Accept-Encoding not where service_reads_answers, Range and If-Range not where service_strips_ranges.
 */
bool service_forwards_field(const struct service *s, struct slice name);
const char *service_audit(const struct service *s); /* "waived: reason", or "" */
bool service_is_waived(const struct service *s);
/*
 * By its last audit. Until policy_set_attested has said something of it, nobody has audited it. service_is_open: by that, or
 * because it is waived; never while it is shut.
 */
const struct attested *service_attested(const struct service *s);
bool service_is_open(const struct service *s, int64_t now_s);
/* Has somebody closed it by hand (exeat service close)? No audit and no waiver opens it then. */
bool service_is_shut(const struct service *s);
/* Ask these from now on, which must outlive the policy; without them nothing is shut. */
void policy_use_revocations(struct policy *p, const struct revocations *r);
int64_t service_audit_max_age_s(const struct service *s);
void policy_set_attested(struct policy *p, size_t index, const struct attested *a);
enum { SERVICE_DIGEST_SIZE = 32 };
/*
 * SHA-256 of all that its part of the configuration decides, the rules of its preset included, but not of what only says how it
 * is audited. The same on every machine that is to decide the same: files count by their names alone.
 */
const unsigned char *service_digest(const struct service *s);
/* NULL behind the last. */
const struct acceptance *service_acceptance(const struct service *s, size_t i);
bool service_observes(const struct service *s); /* observe: true */

struct decision {
    bool allowed;
    enum reason reason;            /* REASON_ALLOWED or why not; exactly one */
    const struct service *service; /* NULL when none lists the destination */
    char rule[256];                /* the rule that decided, as written ("GET,HEAD /pkg/..."), or "" */
    bool observed;                 /* the rules said no, and the service is in observe mode */
    enum scheme scheme;            /* CONNECT: TLS or plain inside, by the port */
    char detail[160];              /* what exactly, for explain and why: "port 8080 is not listed (443)" */
};

/* explain: each step as it is taken. ok says whether the step passed. */
struct trace {
    void (*step)(void *arg, const char *name, bool ok, const char *detail);
    void *arg;
};

/*
 * May identity make this request now? identity NULL: no token, and the answer is token_missing, whatever is listed. A
 * CONNECT is judged by token, destination and scope; the requests inside it each by everything. Expiry and
 * revocation are the verifier's (verifier_recheck); here only a token that no leeway can save is refused.
 * Deny rules match every reading of the path that a careless server may have (path_loosen). trace may be NULL.
 */
struct decision authorize(const struct policy *p, const struct identity *identity, const struct request *r,
                          int64_t now_s, const struct trace *trace);

#endif
