/* How a service stands, as JSON: what the admin socket answers, and what `exeat service` says when no gateway runs. Pure. */
#ifndef PROXY_STANDING_H
#define PROXY_STANDING_H

#include "authz/policy.h"

struct json_t;

/* {"service", "open", "why", "waived"}: by its audit or its waiver alone (give). NULL: a service that nobody lists. */
struct json_t *standing_of(const struct service *s, int64_t now_s);
/* {"services": [standing, ...], "closed": [...]}: all of the policy, and those that are closed by hand (give). */
struct json_t *standing_list(const struct policy *p, const struct revocations *r, int64_t now_s);
/* Those that are closed by hand: [{"service", "since", "by", "why", "uid"}, ...] (give). */
struct json_t *standing_closed(const struct revocations *r);
/* The service of this name; NULL and why, which says what else it might have been. */
const struct service *standing_find(const struct policy *p, const char *name, struct fault *why);

#endif
