/* Records of a batch as the members of a JSON object, for tests that look at what a role has written. */
#ifndef TESTS_UNIT_RECORD_FIXTURE_H
#define TESTS_UNIT_RECORD_FIXTURE_H

#include "journal/record.h"

/* record_read and record_render in one, without the first comma; appends to out. */
static inline bool record_next(struct slice *batch, enum record_kind *kind, struct buf *out, bool *bad)
{
    struct record_view v;
    struct buf members = {0};

    if (!record_read(batch, &v, bad))
        return false;
    *kind = v.kind;
    record_render(&members, &v);
    buf_append(out, slice_from(buf_slice(&members), buf_len(&members) > 0));
    buf_free(&members);
    return true;
}

#endif
