/*
 * A listening socket of the clerk: lets in so many visitors at once and no more; who comes later waits in
 * the kernel's queue.
 */
#ifndef PROXY_DOOR_H
#define PROXY_DOOR_H

#include <stddef.h>

#include "net/loop.h"

struct door;

/* Takes fd. on_visitor takes its descriptor (non-blocking, close-on-exec) and says door_left() when that one is gone. */
struct door *door_new(struct loop *l, int fd, size_t max, void (*on_visitor)(void *arg, int fd), void *arg);
void door_left(struct door *d);
void door_free(struct door *d);

#endif
