/*
 * The files of a journal: NNNNNNNNNNNN.ndjson, named by the seq of their first record (at least twelve digits). Names,
 * listing, reading line by line.
 */
#ifndef JOURNAL_SEGMENT_H
#define JOURNAL_SEGMENT_H

#include "journal/log.h"

#define SEGMENT_NAME_SIZE 32

struct segment {
    uint64_t first; /* seq of the first record, by the name */
    char name[SEGMENT_NAME_SIZE];
};

struct segments {
    struct segment *list; /* ascending */
    size_t count;
};

/* The name of the segment that begins with first, with another ending ("ndjson", "torn"). */
void segment_name(char name[SEGMENT_NAME_SIZE], uint64_t first, const char *ending);
/* All segments of the directory; other files are passed over. Free with segments_free. */
bool segments_list(int directory_fd, struct segments *out, struct fault *why);
void segments_free(struct segments *s);

/*
 * Every line of one segment in order. False when it cannot be read or when visit returned false (*stopped).
 * A line longer than LOG_LINE_MAX is FAULT_SYNTAX.
 */
bool segment_read(int directory_fd, const char *name, log_visit *visit, void *arg, bool *stopped, struct fault *why);

#endif
