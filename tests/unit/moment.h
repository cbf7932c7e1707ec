/* Two processes that do the same in the same moment, as near as two processors can; again and again. */
#ifndef TESTS_UNIT_MOMENT_H
#define TESTS_UNIT_MOMENT_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOMENTS = 3000, SPINS_MAX = 100000 };

struct moments {
    atomic_uint at[2]; /* which moment each has come to, and 1 */
    bool won[2][MOMENTS];
};

typedef bool moment(void *arg, unsigned who, unsigned n);

/* Who won which; give: moments_free. */
static struct moments *moments_run(moment *one, void *arg)
{
    struct moments *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    assert_true(m != MAP_FAILED);
    for (unsigned who = 0; who < 2; who++)
        if (fork() == 0) {
            for (unsigned n = 0; n < MOMENTS; n++) {
                atomic_store(&m->at[who], n + 1);
                for (unsigned spins = 0; atomic_load(&m->at[!who]) < n + 1; spins++)
                    if (spins > SPINS_MAX)
                        sched_yield(); /* the other one may be waiting for this processor */
                m->won[who][n] = one(arg, who, n);
            }
            _exit(0);
        }
    for (int i = 0; i < 2; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    return m;
}

static void moments_free(struct moments *m)
{
    munmap(m, sizeof *m);
}

#endif
