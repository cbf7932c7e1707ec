/*
 * One verification key of an issuer, from a JWK (RFC 7517), parsed once. It serves one algorithm (RFC 8725 3.1):
 * what a token's header says never chooses how a key is used.
 */
#ifndef AUTHZ_KEY_H
#define AUTHZ_KEY_H

#include "base/fault.h"
#include "base/slice.h"

struct json_t;

enum algorithm { ALGORITHM_ES256, ALGORITHM_RS256, ALGORITHM_HS256, N_ALGORITHMS };

/* "ES256" */
const char *algorithm_name(enum algorithm a);
/* By its exact name (RFC 7515 4.1.1: case-sensitive). */
bool algorithm_find(struct slice name, enum algorithm *out);

struct key;

/*
 * Read a JWK. allowed has the bit 1u << a of every algorithm the issuer may use; the key's algorithm is its "alg",
 * or the one its type can serve. Refused: a key without kid, private members
 * (other than k of an oct key), "use" other than sig, key_ops without verify, an unknown kty, a curve other
 * than P-256, a point not on it, RSA under 2048 or over 8192 bits, an oct key under 32 bytes, an algorithm
 * that is not allowed or does not go with the type.
 */
struct key *key_from_jwk(struct json_t *jwk, unsigned allowed, struct fault *why);
void key_free(struct key *k);

const char *key_id(const struct key *k); /* kid */
enum algorithm key_algorithm(const struct key *k);
/* 64 bits of SHA-256 over algorithm and key material: differs when the key differs. */
uint64_t key_mark(const struct key *k);

/* Does signature (its bytes as RFC 7518 3 wants them) belong to input under this key and its algorithm? */
bool key_verify(const struct key *k, struct slice input, struct slice signature);

#endif
