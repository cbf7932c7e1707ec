#include "tests/fuzz/lib/files.h"

#include <dirent.h>
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

void files_clear(void)
{
    nftw(files_directory(), remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

void files_keep_last(const char *name)
{
    struct dirent **list;
    int n = scandir(files_path(name), &list, is_visible, alphasort);
    char path[300];

    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", name, list[i]->d_name);
        if (i + 1 < n)
            unlink(files_path(path));
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}
