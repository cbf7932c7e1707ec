/* Owns the shape of a counters page. Who maps it, when it ends, is its holder's business. */
#include "proxy/counters.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

static const struct {
    const char *name, *help;
} table[N_COUNTERS] = {
#define COUNTER(upper, name, help) {name, help},
#include "proxy/counters.def"
#undef COUNTER
};

int counters_create(struct fault *why)
{
    int fd = memfd_create("exeat-counters", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    /* Sealed in size, so that nobody who maps it can be killed by another's truncation. */
    if (fd >= 0 && ftruncate(fd, sizeof(struct counters)) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    fault_set(why, FAULT_IO, "counters: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

struct counters *counters_map(int fd, bool writable, struct fault *why)
{
    void *at;

    if (file_length(fd) != (off_t)sizeof(struct counters)) {
        fault_set(why, FAULT_SYNTAX, "counters: not a page of this version");
        return NULL;
    }
    at = mmap(NULL, sizeof(struct counters), writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        fault_set(why, FAULT_IO, "counters: %s", strerror(errno));
        return NULL;
    }
    return at;
}

void counters_unmap(const struct counters *c)
{
    if (c)
        munmap((void *)c, sizeof *c);
}

const char *counter_name(enum counter c)
{
    assert(c < N_COUNTERS);
    return table[c].name;
}

const char *counter_help(enum counter c)
{
    assert(c < N_COUNTERS);
    return table[c].help;
}
