/* Where a journal goes on: the last whole record, and the segment to append to. */
#ifndef JOURNAL_RESUME_H
#define JOURNAL_RESUME_H

#include "journal/segment.h"

struct resume_point {
    uint64_t seq; /* of the last record; 0: none yet */
    unsigned char head[LOG_HASH_SIZE]; /* hash of its line; zeros for none */
    int fd;       /* the last segment, to append to (given); -1: none yet */
    uint64_t size;
    char name[SEGMENT_NAME_SIZE];
    bool torn; /* a torn last line was moved to NNN.torn */
};

/* Keep other writers out for as long as the descriptor (given) is open; -1 when there is one. */
int resume_lock(int directory_fd, struct fault *why);
bool resume_find(int directory_fd, struct resume_point *out, struct fault *why);

#endif
