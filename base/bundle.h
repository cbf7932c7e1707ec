/*
 * A bundle: named blobs in a sealed memfd. The supervisor reads every file once,
 * checks it, and hands each role the blobs it may see; roles open no files.
 */
#ifndef BASE_BUNDLE_H
#define BASE_BUNDLE_H

#include "base/fault.h"
#include "base/slice.h"

struct bundle;

struct bundle *bundle_new(void);
void bundle_free(struct bundle *b);
/* Copies bytes; a name stands once (assert). */
void bundle_add(struct bundle *b, const char *name, struct slice bytes);
/* True and the bytes (borrowed) when the name is there. */
bool bundle_get(const struct bundle *b, const char *name, struct slice *bytes);

/* Forgets it, and wipes its memory; fine when it is not there. */
void bundle_drop(struct bundle *b, const char *name);

/* An empty memfd to write one into; -1 and why on failure. */
int bundle_memory(struct fault *why);
/* Into that, which is sealed then; false and why on failure. */
bool bundle_write(const struct bundle *b, int fd, struct fault *why);
/* A sealed (F_SEAL_WRITE|SHRINK|GROW|SEAL) memfd with the content; -1 and why on failure. */
int bundle_seal(const struct bundle *b, struct fault *why);
/* Read one; fd stays the caller's. Refuses an unsealed descriptor. */
struct bundle *bundle_open(int fd, struct fault *why);

#endif
