/*
 * Walks the chain from the first record to the last. What a hash chain cannot see: records cut off at the end, or a
 * journal written anew from the start; for that a head kept elsewhere is compared.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "journal/segment.h"

enum { PROGRESS_EACH = 4096 };

struct walk {
    struct log_verdict *out;
    const char *expect_head; /* NULL once it was seen */
    uint64_t first;          /* what the segment's name promises */
    uint64_t seq;            /* of the record before */
    char prev[65];           /* hash of the line before, hex */
    EVP_MD_CTX *sha;
    void (*progress)(void *arg, uint64_t records);
    void *arg;
};

static bool broken(struct walk *w, const struct log_line *line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool broken(struct walk *w, const struct log_line *line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(w->out->fault, sizeof w->out->fault, format, args);
    va_end(args);
    snprintf(w->out->place, sizeof w->out->place, "%s:%" PRIu64, line->file, line->number);
    return false;
}

static void hash_line(struct walk *w, struct slice line, char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[LOG_HASH_SIZE];

    if (!EVP_DigestInit_ex(w->sha, EVP_sha256(), NULL) || !EVP_DigestUpdate(w->sha, line.ptr, line.len) ||
        !EVP_DigestFinal_ex(w->sha, hash, NULL))
        abort();
    for (size_t i = 0; i < sizeof hash; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    hex[64] = '\0';
}

static bool check_record(struct walk *w, const struct log_line *line, const json_t *o)
{
    const char *schema = json_string_value(json_object_get(o, "schema"));
    const char *prev = json_string_value(json_object_get(o, "prev"));
    const char *ts = json_string_value(json_object_get(o, "ts"));
    json_int_t seq = json_integer_value(json_object_get(o, "seq"));

    if (!schema || strcmp(schema, "exeat.record/1") != 0 || !prev || !ts || seq <= 0)
        return broken(w, line, "not a record of this schema (exeat.record/1)");
    if (line->number == 1 && (uint64_t)seq != w->first)
        return broken(w, line, "the file was renamed or its front removed: it begins with seq %" JSON_INTEGER_FORMAT, seq);
    if ((uint64_t)seq != w->seq + 1)
        return broken(w, line, "seq %" JSON_INTEGER_FORMAT " after %" PRIu64 ": records were removed, inserted or moved",
                      seq, w->seq);
    if (strcmp(prev, w->prev) != 0)
        return broken(w, line, "prev is not the hash of the line before: one of the two was edited, or the line inserted");
    w->seq = (uint64_t)seq;
    snprintf(w->out->last_ts, sizeof w->out->last_ts, "%s", ts);
    if (!w->out->records++)
        snprintf(w->out->first_ts, sizeof w->out->first_ts, "%s", ts);
    return true;
}

static bool check_line(void *arg, const struct log_line *line)
{
    struct walk *w = arg;
    json_error_t error;
    json_t *o;
    bool ok;

    if (line->torn)
        return broken(w, line, "torn line: it has no end (a crash, or a copy of a journal that is being written)");
    o = json_loadb(line->text.ptr, line->text.len, JSON_REJECT_DUPLICATES, &error);
    if (!o)
        return broken(w, line, "not JSON: edited (%.80s)", error.text);
    ok = check_record(w, line, o);
    json_decref(o);
    if (!ok)
        return false;
    hash_line(w, line->text, w->prev);
    if (w->expect_head && strcmp(w->expect_head, w->prev) == 0)
        w->expect_head = NULL;
    if (w->progress && w->out->records % PROGRESS_EACH == 0)
        w->progress(w->arg, w->out->records);
    return true;
}

static bool walk_segments(struct walk *w, int directory_fd, const struct segments *all, struct fault *why)
{
    struct fault reading = {0};
    bool stopped = false;

    for (size_t i = 0; i < all->count; i++) {
        const struct segment *s = &all->list[i];

        w->first = s->first;
        if (segment_read(directory_fd, s->name, check_line, w, &stopped, &reading)) {
            w->out->segments++;
            continue;
        }
        if (stopped)
            return true;
        if (reading.kind != FAULT_SYNTAX)
            return fault_set(why, reading.kind, "%s", reading.text);
        snprintf(w->out->place, sizeof w->out->place, "%s", s->name);
        snprintf(w->out->fault, sizeof w->out->fault, "%.150s", reading.text);
        return true;
    }
    w->out->intact = !w->expect_head;
    if (w->expect_head) {
        snprintf(w->out->place, sizeof w->out->place, "the end");
        snprintf(w->out->fault, sizeof w->out->fault,
                 "the head you kept does not occur: the end was cut off, or the journal was written anew");
    }
    return true;
}

bool log_verify(const char *directory, const char *expect_head, void (*progress)(void *arg, uint64_t records), void *arg,
                struct log_verdict *out, struct fault *why)
{
    struct walk w = {.out = out, .expect_head = expect_head, .progress = progress, .arg = arg};
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct segments all;
    bool ok;

    *out = (struct log_verdict){0};
    if (fd < 0)
        return fault_set(why, errno == ENOENT ? FAULT_MISSING : FAULT_IO, "%s: %s", directory, strerror(errno));
    memset(w.prev, '0', 64);
    if (!segments_list(fd, &all, why)) {
        close(fd);
        return false;
    }
    if (!(w.sha = EVP_MD_CTX_new()))
        abort();
    ok = walk_segments(&w, fd, &all, why);
    memcpy(out->head, w.prev, sizeof out->head);
    EVP_MD_CTX_free(w.sha);
    segments_free(&all);
    close(fd);
    return ok;
}
