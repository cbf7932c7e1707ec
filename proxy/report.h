/*
 * What the clerk makes of the supervisor's answer to `status` (docs/admin.md): it adds what it alone knows, and says what
 * is not ready. Pure: JSON in, JSON out.
 */
#ifndef PROXY_REPORT_H
#define PROXY_REPORT_H

#include "proxy/metrics.h"

/* Is this line of the admin socket {"command":COMMAND,...}? */
bool report_is(struct slice line, const char *command);

/*
 * The answer to an admin client: the supervisor's, with "journal", "counters", "issuers", and the services as "waived", "audited" and
 * "closed" (for want of an audit) added when it is {"ok":true,"status":{...}}; any other answer stays as it is.
 */
void report_status(struct buf *out, struct slice answer, const struct metrics *m);

/*
 * The body of /readyz: {"ready":true} or {"ready":false,"missing":["worker 1 is down", ...]}; returns ready. An issuer whose
 * keys are away does not make the gateway unready for the sandboxes of the others; when none has keys, nobody can have leave.
 */
bool report_ready(struct buf *out, struct slice answer, const struct metrics *m);

#endif
