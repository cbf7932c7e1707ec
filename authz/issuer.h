/*
 * Issuers: names, algorithms, keys and limits from configuration. Keys come from a file (JWKS, RFC 7517), or from where the
 * issuer publishes them (authz/keysource.h): those are set by issuers_set_keys while the gateway runs. Keys are parsed
 * once; a key serves one algorithm.
 */
#ifndef AUTHZ_ISSUER_H
#define AUTHZ_ISSUER_H

#include "authz/keyset.h"
#include "authz/keysource.h"
#include "authz/mapping.h"
#include "authz/naming.h"
#include "base/bundle.h"
#include "base/conf.h"

/* The issuers section. */
extern const struct conf_section issuers_section;

struct issuers;
struct issuer; /* borrowed from its issuers */

/*
 * Read every JWKS file of the configuration into files as "issuer.NAME.jwks", and every jwks-ca-file as "issuer.NAME.ca". A
 * set with shared keys (HS256) must be readable by its owner alone.
 */
bool issuers_read_files(const struct conf *c, struct bundle *files, struct fault *why);

/*
 * Compile. JWKS files come from the bundle as "issuer.NAME.jwks". Errors name the place in
 * the configuration, or the JWKS file and the key in it. Refused: everything keyset_parse() refuses of a file, HS256 beside
 * another algorithm or with published keys, two issuers with one iss, neither jwks nor jwks-uri or both. An issuer with
 * jwks-uri begins without keys.
 */
struct issuers *issuers_compile(const struct conf *c, const struct bundle *files, struct fault *why);
void issuers_free(struct issuers *i);
/* Changes whenever a key set or a limit changes; part of the cache key. The same in every process. */
uint64_t issuers_generation(const struct issuers *i);

/* The issuer with this iss claim; NULL when none. */
const struct issuer *issuers_find(const struct issuers *i, struct slice iss);
/* The issuer with this name in the configuration; NULL when none. */
const struct issuer *issuers_named(const struct issuers *i, const char *name);
/* How long any token can matter: the largest max-lifetime plus leeway; 0 without issuers. */
int64_t issuers_longest_s(const struct issuers *i);

const char *issuer_name(const struct issuer *i);  /* in the configuration */
const char *issuer_claim(const struct issuer *i); /* iss: `issuer`, or else the name */
/* Is this a typ of its tokens? Case and a leading "application/" do not count (RFC 7515 4.1.9). */
bool issuer_takes_type(const struct issuer *i, struct slice typ);
const char *issuer_types(const struct issuer *i); /* for people: "at+jwt, JWT" */
bool issuer_allows(const struct issuer *i, enum algorithm a);
int64_t issuer_max_lifetime_s(const struct issuer *i);
int64_t issuer_leeway_s(const struct issuer *i);
bool issuer_pins_source(const struct issuer *i);
bool issuer_is_single_use(const struct issuer *i);
/* NULL when the issuer has no such key. */
const struct key *issuer_key(const struct issuer *i, struct slice kid);
/* What a token is refused for whose key it has not: token_key_unknown, or token_key_unpublished. */
enum reason issuer_no_key(const struct issuer *i);

/* NULL: its tokens say their scopes themselves. */
const struct mapping *issuer_mapping(const struct issuer *i);
/* With a mapping: does the token's own scope narrow what the mapping gives? */
bool issuer_narrows_by_scope(const struct issuer *i);
/* NULL: sub is the sandbox. */
const struct naming *issuer_naming(const struct issuer *i);
/* Does sub begin as only sandboxes of an issuer with naming are called? */
bool issuers_reserve(const struct issuers *i, struct slice sub);

/* ---- published keys ---- */

/* The URL they are at; NULL: its keys are from a file. */
const char *issuer_keys_uri(const struct issuer *i);
/*
 * The keys of the issuer with this name are from now on those of this JWK set, fetched from uri at fetched_s; nothing happens
 * when it publishes none, or elsewhere. False, why and no change when it cannot use the set. The generation changes with the
 * keys, not with the time.
 */
bool issuers_set_keys(struct issuers *i, struct slice name, struct slice uri, struct slice json, int64_t fetched_s,
                      struct fault *why);
/*
 * Has it keys that are not too old? Always, when they are from a file. False and why->reason = issuer_unavailable.
 */
bool issuer_has_keys(const struct issuer *i, int64_t now_s, struct fault *why);
/* When that ends: seconds since 1970; 0: keys from a file, or none yet. */
int64_t issuer_keys_until_s(const struct issuer *i);

#endif
