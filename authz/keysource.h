/*
 * Where an issuer publishes its keys (`jwks-uri`), and how they are had from there. Pure: who fetches them is the clerk, by
 * descriptors that the porter dials; no sandbox gets there by this.
 */
#ifndef AUTHZ_KEYSOURCE_H
#define AUTHZ_KEYSOURCE_H

#include "base/conf.h"
#include "net/addr.h"
#include "net/name.h"

/* Texts are borrowed from the conf. */
struct keysource {
    const char *issuer; /* its name in the configuration */
    const char *uri;
    char host[NAME_MAX_LEN + 1];
    uint16_t port;
    const char *target;  /* borrowed from uri: "/.well-known/jwks" */
    const char *ca_file; /* NULL: the system's CAs */
    bool allow_private;
    const struct conf_item *item; /* for its fixed addresses */
    size_t n_addresses;
    int64_t refresh_ms;  /* so often they are fetched, or sooner when the answer says so */
    int64_t max_age_s;   /* so long they hold without being fetched again */
    uint64_t mark;       /* differs when where to find them does */
};

struct keysources;

/* c is kept. NULL and why, with its place, when anything is refused. */
struct keysources *keysources_compile(const struct conf *c, struct fault *why);
void keysources_free(struct keysources *k);
size_t keysources_count(const struct keysources *k);
const struct keysource *keysources_get(const struct keysources *k, size_t i);
/* By the issuer's name; NULL when it publishes none. */
const struct keysource *keysources_named(const struct keysources *k, struct slice issuer);
struct addr keysource_address(const struct keysource *k, size_t i);

/* One issuer's, for who compiles issuers: true with host "" when the item has no jwks-uri. */
bool keysource_read(const struct conf_item *item, struct keysource *out, struct fault *why);

#endif
