/*
 * Authority taken away: tokens by jti, by sandbox (sub), or everything issued before a time; sandboxes in quarantine, until they
 * are released; services closed by hand, until they are opened. Kept by the supervisor in the state directory's file `revocations` and in shared memory that
 * workers map read-only: it holds on all workers at once. The interface later parts put Redis behind.
 */
#ifndef AUTHZ_REVOCATION_H
#define AUTHZ_REVOCATION_H

#include "authz/identity.h"
#include "authz/suspension.h"
#include "base/fault.h"

enum revocation_kind {
    REVOKE_JTI,
    REVOKE_SANDBOX,
    REVOKE_ISSUED_BEFORE,
    REVOKE_QUARANTINE, /* of a sandbox, and its end */
    REVOKE_RELEASE,
    REVOKE_CLOSE, /* of a service, and its end */
    REVOKE_OPEN,
};

/* "jti", "sandbox", "issued-before", "quarantine", "release", "close", "open": in the file, in records and on the admin socket. */
const char *revocation_kind_name(enum revocation_kind kind);
bool revocation_kind_find(struct slice name, enum revocation_kind *out);
/*
 * May value be revoked as this kind: 1 to 256 bytes of visible ASCII (128 of a sandbox in quarantine or a service); decimal seconds for
 * REVOKE_ISSUED_BEFORE.
 */
bool revocation_check(enum revocation_kind kind, struct slice value, struct fault *why);
/* Until it is given back: of a sandbox or a service, not of tokens. */
bool revocation_is_suspension(enum revocation_kind kind);
/* The kind that begins it: REVOKE_QUARANTINE of a quarantine and its release, REVOKE_CLOSE of a service. */
enum revocation_kind revocation_beginning(enum revocation_kind kind);

struct revocations;

/*
 * Supervisor: make the shared memory, filled from the file (absent is empty). fd is given by revocations_fd (borrowed).
 * Entries whose time is over are forgotten, also in the file (authz/ledger.h says when). A line that cannot be read refuses the
 * whole file ("revocations:3: ..."); but half a line at the very end, never confirmed to anybody, is dropped.
 */
struct revocations *revocations_create(const char *path, struct fault *why);
/* For tools: what the file says, in memory of one's own; nothing is written. */
struct revocations *revocations_read(const char *path, struct fault *why);
/* Worker: map it read-only. */
struct revocations *revocations_map(int fd, struct fault *why);
void revocations_free(struct revocations *r);
int revocations_fd(const struct revocations *r);

/*
 * Supervisor: add one, on disk (fsync) before in memory. value is a jti, a sandbox,
 * or a decimal time in seconds (REVOKE_ISSUED_BEFORE). until_s: when it ends and may be forgotten (0: never;
 * REVOKE_ISSUED_BEFORE holds without an end). FAULT_LIMIT when the memory made at the start is full.
 */
bool revocations_add(struct revocations *r, enum revocation_kind kind, struct slice value, int64_t until_s,
                     struct fault *why);
/* Add to the file alone, under its lock, when no gateway runs. */
bool revocations_append(const char *path, enum revocation_kind kind, struct slice value, int64_t until_s,
                        struct fault *why);
/* Is the token of i revoked at now_s: its jti, its sandbox, or all that was issued when it was? */
bool revocations_has(const struct revocations *r, const struct identity *i, int64_t now_s);

/* ---- sandboxes in quarantine, services closed by hand ---- */

/*
 * Supervisor: one that begins or ends (kind: one of the four), on disk before in memory; s->at is now, whatever it says.
 * FAULT_LIMIT: no room; FAULT_MISSING: what ends had not begun.
 */
bool revocations_suspend(struct revocations *r, enum revocation_kind kind, const struct suspension *s, struct fault *why);
/* The same in the file alone, when no gateway runs. */
bool revocations_append_suspension(const char *path, enum revocation_kind kind, const struct suspension *s, struct fault *why);
/* Supervisor and tools: each of a kind (REVOKE_QUARANTINE or REVOKE_CLOSE), by name. */
void revocations_each_suspension(const struct revocations *r, enum revocation_kind kind,
                                 void (*visit)(void *arg, const struct suspension *s), void *arg);
/* The same for one name: is it there? Supervisor and tools. */
bool revocations_suspends(const struct revocations *r, enum revocation_kind kind, struct slice name);
/* Is the sandbox of i in quarantine? */
bool revocations_quarantines(const struct revocations *r, const struct identity *i);
/* Is the service closed? By the mark of its name: revocations are asked at each request. */
bool revocations_closes(const struct revocations *r, struct identity_mark service);
struct identity_mark revocation_service_mark(struct slice name);

/* Goes up with each change: a cheap look whether anything was added. */
uint64_t revocations_version(const struct revocations *r);

#endif
