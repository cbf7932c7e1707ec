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

/* A sealed (F_SEAL_WRITE|SHRINK|GROW|SEAL) memfd with the content; -1 and why on failure. */
int bundle_seal(const struct bundle *b, struct fault *why);
/* Read one; fd stays the caller's. Refuses an unsealed descriptor. */
struct bundle *bundle_open(int fd, struct fault *why);

#endif
