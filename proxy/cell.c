/* Owns the table of what each role may ask of the kernel. Add a call here only with the line of ours that makes it. */
#include "proxy/cell.h"

#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/fence.h"
#include "net/jail.h"
#include "proxy/spawn.h"

#define ANY(call) {.name = call}
#define WHEN(call, ...) \
    {.name = call, .tests = {__VA_ARGS__}, .n_tests = sizeof((struct jail_test[]){__VA_ARGS__}) / sizeof(struct jail_test)}
#define NO_MORE {.name = NULL}

/*
 * Flags belong to the open file, and a listening socket is the supervisor's too, and of the worker after this one: whoever makes
 * it block makes that one hang.
 */
#define NONBLOCKING {2, JAIL_ALL_BITS & ~(uint64_t)O_RDWR, O_NONBLOCK}

/* Every role: the loop, its channels, memory, clocks, randomness, its end. The plain ones cost nothing (net/jail.c). */
static const struct jail_call common[] = {
    ANY("epoll_wait"), ANY("epoll_pwait"), ANY("epoll_ctl"), ANY("recvmsg"), ANY("sendmsg"), ANY("read"), ANY("write"),
    ANY("close"), ANY("lseek"), ANY("brk"), ANY("munmap"), ANY("mremap"), ANY("madvise"),
    WHEN("mmap", JAIL_WITHOUT(2, PROT_EXEC)),
    WHEN("mprotect", JAIL_WITHOUT(2, PROT_EXEC)),
    ANY("futex"), ANY("getrandom"), ANY("clock_gettime"), ANY("clock_getres"), ANY("gettimeofday"), ANY("time"),
    ANY("nanosleep"), ANY("clock_nanosleep"), ANY("sched_yield"), ANY("restart_syscall"), ANY("sysinfo"), ANY("getpid"),
    ANY("gettid"), ANY("getuid"), ANY("geteuid"), ANY("getgid"), ANY("getegid"), ANY("rt_sigprocmask"),
    ANY("rt_sigaction"), ANY("rt_sigreturn"), ANY("sigreturn"), ANY("exit"), ANY("exit_group"),
    WHEN("fcntl", JAIL_IS(1, F_GETFD)),
    WHEN("fcntl", JAIL_IS(1, F_SETFD)),
    WHEN("fcntl", JAIL_IS(1, F_GETFL)),
    WHEN("fcntl", JAIL_IS(1, F_SETFL), NONBLOCKING),
    WHEN("fcntl", JAIL_IS(1, F_DUPFD_CLOEXEC)),
    WHEN("fcntl", JAIL_IS(1, F_GET_SEALS)),
    WHEN("prlimit64", JAIL_IS(0, 0), JAIL_NULL(2)), /* getrlimit */
    ANY("getrlimit"),
    NO_MORE,
};

/*
 * On sockets that were handed over or accepted. send() and recv() are sendto and recvfrom. Shut is the writing side alone: the
 * reading side of a listening socket, shut, would be shut for everybody and for good.
 */
static const struct jail_call speaks[] = {
    ANY("recvfrom"), ANY("sendto"), ANY("readv"), ANY("writev"), ANY("getsockname"), ANY("getpeername"),
    WHEN("shutdown", JAIL_IS(1, SHUT_WR)),
    ANY("getsockopt"),
    WHEN("setsockopt", JAIL_IS(1, IPPROTO_TCP), JAIL_IS(2, TCP_NODELAY)),
    WHEN("setsockopt", JAIL_IS(1, SOL_SOCKET), JAIL_IS(2, SO_LINGER)),
    WHEN("setsockopt", JAIL_IS(1, SOL_SOCKET), JAIL_IS(2, SO_KEEPALIVE)),
    NO_MORE,
};

static const struct jail_call accepts[] = {ANY("accept4"), ANY("accept"), NO_MORE};

enum { SOCKET_TYPE = ~(SOCK_NONBLOCK | SOCK_CLOEXEC) };
#define INTERNET(family, type) WHEN("socket", JAIL_IS(0, family), {1, (uint32_t)SOCKET_TYPE, type})

static const struct jail_call dials[] = {
    INTERNET(AF_INET, SOCK_STREAM), INTERNET(AF_INET, SOCK_DGRAM), INTERNET(AF_INET6, SOCK_STREAM),
    INTERNET(AF_INET6, SOCK_DGRAM), ANY("connect"), NO_MORE,
};

/* Beneath the journal's directory; that no other is reached is Landlock's part. */
static const struct jail_call keeps_journal[] = {
    ANY("openat"), ANY("newfstatat"), ANY("fstat"), ANY("fstatfs"), ANY("getdents64"), ANY("flock"), ANY("pread64"),
    ANY("pwrite64"), ANY("writev"), ANY("ftruncate"), ANY("fallocate"), ANY("fsync"), ANY("fdatasync"),
    ANY("sync_file_range"), ANY("renameat"), ANY("renameat2"), ANY("unlinkat"),
    NO_MORE,
};

