/*
 * Owns the segment being written and the chain. Knows lines as bytes: what a record says comes from record_render.
 */
#include "journal/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/put.h"
#include "journal/resume.h"
#include "journal/segment.h"

enum { FREE_CHECK_MS = 1000, LOG_STAMP_MAX = 80 };

struct log_writer {
    int directory_fd; /* not owned */
    int lock_fd;
    int fd; /* the segment; -1 before the first */
    char name[SEGMENT_NAME_SIZE];
    struct log_settings settings;
    uint64_t size;    /* of the segment, as far as it counts */
    dev_t device;     /* which file it is */
    ino_t inode;
    bool ragged;      /* what lies after size could not be cut off yet */
    uint64_t seq;     /* on disk */
    uint64_t pending; /* records in out */
    size_t line;      /* where the one under construction begins */
    unsigned char head[LOG_HASH_SIZE];    /* hash of the last line on disk */
    unsigned char pending_head[LOG_HASH_SIZE]; /* of the last line in out */
    struct buf out;
    struct buf stamp; /* the members of this batch's time: all its records were taken in together */
    int64_t free_checked_ms;
    EVP_MD_CTX *sha;
};

static const struct conf_key journal_keys[] = {
    {"directory", CONF_PATH, "journal", NULL, "where the segments are written; mode 0700, owned by the scribe", 0},
    {"durability", CONF_CHOICE, "process", "process|disk",
     "acknowledge a record after write (process: survives a crash of ours) or after fdatasync (disk: survives a power cut)", 0},
    {"segment", CONF_SIZE, "256m", NULL, "bytes after which a new file begins", 0},
    {"keep", CONF_TIME, "90d", NULL, "how long old segments are to be kept; pruning is a command, never automatic", 0},
    {"min-free", CONF_SIZE, "1g", NULL, "bytes that must stay free on the file system; below it the gateway closes", 0},
    {"log-query", CONF_CHOICE, "names", "none|names|all", "what of a query goes into records besides its hash", 0},
};

const struct conf_section journal_section = {
    .name = "journal",
    .keys = journal_keys,
    .n_keys = sizeof journal_keys / sizeof *journal_keys,
    .help = "The tamper-evident record of everything that was decided and done.",
};

struct log_settings log_settings(const struct conf_item *journal)
{
    return (struct log_settings){
        .segment = (uint64_t)conf_number(journal, "segment"),
        .min_free = (uint64_t)conf_number(journal, "min-free"),
        .sync = strcmp(conf_text(journal, "durability"), "disk") == 0,
    };
}

/* ---- opening ---- */

