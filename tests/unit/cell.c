/*
 * The cell of each role, closed around a process that then tries what it may and what it may not. The parent hears what the
 * kernel refused, as the supervisor does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net/jail.h"
#include "proxy/cell.h"
#include "tests/unit/prisoner.h"
#include "tests/unit/scratch.h"

/* What a prisoner has: it was opened before the cell was closed. */
static struct belongings {
    int pair[2];     /* connected */
    int listener;    /* of TCP, on loopback; some wait to be accepted */
    int visitors[4];
    int journal;     /* a directory */
    uint16_t closed; /* a port nobody listens on */
    pid_t parent;
} has;

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
}

/* ---- what is tried: 0, or -1 and errno ---- */

#define TRY(name, expression)                      \
    static long name(void)                         \
    {                                              \
        return (expression) < 0 ? -1 : 0;          \
    }

TRY(read_passwd, open("/etc/passwd", O_RDONLY))
TRY(read_memory_of_another, open("/proc/1/mem", O_RDONLY))
TRY(make_a_file, openat(has.journal, "made", O_WRONLY | O_CREAT, 0600))
TRY(make_a_file_elsewhere, open("/tmp/exeat-cell-elsewhere", O_WRONLY | O_CREAT, 0600))
TRY(make_a_directory, mkdirat(has.journal, "directory", 0700))
TRY(make_a_link, symlinkat("/etc/passwd", has.journal, "link"))
TRY(change_mode, fchmod(has.journal, 0777))
TRY(truncate_by_name, truncate("/etc/passwd", 0))
TRY(stat_by_name, syscall(SYS_faccessat, AT_FDCWD, "/etc/passwd", R_OK))
TRY(make_ipv4, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))
TRY(make_udp6, socket(AF_INET6, SOCK_DGRAM, 0))
TRY(make_raw, socket(AF_INET, SOCK_RAW, IPPROTO_ICMP))
TRY(make_unix, socket(AF_UNIX, SOCK_STREAM, 0))
TRY(make_netlink, socket(AF_NETLINK, SOCK_RAW, 0))
TRY(make_packet, socket(AF_PACKET, SOCK_RAW, 0))
TRY(make_pair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0}))
TRY(listen_anew, listen(has.listener, 1))
TRY(accept_one, accept4(has.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))
TRY(speak, send(has.pair[0], "x", 1, MSG_NOSIGNAL) == 1 && recv(has.pair[1], (char[1]){0}, 1, 0) == 1 ? 0 : -1)
TRY(set_nodelay, setsockopt(has.listener, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){1}, sizeof(int)))
TRY(attach_filter, setsockopt(has.pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &(struct sock_fprog){0}, sizeof(struct sock_fprog)))
TRY(shut_the_writing_side, shutdown(has.pair[0], SHUT_WR))
TRY(shut_the_listener, shutdown(has.listener, SHUT_RD))
TRY(shut_both_sides, shutdown(has.listener, SHUT_RDWR))
TRY(make_it_wait, fcntl(has.listener, F_SETFL, O_RDWR))
TRY(make_it_not_wait, fcntl(has.pair[0], F_SETFL, O_RDWR | O_NONBLOCK))
TRY(make_it_signal, fcntl(has.pair[0], F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC))
TRY(own_a_socket, fcntl(has.pair[0], F_SETOWN, has.parent))
TRY(run_a_program, execve("/bin/true", (char *[]){(char *)"true", NULL}, (char *[]){NULL}))
TRY(run_by_descriptor, syscall(SYS_execveat, has.journal, "x", NULL, NULL, 0))
TRY(make_a_process, syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL))
TRY(make_a_thread, syscall(SYS_clone3, NULL, 0))
TRY(trace_another, ptrace(PTRACE_ATTACH, has.parent, NULL, NULL))
TRY(read_another, process_vm_readv(has.parent, &(struct iovec){&has, 1}, 1, &(struct iovec){&has, 1}, 1, 0))
TRY(signal_another, kill(has.parent, SIGUSR1))
TRY(signal_itself, raise(SIGABRT)) /* which it ignores */
TRY(steal_a_descriptor, syscall(SYS_pidfd_open, has.parent, 0))
TRY(take_memory, mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ? 0 : -1)
TRY(take_code_memory, mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ? 0 : -1)
TRY(make_stack_code, mprotect((void *)((uintptr_t)__builtin_frame_address(0) & ~4095UL), 4096, PROT_READ | PROT_EXEC))
TRY(make_memory_file, memfd_create("x", 0))
TRY(be_dumpable, prctl(PR_SET_DUMPABLE, 1))
TRY(leave_the_jail, syscall(SYS_seccomp, 0, 0, NULL))
TRY(be_somebody_else, syscall(SYS_setuid, 0))
TRY(mount_something, syscall(SYS_mount, "none", "/mnt", "tmpfs", 0, NULL))
TRY(leave_the_namespace, syscall(SYS_unshare, 0x40000000))
TRY(load_bpf, syscall(SYS_bpf, 0, NULL, 0))
TRY(use_io_uring, syscall(SYS_io_uring_setup, 1, NULL))
TRY(use_keys, syscall(SYS_keyctl, 0, 0))
TRY(raise_limits, setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64}))
TRY(see_limits, getrlimit(RLIMIT_NOFILE, &(struct rlimit){0}))
TRY(ask_the_time, clock_gettime(CLOCK_MONOTONIC, &(struct timespec){0}))
TRY(ask_for_times, syscall(SYS_times, NULL))

