/*
 * From claims to scopes: what the tokens of an issuer that knows nothing of scopes (a CI system) are good for.
 *
 *     map: { "project_path:acme/x": npm:read, "namespace_path:acme & ref_protected:true": [npm:read, git:read] }
 *
 * An entry holds when each of its conditions, CLAIM:VALUE with " & " between them, does; the scopes of all entries that
 * hold are added up. A value is compared exactly, with the claim's text, or a number's or boolean's as JSON writes it; a
 * claim that is absent, null, a fraction, a list or an object fulfils nothing. "*" stands for one whole segment, which has no
 * "/" and no ":", and "**" at the end for one or more segments with "/" between them; neither is empty. Pure.
 */
#ifndef AUTHZ_MAPPING_H
#define AUTHZ_MAPPING_H

#include "base/buf.h"
#include "base/conf.h"

struct json_t;
struct mapping;

/*
 * Compile the item's `map`; *out is NULL when it has none. False and why, with its place, when an entry is refused: no
 * condition, no claim, a wildcard that is no whole segment, no scope, more than 8 conditions.
 */
bool mapping_compile(const struct conf_item *item, struct mapping **out, struct fault *why);
void mapping_free(struct mapping *m);

size_t mapping_count(const struct mapping *m);
/* As it is written. */
const char *mapping_text(const struct mapping *m, size_t i);
bool mapping_holds(const struct mapping *m, size_t i, const struct json_t *claims);
/* Who runs the issuer's other tenants can fulfil it: no condition says whose it is. */
bool mapping_is_wide(const struct mapping *m, size_t i);
/* Append the scopes of all entries that hold, each once, with blanks between them. False: none holds. */
bool mapping_scopes(const struct mapping *m, const struct json_t *claims, struct buf *out);
/* All of it as text: differs when the mapping differs. */
void mapping_print(const struct mapping *m, struct buf *out);

/* The text of a claim that is a text, a whole number or a boolean, appended; false when it is none, or not there. */
bool claim_text(const struct json_t *claims, const char *name, struct buf *out);
/* Is this how the claims that can be named here are called: letters, digits, "_", "-" and ".", at most 64? */
bool claim_is_name(struct slice name);
/* RFC 6749 3.3: one word of %x21 / %x23-5B / %x5D-7E. */
bool scope_is_word(struct slice word);

#endif
