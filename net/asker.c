#include "net/asker.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LENGTH_SIZE = 2 };

struct asker {
    struct asker *next;
    int fd;
    struct resolver_line line;
    /* by TCP: where in the message that is being sent (RFC 7766 8) */
    unsigned char length[LENGTH_SIZE];
    size_t n_length, left;
};

struct askers {
    struct asker *list;
    resolver_closed *closed;
    void *arg;
};

static struct asker *find(const struct askers *all, int fd)
{
    struct asker *a = all->list;

    while (a && a->fd != fd)
        a = a->next;
    return a;
}

static ares_socket_t open_socket(int family, int type, int protocol, void *arg)
{
    struct askers *all = arg;
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol), one = 1;
    struct asker *a;

    if (fd < 0)
        return ARES_SOCKET_BAD;
    if (type == SOCK_STREAM)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!(a = calloc(1, sizeof *a)))
        abort();
    *a = (struct asker){.next = all->list, .fd = fd, .line = {.is_tcp = type == SOCK_STREAM}};
    all->list = a;
    return fd;
}

static int connect_socket(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t len, void *arg)
{
    struct asker *a = find(arg, fd);

    if (a)
        addr_from_sockaddr(&a->line.server, to);
    return connect(fd, to, len);
}

/* Family 0: the kernel does not say. */
static struct addr local_of(int fd)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof local;
    struct addr a = {0};

    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0)
        addr_from_sockaddr(&a, (struct sockaddr *)&local);
    return a;
}

static void read_ends(struct asker *a)
{
    if (!a->line.is_tcp || !meter_read(a->fd, &a->line.count))
        a->line.count.local = local_of(a->fd);
}

/* One that never sent anything is none that anybody could have counted. */
static int close_socket(ares_socket_t fd, void *arg)
{
    struct askers *all = arg;

    for (struct asker **at = &all->list; *at; at = &(*at)->next) {
        struct asker *a = *at;

        if (a->fd != fd)
            continue;
        *at = a->next;
        read_ends(a);
        if (all->closed && (a->line.is_tcp || a->line.n_questions))
            all->closed(all->arg, &a->line);
        free(a);
        break;
    }
    return close(fd);
}

static ares_ssize_t receive(ares_socket_t fd, void *to, size_t size, int flags, struct sockaddr *from, ares_socklen_t *len, void *arg)
{
    struct asker *a = find(arg, fd);
    ssize_t n = recvfrom(fd, to, size, flags, from, len);

    if (a && n > 0)
        a->line.count.received += (uint64_t)n;
    return n;
}

/* Each message has its length in front of it, and any of the two may be in pieces. */
static void count_messages(struct asker *a, const unsigned char *at, size_t n)
{
    while (n) {
        size_t step = 1;

        if (a->left) {
            step = n < a->left ? n : a->left;
            a->left -= step;
            a->line.n_questions += a->left == 0;
        } else {
            a->length[a->n_length++] = *at;
        }
        if (a->n_length == LENGTH_SIZE) {
            a->left = (size_t)a->length[0] << 8 | a->length[1];
            a->n_length = 0;
        }
        at += step;
        n -= step;
    }
}

static void count_sent(struct asker *a, const struct iovec *parts, int n_parts, size_t sent)
{
    a->line.count.sent += sent;
    if (!a->line.is_tcp) {
        a->line.n_questions++;
        return;
    }
    for (int i = 0; i < n_parts && sent; i++) {
        size_t n = parts[i].iov_len < sent ? parts[i].iov_len : sent;

        count_messages(a, parts[i].iov_base, n);
        sent -= n;
    }
}

static ares_ssize_t send_parts(ares_socket_t fd, const struct iovec *parts, int n_parts, void *arg)
{
    struct asker *a = find(arg, fd);
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)n_parts};
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);

    if (a && n > 0)
        count_sent(a, parts, n_parts, (size_t)n);
    return n;
}

bool askers_speak_from(const struct askers *all, const struct addr *a)
{
    struct addr wanted = addr_plain(a);

    for (const struct asker *i = all->list; i; i = i->next) {
        struct addr local = local_of(i->fd);

        if (local.family && addr_equals(&local, &wanted))
            return true;
    }
    return false;
}

struct askers *askers_new(ares_channel channel, resolver_closed *closed, void *arg)
{
    static const struct ares_socket_functions functions = {open_socket, close_socket, connect_socket, receive, send_parts};
    struct askers *all = calloc(1, sizeof *all);

    if (!all)
        abort();
    *all = (struct askers){.closed = closed, .arg = arg};
    ares_set_socket_functions(channel, &functions, all);
    return all;
}

void askers_free(struct askers *a)
{
    free(a);
}
