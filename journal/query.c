/* Finds lines. Knows which members a question is about, nothing of what they mean together. */
#include "journal/query.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guess.h"
#include "base/text.h"
#include "journal/segment.h"
#include "journal/view.h"

enum { N_NEEDLES = 8 };

#define SKEW_NS (24 * 3600 * INT64_C(1000000000))

struct search {
    const struct query *q;
    struct buf needles[N_NEEDLES]; /* bytes that a matching line surely holds: most lines need no parser */
    size_t n_needles;
    query_match *match;
    void *arg;
    size_t matched;
};

/* ---- the question ---- */

static bool is_kind(const char *name)
{
    for (unsigned k = 0; k < N_RECORD_KINDS; k++)
        if (strcmp(record_kind_name(k), name) == 0)
            return true;
    return false;
}

static bool refuse_kind(const char *name, struct fault *why)
{
    struct buf known = {0};
    char *list;

    for (unsigned k = 0; k < N_RECORD_KINDS; k++)
        buf_printf(&known, "%s%s", k ? ", " : "", record_kind_name(k));
    list = buf_take_text(&known);
    fault_set(why, FAULT_USAGE, "there is no kind of record \"%.40s\"; there are %s", name, list);
    free(list);
    return false;
}

static bool refuse_reason(const char *code, struct fault *why)
{
    struct guess g = {.word = code};

    for (unsigned r = REASON_NONE; r < N_REASONS; r++)
        guess_try(&g, reason_code(r));
    if (g.best)
        return fault_set(why, FAULT_USAGE, "there is no reason \"%.60s\"; did you mean \"%s\"?", code, g.best);
    return fault_set(why, FAULT_USAGE, "there is no reason \"%.60s\"; see: exeat why --reasons", code);
}

static bool is_id(const char *text)
{
    struct id id;
    size_t len = strlen(text);

    if (len == ID_TEXT_LEN)
        return id_parse(slice_of(text), &id);
    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return len >= ID_SHORT_LEN && len <= 12;
}

bool query_check(const struct query *q, struct fault *why)
{
    enum reason reason;

    if (q->kind && !is_kind(q->kind))
        return refuse_kind(q->kind, why);
    if (q->action && strcmp(q->action, "allow") != 0 && strcmp(q->action, "deny") != 0)
        return fault_set(why, FAULT_USAGE, "an action is allow or deny, not \"%.40s\"", q->action);
    if (q->reason && !reason_find(slice_of(q->reason), &reason))
        return refuse_reason(q->reason, why);
    if (q->id && !is_id(q->id))
        return fault_set(why, FAULT_USAGE, "\"%.60s\" is no exchange id: give it whole, or its last 6 to 12 digits", q->id);
    if (q->since_ns && q->until_ns && q->since_ns > q->until_ns)
        return fault_set(why, FAULT_USAGE, "since is later than until");
    return true;
}

/* ---- one line ---- */

static void add_needle(struct search *s, const char *key, const char *value)
{
    struct buf *b = &s->needles[s->n_needles];

    if (!value)
        return;
    s->n_needles++;
    if (key)
        buf_printf(b, "\"%s\":", key);
    text_json(b, slice_of(value));
}

static void add_id_needle(struct search *s, const char *id)
{
    struct buf *b = &s->needles[s->n_needles];

    if (!id)
        return;
    s->n_needles++;
    for (; *id; id++)
        buf_char(b, (char)tolower((unsigned char)*id));
    buf_char(b, '"');
}

static void make_needles(struct search *s)
{
    add_needle(s, "kind", s->q->kind);
    add_needle(s, "sandbox", s->q->sandbox);
    add_needle(s, "service", s->q->service);
    add_needle(s, "host", s->q->host);
    add_needle(s, "reason", s->q->reason);
    add_needle(s, "action", s->q->action);
    add_needle(s, "tunnel", s->q->tunnel);
    add_id_needle(s, s->q->id);
}

static bool may_match(const struct search *s, struct slice line)
{
    for (size_t i = 0; i < s->n_needles; i++) {
        struct slice needle = buf_slice(&s->needles[i]);

        if (!memmem(line.ptr, line.len, needle.ptr, needle.len))
            return false;
    }
    return true;
}

static bool member_is(const json_t *record, const char *name, const char *wanted)
{
    const char *value = view_text(record, name);

    return !wanted || (value && strcmp(value, wanted) == 0);
}

static bool id_matches(const json_t *record, const char *wanted)
{
    const char *value = view_text(record, "id");

    struct slice end = slice_of(value);

    if (!wanted)
        return true;
    return end.len >= strlen(wanted) && slice_equals_nocase(slice_from(end, end.len - strlen(wanted)), slice_of(wanted));
}

static bool time_matches(const json_t *record, const struct query *q)
{
    const char *ts = view_text(record, "ts");
    int64_t ns;

    if (!q->since_ns && !q->until_ns)
        return true;
    if (!ts || !clock_parse(slice_of(ts), &ns))
        return false;
    return (!q->since_ns || ns >= q->since_ns) && (!q->until_ns || ns <= q->until_ns);
}

static bool matches(const struct search *s, struct slice line)
{
    const struct query *q = s->q;
    json_t *o;
    bool ok;

    if (!may_match(s, line) || !(o = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES, NULL)))
        return false;
    ok = member_is(o, "kind", q->kind) && member_is(o, "sandbox", q->sandbox) && member_is(o, "service", q->service) &&
         member_is(o, "http.host", q->host) && member_is(o, "reason", q->reason) && member_is(o, "action", q->action) &&
         member_is(o, "tunnel", q->tunnel) && id_matches(o, q->id) && time_matches(o, q);
    json_decref(o);
    return ok;
}

