/* The tighter policy in reports. Private to audit/. */
#ifndef AUDIT_REPORT_POLICY_H
#define AUDIT_REPORT_POLICY_H

#include <jansson.h>

#include "audit/report.h"

/* The member "policy" of a report (give); null: nothing weak was found. */
json_t *report_policy_json(const struct audit *a);
/* Is there one to show: was anything weak found? */
bool report_has_policy(const struct audit *a);
/* What it is and what to do with it, in one sentence. */
void report_policy_lead(const struct audit *a, struct buf *out);

#endif
