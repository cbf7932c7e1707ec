/*
 * The worker's other roles as a fuzzer wants them: what the worker asks is kept until an answer is told, and every
 * question is held against what the journal has. Scribe, porter and keeper at the far end of real channels.
 */
#ifndef TESTS_ROLES_H
#define TESTS_ROLES_H

#include "base/buf.h"
#include "base/id.h"

struct roles;

/* attach(arg, role, fd) hands a new channel to the worker (fd is given): enum role of proxy/role.h. */
typedef void roles_attach(void *arg, int role, int fd);
struct roles *roles_new(roles_attach *attach, void *arg);
/* Read what the worker has sent, and hold it against the rules; after every turn. */
void roles_read(struct roles *r);
/* A role dies and another one takes its place: enum role. */
void roles_restart(struct roles *r, int role);

/* ---- scribe ---- */

/* Write everything that came; or refuse it. */
void roles_write(struct roles *r);
void roles_refuse(struct roles *r);
/* Is there a written decision that allows this request? path is canonical; empty for CONNECT. */
bool roles_allowed(const struct roles *r, struct slice method, struct slice host, struct slice path);
/* Every allowed exchange of which a decision was written has one result, by now. Then the journal is forgotten. */
void roles_close_books(struct roles *r);

/* ---- porter ---- */

size_t roles_dials(const struct roles *r);
/* Answer the oldest dial with a connection (near is given); *port and host (NAME_MAX_LEN + 1) are what it was for. */
void roles_dialled(struct roles *r, int near, char *host, uint16_t *port);
void roles_not_dialled(struct roles *r, uint16_t reason);

/* ---- keeper ---- */

/*
 * A client was steered in this run: from now on a leaf may be asked for any host that is listed for TLS, without a decision. Otherwise a
 * CONNECT to it is allowed and written before.
 */
void roles_steered(struct roles *r);
/* The oldest question's host; "" when there is none. */
const char *roles_certify(const struct roles *r);
/* The worker's key, as SubjectPublicKeyInfo. */
struct slice roles_leaf_key(const struct roles *r);
/* Answer the oldest question with this chain; empty: no. */
void roles_certified(struct roles *r, struct slice chain, int64_t not_after_s);

#endif
