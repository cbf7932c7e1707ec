#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

bool file_read_fd(int fd, const char *name, size_t max, struct buf *out, struct fault *why)
{
    size_t have = 0;

    for (;;) {
        ssize_t got = read(fd, buf_reserve(out, 16384), 16384);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_set(why, FAULT_IO, "%s: %s", name, strerror(errno));
        if (got == 0)
            return true;
        have += (size_t)got;
        if (have > max)
            return fault_set(why, FAULT_LIMIT, "%s: larger than %zu bytes", name, max);
        buf_commit(out, (size_t)got);
    }
}

bool file_read(const char *path, size_t max, struct buf *out, struct fault *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok;

    if (fd < 0)
        return fault_set(why, errno == ENOENT ? FAULT_MISSING : FAULT_IO, "%s: %s", path, strerror(errno));
    ok = file_read_fd(fd, path, max, out, why);
    close(fd);
    return ok;
}

bool file_read_regular(const char *path, size_t max, struct buf *out, struct fault *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    bool ok = false;

    if (fd < 0)
        return fault_set(why, errno == ENOENT ? FAULT_MISSING : FAULT_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0)
        fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        fault_set(why, FAULT_PERMISSION, "%s: not a regular file", path);
    else
        ok = file_read_fd(fd, path, max, out, why);
    close(fd);
    return ok;
}

bool file_write_fd(int fd, struct slice bytes, struct fault *why)
{
    while (bytes.len) {
        ssize_t put = write(fd, bytes.ptr, bytes.len);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fault_set(why, FAULT_IO, "write: %s", strerror(errno));
        bytes = slice_from(bytes, (size_t)put);
    }
    return true;
}

static void sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash ? text_copy(slice_make(path, (size_t)(slash - path) + 1)) : text_copy(SLICE("."));
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(directory);
}

/* The file that is to be path soon, beside it (its name: give). -1 and why: there can be none. Who renames over /dev/null takes it away. */
static int open_beside(const char *path, mode_t mode, char **temporary, struct fault *why)
{
    struct buf name = {0};
    struct stat st;
    int fd;

    *temporary = NULL;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        fault_set(why, FAULT_IO, S_ISDIR(st.st_mode) ? "%s: Is a directory" : "%s: it is no regular file, and nothing else is replaced", path);
        return -1;
    }
    buf_printf(&name, "%s.new.%ld", path, (long)getpid());
    *temporary = buf_take_text(&name);
    fd = open(*temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
    return fd;
}

bool file_may_replace(const char *path, struct fault *why)
{
    char *temporary;
    int fd = open_beside(path, 0600, &temporary, why);

    if (fd >= 0) {
        close(fd);
        unlink(temporary);
    }
    free(temporary);
    return fd >= 0;
}

bool file_replace(const char *path, mode_t mode, struct slice bytes, struct fault *why)
{
    char *temporary;
    bool ok = false;
    int fd = open_beside(path, mode, &temporary, why);

    if (fd < 0)
        goto out;
    if (fchmod(fd, mode) < 0 || !file_write_fd(fd, bytes, why) || fsync(fd) < 0 || rename(temporary, path) < 0) {
        fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
        unlink(temporary);
        goto out;
    }
    sync_directory(path);
    ok = true;
out:
    if (fd >= 0)
        close(fd);
    free(temporary);
    return ok;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_check_guarded(const char *path, struct fault *why)
{
    struct stat st;

    if (stat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && (st.st_mode & S_IWOTH))
        return fault_set(why, FAULT_PERMISSION, "%s: anybody can write it (mode %04o); run: chmod o-w %s", path,
                         (unsigned)(st.st_mode & 07777), path);
    return true;
}

bool file_make_directory(const char *path, mode_t mode, struct fault *why)
{
    struct stat st;

    if (mkdir(path, mode) == 0)
        return true;
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return true;
    return fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
}

/* Not by fstat: that call takes names too, so that jails do not have it (net/jail.h). */
off_t file_length(int fd)
{
    return lseek(fd, 0, SEEK_END);
}

char *file_join(const char *directory, const char *name)
{
    struct buf out = {0};

    buf_printf(&out, "%s/%s", directory, name);
    return buf_take_text(&out);
}
