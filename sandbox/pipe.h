/*
 * Bytes on their way one way: what was read [start, end), the front of it [start, clear) free to be written. No more is read than the
 * buffer holds; the memory never grows.
 */
#ifndef SANDBOX_PIPE_H
#define SANDBOX_PIPE_H

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/pass.h"

enum { PIPE_READ = 16384, PIPE_ROOM = PIPE_READ + PASS_FIELD_MAX };

struct pipe {
    size_t start, clear, end;
    bool over; /* the source has ended */
    bool shut; /* and the sink was told, or wants no more */
    unsigned char bytes[PIPE_ROOM];
};

enum pipe_says { PIPE_MOVED, PIPE_IDLE, PIPE_OVER, PIPE_BROKEN };

/* There is room to read into. */
bool pipe_has_room(const struct pipe *p);
/* Read once from fd: MOVED, IDLE (nothing there), OVER (and p->over is set), BROKEN. */
enum pipe_says pipe_fill(struct pipe *p, int fd);
/* Write what is clear to fd: MOVED, IDLE, BROKEN (errno says how). */
enum pipe_says pipe_drain(struct pipe *p, int fd);
/* Put n bytes between what is clear and the rest, and make them clear; false: no room before more is drained. n <= PASS_FIELD_MAX. */
bool pipe_insert(struct pipe *p, const char *bytes, size_t n);
/* All that is held is clear. */
void pipe_clear_all(struct pipe *p);
/* Forget what is held. */
void pipe_empty(struct pipe *p);

#endif
