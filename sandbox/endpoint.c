#include "sandbox/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* struct sockaddr_vm of linux/vm_sockets.h, which musl's tree of headers does not have. */
struct vsock {
    sa_family_t family;
    uint16_t reserved;
    uint32_t port, cid;
    unsigned char zero[4];
};

static bool parse_number(const char *text, unsigned long most, unsigned long *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0' && *out <= most;
}

static bool parse_path(const char *path, struct endpoint *out)
{
    size_t n = strlen(path);

    if (n == 0 || n >= sizeof out->address.local.sun_path)
        return false;
    out->address.local.sun_family = AF_UNIX;
    memcpy(out->address.local.sun_path, path, n + 1);
    out->len = sizeof out->address.local;
    return true;
}

static bool parse_vsock(const char *text, struct endpoint *out)
{
    struct vsock v = {.family = AF_VSOCK};
    const char *colon = strchr(text, ':');
    unsigned long cid, port;
    char first[16];

    if (!colon || (size_t)(colon - text) >= sizeof first)
        return false;
    memcpy(first, text, (size_t)(colon - text));
    first[colon - text] = '\0';
    if (!parse_number(first, UINT32_MAX, &cid) || !parse_number(colon + 1, UINT32_MAX, &port))
        return false;
    v.cid = (uint32_t)cid;
    v.port = (uint32_t)port;
    memcpy(&out->address, &v, sizeof v);
    out->len = sizeof v;
    return true;
}

/* host is what stands in front of the last colon, without its brackets. */
static bool parse_host(const char *host, bool brackets, unsigned short port, struct endpoint *out)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (!brackets && inet_pton(AF_INET, host, &four.sin_addr) == 1) {
        memcpy(&out->address, &four, sizeof four);
        out->len = sizeof four;
        return true;
    }
    if (!brackets || inet_pton(AF_INET6, host, &six.sin6_addr) != 1)
        return false;
    memcpy(&out->address, &six, sizeof six);
    out->len = sizeof six;
    return true;
}

static bool parse_internet(const char *text, struct endpoint *out)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    char host[INET6_ADDRSTRLEN + 2];
    bool brackets;
    unsigned long port;

    if (n == 0 || n >= sizeof host || !parse_number(colon + 1, 65535, &port))
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    brackets = host[0] == '[' && host[n - 1] == ']';
    if (brackets)
        host[n - 1] = '\0';
    return parse_host(host + brackets, brackets, (unsigned short)port, out);
}

bool endpoint_parse(const char *text, struct endpoint *out)
{
    memset(out, 0, sizeof *out);
    if (strncmp(text, "unix:", 5) == 0)
        return parse_path(text + 5, out);
    if (strncmp(text, "vsock:", 6) == 0)
        return parse_vsock(text + 6, out);
    return parse_internet(text, out);
}

void endpoint_text(const struct endpoint *p, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct vsock v;

    switch (p->address.any.sa_family) {
    case AF_UNIX:
        snprintf(out, size, "unix:%s", p->address.local.sun_path);
        return;
    case AF_VSOCK:
        memcpy(&v, &p->address, sizeof v);
        snprintf(out, size, "vsock:%lu:%lu", (unsigned long)v.cid, (unsigned long)v.port);
        return;
    case AF_INET6:
        memcpy(&six, &p->address, sizeof six);
        inet_ntop(AF_INET6, &six.sin6_addr, host, sizeof host);
        snprintf(out, size, "[%s]:%u", host, ntohs(six.sin6_port));
        return;
    default:
        memcpy(&four, &p->address, sizeof four);
        inet_ntop(AF_INET, &four.sin_addr, host, sizeof host);
        snprintf(out, size, "%s:%u", host, ntohs(four.sin_port));
    }
}

bool endpoint_is_local(const struct endpoint *p)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;

    switch (p->address.any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        memcpy(&four, &p->address, sizeof four);
        return ntohl(four.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        memcpy(&six, &p->address, sizeof six);
        return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    default:
        return false;
    }
}

static int open_socket(const struct endpoint *p)
{
    return socket(p->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* A peer whose machine is gone is noticed, and small writes go out at once. */
static void tune(int fd, const struct endpoint *p)
{
    int on = 1;

    if (p->address.any.sa_family != AF_INET && p->address.any.sa_family != AF_INET6)
        return;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Nobody listens at this socket file: what a relay that was killed has left behind. */
static bool is_abandoned(const struct endpoint *p)
{
    struct stat st;
    int fd = open_socket(p);
    bool refused = fd >= 0 && stat(p->address.local.sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
                   connect(fd, &p->address.any, p->len) < 0 && errno == ECONNREFUSED;

    if (fd >= 0)
        close(fd);
    return refused;
}

static int bind_to(int fd, const struct endpoint *p)
{
    mode_t before = umask(0177);
    int status = bind(fd, &p->address.any, p->len);

    if (status < 0 && errno == EADDRINUSE && p->address.any.sa_family == AF_UNIX && is_abandoned(p)) {
        unlink(p->address.local.sun_path);
        status = bind(fd, &p->address.any, p->len);
    }
    umask(before);
    return status;
}

int endpoint_listen(struct endpoint *p, int backlog)
{
    int fd = open_socket(p), on = 1;

    if (fd < 0)
        return -1;
    if (p->address.any.sa_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    tune(fd, p);
    if (bind_to(fd, p) == 0 && listen(fd, backlog) == 0 &&
        (p->address.any.sa_family == AF_UNIX || getsockname(fd, &p->address.any, &p->len) == 0))
        return fd;
    on = errno;
    close(fd);
    errno = on;
    return -1;
}

void endpoint_remove(const struct endpoint *p)
{
    if (p->address.any.sa_family == AF_UNIX)
        unlink(p->address.local.sun_path);
}

int endpoint_connect(const struct endpoint *p)
{
    int fd = open_socket(p), error;

    if (fd < 0)
        return -1;
    tune(fd, p);
    if (connect(fd, &p->address.any, p->len) == 0 || errno == EINPROGRESS)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}
