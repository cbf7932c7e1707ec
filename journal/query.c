/* Finds lines. Knows which members a question is about, nothing of what they mean together. */
#include "journal/query.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "journal/segment.h"
#include "journal/view.h"

enum { N_NEEDLES = 8 };

#define SKEW_NS (24 * 3600 * INT64_C(1000000000))

struct search {
    const struct query *q;
    struct buf needles[N_NEEDLES]; /* bytes that a matching line surely holds: most lines need no parser */
    size_t n_needles;
    query_match *match; /* NULL: only count */
    void *arg;
    size_t skip; /* matches to pass over */
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
        return fault_set(why, FAULT_USAGE, "there is no kind of record \"%.40s\": see docs/journal.md", q->kind);
    if (q->action && strcmp(q->action, "allow") != 0 && strcmp(q->action, "deny") != 0)
        return fault_set(why, FAULT_USAGE, "an action is allow or deny, not \"%.40s\"", q->action);
    if (q->reason && !reason_find(slice_of(q->reason), &reason))
        return fault_set(why, FAULT_USAGE, "there is no reason \"%.60s\"", q->reason);
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
    if (s->skip) {
        s->skip--;
        return true;
    }
    return !s->match || s->match(s->arg, line->text);
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

/* The segment to begin with so that the last q->last matches are met, and how many to pass over in it. */
static bool find_start(struct search *s, int fd, const struct segments *all, size_t *start, struct fault *why)
{
    struct search count = *s;
    size_t oldest = skip_old(fd, all, s->q->since_ns);
    bool stopped;

    *start = oldest;
    if (!s->q->last)
        return true;
    count.match = NULL;
    for (size_t i = all->count; i-- > oldest && count.matched < s->q->last;) {
        if (!segment_read(fd, all->list[i].name, visit, &count, &stopped, why))
            return false;
        *start = i;
    }
    s->skip = count.matched > s->q->last ? count.matched - s->q->last : 0;
    return true;
}

static bool run(struct search *s, int fd, struct fault *why)
{
    struct segments all;
    bool ok = false, stopped;
    size_t start, passed;

    if (!segments_list(fd, &all, why))
        return false;
    if (!find_start(s, fd, &all, &start, why))
        goto out;
    passed = s->skip;
    for (size_t i = start; i < all.count; i++)
        if (!segment_read(fd, all.list[i].name, visit, s, &stopped, why))
            goto out;
    s->matched -= passed;
    ok = true;
out:
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
