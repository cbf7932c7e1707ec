/*
 * The terms a worker works on: everything it builds from one configuration. Built completely beside those in force, and
 * swapped between events; what did not change (trust, canaries) is shared, not built again.
 */
#ifndef PROXY_TERMS_H
#define PROXY_TERMS_H

#include "authz/issuer.h"
#include "canary/scan.h"
#include "net/tls.h"
#include "proxy/limits.h"
#include "proxy/role.h"
#include "proxy/sift.h"

struct terms {
    const struct bundle *files;        /* the role's */
    const struct conf *conf;           /* so is this */
    const struct policy *policy;       /* and this */
    struct limits limits;
    struct issuers *issuers;
    struct scanner *scanner;           /* has its canaries with it */
    const struct registry *canaries;   /* the scanner's */
    struct sift *sift;                 /* of hosts below a suffix, which somebody looks up; NULL: no service lists one */
    bool quarantines_leaks;            /* canaries.on-leak */
    struct tls_client *system_trust;   /* NULL when no service needs it */
    struct tls_client **service_trust; /* by service_index; NULL entries use system_trust */
    struct tls_door **doors;           /* by the order of listen; NULL entries: plain */
    bool *transparent;                 /* by the order of listen */
    uint64_t *marks;                   /* by service_index: changes with all that makes a connection to it another one */
};

/* set is kept while the terms live; before may be NULL. NULL and why when something in it is refused. */
struct terms *terms_new(const struct role_set *set, const struct terms *before, struct fault *why);
void terms_free(struct terms *t);
/* The TLS of this listener (borrowed); NULL: plain. */
struct tls_door *terms_door(const struct terms *t, const char *listener);
/* Do both ask of who comes in there the same: TLS or not, a certificate or none, and of which CAs? */
bool terms_ask_alike(const struct terms *a, const struct terms *b, const char *listener);
/* mode: transparent? */
bool terms_is_transparent(const struct terms *t, const char *listener);
/* Is this file of the bundle the same, or in neither? */
bool terms_share_file(const struct terms *a, const struct terms *b, const char *name);

#endif
