/* Owns one end of a socket pair and the messages that wait to go out on it. */
#include "net/ipc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PENDING_MAX = 16 << 20, BURST = 64 };

struct packet {
    struct packet *next;
    int fd;
    size_t len;
    char bytes[];
};

struct channel {
    struct loop *loop;
    struct watch *watch;
    int fd;
    const struct channel_handler *handler;
    void *arg;
    struct packet *first, **last;
    size_t pending, n_waiting;
    bool ended;    /* the other side is gone */
    bool dead;     /* channel_free was called; memory goes at the end of the turn */
};

bool channel_pair(int fds[2], struct fault *why)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return fault_set(why, FAULT_IO, "socketpair: %s", strerror(errno));
    return true;
}

static void packet_free(struct packet *p)
{
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

static void end(struct channel *c)
{
    if (c->ended)
        return;
    c->ended = true;
    watch_want(c->watch, 0);
    c->handler->on_end(c->arg);
}

/* 1 sent, 0 must wait, -1 the other side is gone. */
static int transmit(int socket_fd, const void *bytes, size_t len, int fd)
{
    struct iovec part = {(void *)bytes, len};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        struct cmsghdr *h;

        memset(&control, 0, sizeof control);
        m.msg_control = control.space;
        m.msg_controllen = sizeof control.space;
        h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(h), &fd, sizeof fd);
    }
    while (sendmsg(socket_fd, &m, MSG_NOSIGNAL) < 0) {
        if (errno == EINTR)
            continue;
        return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS ? 0 : -1;
    }
    return 1;
}

static void send_waiting(struct channel *c)
{
    while (c->first) {
        struct packet *p = c->first;
        int sent = transmit(c->fd, p->bytes, p->len, p->fd);

        if (sent == 0)
            return;
        if (sent < 0)
            return; /* the reading side notices the end */
        c->first = p->next;
        if (!c->first)
            c->last = &c->first;
        c->pending -= p->len;
        c->n_waiting--;
        packet_free(p);
    }
    watch_want(c->watch, WATCH_READ);
}

/* The first descriptor that came; what a hostile sender put beside it is closed, or it would stay open here for good. */
static int take_descriptor(struct msghdr *m)
{
    int first = -1;

    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        size_t n = h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
            if (first < 0)
                first = fd;
            else
                close(fd);
        }
    }
    return first;
}

/* One message into bytes; its length, 0 nothing there, -1 the end (or a message that is not ours). */
static ssize_t receive(struct channel *c, char *bytes, size_t room, int *fd)
{
    struct iovec part = {bytes, room};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    ssize_t got;

    *fd = -1;
    do
        got = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    *fd = take_descriptor(&m); /* the space above has room for two: it is aligned */
    /* MSG_CTRUNC: this process has no room for the descriptor; the message is whole, and says so by having none. */
    if (got < 2 || m.msg_flags & MSG_TRUNC) {
        if (*fd >= 0)
            close(*fd);
        return -1;
    }
    return got;
}

static void read_messages(struct channel *c)
{
    static char bytes[IPC_MAX + 2];

    for (int i = 0; i < BURST && !c->ended && !c->dead; i++) {
        int fd;
        ssize_t got = receive(c, bytes, sizeof bytes, &fd);

        if (got == 0)
            break;
        if (got < 0) {
            end(c);
            break;
        }
        uint16_t type = (uint16_t)((unsigned char)bytes[0] | (unsigned char)bytes[1] << 8);
        c->handler->on_message(c->arg, type, slice_make(bytes + 2, (size_t)got - 2), fd);
    }
}

static void on_ready(void *arg, unsigned ready)
{
    struct channel *c = arg;

    if (ready & WATCH_WRITE)
        send_waiting(c);
    if (ready & WATCH_READ && !c->dead)
        read_messages(c);
}

struct channel *channel_new(struct loop *l, int fd, const struct channel_handler *handler, void *arg)
{
    struct channel *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    c->loop = l;
    c->fd = fd;
    c->handler = handler;
    c->arg = arg;
    c->last = &c->first;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    c->watch = watch_new(l, fd, WATCH_READ, on_ready, c);
    return c;
}

static void bury(void *arg)
{
    free(arg);
}

void channel_free(struct channel *c)
{
    if (!c || c->dead)
        return;
    c->dead = true;
    watch_free(c->watch);
    c->watch = NULL;
    while (c->first) {
        struct packet *p = c->first;

        c->first = p->next;
        packet_free(p);
    }
    close(c->fd);
    loop_defer(c->loop, bury, c);
}

static bool queue(struct channel *c, const char *bytes, size_t len, int fd)
{
    struct packet *p;

    if (c->pending + len > PENDING_MAX)
        return false;
    p = malloc(sizeof *p + len);
    if (!p)
        abort();
    *p = (struct packet){.fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1, .len = len};
    memcpy(p->bytes, bytes, len);
    if (fd >= 0 && p->fd < 0) {
        free(p);
        return false;
    }
    *c->last = p;
    c->last = &p->next;
    c->pending += len;
    c->n_waiting++;
    watch_want(c->watch, WATCH_READ | WATCH_WRITE);
    return true;
}

bool channel_send(struct channel *c, uint16_t type, struct slice payload, int fd)
{
    static char bytes[IPC_MAX + 2];
    int sent = 0;

    assert(payload.len <= IPC_MAX);
    if (c->ended)
        return false;
    bytes[0] = (char)(type & 0xff);
    bytes[1] = (char)(type >> 8);
    if (payload.len)
        memcpy(bytes + 2, payload.ptr, payload.len);
    if (!c->first)
        sent = transmit(c->fd, bytes, payload.len + 2, fd);
    if (sent < 0)
        return false;
    return sent == 1 || queue(c, bytes, payload.len + 2, fd);
}

size_t channel_pending(const struct channel *c)
{
    return c->pending;
}

size_t channel_waiting(const struct channel *c)
{
    return c->n_waiting;
}
