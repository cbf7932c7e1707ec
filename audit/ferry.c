#include "audit/ferry.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

enum { PIECE = 16 * 1024 };

struct ferry {
    int fd, stop; /* listening; readable when the thread is to end */
    struct addr at;
    _Atomic unsigned passenger; /* the port that is taken; 0: none */
    int (*reach)(void *arg);
    void *arg;
    pthread_t thread;
    bool is_running;
};

/* A socket at a port of loopback that the kernel chooses; -1. */
static int open_socket(unsigned *port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sin;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&sin, len) == 0 && getsockname(fd, (struct sockaddr *)&sin, &len) == 0) {
        *port = ntohs(sin.sin_port);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Some bytes from one to the other. False: no more will come, or they cannot be passed on. */
static bool pass(int from, int to)
{
    char bytes[PIECE];
    ssize_t n = recv(from, bytes, sizeof bytes, 0), put;

    for (ssize_t at = 0; at < n; at += put)
        if ((put = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL)) <= 0)
            return false;
    return n > 0;
}

/* Until both ends have ended, or the ferry does. An end is passed on: a client may send its request, end, and wait. */
static void carry(const struct ferry *f, int a, int b)
{
    struct pollfd fds[] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}, {.fd = f->stop, .events = POLLIN}};
    int ends[] = {a, b};

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return;
        if (fds[2].revents)
            return;
        for (int i = 0; i < 2; i++)
            if (fds[i].fd >= 0 && fds[i].revents && !pass(ends[i], ends[1 - i])) {
                shutdown(ends[1 - i], SHUT_WR);
                fds[i].fd = -1;
            }
    }
}

static bool is_ours(struct ferry *f, const struct sockaddr_in *peer)
{
    unsigned port = ntohs(peer->sin_port);

    return port && atomic_compare_exchange_strong(&f->passenger, &port, 0);
}

static void take_one(struct ferry *f)
{
    struct sockaddr_in peer = {0};
    socklen_t len = sizeof peer;
    int in = accept4(f->fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC), out = -1;

    if (in >= 0 && is_ours(f, &peer) && (out = f->reach(f->arg)) >= 0)
        carry(f, in, out);
    if (out >= 0)
        close(out);
    if (in >= 0)
        close(in);
}

static void *run(void *arg)
{
    struct ferry *f = arg;
    struct pollfd fds[] = {{.fd = f->fd, .events = POLLIN}, {.fd = f->stop, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents)
            return NULL;
        if (fds[0].revents)
            take_one(f);
    }
}

struct ferry *ferry_new(int (*reach)(void *arg), void *arg, struct fault *why)
{
    struct ferry *f = calloc(1, sizeof *f);
    unsigned port = 0;

    if (!f)
        abort();
    f->reach = reach;
    f->arg = arg;
    f->stop = eventfd(0, EFD_CLOEXEC);
    f->fd = open_socket(&port);
    addr_parse(SLICE("127.0.0.1:1"), &f->at);
    f->at.port = (uint16_t)port;
    if (f->stop >= 0 && f->fd >= 0 && listen(f->fd, 16) == 0 && pthread_create(&f->thread, NULL, run, f) == 0) {
        f->is_running = true;
        return f;
    }
    fault_set(why, FAULT_IO, "no way to the listener's socket: %s", strerror(errno));
    ferry_free(f);
    return NULL;
}

void ferry_free(struct ferry *f)
{
    uint64_t one = 1;

    if (!f)
        return;
    if (f->is_running && write(f->stop, &one, sizeof one) == sizeof one)
        pthread_join(f->thread, NULL);
    if (f->fd >= 0)
        close(f->fd);
    if (f->stop >= 0)
        close(f->stop);
    free(f);
}

const struct addr *ferry_at(const struct ferry *f)
{
    return &f->at;
}

int ferry_socket(struct ferry *f)
{
    unsigned port = 0;
    int fd = open_socket(&port);

    if (fd >= 0)
        atomic_store(&f->passenger, port);
    return fd;
}
