/*
 * The service that is audited, opened: its names looked up once, its credentials read, every address held against the
 * manifest's ranges. After this nothing is looked up any more.
 */
#ifndef AUDIT_TARGET_H
#define AUDIT_TARGET_H

#include "audit/manifest.h"
#include "base/secret.h"

enum { PLACES_MAX = 64, ALSO_MAX = 8 };

enum dialect { DIALECT_HTTP, DIALECT_PROXY, DIALECT_NPM, DIALECT_OCI };

enum credential_form {
    CREDENTIAL_BEARER,
    CREDENTIAL_BASIC, /* of USER:PASSWORD */
    CREDENTIAL_PROXY_BEARER,
    CREDENTIAL_PROXY_BASIC,
    CREDENTIAL_FIELD, /* header:NAME */
};

struct credential {
    enum credential_form form;
    const char *field;     /* of CREDENTIAL_FIELD; borrowed */
    struct secret *secret; /* NULL: there is none */
};

struct base_url {
    bool tls;
    char *host; /* lower case, without brackets */
    char *path; /* "" or "/base", without a final slash */
    struct addr at;
};

/* Where the audit itself listens. */
struct place_of_ours {
    struct addr at;
    bool is_upstream;
};

struct target {
    const struct manifest *manifest;
    const struct conf_item *item;
    const char *name;
    enum dialect dialect;
    struct base_url base[1 + ALSO_MAX]; /* url, then also */
    size_t n_base;
    struct credential first, second, gateway, client; /* client: of token-endpoint */
    struct secret *refresh; /* token-endpoint.refresh; NULL: none */
    struct place_of_ours places[PLACES_MAX];
    size_t n_places;
    const char *zone;       /* whose name server the audit is; NULL: none. Borrowed */
    struct addr zone_at;
};

/* NULL and why (FAULT_REFUSED, FAULT_SYNTAX...) before any packet is sent. Give: target_free(). m is kept. */
struct target *target_open(const struct manifest *m, const char *service, struct fault *why);
void target_free(struct target *t);

/* Values of the service's item; NULL when absent. Borrowed. */
const char *target_text(const struct target *t, const char *key);
/* fetch: none. target_text() has no fetch then. */
bool target_has_no_upstream(const struct target *t);
size_t target_count(const struct target *t, const char *key);
const char *target_text_at(const struct target *t, const char *key, size_t i);
/* Of the sections listener and upstream; NULL when absent. */
const char *target_listener(const struct target *t, const char *key);
const char *target_upstream(const struct target *t);
/* May the audit send this method? */
bool target_sends(const struct target *t, const char *method);
/*
 * Is this check's weakness accepted at now_s? reason (borrowed) is filled whenever the manifest names the check, with
 * the text as it is written.
 */
bool target_accepts(const struct target *t, const char *check, int64_t now_s, const char **reason);
/* Which of the target's URLs this one lies below (a path: the first), and what is left of it; false: none, and nothing may be sent. */
bool target_finds(const struct target *t, struct slice url, unsigned *base, struct slice *path);
/* "http://host:port/base" of base i. */
void target_url(const struct target *t, size_t i, struct buf *out);
/* "host:port", or "host" on the scheme's own port, of base i. */
void target_authority(const struct target *t, size_t i, struct buf *out);
/* The field that carries a credential: "Authorization: Bearer ..." (wiped by the caller). Nothing when there is none. */
void credential_field(const struct credential *c, struct buf *out);

#endif
