/*
 * The clock of the gateway under test: the real one, and a signal sets it. SIGRTMIN with a number of seconds (sigqueue)
 * moves the wall clock of the process that gets it; the monotonic clock goes on. A command that lives too briefly for that reads
 * EXEAT_TEST_CLOCK. Linked instead of base/clock.c.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

static _Atomic long offset_s;

static void on_jump(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    offset_s = info->si_value.sival_int;
}

/* Before main, and so before a role is closed in. */
__attribute__((constructor)) static void listen_for_jumps(void)
{
    struct sigaction action = {.sa_sigaction = on_jump, .sa_flags = SA_SIGINFO | SA_RESTART};
    const char *from_start = getenv("EXEAT_TEST_CLOCK");

    if (from_start)
        offset_s = strtol(from_start, NULL, 10);
    sigaction(SIGRTMIN, &action, NULL);
}

static int jumping_gettime(clockid_t id, struct timespec *t)
{
    int result = clock_gettime(id, t);

    if (id == CLOCK_REALTIME)
        t->tv_sec += offset_s;
    return result;
}

#define clock_gettime jumping_gettime
#include "base/clock.c"