static long connect_inside(void)
{
    struct sockaddr_in where = loopback(has.closed);

    return connect(has.pair[0], (struct sockaddr *)&where, sizeof where);
}

static long bind_given(void)
{
    struct sockaddr_in where = loopback(0);

    return bind(has.listener, (struct sockaddr *)&where, sizeof where);
}

/* To a port where nobody is: that it was tried is what counts. */
static long dial(void)
{
    struct sockaddr_in where = loopback(has.closed);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    return connect(fd, (struct sockaddr *)&where, sizeof where) < 0 && errno == ECONNREFUSED ? 0 : -1;
}

static long keep_journal(void)
{
    int fd = openat(has.journal, "one", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;

    if (fd < 0 || write(fd, "line\n", 5) != 5 || ftruncate(fd, 2) < 0 || fstat(fd, &st) < 0 || fdatasync(fd) < 0)
        return -1;
    if (renameat(has.journal, "one", has.journal, "two") < 0)
        return -1;
    return unlinkat(has.journal, "two", 0);
}

/* ---- the rows ---- */

#define LANDLOCK "EACCES"

static const struct row {
    const char *name;
    unsigned roles; /* bits */
    long (*attempt)(void);
    const char *refused; /* the call; LANDLOCK; NULL: it may */
    bool ends;           /* nobody honest does it */
} rows[] = {
#define BIT(r) (1U << ROLE_##r)
#define ALL (BIT(WORKER) | BIT(PORTER) | BIT(KEEPER) | BIT(SCRIBE) | BIT(CLERK) | BIT(USHER))
    {"memory", ALL, take_memory, NULL, false},
    {"the time", ALL, ask_the_time, NULL, false},
    {"its own limits", ALL, see_limits, NULL, false},
    {"an abort of its own", ALL, signal_itself, NULL, false},
    {"a message on a descriptor it was given", BIT(WORKER) | BIT(PORTER) | BIT(CLERK) | BIT(USHER), speak, NULL, false},
    {"a visitor on a listener it was given", BIT(WORKER) | BIT(CLERK) | BIT(USHER), accept_one, NULL, false},
    {"a connection in the porter", BIT(PORTER), dial, NULL, false},
    {"a UDP socket in the porter", BIT(PORTER), make_udp6, NULL, false},
    {"TCP_NODELAY", BIT(WORKER) | BIT(PORTER), set_nodelay, NULL, false},
    {"an end to what it says", BIT(WORKER) | BIT(PORTER) | BIT(CLERK) | BIT(USHER), shut_the_writing_side, NULL, false},
    {"a socket that does not wait", ALL, make_it_not_wait, NULL, false},
    {"the journal in the scribe", BIT(SCRIBE), keep_journal, NULL, false},

    {"a file", ALL & ~BIT(SCRIBE), read_passwd, "openat", true},
    {"a file outside the journal", BIT(SCRIBE), read_passwd, LANDLOCK, false},
    {"a new file outside the journal", BIT(SCRIBE), make_a_file_elsewhere, LANDLOCK, false},
    {"another's memory as a file", ALL & ~BIT(SCRIBE), read_memory_of_another, "openat", true},
    {"another's memory as a file, by the scribe", BIT(SCRIBE), read_memory_of_another, LANDLOCK, false},
    {"a new file", ALL & ~BIT(SCRIBE), make_a_file, "openat", true},
    {"a directory", ALL, make_a_directory, "mkdirat", true},
    {"a link", ALL, make_a_link, "symlinkat", true},
    {"another mode", ALL, change_mode, "fchmod", true},
    {"an end to a file", ALL, truncate_by_name, "truncate", true},
    {"a look whether a file is there", ALL, stat_by_name, "faccessat", false},
    {"an IPv4 socket", ALL & ~BIT(PORTER), make_ipv4, "socket", true},
    {"a raw socket", ALL, make_raw, "socket", true},
    {"a unix socket", ALL, make_unix, "socket", true},
    {"a netlink socket", ALL, make_netlink, "socket", true},
    {"a packet socket", ALL, make_packet, "socket", true},
    {"a pair of sockets", ALL, make_pair, "socketpair", true},
    {"a connection", ALL & ~BIT(PORTER), connect_inside, "connect", true},
    {"a bind", ALL, bind_given, "bind", true},
    {"a listen", ALL, listen_anew, "listen", true},
    {"an accept", BIT(PORTER) | BIT(KEEPER) | BIT(SCRIBE), accept_one, "accept4", true},
    {"TCP_NODELAY without sockets", BIT(KEEPER) | BIT(SCRIBE), set_nodelay, "setsockopt", false},
    {"a socket filter", ALL, attach_filter, "setsockopt", false},
    {"an end to what it hears, or whoever has the listener after it", ALL, shut_the_listener, "shutdown", false},
    {"an end to both", ALL, shut_both_sides, "shutdown", false},
    {"a socket that waits, for whoever has it after it", ALL, make_it_wait, "fcntl", false},
    {"a socket that signals", ALL, make_it_signal, "fcntl", false},
    {"signals from a socket", ALL, own_a_socket, "fcntl", false},
    {"a program", ALL, run_a_program, "execve", true},
    {"a program by descriptor", ALL, run_by_descriptor, "execveat", true},
    {"a process", ALL, make_a_process, "clone", true},
    {"a thread", ALL, make_a_thread, "clone3", true},
    {"to trace another", ALL, trace_another, "ptrace", true},
    {"to read another's memory", ALL, read_another, "process_vm_readv", true},
    {"a signal to another", ALL, signal_another, "kill", true},
    {"a handle on another", ALL, steal_a_descriptor, "pidfd_open", true},
    {"memory for code", ALL, take_code_memory, "mmap", true},
    {"code on the stack", ALL, make_stack_code, "mprotect", true},
    {"a memory file", ALL, make_memory_file, "memfd_create", true},
    {"to be dumpable", ALL, be_dumpable, "prctl", true},
    {"another filter", ALL, leave_the_jail, "seccomp", true},
    {"another user", ALL, be_somebody_else, "setuid", true},
    {"a mount", ALL, mount_something, "mount", true},
    {"another namespace", ALL, leave_the_namespace, "unshare", true},
    {"a BPF program", ALL, load_bpf, "bpf", true},
    {"io_uring", ALL, use_io_uring, "io_uring_setup", true},
    {"keys of the kernel", ALL, use_keys, "keyctl", true},
    {"other limits", ALL, raise_limits, "prlimit64", false},
    {"a call that no table has", ALL, ask_for_times, "times", false},
};

static void gather_belongings(const struct scratch *scratch)
{
    struct sockaddr_in where = loopback(0);
    socklen_t len = sizeof where;
    int closed = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    has.parent = getpid();
    has.journal = scratch->fd;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, has.pair), 0);
    assert_int_equal(bind(closed, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(getsockname(closed, (struct sockaddr *)&where, &len), 0);
    has.closed = ntohs(where.sin_port);
    where = loopback(0);
    has.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(has.listener, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(listen(has.listener, 64), 0);
    assert_int_equal(getsockname(has.listener, (struct sockaddr *)&where, &len), 0);
    for (size_t i = 0; i < sizeof has.visitors / sizeof *has.visitors; i++) {
        has.visitors[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(has.visitors[i], (struct sockaddr *)&where, sizeof where), 0);
    }
    close(closed);
}

/* ---- the prisoner ---- */

static void be_prisoner(enum role role, long (*attempt)(void), int line)
{
    struct prisoner_word word = {0};
    struct fault why;
    int ear;

    signal(SIGABRT, SIG_IGN);
    cell_prepare();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!cell_close(role, role == ROLE_SCRIBE ? has.journal : -1, &word.walls, &ear, &why))
        word.error = -1;
    prisoner_give(line, &word, ear);
    if (ear >= 0)
        close(ear);
    if (word.error == 0 && attempt() < 0)
        word.error = errno;
    prisoner_give(line, &word, -1);
    _exit(0);
}

struct outcome {
    struct prisoner_word word;
    char refused[32];
    bool ends;
};

/* As the supervisor would, but that what is hostile has its EPERM too. */
static void attend(int line, int ear, struct outcome *o)
{
    struct pollfd ready[] = {{line, POLLIN, 0}, {ear, POLLIN, 0}};
    struct jail_refusal refusal;

    while (poll(ready, 2, 10000) > 0 && !ready[0].revents) {
        if (jail_hear(ear, &refusal) != 1)
            continue;
        snprintf(o->refused, sizeof o->refused, "%s", refusal.call);
        o->ends = refusal.is_hostile;
        jail_answer(ear, &refusal);
    }
    if (recv(line, &o->word, sizeof o->word, MSG_DONTWAIT) != sizeof o->word)
        o->word.error = ESRCH; /* it died of it */
}

static struct outcome try(enum role role, long (*attempt)(void))
{
    struct outcome o = {{0}, "", false};
    int line[2], status, ear;
    pid_t child;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_prisoner(role, attempt, line[1]);
    close(line[1]);
    ear = prisoner_take(line[0], &o.word);
    attend(line[0], ear, &o);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(line[0]);
    if (ear >= 0)
        close(ear);
    return o;
}

static bool is_as_expected(const struct row *row, const struct outcome *o)
{
    if (!row->refused)
        return o->word.error == 0 && !o->refused[0];
    if (strcmp(row->refused, LANDLOCK) == 0)
        return o->word.error == EACCES && !o->refused[0];
    return o->word.error == EPERM && strcmp(o->refused, row->refused) == 0 && o->ends == row->ends;
}

static void each_role_may_what_its_table_says_and_nothing_else(void **state)
{
    struct scratch scratch;
    bool ok = true;

    (void)state;
    scratch_make(&scratch);
    gather_belongings(&scratch);
    for (const struct row *row = rows; row < rows + sizeof rows / sizeof *rows; row++)
        for (enum role r = ROLE_WORKER; r < N_ROLES; r++) {
            struct outcome o;

            if (!(row->roles >> r & 1))
                continue;
            o = try(r, row->attempt);
            if (row->refused && strcmp(row->refused, LANDLOCK) == 0 && !(o.word.walls & CELL_FILES))
                continue; /* a kernel without it */
            if (is_as_expected(row, &o))
                continue;
            print_error("%s: %s: %s; heard %s%s\n", role_name(r), row->name,
                        o.word.error < 0 ? "the cell did not close" : strerror(o.word.error),
                        o.refused[0] ? o.refused : "nothing", o.ends ? ", which ends" : "");
            ok = false;
        }
    scratch_remove(&scratch);
    assert_true(ok);
}

static void a_relaxed_cell_says_so(void **state)
{
    struct buf text = {0};
    unsigned walls = 77;
    int ear;

    (void)state;
    assert_true(cell_is_relaxed());
    assert_true(cell_close(ROLE_CLERK, -1, &walls, &ear, NULL));
    assert_int_equal(walls, 0);
    assert_int_equal(ear, -1);
    cell_explain(cell_walls(ROLE_CLERK), &text);
    assert_true(slice_starts(buf_slice(&text), SLICE("sanitizer build")));
    buf_free(&text);
}

static void every_role_is_explained(void **state)
{
    (void)state;
    assert_null(cell_denies(ROLE_SUPERVISOR));
    assert_int_equal(cell_walls(ROLE_SUPERVISOR), 0);
    for (enum role r = ROLE_WORKER; r < N_ROLES; r++) {
        assert_non_null(cell_denies(r));
        assert_non_null(cell_grants(r));
        assert_int_equal(cell_walls(r) & CELL_NETWORK ? true : false, r != ROLE_PORTER);
    }
}

int main(void)
{
    const struct CMUnitTest closed[] = {
        cmocka_unit_test(each_role_may_what_its_table_says_and_nothing_else),
        cmocka_unit_test(every_role_is_explained),
    };
    const struct CMUnitTest relaxed[] = {
        cmocka_unit_test(a_relaxed_cell_says_so),
        cmocka_unit_test(every_role_is_explained),
    };

    return cell_is_relaxed() ? cmocka_run_group_tests_name("cell, relaxed", relaxed, NULL, NULL)
                             : cmocka_run_group_tests_name("cell", closed, NULL, NULL);
}
