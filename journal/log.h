/*
 * The journal on disk: directory, segments, hash chain. Written by the scribe; read by verify, query and why.
 *
 * A line: {"schema":"exeat.record/1","seq":N,"ts":"RFC 3339 ns","mono":ns,"role":"worker 1","role_seq":N,"kind":"decision",...,"prev":"hex"}
 * prev is the SHA-256 of the line before, without its newline (of the origin line for the first: 64 zeros).
 * Files: NNNNNNNNNNNN.ndjson, named by the first seq in them, mode 0600.
 */
#ifndef JOURNAL_LOG_H
#define JOURNAL_LOG_H

#include "base/conf.h"
#include "journal/record.h"

/* journal.{directory,durability,segment,keep,min-free,log-query} */
extern const struct conf_section journal_section;

struct log_settings {
    uint64_t segment;  /* bytes after which a new file begins */
    uint64_t min_free; /* bytes that must stay free on the file system */
    bool sync;         /* durability: disk */
};

struct log_writer;

/*
 * Continue the journal in a directory (descriptor kept, from openat's side): finds the last segment, checks that its last line
 * is whole, and goes on from its seq and hash. A torn last line (crash) is moved to NNN.torn and recorded by the caller as kind lost.
 * *torn says whether that happened.
 */
struct log_writer *log_open(int directory_fd, const struct log_settings *s, bool *torn, struct fault *why);
void log_close(struct log_writer *w);
/*
 * Add one record: members as record_next gives them. role and role_seq are the scribe's own knowledge of the sender.
 * Buffers; log_flush writes everything added since in one write (and fdatasync when sync). False from flush: nothing of the
 * batch counts, the file is truncated back to before it, and the next flush may be tried again later.
 */
void log_add(struct log_writer *w, const char *role, uint64_t role_seq, enum record_kind kind, struct slice members);
bool log_flush(struct log_writer *w, struct fault *why);
/* Drop what log_add buffered since the last flush; seq and chain step back. */
void log_drop(struct log_writer *w);
uint64_t log_seq(const struct log_writer *w); /* of the last record on disk */

/* Reading: every line of every segment in order. Stops and returns false when visit does. */
typedef bool log_visit(void *arg, const char *file, uint64_t line_number, struct slice line);
bool log_read(const char *directory, log_visit *visit, void *arg, struct fault *why);

struct log_verdict {
    bool intact;
    uint64_t records, segments;
    char first_ts[40], last_ts[40];
    char head[65];  /* hex hash of the last line: keep it elsewhere to notice truncation */
    char place[128]; /* file:line of the first fault */
    char fault[160]; /* "edited or removed: prev does not match the line before", "seq 7 after 5", "torn line", ... */
};
/* expect_head: "" or a hash that must occur (a copy kept elsewhere). False only when it cannot be read at all. */
bool log_verify(const char *directory, const char *expect_head, struct log_verdict *out, struct fault *why);

#endif
