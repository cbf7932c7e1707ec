/*
 * Issuers: names, algorithms, keys (JWKS, RFC 7517) and limits from
 * configuration. Keys are parsed once; a key serves one algorithm.
 */
#ifndef AUTHZ_ISSUER_H
#define AUTHZ_ISSUER_H

#include "base/bundle.h"
#include "base/conf.h"

/* The issuers section: issuers.NAME.{issuer,jwks,algorithms,type,max-lifetime,leeway}. */
extern const struct conf_section issuers_section;

struct issuers;

/*
 * Compile. JWKS files come from the bundle as "issuer.NAME.jwks". Errors name the place in
 * the configuration, or the JWKS file and the key in it. Refused: private members (d, k with asymmetric
 * algorithms), unknown kty, EC curves other than the algorithm's, RSA under 2048 bits,
 * duplicate kid, a key without kid, an empty set.
 */
struct issuers *issuers_compile(const struct conf *c, const struct bundle *files, struct fault *why);
void issuers_free(struct issuers *i);
/* Changes whenever a key set changes; part of the cache key. */
uint64_t issuers_generation(const struct issuers *i);

#endif
