/* What the auditor answers as the name server of its own zone. Pure. */
#ifndef AUDIT_BEACON_NAME_H
#define AUDIT_BEACON_NAME_H

#include "net/dns_answer.h"

/* Is it a question about a name below zone? host is its canonical name. */
bool beacon_name_read(struct slice query, const char *zone, struct dns_question *q, char host[NAME_MAX_LEN + 1]);
/* This address, good for no time at all (an A question; NULL: none), or that there is nothing of that type. */
void beacon_name_write(const struct dns_question *q, const struct addr *a, struct buf *out);
/* The first of "127.0.0.20 127.0.0.22" when it is asked for the first time, the second ever after. */
bool beacon_name_pick(const char *pair, size_t asked, struct addr *out);

#endif
