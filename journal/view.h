/* A record as people see it: members by their dotted names, text that cannot play with a terminal. */
#ifndef JOURNAL_VIEW_H
#define JOURNAL_VIEW_H

#include <jansson.h>

#include "base/buf.h"

/* A member by its name in record.def ("http.host"). NULL, or fallback, when it is absent or of another type. */
const char *view_text(const json_t *record, const char *name);
int64_t view_number(const json_t *record, const char *name, int64_t fallback);
bool view_flag(const json_t *record, const char *name);

/* text with controls, C1 controls and direction marks written as \xNN or \uNNNN; cut at 300 bytes. */
void view_put(struct buf *out, const char *text);
/* "GET https://npm.example/left-pad", "CONNECT npm.example:443"; without query. */
void view_put_request(struct buf *out, const json_t *record);
/* "38 us", "12 ms", "3.4 s" */
void view_put_duration(struct buf *out, int64_t us);
/* One line without newline: time, short id, kind, and what matters of it. */
void view_put_line(struct buf *out, const json_t *record);

#endif
