/*
 * The journal's readers under libFuzzer, on files that somebody else wrote: segments of the fuzzer's lines, each line as it is or,
 * behind a ">", given its seq and prev so that the chain holds. verify, query, why and the writer that goes on from
 * there agree: what verifies can be continued, and still verifies.
 */
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "journal/query.h"
#include "tests/fuzz/lib/files.h"
#include "tests/fuzz/lib/fuzz.h"

#define FIRST "000000000001.ndjson"

struct chain {
    struct buf file;
    unsigned seq;
    char prev[65];
};

static void hash(struct chain *c, struct slice line)
{
    unsigned char digest[32];
    struct buf hex = {0};

    SHA256((const unsigned char *)line.ptr, line.len, digest);
    text_hex(&hex, slice_make(digest, sizeof digest));
    memcpy(c->prev, buf_slice(&hex).ptr, 64);
    buf_free(&hex);
}

/* ">MEMBERS": a record that has a place in the chain. */
static void add_record(struct chain *c, struct slice members)
{
    size_t start = buf_len(&c->file);

    buf_printf(&c->file, "{\"schema\":\"exeat.record/1\",\"seq\":%u,\"ts\":\"2026-01-02T03:04:05Z\",\"mono\":1,\"role\":\"worker 0\","
                         "\"role_seq\":1,",
               ++c->seq);
    buf_append(&c->file, members);
    buf_printf(&c->file, ",\"prev\":\"%.64s\"}", c->prev);
    hash(c, slice_from(buf_slice(&c->file), start));
}

static void add_line(struct chain *c, struct slice line, bool last)
{
    if (slice_starts(line, SLICE(">")))
        add_record(c, slice_from(line, 1));
    else
        buf_append(&c->file, line);
    if (!last)
        buf_char(&c->file, '\n');
}

static bool count_match(void *arg, struct slice line)
{
    assert(line.len && slice_find(line, '\n') < 0);
    ++*(size_t *)arg;
    return true;
}

static void ask(size_t *lines)
{
    static const struct query everything, some = {.kind = "decision", .sandbox = "vm1", .last = 3};
    struct buf out = {0};
    size_t n = 0, matched = 0;

    query_run(files_directory(), &everything, count_match, lines, &matched, NULL);
    assert(matched == *lines);
    query_run(files_directory(), &some, count_match, &n, &matched, NULL);
    assert(n == matched && n <= 3);
    for (int json = 0; json < 2; json++)
        if (query_why(files_directory(), &(struct why_which){0}, json, &out, NULL))
            for (size_t i = 0; i < buf_len(&out); i++)
                assert((unsigned char)buf_slice(&out).ptr[i] >= ' ' || buf_slice(&out).ptr[i] == '\n');
    buf_free(&out);
}

static void add_heartbeat(struct log_writer *w)
{
    struct buf packed = {0};
    struct record_writer r = record_begin(&packed, RECORD_HEARTBEAT);
    struct record_view view;
    struct slice batch;
    bool bad;

    record_number(&r, FIELD_OPEN, 1);
    record_end(&r);
    batch = buf_slice(&packed);
    if (!record_read(&batch, &view, &bad))
        abort();
    log_add(w, "scribe", 1, &view);
    buf_free(&packed);
}

/* Go on writing where the file ends. False when the writer refuses to. */
static bool go_on(bool *torn)
{
    const struct log_settings settings = {.segment = 1 << 20};
    int fd = open(files_directory(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct log_writer *w = log_open(fd, &settings, torn, NULL);

    if (w) {
        add_heartbeat(w);
        assert(log_flush(w, NULL));
    }
    log_close(w);
    close(fd);
    return w != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size), line;
    struct log_verdict before, after;
    struct chain c = {0};
    size_t lines = 0;
    bool torn = false;

    memset(c.prev, '0', 64);
    while (slice_next(&input, '\n', &line))
        add_line(&c, line, input.ptr == NULL);
    files_clear();
    files_put(FIRST, buf_slice(&c.file));
    buf_free(&c.file);
    assert(log_verify(files_directory(), NULL, NULL, NULL, &before, NULL));
    assert(before.intact || (before.place[0] && before.fault[0]));
    ask(&lines);
    assert(!before.intact || lines == before.records);
    if (go_on(&torn)) {
        assert(log_verify(files_directory(), NULL, NULL, NULL, &after, NULL));
        assert(!before.intact || (after.intact && after.records == before.records + 1));
    } else {
        assert(!before.intact);
    }
    return 0;
}
