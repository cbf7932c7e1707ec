#include "net/spread.h"

#include <errno.h>
#include <linux/filter.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROOM = 1 << 20, SHIFT = 29, HALF = 15, V4_SOURCE = 12, V6_SOURCE = 8 };

_Static_assert(SPREAD_SOCKETS == 1 << (32 - SHIFT), "the top bits of a product choose the socket");

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_NET_OFF + (offset)))

#define TIMES(odd) BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, odd)
#define KEEP BPF_STMT(BPF_MISC | BPF_TAX, 0)
#define WITH_KEPT BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0)
#define DOWN(bits) BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, bits)
#define GIVE BPF_STMT(BPF_RET | BPF_A, 0)

static uint32_t random_odd(void)
{
    uint32_t n;

    if (RAND_bytes((unsigned char *)&n, sizeof n) != 1)
        abort();
    return n | 1;
}

/*
 * An IPv6 host has a whole /64. Sandboxes have addresses one after another: with one product alone some factors have all of them at two
 * or three sockets.
 */
static bool steer(int fd, int family)
{
    const uint32_t a = random_odd(), b = random_odd();
    struct sock_filter v4[] = {LOAD(V4_SOURCE), TIMES(a), KEEP, DOWN(HALF), WITH_KEPT, TIMES(b), DOWN(SHIFT), GIVE};
    struct sock_filter v6[] = {LOAD(V6_SOURCE), TIMES(b), KEEP, LOAD(V6_SOURCE + 4), WITH_KEPT, TIMES(a), KEEP, DOWN(HALF), WITH_KEPT, TIMES(b),
                               DOWN(SHIFT), GIVE};
    struct sock_fprog program = {.len = family == AF_INET ? sizeof v4 / sizeof *v4 : sizeof v6 / sizeof *v6,
                                 .filter = family == AF_INET ? v4 : v6};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0;
}

/* What the system lets it have. */
void spread_use(int fd)
{
    int room = ROOM;

    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
}

static int open_one(const struct addr *a, bool shared)
{
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(a, &sa);
    int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, error;

    if (fd < 0)
        return -1;
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (a->family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    spread_use(fd);
    if (bind(fd, (struct sockaddr *)&sa, len) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Who is there without sharing is found by the first bind; who shares, only by one that does not. */
static bool is_free(const struct addr *a)
{
    int fd = a->port ? open_one(a, false) : -1;

    if (fd < 0)
        return !a->port;
    close(fd);
    return true;
}

static void tell_port(int fd, struct addr *a)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;

    if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
        addr_from_sockaddr(a, (struct sockaddr *)&sa);
}

bool spread_open(struct addr *a, bool ours, int fds[SPREAD_SOCKETS])
{
    size_t n = 0;
    int error;

    if (!ours && !is_free(a))
        return false;
    for (; n < SPREAD_SOCKETS && (fds[n] = open_one(a, true)) >= 0; n++)
        tell_port(fds[n], a);
    if (n == SPREAD_SOCKETS && steer(fds[0], a->family))
        return true;
    error = errno;
    while (n-- > 0)
        close(fds[n]);
    errno = error;
    return false;
}
