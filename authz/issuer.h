/*
 * Issuers: names, algorithms, keys (JWKS, RFC 7517) and limits from
 * configuration. Keys are parsed once; a key serves one algorithm.
 */
#ifndef AUTHZ_ISSUER_H
#define AUTHZ_ISSUER_H

#include "authz/key.h"
#include "base/bundle.h"
#include "base/conf.h"

/* The issuers section: issuers.NAME.{issuer,jwks,key,algorithms,type,max-lifetime,leeway,pin-source,single-use}. */
extern const struct conf_section issuers_section;

struct issuers;
struct issuer; /* borrowed from its issuers */

/*
 * Read every JWKS file of the configuration into files as "issuer.NAME.jwks". A set with shared keys (HS256)
 * must be readable by its owner alone.
 */
bool issuers_read_files(const struct conf *c, struct bundle *files, struct fault *why);

/*
 * Compile. JWKS files come from the bundle as "issuer.NAME.jwks". Errors name the place in
 * the configuration, or the JWKS file and the key in it. Refused: everything key_from_jwk() refuses,
 * duplicate kid, an empty set, more than 64 keys, HS256 beside another algorithm, two issuers with one iss.
 * Keys with "use": "enc" are left out.
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
const char *issuer_type(const struct issuer *i);  /* typ, without "application/" */
bool issuer_allows(const struct issuer *i, enum algorithm a);
int64_t issuer_max_lifetime_s(const struct issuer *i);
int64_t issuer_leeway_s(const struct issuer *i);
bool issuer_pins_source(const struct issuer *i);
bool issuer_is_single_use(const struct issuer *i);
/* NULL when the issuer has no such key. */
const struct key *issuer_key(const struct issuer *i, struct slice kid);

#endif
