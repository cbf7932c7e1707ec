/* Owns nothing that lasts: looks at the end of the last segments once, when the scribe starts. */
#include "journal/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { TAIL_MAX = 2 * LOG_LINE_MAX };

int resume_lock(int directory_fd, struct fault *why)
{
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        fault_set(why, FAULT_IO, "the journal's directory: %s", strerror(errno));
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        fault_set(why, FAULT_BUSY, "another gateway writes this journal: stop it, or give this one its own directory");
        close(fd);
        return -1;
    }
    return fd;
}

/* The last bytes of fd. */
static bool read_tail(int fd, uint64_t size, struct buf *tail, struct fault *why)
{
    uint64_t left = size < TAIL_MAX ? size : TAIL_MAX;

    while (left) {
        ssize_t got = pread(fd, buf_reserve(tail, left), left, (off_t)(size - left));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fault_set(why, FAULT_IO, "%s", got < 0 ? strerror(errno) : "became shorter while it was read");
        buf_commit(tail, (size_t)got);
        left -= (uint64_t)got;
    }
    return true;
}

static ptrdiff_t last_newline(struct slice s)
{
    const char *at = s.len ? memrchr(s.ptr, '\n', s.len) : NULL;

    return at ? at - s.ptr : -1;
}

static bool read_seq(struct slice line, uint64_t *seq)
{
    json_t *o = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES, NULL);
    json_int_t n = json_integer_value(json_object_get(o, "seq"));

    *seq = n > 0 ? (uint64_t)n : 0;
    json_decref(o);
    return n > 0;
}

/* The torn bytes to NNN.torn (after what an earlier crash left there), then off the segment. */
static bool move_torn(int directory_fd, const struct segment *s, struct resume_point *p, struct slice torn,
                      struct fault *why)
{
    char name[SEGMENT_NAME_SIZE];
    int fd;
    bool ok;

    segment_name(name, s->first, "torn");
    fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fault_set(why, FAULT_IO, "%s: %s", name, strerror(errno));
    ok = file_write_fd(fd, torn, why) && file_write_fd(fd, SLICE("\n"), why);
    if (ok && (fsync(fd) < 0 || ftruncate(p->fd, (off_t)(p->size - torn.len)) < 0 || fsync(p->fd) < 0))
        ok = fault_set(why, FAULT_IO, "%s: %s", name, strerror(errno));
    close(fd);
    p->size -= torn.len;
    p->torn = ok;
    return ok;
}

static bool take_last_line(struct slice whole, const struct segment *s, struct resume_point *p, struct fault *why)
{
    struct slice line = slice_cut(whole, 0, whole.len - 1);

    line = slice_from(line, (size_t)(last_newline(line) + 1));
    if (!read_seq(line, &p->seq) || p->seq < s->first)
        return fault_set(why, FAULT_SYNTAX,
                         "%s: its last line is no record of this journal: see exeat log verify, then move the directory "
                         "away to begin a new journal",
                         s->name);
    if (!EVP_Digest(line.ptr, line.len, p->head, NULL, EVP_sha256(), NULL))
        return fault_set(why, FAULT_CRYPTO, "SHA-256 failed");
    return true;
}

/* One segment: its last whole line (*found), what is torn after it moved away. */
static bool look_into(int directory_fd, const struct segment *s, struct resume_point *p, bool *found, struct fault *why)
{
    struct buf tail = {0};
    struct slice all;
    ptrdiff_t end;
    bool ok = false;

    *found = false;
    if (!read_tail(p->fd, p->size, &tail, why)) {
        fault_prefix(why, "%s", s->name);
        goto out;
    }
    all = buf_slice(&tail);
    end = last_newline(all);
    if (end < 0 && all.len >= LOG_LINE_MAX) {
        fault_set(why, FAULT_SYNTAX, "%s: does not end in records: see exeat log verify", s->name);
        goto out;
    }
    if ((size_t)(end + 1) < all.len && !move_torn(directory_fd, s, p, slice_from(all, (size_t)(end + 1)), why))
        goto out;
    *found = end >= 0;
    ok = !*found || take_last_line(slice_cut(all, 0, (size_t)(end + 1)), s, p, why);
out:
    buf_free(&tail);
    return ok;
}

static bool open_segment(int directory_fd, const struct segment *s, struct resume_point *p, struct fault *why)
{
    struct stat st;

    p->fd = openat(directory_fd, s->name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (p->fd < 0 || fstat(p->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return fault_set(why, FAULT_IO, "%s: %s", s->name, p->fd < 0 ? strerror(errno) : "not a file");
    p->size = (uint64_t)st.st_size;
    memcpy(p->name, s->name, sizeof p->name);
    return true;
}

/* An empty last segment (a crash right after it was made): the chain goes on from the one before. */
static bool look_before(int directory_fd, const struct segments *all, struct resume_point *p, struct fault *why)
{
    const struct segment *last = &all->list[all->count - 1];
    struct resume_point before = {.fd = -1};
    bool found = true, ok = true;

    if (all->count > 1) {
        ok = open_segment(directory_fd, last - 1, &before, why) && look_into(directory_fd, last - 1, &before, &found, why);
        if (before.fd >= 0)
            close(before.fd);
    }
    if (!ok)
        return false;
    if (!found || before.seq + 1 != last->first)
        return fault_set(why, FAULT_SYNTAX, "%s is empty and does not follow record %" PRIu64 ": see exeat log verify",
                         last->name, before.seq);
    p->seq = before.seq;
    p->torn |= before.torn;
    memcpy(p->head, before.head, sizeof p->head);
    return true;
}

bool resume_find(int directory_fd, struct resume_point *out, struct fault *why)
{
    struct segments all;
    bool found = false, ok = false;

    *out = (struct resume_point){.fd = -1};
    if (!segments_list(directory_fd, &all, why))
        return false;
    if (!all.count) {
        ok = true;
        goto out;
    }
    if (!open_segment(directory_fd, &all.list[all.count - 1], out, why) ||
        !look_into(directory_fd, &all.list[all.count - 1], out, &found, why))
        goto out;
    ok = found || look_before(directory_fd, &all, out, why);
out:
    if (!ok && out->fd >= 0) {
        close(out->fd);
        out->fd = -1;
    }
    segments_free(&all);
    return ok;
}
