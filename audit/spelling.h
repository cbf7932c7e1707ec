/* Ways to write a secret so that who looks for it as it is does not see it. Pure. Private to audit/. */
#ifndef AUDIT_SPELLING_H
#define AUDIT_SPELLING_H

#include "base/buf.h"

struct spelling_of {
    const char *name;
    void (*spell)(struct slice plain, struct buf *out);
    bool is_escaped; /* what comes out is percent-encoded */
};

/* 0 is as it is. */
extern const struct spelling_of spellings[];
extern const size_t n_spellings;

/* Each byte that a path or a query may not hold as it is percent-encoded. */
void spelling_escape(struct slice text, struct buf *out);
/* A gzip file of it (RFC 1952). */
void spelling_gzip(struct slice text, struct buf *out);
/* A tar archive with one file, which holds text. */
void spelling_tar(struct slice text, struct buf *out);

#endif
