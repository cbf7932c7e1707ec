/* One record into a journal, for tests of what the journal does with it. */
#ifndef TESTS_UNIT_LOG_FIXTURE_H
#define TESTS_UNIT_LOG_FIXTURE_H

#include "journal/log.h"

/* detail NULL: a record without members. */
static inline void log_detail(struct log_writer *w, const char *role, uint64_t role_seq, enum record_kind kind,
                              const char *detail)
{
    struct buf packed = {0};
    struct record_writer r = record_begin(&packed, kind);
    struct record_view view;
    struct slice batch;
    bool bad;

    if (detail)
        record_text(&r, FIELD_DETAIL, slice_of(detail));
    record_end(&r);
    batch = buf_slice(&packed);
    if (!record_read(&batch, &view, &bad))
        abort();
    log_add(w, role, role_seq, &view);
    buf_free(&packed);
}

#endif
