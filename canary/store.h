/*
 * The registry's file while it is changed: one writer at a time, and every reader sees the old or the new
 * whole. Beside canaries.json stands canaries.json.lock, which is never removed.
 */
#ifndef CANARY_STORE_H
#define CANARY_STORE_H

#include "canary/canary.h"

/*
 * Read the file; a missing one is an empty registry, one that others may read is refused (FAULT_PERMISSION, with
 * the chmod that mends it).
 */
struct registry *registry_load(const char *path, struct fault *why);

struct store;

/* Take the lock (waits for another writer), then read as registry_load. path is copied. */
struct store *store_open(const char *path, struct fault *why);
/* Lets the lock go; what was not saved is forgotten. */
void store_close(struct store *s);
struct registry *store_registry(struct store *s);
/* Write the registry, mode 0600. */
bool store_save(struct store *s, struct fault *why);

#endif