enum { AS_MANY_AS_MAY_BE = 0, LISTS = 2 };

static const struct cell {
    const struct jail_call *calls[LISTS]; /* beside those of all */
    bool apart; /* in a network namespace of its own: sockets that it is given stay where they were made */
    rlim_t files;
    const char *grants, *denies;
} cells[N_ROLES] = {
    [ROLE_WORKER] = {{speaks, accepts}, true, AS_MANY_AS_MAY_BE,
                     "accept and speak on the descriptors it is given",
                     "open files, make or connect sockets, run programs, touch processes"},
    [ROLE_PORTER] = {{speaks, dials}, false, AS_MANY_AS_MAY_BE,
                     "resolve, and connect by IPv4 and IPv6 to what it has checked",
                     "open files, listen, run programs, touch processes"},
    [ROLE_KEEPER] = {{NULL}, true, 4096,
                     "answer on its channels",
                     "open files, use the network, run programs, touch processes"},
    [ROLE_SCRIBE] = {{keeps_journal}, true, 4096,
                     "answer on its channels, write in the journal's directory",
                     "open other files, use the network, run programs, touch processes"},
    [ROLE_CLERK] = {{speaks, accepts}, true, 1024,
                    "accept on the publish and admin sockets it is given",
                    "open files, make or connect sockets, run programs, touch processes"},
    [ROLE_USHER] = {{speaks, accepts}, true, 2048,
                    "answer DNS questions on the sockets it is given",
                    "open files, make or connect sockets, run programs, touch processes"},
};

bool cell_is_relaxed(void)
{
    return ROLE_DUMPABLE;
}

unsigned cell_walls(enum role r)
{
    if (!cells[r].grants)
        return 0;
    return CELL_CALLS | CELL_HEARD | CELL_FILES | (cells[r].apart ? CELL_NETWORK : 0);
}

const char *cell_grants(enum role r)
{
    return cells[r].grants;
}

const char *cell_denies(enum role r)
{
    return cells[r].denies;
}

void cell_explain(unsigned missing, struct buf *out)
{
    if (cell_is_relaxed()) {
        buf_text(out, "sanitizer build (EXEAT_SANITIZE): no role is closed in by seccomp or Landlock\n");
        missing &= CELL_NETWORK;
    }
    if (missing & CELL_CALLS)
        buf_text(out, "no seccomp here: what roles ask of the kernel is not filtered; their users alone keep them apart\n");
    else if (missing & CELL_HEARD)
        buf_text(out, "seccomp tells nobody here: a role that breaks its cell is ended unheard, and no call is named\n");
    if (missing & CELL_FILES)
        buf_text(out, "no Landlock here: that the scribe opens no file outside the journal rests on its user alone\n");
    if (missing & CELL_NETWORK)
        buf_text(out, "no network namespaces (they need root): that worker, keeper, scribe, clerk and usher reach no network "
                      "rests on seccomp alone\n");
}

/* Configuration of OpenSSL, the time zone, seeds of hash tables. */
void cell_prepare(void)
{
    unsigned char random[16];

    OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, NULL);
    RAND_bytes(random, sizeof random);
    json_object_seed(0);
    tzset();
}

static void limit(int what, rlim_t most)
{
    struct rlimit now;

    if (getrlimit(what, &now) < 0)
        return;
    if (most < now.rlim_max)
        now.rlim_max = most;
    if (now.rlim_cur > now.rlim_max)
        now.rlim_cur = now.rlim_max;
    setrlimit(what, &now);
}

/* An assertion that fails ends this process by a signal to itself, and to nobody else. */
static bool close_calls(const struct cell *c, enum jail_wall *wall, int *ear, struct fault *why)
{
    const struct jail_call aborts[] = {WHEN("tgkill", JAIL_IS(0, getpid()), JAIL_IS(2, SIGABRT)), NO_MORE};
    const struct jail_call *lists[LISTS + 3] = {common, aborts};

    for (size_t i = 0; i < LISTS && c->calls[i]; i++)
        lists[2 + i] = c->calls[i];
    return jail_close(lists, wall, ear, why);
}

bool cell_close(enum role r, int journal, unsigned *walls, int *ear, struct fault *why)
{
    const struct cell *c = &cells[r];
    enum jail_wall calls;
    bool fenced;

    *walls = 0;
    *ear = -1;
    if (c->files)
        limit(RLIMIT_NOFILE, c->files);
    if (cell_is_relaxed())
        return true;
    limit(RLIMIT_NPROC, 0);
    limit(RLIMIT_CORE, 0);
    if (!fence_close(journal, r == ROLE_PORTER, &fenced, why) || !close_calls(c, &calls, ear, why))
        return false;
    *walls = (calls != JAIL_OPEN ? CELL_CALLS : 0) | (calls == JAIL_HEARD ? CELL_HEARD : 0) | (fenced ? CELL_FILES : 0);
    return true;
}
