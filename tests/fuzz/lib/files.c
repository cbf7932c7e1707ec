#include "tests/fuzz/lib/files.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[] = "/dev/shm/exeat-fuzz-XXXXXX";

static void remove_all(void)
{
    files_clear();
    rmdir(directory);
}

const char *files_directory(void)
{
    static bool made;

    if (!made && !mkdtemp(directory))
        abort();
    if (!made)
        atexit(remove_all);
    made = true;
    return directory;
}

const char *files_path(const char *name)
{
    static char path[300];

    snprintf(path, sizeof path, "%s/%s", files_directory(), name);
    return path;
}

void files_put(const char *name, struct slice bytes)
{
    int fd = open(files_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, bytes.ptr, bytes.len) != (ssize_t)bytes.len)
        abort();
    close(fd);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind;
    return at->level ? remove(path) : 0;
}

void files_empty(const char *name)
{
    nftw(files_path(name), remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void files_clear(void)
{
    files_empty(".");
}
