/*
 * Revocations: by jti, by sandbox (sub), or everything issued before a time. Kept by the supervisor in
 * the state directory's file `revocations` and in shared memory that workers map
 * read-only: a revocation holds on all workers at once. The interface later parts put Redis behind.
 */
#ifndef AUTHZ_REVOCATION_H
#define AUTHZ_REVOCATION_H

#include "authz/identity.h"
#include "base/fault.h"

enum revocation_kind { REVOKE_JTI, REVOKE_SANDBOX, REVOKE_ISSUED_BEFORE };

struct revocations;

/* Supervisor: make the shared memory, filled from the file (absent is empty). fd is given by revocations_fd (borrowed). */
struct revocations *revocations_create(const char *path, struct fault *why);
/* Worker: map it read-only. */
struct revocations *revocations_map(int fd, struct fault *why);
void revocations_free(struct revocations *r);
int revocations_fd(const struct revocations *r);

/*
 * Supervisor: add one, on disk (fsync) before in memory. value is a jti, a sandbox,
 * or a decimal time in seconds (REVOKE_ISSUED_BEFORE). until_s: when it may be forgotten (0: never).
 */
bool revocations_add(struct revocations *r, enum revocation_kind kind, struct slice value, int64_t until_s,
                     struct fault *why);
/* Add to the file alone, under its lock, when no gateway runs. */
bool revocations_append(const char *path, enum revocation_kind kind, struct slice value, int64_t until_s,
                        struct fault *why);
bool revocations_has(const struct revocations *r, const struct identity *i);
/* Goes up with each change: a cheap look whether anything was added. */
uint64_t revocations_version(const struct revocations *r);

#endif
