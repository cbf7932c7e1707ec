/* TV-16 and TV-18: tokens that are revoked, and tokens that make new ones. Rows of check_token.c. */
#ifndef AUDIT_RENEWAL_H
#define AUDIT_RENEWAL_H

#include "audit/check.h"

void send_revoked(struct evidence *e);
void judge_revoked(const struct evidence *e, struct finding *f);
void send_renewal(struct evidence *e);
void judge_renewal(const struct evidence *e, struct finding *f);

#endif
