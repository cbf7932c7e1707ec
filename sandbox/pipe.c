#include "sandbox/pipe.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void move_to_front(struct pipe *p)
{
    memmove(p->bytes, p->bytes + p->start, p->end - p->start);
    p->clear -= p->start;
    p->end -= p->start;
    p->start = 0;
}

bool pipe_has_room(const struct pipe *p)
{
    return p->end - p->start < PIPE_READ;
}

enum pipe_says pipe_fill(struct pipe *p, int fd)
{
    ssize_t got;

    if (!pipe_has_room(p))
        return PIPE_IDLE;
    if (p->start && (p->start == p->end || p->end >= PIPE_READ))
        move_to_front(p);
    got = read(fd, p->bytes + p->end, PIPE_READ - p->end);
    if (got > 0) {
        p->end += (size_t)got;
        return PIPE_MOVED;
    }
    if (got == 0) {
        p->over = true;
        return PIPE_OVER;
    }
    return errno == EAGAIN || errno == EINTR ? PIPE_IDLE : PIPE_BROKEN;
}

enum pipe_says pipe_drain(struct pipe *p, int fd)
{
    ssize_t put;

    if (p->start == p->clear)
        return PIPE_IDLE;
    put = write(fd, p->bytes + p->start, p->clear - p->start);
    if (put < 0)
        return errno == EAGAIN || errno == EINTR ? PIPE_IDLE : PIPE_BROKEN;
    p->start += (size_t)put;
    return PIPE_MOVED;
}

bool pipe_insert(struct pipe *p, const char *bytes, size_t n)
{
    if (p->end + n > PIPE_ROOM)
        move_to_front(p);
    if (p->end + n > PIPE_ROOM)
        return false;
    memmove(p->bytes + p->clear + n, p->bytes + p->clear, p->end - p->clear);
    memcpy(p->bytes + p->clear, bytes, n);
    p->clear += n;
    p->end += n;
    return true;
}

void pipe_clear_all(struct pipe *p)
{
    p->clear = p->end;
}

void pipe_empty(struct pipe *p)
{
    p->start = p->clear = p->end = 0;
}
