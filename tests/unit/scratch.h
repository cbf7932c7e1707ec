/* A directory of a test's own, under TMPDIR, with its files in one place. For tests only; include after cmocka.h. */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

struct scratch {
    char path[128];
    int fd;
};

static inline void scratch_make(struct scratch *s)
{
    const char *base = getenv("TMPDIR");

    snprintf(s->path, sizeof s->path, "%.100s/exeat.XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(s->path));
    s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(s->fd >= 0);
}

static inline void scratch_remove(struct scratch *s)
{
    DIR *d = opendir(s->path);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            unlinkat(s->fd, e->d_name, 0);
    if (d)
        closedir(d);
    close(s->fd);
    rmdir(s->path);
}

static inline bool scratch_has(struct scratch *s, const char *name)
{
    return faccessat(s->fd, name, F_OK, 0) == 0;
}

static inline void scratch_read(struct scratch *s, const char *name, struct buf *out)
{
    int fd = openat(s->fd, name, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0 && file_read_fd(fd, name, 64 << 20, out, NULL));
    close(fd);
}

static inline void scratch_put(struct scratch *s, const char *name, int flags, struct slice bytes)
{
    int fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);

    assert_true(fd >= 0 && file_write_fd(fd, bytes, NULL));
    close(fd);
}

static inline void scratch_append(struct scratch *s, const char *name, struct slice bytes)
{
    scratch_put(s, name, O_APPEND, bytes);
}

static inline void scratch_replace(struct scratch *s, const char *name, struct slice bytes)
{
    scratch_put(s, name, O_TRUNC, bytes);
}

#endif
