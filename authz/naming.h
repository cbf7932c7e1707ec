/*
 * How an issuer's tokens name sandboxes. Without `sandbox` and `map`, the sandbox is the token's sub as it is. Otherwise it is
 * the issuer's name, a colon, and the template's text: "gitlab:20:302" from sandbox: "{project_id}:{job_id}". So no two
 * issuers name the same sandbox, and what is one job to the CI system is one sandbox here. Pure.
 *
 * Bytes that are no visible ASCII, and "%", are written %XX; with several claims so are all but letters, digits and ". _ / -", and
 * something else stands between them: two tokens with other claims never get one name.
 */
#ifndef AUTHZ_NAMING_H
#define AUTHZ_NAMING_H

#include "base/buf.h"
#include "base/conf.h"

enum { SANDBOX_NAME_MAX = 128 };

struct json_t;
struct naming;

/*
 * Compile the item's `sandbox`; foreign: without one, "{sub}". *out is NULL when sub stands as it is. False and why, with its
 * place: no claim, a claim twice, two claims that nothing keeps apart, a character that is not visible, an unclosed brace.
 */
bool naming_compile(const struct conf_item *item, bool foreign, struct naming **out, struct fault *why);
void naming_free(struct naming *n);
/* Is it the name of one job, not of all that share a sub: was a template written? */
bool naming_is_written(const struct naming *n);
/* Append the name; token_claims when a claim is missing or no text or whole number, or the name is too long. */
bool naming_make(const struct naming *n, const struct json_t *claims, struct buf *out, struct fault *why);
/* "gitlab:": what all names begin with, and no sub of an issuer without naming may. */
const char *naming_prefix(const struct naming *n);
/* As text: differs when the naming does. */
void naming_print(const struct naming *n, struct buf *out);

#endif
