/* Owns names and the reading of segment files; knows lines, not what they say. */
#include "journal/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIGITS_MIN = 12, CHUNK = 256 * 1024 };

void segment_name(char name[SEGMENT_NAME_SIZE], uint64_t first, const char *ending)
{
    snprintf(name, SEGMENT_NAME_SIZE, "%0*" PRIu64 ".%s", DIGITS_MIN, first, ending);
}

static bool parse_name(const char *name, uint64_t *first)
{
    struct slice digits = slice_of(name);
    char canonical[SEGMENT_NAME_SIZE];

    if (!slice_ends(digits, SLICE(".ndjson")))
        return false;
    digits = slice_cut(digits, 0, digits.len - strlen(".ndjson"));
    if (!slice_decimal(digits, UINT64_MAX, first))
        return false;
    segment_name(canonical, *first, "ndjson");
    return strcmp(canonical, name) == 0;
}

static int by_first(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

static void add(struct segments *s, uint64_t first)
{
    if ((s->count & (s->count + 1)) == 0) { /* a power of two less one: full */
        s->list = realloc(s->list, (2 * s->count + 1) * sizeof *s->list);
        if (!s->list)
            abort();
    }
    s->list[s->count].first = first;
    segment_name(s->list[s->count].name, first, "ndjson");
    s->count++;
}

bool segments_list(int directory_fd, struct segments *out, struct fault *why)
{
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    uint64_t first;

    *out = (struct segments){0};
    if (!d) {
        fault_set(why, FAULT_IO, "the journal's directory: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    while ((entry = readdir(d)))
        if (parse_name(entry->d_name, &first))
            add(out, first);
    closedir(d);
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, by_first);
    return true;
}

void segments_free(struct segments *s)
{
    free(s->list);
    *s = (struct segments){0};
}

/* Every whole line in b to visit; b keeps the rest, and line->offset is where that begins. */
static bool take_lines(struct buf *b, struct log_line *line, log_visit *visit, void *arg)
{
    for (;;) {
        struct slice all = buf_slice(b);
        ptrdiff_t end = slice_find(all, '\n');

        if (end < 0)
            return true;
        line->number++;
        line->text = slice_cut(all, 0, (size_t)end);
        if (!visit(arg, line))
            return false;
        line->offset += (size_t)end + 1;
        buf_consume(b, (size_t)end + 1);
    }
}

static bool read_lines(int fd, struct log_line *line, log_visit *visit, void *arg, bool *stopped, struct fault *why)
{
    struct buf b = {0};
    bool ok = false;

    for (;;) {
        ssize_t got = read(fd, buf_reserve(&b, CHUNK), CHUNK);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            fault_set(why, FAULT_IO, "%s: %s", line->file, strerror(errno));
            goto out;
        }
        if (got == 0)
            break;
        buf_commit(&b, (size_t)got);
        if ((*stopped = !take_lines(&b, line, visit, arg)))
            goto out;
        if (buf_len(&b) > LOG_LINE_MAX) {
            fault_set(why, FAULT_SYNTAX, "%s:%" PRIu64 ": the line is longer than any record", line->file,
                      line->number + 1);
            goto out;
        }
    }
    line->number++;
    line->text = buf_slice(&b);
    line->torn = true;
    *stopped = line->text.len && !visit(arg, line);
    ok = !*stopped;
out:
    buf_free(&b);
    return ok;
}

bool segment_read(int directory_fd, const char *name, log_visit *visit, void *arg, bool *stopped, struct fault *why)
{
    int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct log_line line = {.file = name};
    bool ok;

    *stopped = false;
    if (fd < 0)
        return fault_set(why, FAULT_IO, "%s: %s", name, strerror(errno));
    ok = read_lines(fd, &line, visit, arg, stopped, why);
    close(fd);
    return ok;
}

bool log_read(const char *directory, log_visit *visit, void *arg, struct fault *why)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct segments all = {0};
    bool ok = false, stopped;

    if (fd < 0)
        return fault_set(why, errno == ENOENT ? FAULT_MISSING : FAULT_IO, "%s: %s", directory, strerror(errno));
    if (!segments_list(fd, &all, why))
        goto out;
    for (size_t i = 0; i < all.count; i++)
        if (!segment_read(fd, all.list[i].name, visit, arg, &stopped, why))
            goto out;
    ok = true;
out:
    segments_free(&all);
    close(fd);
    return ok;
}
