/* Whole files, small ones, in and out. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/fault.h"

/* Append the file's bytes to out; refuses more than max bytes. */
bool file_read(const char *path, size_t max, struct buf *out, struct fault *why);
/*
 * The same of a regular file alone: of what the configuration names. Whoever opens a FIFO waits for its writer, and the
 * supervisor waits for nobody.
 */
bool file_read_regular(const char *path, size_t max, struct buf *out, struct fault *why);
/* The same from a descriptor (to its end); name is for the message. */
bool file_read_fd(int fd, const char *name, size_t max, struct buf *out, struct fault *why);
/* All of bytes to fd, short writes continued. */
bool file_write_fd(int fd, struct slice bytes, struct fault *why);
/*
 * Replace path by bytes so that a reader sees the old or the new whole and a
 * crash leaves one of them: temporary file in the same directory, fsync, rename, fsync of the directory. What is there and is no
 * regular file (a directory, a device) is not replaced.
 */
bool file_replace(const char *path, mode_t mode, struct slice bytes, struct fault *why);
/* Could it, now? Nothing of it is left. */
bool file_may_replace(const char *path, struct fault *why);
bool file_exists(const char *path);
/* Refuse a file or directory that everybody can write: who writes it decides what the gateway does. Absent ones pass. */
bool file_check_guarded(const char *path, struct fault *why);
/* mkdir; an existing directory is fine. */
bool file_make_directory(const char *path, mode_t mode, struct fault *why);
/* Bytes of an open file or of shared memory; -1 when it has no length. Moves the place it is read from. */
off_t file_length(int fd);
/* "dir/name" (give). */
char *file_join(const char *directory, const char *name);

#endif
