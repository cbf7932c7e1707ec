/* Owns the talk with libseccomp, on both sides. Which role may what is proxy/cell.c's. */
#include "net/jail.h"

#include <errno.h>
#include <poll.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TESTS_MAX = sizeof((struct jail_call *)0)->tests / sizeof(struct jail_test) };

/* ---- closing ---- */

static int add_call(scmp_filter_ctx filter, const struct jail_call *call)
{
    struct scmp_arg_cmp tests[TESTS_MAX];
    int number = seccomp_syscall_resolve_name(call->name), status;

    if (number == __NR_SCMP_ERROR)
        return 0;
    for (size_t i = 0; i < call->n_tests; i++)
        tests[i] = (struct scmp_arg_cmp){.arg = call->tests[i].argument,
                                         .op = SCMP_CMP_MASKED_EQ,
                                         .datum_a = call->tests[i].mask,
                                         .datum_b = call->tests[i].value};
    status = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, (unsigned)call->n_tests, tests);
    return status == -EEXIST ? 0 : status;
}

/*
 * Plain calls first in the kernel's eyes: those it remembers to be always allowed, and never runs the filter for them again;
 * for the others the filter is a tree, not a list. A call of another architecture's table ends the process.
 */
static int build(scmp_filter_ctx filter, const struct jail_call *const *lists)
{
    int status;

    if ((status = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2)) < 0 ||
        (status = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) < 0)
        return status;
    for (; *lists; lists++)
        for (const struct jail_call *call = *lists; call->name; call++)
            if ((status = add_call(filter, call)) < 0)
                return status;
    return 0;
}

/* 0, or a negative errno. */
static int load(uint32_t otherwise, const struct jail_call *const *lists, int *ear)
{
    scmp_filter_ctx filter = seccomp_init(otherwise);
    int status;

    *ear = -1;
    if (!filter)
        return -EINVAL;
    status = build(filter, lists);
    if (status == 0)
        status = seccomp_load(filter);
    if (status == 0 && otherwise == SCMP_ACT_NOTIFY)
        *ear = seccomp_notify_fd(filter);
    seccomp_release(filter);
    return status;
}

/* A kernel gives one ear to a chain of filters: who runs under another's listener has none left, and is deaf. */
bool jail_close(const struct jail_call *const *lists, enum jail_wall *wall, int *ear, struct fault *why)
{
    int status = load(SCMP_ACT_NOTIFY, lists, ear);

    *wall = JAIL_HEARD;
    if (status < 0) {
        *wall = JAIL_DEAF;
        status = load(SCMP_ACT_KILL_PROCESS, lists, ear);
    }
    if (status == 0)
        return true;
    *wall = JAIL_OPEN;
    if (status == -ENOSYS || status == -EINVAL || status == -EOPNOTSUPP)
        return true;
    return fault_set(why, FAULT_IO, "seccomp: %s", strerror(-status));
}

/* ---- hearing ---- */

/* What no role has a reason to try: to reach files, the network, other programs and processes, or to be somebody else. */
static bool is_hostile(const char *call)
{
    static const char *const list[] = {
        "open", "openat", "openat2", "creat", "open_by_handle_at", "truncate", "rename", "renameat", "renameat2", "link",
        "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "mknod", "mknodat", "chmod",
        "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat",
        "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4",
        "execve", "execveat", "fork", "vfork", "clone", "clone3", "memfd_create", "mmap", "mprotect", "pkey_mprotect",
        "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "kill", "tkill", "tgkill",
        "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_getfd", "pidfd_send_signal",
        "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset",
        "prctl", "seccomp", "unshare", "setns", "chroot", "pivot_root", "mount", "umount2", "fsopen", "fsmount", "move_mount",
        "open_tree", "mount_setattr", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
        "io_uring_register", "add_key", "request_key", "keyctl", "init_module", "finit_module", "delete_module",
        "kexec_load", "kexec_file_load", "personality", "modify_ldt", "iopl", "ioperm", "swapon", "reboot",
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(call, list[i]) == 0)
            return true;
    return false;
}

static void describe(struct jail_refusal *out, const struct seccomp_notif *n)
{
    char *name = seccomp_syscall_resolve_num_arch(n->data.arch, n->data.nr);

    out->id = n->id;
    if (name)
        snprintf(out->call, sizeof out->call, "%s", name);
    else
        snprintf(out->call, sizeof out->call, "call %d", n->data.nr);
    out->is_hostile = is_hostile(out->call);
    free(name);
}

int jail_hear(int ear, struct jail_refusal *out)
{
    struct pollfd ready = {.fd = ear, .events = POLLIN};
    struct seccomp_notif *request = NULL;
    int status;

    if (poll(&ready, 1, 0) < 1)
        return 0;
    if (!(ready.revents & POLLIN))
        return -1;
    if (seccomp_notify_alloc(&request, NULL) < 0)
        abort();
    status = seccomp_notify_receive(ear, request); /* fails when who asked was ended meanwhile */
    if (status == 0)
        describe(out, request);
    seccomp_notify_free(request, NULL);
    return status == 0;
}

void jail_answer(int ear, const struct jail_refusal *refusal)
{
    struct seccomp_notif_resp *answer = NULL;

    if (seccomp_notify_alloc(NULL, &answer) < 0)
        abort();
    answer->id = refusal->id;
    answer->error = -EPERM;
    seccomp_notify_respond(ear, answer);
    seccomp_notify_free(NULL, answer);
}
