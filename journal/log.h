/*
 * The journal on disk: directory, segments, hash chain. Written by the scribe; read by verify, query and why.
 *
 * A line: {"schema":"exeat.record/1","seq":N,"ts":"RFC 3339 ns","mono":ns,"role":"worker 1","role_seq":N,"kind":"decision",...,"prev":"hex"}
 * prev is the SHA-256 of the line before, without its newline (for the first record: 64 zeros).
 * ts is the wall clock as it is, also when it jumps back; mono never goes back while the machine runs. Both are when the
 * scribe began the batch: records that were taken in and written together have the same.
 * Files: NNNNNNNNNNNN.ndjson, named by the first seq in them, mode 0600 (journal/segment.h).
 */
#ifndef JOURNAL_LOG_H
#define JOURNAL_LOG_H

#include "base/conf.h"
#include "journal/record.h"

/* journal.{directory,durability,segment,keep,min-free,log-query} */
extern const struct conf_section journal_section;

#define LOG_LINE_MAX (1024 * 1024) /* no record comes near it */
#define LOG_HASH_SIZE 32           /* SHA-256 */

struct log_settings {
    uint64_t segment;  /* bytes after which a new file begins */
    uint64_t min_free; /* bytes that must stay free on the file system */
    bool sync;         /* durability: disk */
    uint64_t written;  /* seq that is known to be on disk; 0: nothing is known */
};

/* From the section journal. */
struct log_settings log_settings(const struct conf_item *journal);

struct log_writer;

/*
 * Continue the journal in a directory (descriptor kept; nothing but openat on it is used): finds the last segment and
 * goes on from the seq and hash of its last line. A torn last line (crash) is moved to NNN.torn and recorded by the
 * caller as kind lost; *torn says whether that happened. Refused: a last line that is no record, a segment whose name
 * does not fit, a directory that another writer holds (flock), a journal that ends before s->written.
 */
struct log_writer *log_open(int directory_fd, const struct log_settings *s, bool *torn, struct fault *why);
void log_close(struct log_writer *w);
/* Other settings, from the next flush on. */
void log_use_settings(struct log_writer *w, const struct log_settings *s);
/*
 * Add one record. role and role_seq are the scribe's own knowledge of the sender.
 * Buffers; log_flush writes everything added since in one write (and fdatasync when sync). False from flush: nothing of the
 * batch counts, the file is truncated back to before it; log_drop what was added, or flush again later. FAULT_REFUSED:
 * somebody else cut, replaced or took away the segment. Nothing more can be written by this writer; open the journal again.
 */
void log_add(struct log_writer *w, const char *role, uint64_t role_seq, const struct record_view *record);
bool log_flush(struct log_writer *w, struct fault *why);
/* Drop what log_add buffered since the last flush; seq and chain step back. */
void log_drop(struct log_writer *w);
uint64_t log_seq(const struct log_writer *w); /* of the last record on disk */

/* Reading: every line of every segment in order. Stops and returns false when visit does (why stays as it was). */
struct log_line {
    const char *file;
    uint64_t number; /* in the file, from 1 */
    uint64_t offset; /* of its first byte in the file */
    struct slice text; /* without its newline; borrowed */
    bool torn;         /* the file ends in it, without a newline */
};
typedef bool log_visit(void *arg, const struct log_line *line);
bool log_read(const char *directory, log_visit *visit, void *arg, struct fault *why);

struct log_verdict {
    bool intact;
    uint64_t records, segments;
    char first_ts[40], last_ts[40];
    char head[65];  /* hex hash of the last line: keep it elsewhere to notice truncation */
    char place[128]; /* file:line of the first fault */
    char fault[160]; /* "edited or removed: prev does not match the line before", "seq 7 after 5", "torn line", ... */
};
/*
 * expect_head: NULL, or a hash (hex) that must occur: a copy kept elsewhere. progress (may be NULL) is called now and
 * then. False only when the journal cannot be read at all.
 */
bool log_verify(const char *directory, const char *expect_head, void (*progress)(void *arg, uint64_t records), void *arg,
                struct log_verdict *out, struct fault *why);

#endif
