#include "proxy/inherit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/text.h"
#include "net/addr.h"

enum { FIRST_FD = 3, MOST = 64 };

static struct inherited {
    int fd; /* -1: was asked for */
    int type;
    char *name;
} inherited[MOST];
static size_t n_inherited;

static size_t count_of_environment(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint64_t number, count;

    if (!pid || !fds || !slice_decimal(slice_of(pid), INT32_MAX, &number) || (pid_t)number != getpid() ||
        !slice_decimal(slice_of(fds), MOST, &count))
        return 0;
    return (size_t)count;
}

static int option(int fd, int name)
{
    int value = 0;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : 0;
}

/* Where it listens, as a configuration would write it. */
static void write_address(int fd, char *out, size_t room)
{
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_storage room;
    } sa = {0};
    socklen_t len = sizeof sa;
    struct buf text = {0};
    struct addr a;

    out[0] = '\0';
    if (getsockname(fd, &sa.any, &len) < 0)
        return;
    if (sa.any.sa_family == AF_UNIX) {
        snprintf(out, room, "unix:%.*s", (int)sizeof sa.local.sun_path, sa.local.sun_path);
        return;
    }
    addr_from_sockaddr(&a, &sa.any);
    addr_text(&text, &a);
    snprintf(out, room, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_free(&text);
}

/* 0: it is none that anybody could come in by. */
static int type_of(int fd)
{
    int type = option(fd, SO_TYPE);
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;
    struct addr a;

    if (type == SOCK_STREAM)
        return option(fd, SO_ACCEPTCONN) ? type : 0;
    if (type != SOCK_DGRAM || getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        return 0;
    addr_from_sockaddr(&a, (struct sockaddr *)&sa);
    return a.port ? type : 0;
}

bool inherit_begin(struct fault *why)
{
    size_t n = count_of_environment();
    const char *text = getenv("LISTEN_FDNAMES");
    struct slice names = slice_of(text ? text : ""), name;
    bool ok = true;

    for (size_t i = 0; i < n && ok; i++) {
        int fd = FIRST_FD + (int)i, type;

        name = slice_of("");
        slice_next(&names, ':', &name);
        ok = (type = type_of(fd)) && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
             fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
        if (ok)
            inherited[n_inherited++] = (struct inherited){fd, type, text_copy(name)};
        else
            fault_set(why, FAULT_SYNTAX, "LISTEN_FDS: descriptor %d is neither a stream socket that listens nor a bound datagram socket", fd);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return ok;
}

static int take(struct inherited *i)
{
    int fd = i->fd;

    i->fd = -1;
    return fd;
}

int inherit_find(const char *name, const char *address, int type)
{
    for (size_t i = 0; i < n_inherited; i++)
        if (inherited[i].fd >= 0 && inherited[i].type == type && strcmp(inherited[i].name, name) == 0)
            return take(&inherited[i]);
    for (size_t i = 0; i < n_inherited; i++) {
        char where[160];

        if (inherited[i].fd < 0 || inherited[i].type != type)
            continue;
        write_address(inherited[i].fd, where, sizeof where);
        if (strcmp(where, address) == 0)
            return take(&inherited[i]);
    }
    return -1;
}

bool inherit_end(struct fault *why)
{
    for (size_t i = 0; i < n_inherited; i++) {
        char where[160];

        if (inherited[i].fd < 0)
            continue;
        write_address(inherited[i].fd, where, sizeof where);
        return fault_set(why, FAULT_SYNTAX,
                         "LISTEN_FDS: descriptor %d (\"%.40s\", %s, %s) is no listener of the configuration: name it after one "
                         "(FileDescriptorName=), or give it the address of one",
                         inherited[i].fd, inherited[i].name, where, inherited[i].type == SOCK_DGRAM ? "datagrams" : "a stream");
    }
    return true;
}
