/*
 * The keeper's part of a grant (design 13): a worker shows a leave token and names a service; the vault verifies the token
 * itself, has the credential read (supervisor), signs it, or has it exchanged (clerk), and gives it for at most GRANT_MAX_S,
 * when the record of the grant is written.
 */
#ifndef PROXY_VAULT_H
#define PROXY_VAULT_H

#include "proxy/desk.h"
#include "proxy/keyring.h"
#include "proxy/recorder.h"

struct strongbox; /* by what one configuration grants */

/* set is kept. NULL and why when its issuers or keys cannot be read. */
struct strongbox *strongbox_new(const struct role_set *set, struct fault *why);
/* What waits by it is answered: it is policy_changed. NULL is fine. */
void strongbox_free(struct strongbox *b);

/* The keys that its issuers publish are these from now on. NULL is fine. */
void strongbox_use_keys(struct strongbox *b, const struct keyring *r);

/* Once. Both are kept. */
void vault_open(struct role_context *context, struct recorder *recorder);
/* Takes fd: the revocations (MSG_SHARED); nothing is granted without them. */
void vault_take_revocations(int fd);
/* Takes fd: the channel to the clerk. */
void vault_attach_clerk(int fd);

/* MSG_GRANT behind its id and generation; box: of that generation. False: it is malformed. */
bool vault_grant(struct visitor *v, uint32_t id, struct unpack *rest, struct strongbox *box);
/* MSG_FETCHED, MSG_NOT_FETCHED. False: it is malformed. */
bool vault_fetched(enum role_message type, struct slice payload);
/* The worker is gone: what it waits for is dropped. */
void vault_left(const struct visitor *v);

#endif
