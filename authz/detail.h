/*
 * What a token narrows itself to: the entries of type "http_egress" in its authorization_details (RFC 9396).
 *
 *     [{"type": "http_egress", "locations": ["npm.example"], "actions": ["GET"], "paths": ["/left-pad"]}]
 *
 * A request is covered when one entry covers it; within an entry every list that is there must. Pure.
 */
#ifndef AUTHZ_DETAIL_H
#define AUTHZ_DETAIL_H

#include "authz/pattern.h"

/* An empty list was not written, and does not narrow. */
struct detail {
    /* [http:// or https://] host or *.suffix [:port]; lower case, no path, no trailing slash */
    const char *const *locations;
    size_t n_locations;
    const char *const *methods; /* "actions" in the token: upper-case HTTP methods */
    size_t n_methods;
    const char *const *paths; /* patterns as in a rule, each starting with "/", without a query or captures */
    struct pattern *const *patterns; /* the same, compiled (authz/pattern.h) */
    size_t n_paths;
};

struct details;

/*
 * Read the JSON array. Entries of other types are for other servers and left
 * out, so the result may be empty: then nothing is covered. Refused with token_claims: anything but an array of
 * objects with a type, a member of an http_egress entry that we do not know (a
 * narrowing must not be ignored), an empty list, a text out of form, more than
 * 32 entries or 64 texts in a list.
 */
struct details *details_parse(struct slice json, struct fault *why);
void details_free(struct details *d);
size_t details_count(const struct details *d);
/* Borrowed; i < details_count(). */
const struct detail *details_get(const struct details *d, size_t i);

#endif
