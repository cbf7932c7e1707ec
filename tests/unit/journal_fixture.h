/* A small journal to ask questions to. For tests only; include after cmocka.h and scratch.h. */
#ifndef TESTS_UNIT_JOURNAL_FIXTURE_H
#define TESTS_UNIT_JOURNAL_FIXTURE_H

#include "journal/log.h"

struct journal {
    struct scratch scratch;
    struct log_writer *log;
    struct buf batch;
    uint64_t role_seq;
    struct record_writer w;
};

static inline void journal_open(struct journal *j, uint64_t segment)
{
    struct log_settings settings = {.segment = segment};
    struct fault why = {0};
    bool torn;

    memset(j, 0, sizeof *j);
    scratch_make(&j->scratch);
    j->log = log_open(j->scratch.fd, &settings, &torn, &why);
    assert_non_null(j->log);
}

static inline void journal_close(struct journal *j)
{
    log_close(j->log);
    buf_free(&j->batch);
    scratch_remove(&j->scratch);
}

static inline struct record_writer *journal_begin(struct journal *j, enum record_kind kind, const char *id)
{
    struct id parsed;

    buf_clear(&j->batch);
    j->w = record_begin(&j->batch, kind);
    if (id) {
        assert_true(id_parse(slice_of(id), &parsed));
        record_id(&j->w, FIELD_ID, &parsed);
    }
    return &j->w;
}

static inline void journal_end(struct journal *j, const char *role)
{
    struct record_view view;
    struct slice rest;
    bool bad;

    record_end(&j->w);
    rest = buf_slice(&j->batch);
    assert_true(record_read(&rest, &view, &bad));
    log_add(j->log, role, ++j->role_seq, &view);
    assert_true(log_flush(j->log, NULL));
}

/* A decision; reason REASON_ALLOWED lets it through. tunnel and sandbox may be NULL. */
static inline void journal_decision(struct journal *j, const char *id, const char *tunnel, const char *sandbox,
                                    const char *method, const char *host, const char *path, enum reason reason)
{
    struct record_writer *w = journal_begin(j, RECORD_DECISION, id);
    struct id parsed;

    if (tunnel) {
        assert_true(id_parse(slice_of(tunnel), &parsed));
        record_id(w, FIELD_TUNNEL, &parsed);
    }
    record_text(w, FIELD_ACTION, reason == REASON_ALLOWED ? SLICE("allow") : SLICE("deny"));
    record_reason(w, FIELD_REASON, reason);
    if (sandbox) {
        record_text(w, FIELD_SANDBOX, slice_of(sandbox));
        record_text(w, FIELD_TOKEN_JTI, SLICE("j1"));
        record_text(w, FIELD_TOKEN_ISS, SLICE("https://ci.example"));
    }
    record_text(w, FIELD_LISTENER, SLICE("explicit"));
    record_text(w, FIELD_CLIENT, SLICE("10.0.0.7:51234"));
    if (reason == REASON_ALLOWED) {
        record_text(w, FIELD_SERVICE, SLICE("npm"));
        record_text(w, FIELD_RULE, SLICE("GET,HEAD /**"));
    }
    record_text(w, FIELD_METHOD, slice_of(method));
    if (path)
        record_text(w, FIELD_SCHEME, SLICE("https"));
    record_text(w, FIELD_HOST, slice_of(host));
    record_number(w, FIELD_PORT, 443);
    if (path)
        record_text(w, FIELD_PATH, slice_of(path));
    journal_end(j, "worker 0");
}

#endif
