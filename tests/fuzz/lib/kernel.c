/* Owns the virtual clock and the table of pairs. Stands in front of libc: what it does not know goes to the real call. */
#include "tests/fuzz/lib/kernel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/netfilter_ipv4.h> /* after the one before: both have the same names */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { FDS = 1024, WAITING = 64, TOO_LONG_S = 20, LISTENERS = 2 };

#define ADDRESS 0x0a000001u /* 10.0.0.1: every listener's */

#define BEGIN_S 1767225600 /* 2026-01-01 */

static struct {
    int far;        /* of a near end; 0: not ours */
    bool cut;       /* near: the next read is a reset */
    ino_t near;     /* far: what the near end is, by whatever number */
    bool was_reset; /* far: the near end was closed with a reset */
    struct sockaddr_in own, before; /* near, of a connection that came: its address; the one before a redirection */
} table[FDS];

static struct listener {
    int fd;
    uint16_t port;
    struct {
        int near;
        uint8_t source;
    } waiting[WAITING];
    size_t n;
} listeners[LISTENERS];
static size_t n_listeners;
static bool is_virtual;
static int64_t now_ms;

/* ---- the clock ---- */

int clock_gettime(clockid_t id, struct timespec *t)
{
    int64_t base = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE ? (int64_t)BEGIN_S * 1000 : 1000;

    if (!is_virtual)
        return (int)syscall(SYS_clock_gettime, id, t);
    t->tv_sec = (base + now_ms) / 1000;
    t->tv_nsec = (base + now_ms) % 1000 * 1000000;
    return 0;
}

/* libFuzzer reads the same clock when its alarm rings: it must not see ours. */
static void hold_alarm(int how)
{
    sigset_t alarms;

    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(how, &alarms, NULL);
}

static void on_too_long(int signal)
{
    (void)signal;
    is_virtual = false;
    abort();
}

void kernel_begin(void)
{
    struct itimerval limit = {.it_value.tv_sec = TOO_LONG_S};

    signal(SIGPROF, on_too_long);
    setitimer(ITIMER_PROF, &limit, NULL);
    hold_alarm(SIG_BLOCK);
    is_virtual = true;
}

void kernel_end(void)
{
    static const struct itimerval none;

    is_virtual = false;
    hold_alarm(SIG_UNBLOCK);
    setitimer(ITIMER_PROF, &none, NULL);
}

void kernel_advance(int64_t ms)
{
    now_ms += ms;
}

/* ---- pairs ---- */

static ino_t inode(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        abort();
    return st.st_ino;
}

int kernel_pair(int *near)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 || fds[0] >= FDS || fds[1] >= FDS)
        abort();
    memset(&table[fds[0]], 0, sizeof table[0]);
    memset(&table[fds[1]], 0, sizeof table[0]);
    table[fds[0]].far = fds[1];
    table[fds[1]].near = inode(fds[0]);
    *near = fds[0];
    return fds[1];
}

static int near_of(int far)
{
    for (int i = 0; i < FDS; i++)
        if (table[i].far == far)
            return i;
    return -1;
}

void kernel_reset(int far)
{
    int near = near_of(far);

    if (near >= 0)
        table[near].cut = true;
    close(far);
}

bool kernel_was_reset(int far)
{
    return table[far].was_reset;
}

size_t kernel_open_ends(void)
{
    size_t n = 0;

    for (int fd = 0; fd < FDS; fd++)
        n += table[fd].far != 0;
    return n;
}

/* ---- connections that come ---- */

int kernel_listener(uint16_t port)
{
    struct listener *l = &listeners[n_listeners++];

    assert(n_listeners <= LISTENERS);
    l->port = port;
    l->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
    if (l->fd < 0)
        abort();
    return l->fd;
}

static struct listener *find_listener(int fd, uint16_t port)
{
    for (size_t i = 0; i < n_listeners; i++)
        if (listeners[i].fd == fd || listeners[i].port == port)
            return &listeners[i];
    return NULL;
}

static struct sockaddr_in at(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = htons(port)};
}

int kernel_connect(uint16_t to, uint8_t source, const struct kernel_way *way)
{
    struct listener *l = find_listener(-1, to);
    const struct sockaddr_in meant = at(way->address, way->port);
    uint64_t one = 1;
    int far, near;

    assert(l && l->n < WAITING);
    far = kernel_pair(&near);
    table[near].own = way->is_tproxy ? meant : at(ADDRESS, to);
    if (way->is_redirected)
        table[near].before = meant;
    l->waiting[l->n].near = near;
    l->waiting[l->n++].source = source;
    if (write(l->fd, &one, sizeof one) != sizeof one)
        abort();
    return far;
}

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    struct listener *l = find_listener(fd, 0);
    struct sockaddr_in source;
    uint64_t one = 1;
    int near;

    if (!l)
        return (int)syscall(SYS_accept4, fd, address, len, flags);
    if (read(fd, &one, sizeof one) != sizeof one)
        return -1;
    near = l->waiting[0].near;
    source = at(0x0a000000u | l->waiting[0].source, 40000);
    memcpy(address, &source, sizeof source);
    *len = sizeof source;
    memmove(l->waiting, l->waiting + 1, --l->n * sizeof l->waiting[0]);
    return near;
}

/* ---- calls on near ends ---- */

static bool is_near(int fd)
{
    return fd >= 0 && fd < FDS && table[fd].far;
}

static int tell(const struct sockaddr_in *a, void *address, socklen_t *len)
{
    memcpy(address, a, sizeof *a);
    *len = sizeof *a;
    return 0;
}

int getsockname(int fd, struct sockaddr *address, socklen_t *len)
{
    const struct listener *l = find_listener(fd, 0);
    struct sockaddr_in own;

    if (is_near(fd) && table[fd].own.sin_family)
        return tell(&table[fd].own, address, len);
    if (!l)
        return (int)syscall(SYS_getsockname, fd, address, len);
    own = at(ADDRESS, l->port);
    return tell(&own, address, len);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    if (!is_near(fd) || level != IPPROTO_IP || name != SO_ORIGINAL_DST)
        return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
    if (table[fd].before.sin_family)
        return tell(&table[fd].before, value, len);
    errno = ENOENT;
    return -1;
}

ssize_t recv(int fd, void *into, size_t room, int flags)
{
    if (is_near(fd) && table[fd].cut) {
        errno = ECONNRESET;
        return -1;
    }
    return syscall(SYS_recvfrom, fd, into, room, flags, NULL, NULL);
}

/* A near end that comes in a message has a new number. */
static void learn(int fd)
{
    ino_t it = inode(fd);

    for (int far = 0; far < FDS; far++)
        if (table[far].near == it)
            table[fd].far = far;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    ssize_t got = syscall(SYS_recvmsg, fd, m, flags);
    struct cmsghdr *h = got < 0 ? NULL : CMSG_FIRSTHDR(m);

    if (h && h->cmsg_type == SCM_RIGHTS) {
        int given;

        memcpy(&given, CMSG_DATA(h), sizeof given);
        learn(given);
    }
    return got;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    if (is_near(fd) && level == SOL_SOCKET && name == SO_LINGER && ((const struct linger *)value)->l_onoff)
        table[table[fd].far].was_reset = true;
    return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

int close(int fd)
{
    if (fd >= 0 && fd < FDS)
        table[fd].far = 0, table[fd].near = 0;
    return (int)syscall(SYS_close, fd);
}
