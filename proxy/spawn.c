/* Owns the moment between fork and exec. */
#include "proxy/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Over every range that Debian, systemd and container tools hand out by themselves. */
enum { SPARE_UID = 2119827456 };

static bool find_user(const char *prefix, const char *what, unsigned spare, uid_t *uid, gid_t *gid, bool *named)
{
    char name[80];
    const struct passwd *user;

    snprintf(name, sizeof name, "%s-%s", prefix, what);
    user = getpwnam(name);
    *named = user != NULL;
    if (user) {
        *uid = user->pw_uid;
        *gid = user->pw_gid;
        return *uid != 0;
    }
    *uid = SPARE_UID + (uid_t)spare;
    *gid = (gid_t)*uid;
    return getpwuid(*uid) == NULL;
}

bool spawn_user(const char *prefix, enum role role, uid_t *uid, gid_t *gid, bool *named)
{
    return find_user(prefix, role_name(role), role, uid, gid, named);
}

/* Only what is safe between fork and exec; failing is exiting. */
static void become(uid_t uid, gid_t gid)
{
    static const struct rlimit no_core = {0, 0};
    struct rlimit files;

    setrlimit(RLIMIT_CORE, &no_core);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* as many connections as we may have */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (uid) {
        if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
            _exit(3);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        _exit(3);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* The control channel to its place, standard input and output to nothing, every other descriptor closed. */
static void arrange_descriptors(int control, int program)
{
    int null = open("/dev/null", O_RDWR);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(control, ROLE_CONTROL_FD) < 0 || dup3(program, ROLE_CONTROL_FD + 1, O_CLOEXEC) < 0)
        _exit(3);
    close_range(ROLE_CONTROL_FD + 2, ~0U, 0);
}

static void run_role(const struct spawn_plan *plan, int control, int program)
{
    char index[16];
    char *argv[7] = {(char *)"exeat", (char *)"role", (char *)role_name(plan->role), index};
    size_t n = 4;
    char *nothing[] = {NULL};
    sigset_t none;

    snprintf(index, sizeof index, "%d", plan->index);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    arrange_descriptors(control, program);
    if (plan->apart && unshare(CLONE_NEWNET) == 0)
        argv[n++] = (char *)"apart";
    if (plan->debug)
        argv[n] = (char *)"debug";
    become(plan->uid, plan->gid);
    fexecve(ROLE_CONTROL_FD + 1, argv, nothing);
    _exit(3);
}

pid_t spawn_role(const struct spawn_plan *plan, int *control, struct fault *why)
{
    int pair[2], program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), high;
    pid_t pid;

    if (program < 0) {
        fault_set(why, FAULT_IO, "/proc/self/exe: %s", strerror(errno));
        return -1;
    }
    if (!channel_pair(pair, why)) {
        close(program);
        return -1;
    }
    /* Above the places that the child arranges, so that no dup2 overwrites another's source. */
    high = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
    close(pair[1]);
    pair[1] = high;
    high = fcntl(program, F_DUPFD_CLOEXEC, 10);
    close(program);
    program = high;
    pid = fork();
    if (pid == 0)
        run_role(plan, pair[1], program);
    if (pid < 0)
        fault_set(why, FAULT_IO, "fork: %s", strerror(errno));
    close(program);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return -1;
    }
    *control = pair[0];
    return pid;
}

/* Our handlers would tell the loop of a signal, and the loop is the parent's: none may run. */
static pid_t fork_deaf(void)
{
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid != 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

pid_t spawn_work(int (*work)(const void *arg, int output), const void *arg, int output, struct fault *why)
{
    pid_t pid = fork_deaf();

    if (pid < 0)
        fault_set(why, FAULT_IO, "fork: %s", strerror(errno));
    if (pid != 0)
        return pid;
    if ((output != ROLE_CONTROL_FD && dup2(output, ROLE_CONTROL_FD) < 0))
        _exit(3);
    close_range(ROLE_CONTROL_FD + 1, ~0U, 0);
    become(0, 0);
    _exit(work(arg, ROLE_CONTROL_FD));
}

static void run_program(char *const words[], uid_t uid, gid_t gid, int output)
{
    char *nothing[] = {NULL};
    int null = open("/dev/null", O_RDWR);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
        setpgid(0, 0) < 0 || chdir("/") < 0)
        _exit(3);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    become(uid, gid);
    execve(words[0], words, nothing);
    _exit(127);
}

pid_t spawn_program(char *const words[], const char *prefix, int *output, struct fault *why)
{
    int ends[2], high;
    uid_t uid = 0;
    gid_t gid = 0;
    bool named;
    pid_t pid;

    if (geteuid() == 0 && !find_user(prefix, "exec", N_ROLES, &uid, &gid, &named)) {
        fault_set(why, FAULT_REFUSED, "no user of its own for programs: create %s-exec", prefix);
        return -1;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        fault_set(why, FAULT_IO, "pipe: %s", strerror(errno));
        return -1;
    }
    high = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pid = fork();
    if (pid == 0)
        run_program(words, uid, gid, high);
    close(high);
    if (pid < 0) {
        fault_set(why, FAULT_IO, "fork: %s", strerror(errno));
        close(ends[0]);
        return -1;
    }
    *output = ends[0];
    return pid;
}
