/*
 * How a service that repeats a credential may write it: percent-encoded in a place to go on to, escaped in JSON or HTML, each as
 * the writers in use do. As it is, in base64 and in hexadecimal digits the scanner knows it anyhow (canary/view.h). Pure.
 */
#ifndef HANDOFF_SPELLING_H
#define HANDOFF_SPELLING_H

#include "base/slice.h"

/*
 * Call take for each spelling that is another text than the secret and than those before it; name: of the spelling. spelled is
 * borrowed, and wiped after the call.
 */
void spelling_each(struct slice secret, void (*take)(void *arg, const char *name, struct slice spelled), void *arg);

#endif
