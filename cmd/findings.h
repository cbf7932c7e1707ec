/* What `exeat doctor` found: a list of checks, each with how it went, in a sentence, and what to do about it. */
#ifndef CMD_FINDINGS_H
#define CMD_FINDINGS_H

#include "base/buf.h"

enum finding_state { FINDING_OK, FINDING_WRONG, FINDING_UNKNOWN };

struct finding {
    const char *check; /* "proxy"; kept */
    enum finding_state state;
    char *says, *fix; /* fix: NULL when ok */
};

enum { FINDINGS_MOST = 32 };

struct findings {
    struct finding list[FINDINGS_MOST];
    size_t n;
};

void findings_clear(struct findings *f);
/* Sentences; no secrets in them. fix is kept text (copied), NULL for ok. */
void findings_add(struct findings *f, const char *check, enum finding_state state, const char *fix, const char *says, ...)
    __attribute__((format(printf, 5, 6)));
bool findings_any_wrong(const struct findings *f);
/* A line each, and a line with the fix below what is not ok. */
void findings_text(const struct findings *f, struct buf *out);
/* One object, schema exeat.doctor/1. */
void findings_json(const struct findings *f, const char *client, struct buf *out);

#endif
