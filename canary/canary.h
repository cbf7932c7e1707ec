/*
 * Canaries (design 11): planted secrets, the registry of them, and the compiled database the scanner
 * uses. Needs only base.
 */
#ifndef CANARY_CANARY_H
#define CANARY_CANARY_H

#include "base/buf.h"
#include "base/fault.h"
#include "base/slice.h"

/*
 * canaries.json: {"schema":"exeat.canaries/1","canaries":[{"id","kind","sandbox","value","random_from","random_len","created"}]}
 * value is the whole secret; its random part is value[random_from, +random_len) and has at least 80 bits.
 * The file is a secret: 0600.
 */
struct registry;

struct registry *registry_parse(struct slice json, const char *name, struct fault *why);
struct registry *registry_new(void);
void registry_free(struct registry *r);
void registry_json(const struct registry *r, struct buf *out);
size_t registry_count(const struct registry *r);

struct canary { /* borrowed from the registry; texts NUL-terminated */
    const char *id, *kind, *sandbox, *value, *created;
    size_t value_len, random_from, random_len;
};
const struct canary *registry_get(const struct registry *r, size_t i);

/*
 * Mint one of a kind ("aws", "github", "npm", "jwt", "password", "generic"): looks real, carries the marker by which it can be told synthetic,
 * and is unique in r. sandbox may be "". Returns the new entry (borrowed).
 */
const struct canary *registry_mint(struct registry *r, const char *kind, const char *sandbox, int64_t now_s,
                                   struct fault *why);
/* Kind names, for --help. */
const char *registry_kinds(void);

#endif
