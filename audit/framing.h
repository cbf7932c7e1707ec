/* RL-12: requests whose end can be read in two ways. A row of check_relay.c. */
#ifndef AUDIT_FRAMING_H
#define AUDIT_FRAMING_H

#include "audit/check.h"

void send_framings(struct evidence *e);
void judge_framings(const struct evidence *e, struct finding *f);

#endif
