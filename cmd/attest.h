/* What `exeat audit --attest` leaves behind for the gateway: an attestation of each service, signed with the gateway's own key. */
#ifndef CMD_ATTEST_H
#define CMD_ATTEST_H

#include "audit/audit.h"
#include "cmd/command.h"

struct attest;

/*
 * Read the gateway's configuration, and its key of attestations; the first time that one is made (state/attestation.key and
 * .jwks). NULL and why. Give: attest_free().
 */
struct attest *attest_open(const char *config, struct fault *why);
void attest_free(struct attest *a);
/* The service of that name in the configuration; NULL and why. Borrowed. */
const struct service *attest_service(const struct attest *a, const char *name, struct fault *why);
/*
 * Sign what the audit of that service found, passing or not, and put it where the gateway looks for it, with its exchanges beside it
 * (SERVICE.exchanges).
 */
bool attest_write(const struct attest *a, const struct service *s, const struct audit *found, struct fault *why);
/* Have the running gateway record it. The id of the record (give); NULL and why: the journal has nothing of it. */
char *attest_record(const struct attest *a, const struct service *s, const struct audit *found, struct fault *why);

#endif
