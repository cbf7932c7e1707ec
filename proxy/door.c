#include "proxy/door.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/say.h"

enum { PAUSE_MS = 200, AT_ONCE = 16 };

struct door {
    int fd;
    size_t inside, max;
    struct watch *watch;
    struct timer *pause; /* after accept failed for want of descriptors or memory */
    void (*on_visitor)(void *arg, int fd);
    void *arg;
};

static void look(struct door *d)
{
    watch_want(d->watch, d->inside < d->max ? WATCH_READ : 0);
}

static void on_pause_over(void *arg)
{
    look(arg);
}

/* False: nobody is there, or it must wait. */
static bool let_in(struct door *d)
{
    int fd = accept4(d->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        d->inside++;
        d->on_visitor(d->arg, fd);
        return true;
    }
    if (errno == EINTR || errno == ECONNABORTED)
        return true;
    if (errno != EAGAIN) {
        say_warning("accept: %s; trying again", strerror(errno));
        watch_want(d->watch, 0);
        timer_set(d->pause, PAUSE_MS);
    }
    return false;
}

static void on_ready(void *arg, unsigned ready)
{
    struct door *d = arg;

    (void)ready;
    for (int i = 0; i < AT_ONCE && d->inside < d->max; i++)
        if (!let_in(d))
            return;
    look(d);
}

struct door *door_new(struct loop *l, int fd, size_t max, void (*on_visitor)(void *arg, int fd), void *arg)
{
    struct door *d = calloc(1, sizeof *d);

    if (!d)
        abort();
    *d = (struct door){.fd = fd, .max = max, .on_visitor = on_visitor, .arg = arg};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    d->watch = watch_new(l, fd, WATCH_READ, on_ready, d);
    d->pause = timer_new(l, on_pause_over, d);
    return d;
}

void door_left(struct door *d)
{
    assert(d->inside > 0);
    d->inside--;
    look(d);
}

void door_free(struct door *d)
{
    if (!d)
        return;
    watch_free(d->watch);
    timer_free(d->pause);
    close(d->fd);
    free(d);
}
