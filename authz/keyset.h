/*
 * The keys of one issuer: a JWK set (RFC 7517 5), from a file or as the issuer publishes it. What an operator wrote is
 * refused whole for any mistake; of what is published, keys that cannot be used here are left out. Pure.
 */
#ifndef AUTHZ_KEYSET_H
#define AUTHZ_KEYSET_H

#include "authz/key.h"
#include "base/buf.h"

enum keyset_kind { KEYSET_FILE, KEYSET_PUBLISHED };

struct keyset;

/*
 * Read it; name is for errors. algorithms has the bits of those that keys may serve. Keys with "use": "enc" are left out, and
 * of a published set all that key_from_jwk refuses. Refused: what is no JWK set, a member twice, a kid twice among the
 * keys that stay, more than 64 keys, none that stays; of a file any other key that key_from_jwk refuses.
 */
struct keyset *keyset_parse(struct slice json, const char *name, unsigned algorithms, enum keyset_kind kind, struct fault *why);
void keyset_free(struct keyset *s);

/* NULL when there is none. */
const struct key *keyset_find(const struct keyset *s, struct slice kid);
size_t keyset_count(const struct keyset *s);
const struct key *keyset_key(const struct keyset *s, size_t i);
/* How many of a published set are left out, keys for encryption not counted. */
size_t keyset_left_out(const struct keyset *s);
/*
 * The keys that stay as a set again, with no other members than those that make a public key: what one process hands another,
 * so that nothing else that was published gets further. Not of shared keys (assert).
 */
void keyset_print(const struct keyset *s, struct buf *out);

#endif
