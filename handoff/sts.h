/*
 * The token service (RFC 8693): the request's body and the reading of the answer. Pure; who speaks to the token endpoint is
 * the clerk.
 */
#ifndef HANDOFF_STS_H
#define HANDOFF_STS_H

#include "handoff/handoff.h"

/* The form (RFC 8693 2.1) that gives this signed subject token for one for the service. */
void sts_form(const struct handoff *h, struct slice subject_token, struct buf *out);
/* The Authorization of the client (RFC 6749 2.3.1); nothing is appended when it has no secret (then the form names it). */
void sts_authorization(const struct handoff *h, struct slice secret, struct buf *out);

struct sts_token {
    struct secret *token; /* give */
    int64_t lives_s;      /* expires_in; 0: it does not say */
};

/*
 * Read the token endpoint's answer (hostile): 200 with JSON of RFC 8693 2.2.1 whose token_type is Bearer or N_A and whose
 * issued_token_type is not a refresh token. False and why: the error code of RFC 6749 5.2 when it is one, never its text.
 */
bool sts_read(int status, struct slice body, struct sts_token *out, struct fault *why);

#endif