static bool visit(void *arg, const struct log_line *line)
{
    struct search *s = arg;

    if (line->torn || !matches(s, line->text))
        return true;
    s->matched++;
    return s->match(s->arg, line->text);
}

/* ---- all segments ---- */

static bool take_time(void *arg, const struct log_line *line)
{
    int64_t *ns = arg;
    json_t *o = json_loadb(line->text.ptr, line->text.len, 0, NULL);
    const char *ts = view_text(o, "ts");

    if (!ts || !clock_parse(slice_of(ts), ns))
        *ns = INT64_MAX;
    json_decref(o);
    return false; /* one line is enough */
}

/* Segments before this one are older than since by more than a clock is ever set back. */
static size_t skip_old(int fd, const struct segments *all, int64_t since_ns)
{
    size_t i = all->count;

    while (since_ns && i > 1) {
        int64_t ns = INT64_MAX;
        bool stopped;

        segment_read(fd, all->list[--i].name, take_time, &ns, &stopped, NULL);
        if (ns < since_ns - SKEW_NS)
            return i;
    }
    return 0;
}

static bool run_all(struct search *s, int fd, const struct segments *all, struct fault *why)
{
    bool stopped;

    for (size_t i = skip_old(fd, all, s->q->since_ns); i < all->count; i++)
        if (!segment_read(fd, all->list[i].name, visit, s, &stopped, why))
            return false;
    return true;
}

/* ---- the last ones ---- */

/* Where a line stands. */
struct spot {
    size_t segment, len;
    uint64_t offset;
};

struct spots {
    const struct search *search;
    size_t segment;
    struct spot *list;
    size_t count, cap;
};

static void spots_add(struct spots *s, struct spot spot)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->list = realloc(s->list, s->cap * sizeof *s->list);
        if (!s->list)
            abort();
    }
    s->list[s->count++] = spot;
}

static bool note_candidate(void *arg, const struct log_line *line)
{
    struct spots *s = arg;

    if (!line->torn && may_match(s->search, line->text))
        spots_add(s, (struct spot){s->segment, line->text.len, line->offset});
    return true;
}

static bool read_spot(int fd, const struct spot *spot, struct buf *line)
{
    ssize_t got;

    buf_clear(line);
    got = pread(fd, buf_reserve(line, spot->len), spot->len, (off_t)spot->offset);
    if (got != (ssize_t)spot->len)
        return false;
    buf_commit(line, spot->len);
    return true;
}

/* Parses candidates of one segment from its end until enough are found. */
static bool look_back(struct search *s, int fd, const char *name, const struct spots *candidates, struct spots *found,
                      struct fault *why)
{
    int segment = openat(fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct buf line = {0};
    bool ok = segment >= 0;

    for (size_t i = candidates->count; ok && i-- > 0 && found->count < s->q->last;) {
        ok = read_spot(segment, &candidates->list[i], &line);
        if (ok && matches(s, buf_slice(&line)))
            spots_add(found, candidates->list[i]);
    }
    if (!ok)
        fault_set(why, FAULT_IO, "%s: %s", name, strerror(errno));
    if (segment >= 0)
        close(segment);
    buf_free(&line);
    return ok;
}

/* found is from the newest to the oldest; they are given the other way round. */
static bool give_found(struct search *s, int fd, const struct segments *all, const struct spots *found, struct fault *why)
{
    struct buf line = {0};
    size_t open_segment = all->count;
    int segment = -1;
    bool ok = true;

    for (size_t i = found->count; ok && i-- > 0;) {
        const struct spot *spot = &found->list[i];

        if (spot->segment != open_segment) {
            if (segment >= 0)
                close(segment);
            segment = openat(fd, all->list[spot->segment].name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
            open_segment = spot->segment;
        }
        if (segment < 0 || !read_spot(segment, spot, &line)) {
            ok = fault_set(why, FAULT_IO, "%s: %s", all->list[spot->segment].name, strerror(errno));
            break;
        }
        s->matched++;
        ok = s->match(s->arg, buf_slice(&line));
    }
    if (segment >= 0)
        close(segment);
    buf_free(&line);
    return ok;
}

/* From the newest segment back: what does not come near the end is never parsed, mostly not even read. */
static bool run_last(struct search *s, int fd, const struct segments *all, struct fault *why)
{
    struct spots candidates = {.search = s}, found = {0};
    size_t oldest = skip_old(fd, all, s->q->since_ns);
    bool ok = true, stopped;

    for (size_t i = all->count; ok && i-- > oldest && found.count < s->q->last;) {
        candidates.count = 0;
        candidates.segment = i;
        ok = segment_read(fd, all->list[i].name, note_candidate, &candidates, &stopped, why) &&
             look_back(s, fd, all->list[i].name, &candidates, &found, why);
    }
    ok = ok && give_found(s, fd, all, &found, why);
    free(candidates.list);
    free(found.list);
    return ok;
}

static bool run(struct search *s, int fd, struct fault *why)
{
    struct segments all;
    bool ok;

    if (!segments_list(fd, &all, why))
        return false;
    ok = s->q->last ? run_last(s, fd, &all, why) : run_all(s, fd, &all, why);
    segments_free(&all);
    return ok;
}

bool query_run(const char *directory, const struct query *q, query_match *match, void *arg, size_t *matched,
               struct fault *why)
{
    struct search s = {.q = q, .match = match, .arg = arg};
    int fd;
    bool ok;

    *matched = 0;
    if (!query_check(q, why))
        return false;
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fault_set(why, errno == ENOENT ? FAULT_MISSING : FAULT_IO, "%s: %s", directory, strerror(errno));
    make_needles(&s);
    ok = run(&s, fd, why);
    *matched = s.matched;
    for (size_t i = 0; i < N_NEEDLES; i++)
        buf_free(&s.needles[i]);
    close(fd);
    return ok;
}