static bool open_segment(struct log_writer *w, struct fault *why)
{
    char name[SEGMENT_NAME_SIZE];
    struct stat st;
    int fd;

    segment_name(name, w->seq + 1, "ndjson");
    fd = openat(w->directory_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 || fstat(fd, &st) < 0) {
        fault_set(why, FAULT_IO, "%s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (st.st_size) {
        close(fd);
        return fault_set(why, FAULT_REFUSED, "%s: holds something already, though no record %" PRIu64 " was written",
                         name, w->seq + 1);
    }
    if (w->settings.sync && (fsync(w->directory_fd) < 0 || (w->fd >= 0 && fsync(w->fd) < 0))) {
        close(fd);
        return fault_set(why, FAULT_IO, "fsync: %s", strerror(errno));
    }
    if (w->fd >= 0)
        close(w->fd);
    w->fd = fd;
    w->size = 0;
    w->device = st.st_dev;
    w->inode = st.st_ino;
    memcpy(w->name, name, sizeof name);
    return true;
}

/* The segment to go on with; false when there is less than what is known to be written. */
static bool go_on(struct log_writer *w, const struct resume_point *from, struct fault *why)
{
    struct stat st;

    w->seq = from->seq;
    w->fd = from->fd;
    w->size = from->size;
    memcpy(w->name, from->name, sizeof w->name);
    memcpy(w->head, from->head, sizeof w->head);
    memcpy(w->pending_head, from->head, sizeof w->head);
    if (w->seq < w->settings.written)
        return fault_set(why, FAULT_REFUSED,
                         "it ends with record %" PRIu64 ", but record %" PRIu64 " was written: put back what was taken "
                         "away, or start the gateway anew to go on without it",
                         w->seq, w->settings.written);
    if (w->fd < 0)
        return true;
    if (fstat(w->fd, &st) < 0)
        return fault_set(why, FAULT_IO, "%s: %s", w->name, strerror(errno));
    w->device = st.st_dev;
    w->inode = st.st_ino;
    return true;
}

struct log_writer *log_open(int directory_fd, const struct log_settings *s, bool *torn, struct fault *why)
{
    struct log_writer *w = calloc(1, sizeof *w);
    struct resume_point from;

    if (!w || !(w->sha = EVP_MD_CTX_new()) || !EVP_DigestInit_ex(w->sha, EVP_sha256(), NULL))
        abort();
    w->directory_fd = directory_fd;
    w->fd = -1;
    w->settings = *s;
    w->free_checked_ms = INT64_MIN;
    w->lock_fd = resume_lock(directory_fd, why);
    if (w->lock_fd < 0 || !resume_find(directory_fd, &from, why) || !go_on(w, &from, why)) {
        log_close(w);
        return NULL;
    }
    *torn = from.torn;
    return w;
}

void log_use_settings(struct log_writer *w, const struct log_settings *s)
{
    w->settings = *s;
    w->free_checked_ms = INT64_MIN;
}

void log_close(struct log_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->lock_fd >= 0)
        close(w->lock_fd);
    EVP_MD_CTX_free(w->sha);
    buf_free(&w->out);
    buf_free(&w->stamp);
    free(w);
}

uint64_t log_seq(const struct log_writer *w)
{
    return w->seq;
}

/* ---- adding ---- */

static void take_time(struct log_writer *w)
{
    buf_clear(&w->stamp);
    buf_text(&w->stamp, ",\"ts\":\"");
    clock_rfc3339(&w->stamp, clock_wall_ns());
    buf_text(&w->stamp, "\",\"mono\":");
    buf_decimal(&w->stamp, (uint64_t)clock_mono_ns());
    assert(buf_len(&w->stamp) <= LOG_STAMP_MAX);
}

/* What a line has besides members and role, at most. */
enum { HEAD_ROOM = 160 + LOG_STAMP_MAX, TAIL_ROOM = 16 + PUT_HEX_MAX(LOG_HASH_SIZE) };

static char *put_head(char *at, const struct log_writer *w, struct slice role, uint64_t role_seq, enum record_kind kind)
{
    at = PUT(at, "{\"schema\":\"exeat.record/1\",\"seq\":");
    at = put_decimal(at, w->seq + w->pending + 1);
    at = put_slice(at, buf_slice(&w->stamp));
    at = PUT(at, ",\"role\":\"");
    at = put_slice(at, role);
    at = PUT(at, "\",\"role_seq\":");
    at = put_decimal(at, role_seq);
    at = PUT(at, ",\"kind\":\"");
    at = put_slice(at, slice_of(record_kind_name(kind)));
    *at++ = '"';
    return at;
}

static char *put_prev(char *at, const struct log_writer *w)
{
    at = PUT(at, ",\"prev\":\"");
    at = put_hex(at, slice_make(w->pending_head, LOG_HASH_SIZE));
    return PUT(at, "\"}");
}

static void begin_line(struct log_writer *w, const char *role, uint64_t role_seq, enum record_kind kind)
{
    struct slice name = slice_of(role);
    char *at = buf_reserve(&w->out, HEAD_ROOM + name.len);

    if (!w->pending)
        take_time(w);
    w->line = buf_len(&w->out);
    buf_commit(&w->out, (size_t)(put_head(at, w, name, role_seq, kind) - at));
}

