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

static bool is_listening_stream(int fd)
{
    int type = 0, listening = 0;
    socklen_t len = sizeof type, listening_len = sizeof listening;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_len) == 0 && listening;
}

bool inherit_begin(struct fault *why)
{
    size_t n = count_of_environment();
    const char *text = getenv("LISTEN_FDNAMES");
    struct slice names = slice_of(text ? text : ""), name;
    bool ok = true;

    for (size_t i = 0; i < n && ok; i++) {
        int fd = FIRST_FD + (int)i;

        name = slice_of("");
        slice_next(&names, ':', &name);
        ok = is_listening_stream(fd) && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
             fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
        if (ok)
            inherited[n_inherited++] = (struct inherited){fd, text_copy(name)};
        else
            fault_set(why, FAULT_SYNTAX, "LISTEN_FDS: descriptor %d is no listening stream socket", fd);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return ok;
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

static int take(struct inherited *i)
{
    int fd = i->fd;

    i->fd = -1;
    return fd;
}

int inherit_find(const char *name, const char *address)
{
    for (size_t i = 0; i < n_inherited; i++)
        if (inherited[i].fd >= 0 && strcmp(inherited[i].name, name) == 0)
            return take(&inherited[i]);
    for (size_t i = 0; i < n_inherited; i++) {
        char where[160];

        if (inherited[i].fd < 0)
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
                         "LISTEN_FDS: descriptor %d (\"%.40s\", %s) is no listener of the configuration: name it after one "
                         "(FileDescriptorName=), or give it the address of one",
                         inherited[i].fd, inherited[i].name, where);
    }
    return true;
}