static void end_line(struct log_writer *w)
{
    char *at = buf_reserve(&w->out, TAIL_ROOM);
    struct slice line;

    buf_commit(&w->out, (size_t)(put_prev(at, w) - at));
    line = slice_from(buf_slice(&w->out), w->line);
    assert(line.len < LOG_LINE_MAX);
    if (!EVP_DigestInit_ex(w->sha, NULL, NULL) || !EVP_DigestUpdate(w->sha, line.ptr, line.len) ||
        !EVP_DigestFinal_ex(w->sha, w->pending_head, NULL))
        abort();
    buf_char(&w->out, '\n');
    w->pending++;
}

void log_add(struct log_writer *w, const char *role, uint64_t role_seq, const struct record_view *record)
{
    begin_line(w, role, role_seq, record->kind);
    record_render(&w->out, record);
    end_line(w);
}

void log_drop(struct log_writer *w)
{
    buf_clear(&w->out);
    w->pending = 0;
    memcpy(w->pending_head, w->head, sizeof w->head);
}

/* ---- writing ---- */

/* Asks the kernel at most once a second. */
static bool has_space(struct log_writer *w, struct fault *why)
{
    int64_t now = clock_mono_ms();
    struct statvfs fs;
    uint64_t available;

    if (w->free_checked_ms != INT64_MIN && now - w->free_checked_ms < FREE_CHECK_MS)
        return true;
    if (fstatvfs(w->directory_fd, &fs) < 0)
        return fault_set(why, FAULT_IO, "the journal's file system: %s", strerror(errno));
    available = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (available < w->settings.min_free + buf_len(&w->out))
        return fault_set(why, FAULT_LIMIT,
                         "the journal's file system has %" PRIu64 " MiB free, journal.min-free asks for %" PRIu64
                         ": free some space, or lower it",
                         available >> 20, w->settings.min_free >> 20);
    w->free_checked_ms = now;
    return true;
}

/* Where, and as long as, we left it: what anybody else does to the segment is noticed before the next record counts. */
static bool is_in_place(const struct log_writer *w, struct fault *why)
{
    struct stat st;

    if (w->fd < 0)
        return true;
    if (fstatat(w->directory_fd, w->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fault_set(why, errno == ENOENT ? FAULT_REFUSED : FAULT_IO, "%s: %s", w->name,
                         errno == ENOENT ? "somebody took it away; put it back" : strerror(errno));
    if (st.st_ino != w->inode || st.st_dev != w->device)
        return fault_set(why, FAULT_REFUSED, "%s: another file was put in its place", w->name);
    if ((uint64_t)st.st_size < w->size || ((uint64_t)st.st_size > w->size && !w->ragged))
        return fault_set(why, FAULT_REFUSED, "%s: it has %lld bytes, and %" PRIu64 " were written: somebody changed it",
                         w->name, (long long)st.st_size, w->size);
    return true;
}

static bool cut_back(struct log_writer *w, struct fault *why)
{
    w->ragged = ftruncate(w->fd, (off_t)w->size) < 0;
    return !w->ragged || fault_set(why, FAULT_IO, "%s: cannot be cut back to its last whole batch: %s", w->name,
                                   strerror(errno));
}

static bool write_out(struct log_writer *w, struct fault *why)
{
    bool ok = file_write_fd(w->fd, buf_slice(&w->out), why);

    if (ok && w->settings.sync && fdatasync(w->fd) < 0)
        ok = fault_set(why, FAULT_IO, "fdatasync: %s", strerror(errno));
    if (ok)
        return true;
    fault_prefix(why, "%s", w->name);
    cut_back(w, NULL);
    return false;
}

bool log_flush(struct log_writer *w, struct fault *why)
{
    size_t len = buf_len(&w->out);

    if (!w->pending)
        return true;
    if (!is_in_place(w, why) || !has_space(w, why) || (w->ragged && !cut_back(w, why)))
        return false;
    if ((w->fd < 0 || (w->size && w->size + len > w->settings.segment)) && !open_segment(w, why))
        return false;
    if (!write_out(w, why))
        return false;
    w->size += len;
    w->seq += w->pending;
    w->pending = 0;
    memcpy(w->head, w->pending_head, sizeof w->head);
    buf_clear(&w->out);
    return true;
}
