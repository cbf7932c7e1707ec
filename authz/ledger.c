/* Owns the form of the file. Must not know what is in memory. */
#include "authz/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/table.h"
#include "base/text.h"

enum { LEDGER_MAX = 64 << 20, VALUE_MAX = 256, NAME_MOST = 128, WHY_MAX = 512 };
#define TIME_MAX 253402300799

static const char *const kinds[] = {
    [REVOKE_JTI] = "jti",
    [REVOKE_SANDBOX] = "sandbox",
    [REVOKE_ISSUED_BEFORE] = "issued-before",
    [REVOKE_QUARANTINE] = "quarantine",
    [REVOKE_RELEASE] = "release",
    [REVOKE_CLOSE] = "close",
    [REVOKE_OPEN] = "open",
};

const char *revocation_kind_name(enum revocation_kind kind)
{
    return kinds[kind];
}

bool revocation_kind_find(struct slice name, enum revocation_kind *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (slice_is(name, kinds[i])) {
            *out = (enum revocation_kind)i;
            return true;
        }
    return false;
}

bool revocation_is_suspension(enum revocation_kind kind)
{
    return kind >= REVOKE_QUARANTINE;
}

enum revocation_kind revocation_beginning(enum revocation_kind kind)
{
    return kind == REVOKE_RELEASE ? REVOKE_QUARANTINE : kind == REVOKE_OPEN ? REVOKE_CLOSE : kind;
}

bool revocation_check(enum revocation_kind kind, struct slice value, struct fault *why)
{
    size_t most = revocation_is_suspension(kind) ? NAME_MOST : VALUE_MAX;
    const char *what = kind >= REVOKE_CLOSE ? "service" : kind >= REVOKE_QUARANTINE ? "sandbox" : kinds[kind];
    uint64_t seconds;

    if (kind == REVOKE_ISSUED_BEFORE)
        return slice_decimal(value, TIME_MAX, &seconds) ||
               fault_set(why, FAULT_USAGE, "expected a time in seconds since 1970");
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] <= 0x20 || value.ptr[i] >= 0x7f)
            return fault_set(why, FAULT_USAGE, "a %s is visible ASCII", what);
    return (value.len > 0 && value.len <= most) ||
           fault_set(why, FAULT_USAGE, "a %s has 1 to %zu characters", what, most);
}

/* The entry's texts borrow from object. */
static bool read_object(json_t *object, struct ledger_entry *e)
{
    const char *schema = json_string_value(json_object_get(object, "schema"));
    const char *kind = json_string_value(json_object_get(object, "kind"));
    json_t *until = json_object_get(object, "until");

    e->value = slice_of(json_string_value(json_object_get(object, "value")));
    e->until_s = json_integer_value(until);
    e->by = slice_of(json_string_value(json_object_get(object, "by")));
    e->why = slice_of(json_string_value(json_object_get(object, "why")));
    e->at = slice_of(json_string_value(json_object_get(object, "at")));
    e->uid = json_is_integer(json_object_get(object, "uid")) ? json_integer_value(json_object_get(object, "uid")) : -1;
    return schema && strcmp(schema, "exeat.revocation/1") == 0 && json_is_integer(until) && e->until_s >= 0 &&
           revocation_kind_find(slice_of(kind), &e->kind) && revocation_check(e->kind, e->value, NULL);
}

/* A line and the entry it is. */
typedef void visit_line(void *arg, struct slice line, const struct ledger_entry *e);

static bool each_line(struct slice text, const char *path, visit_line *visit, void *arg, struct fault *why)
{
    size_t number = 0;
    ptrdiff_t end;

    while ((end = slice_find(text, '\n')) >= 0) {
        struct slice line = slice_cut(text, 0, (size_t)end + 1);
        json_t *object = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES, NULL);
        struct ledger_entry e;
        bool ok = read_object(object, &e);

        number++;
        if (ok)
            visit(arg, line, &e);
        json_decref(object);
        if (!ok)
            return fault_set(why, FAULT_SYNTAX, "%s:%zu: not a revocation; mend or remove this line", path, number);
        text = slice_from(text, (size_t)end + 1);
    }
    return true;
}

/*
 * Open and lock the file that path names: when it was replaced while we waited for the lock, the new one.
 * -1 with why->kind FAULT_MISSING when there is none and flags do not create it.
 */
static int open_locked(const char *path, int flags, struct fault *why)
{
    for (;;) {
        struct stat here, there;
        int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

        if (fd < 0) {
            fault_set(why, errno == ENOENT ? FAULT_MISSING : FAULT_IO, "%s: %s", path, strerror(errno));
            return -1;
        }
        while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
            continue;
        if (fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
            here.st_dev == there.st_dev)
            return fd;
        close(fd);
    }
}

struct visitor {
    void (*visit)(void *arg, const struct ledger_entry *e);
    void *arg;
};

static void pass_on(void *arg, struct slice line, const struct ledger_entry *e)
{
    const struct visitor *v = arg;

    (void)line;
    v->visit(v->arg, e);
}

bool ledger_read(const char *path, void (*visit)(void *arg, const struct ledger_entry *e), void *arg,
                 struct fault *why)
{
    struct visitor v = {visit, arg};
    struct fault absent = {0};
    struct buf text = {0};
    bool ok;
    int fd = open_locked(path, O_RDONLY, &absent);

    if (fd < 0 && absent.kind == FAULT_MISSING)
        return true;
    if (fd < 0)
        return fault_set(why, absent.kind, "%s", absent.text);
    ok = file_read_fd(fd, path, LEDGER_MAX, &text, why) && each_line(buf_slice(&text), path, pass_on, &v, why);
    close(fd);
    buf_free(&text);
    return ok;
}

static void write_line(struct buf *out, const struct ledger_entry *e)
{
    buf_text(out, "{\"schema\":\"exeat.revocation/1\",\"at\":\"");
    clock_rfc3339(out, clock_wall_ns());
    buf_printf(out, "\",\"kind\":\"%s\",\"value\":", kinds[e->kind]);
    text_json(out, e->value);
    buf_printf(out, ",\"until\":%lld", (long long)e->until_s);
    if (revocation_is_suspension(e->kind)) {
        buf_text(out, ",\"by\":");
        text_json(out, e->by);
        if (e->uid >= 0)
            buf_printf(out, ",\"uid\":%lld", (long long)e->uid);
        buf_text(out, ",\"why\":");
        text_json(out, slice_cut(e->why, 0, e->why.len < WHY_MAX ? e->why.len : WHY_MAX));
    }
    buf_text(out, "}\n");
}

/* Cut off what a crash left after the last newline. */
static bool drop_half_line(int fd, const char *path, struct fault *why)
{
    off_t end = lseek(fd, 0, SEEK_END);
    char last = '\n';

    while (end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n')
        end--;
    if (end < 0 || ftruncate(fd, end) < 0)
        return fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
    return true;
}

bool ledger_append(const char *path, const struct ledger_entry *e, struct fault *why)
{
    struct buf line = {0};
    int fd = open_locked(path, O_RDWR | O_CREAT | O_APPEND, why);
    bool ok = fd >= 0 && drop_half_line(fd, path, why);

    write_line(&line, e);
    ok = ok && file_write_fd(fd, buf_slice(&line), why);
    if (ok && fsync(fd) < 0)
        ok = fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    buf_free(&line);
    return ok;
}

struct compaction {
    struct buf kept;
    int64_t now_s, newest_s;
    bool dropped;
    struct table *last[2]; /* of each sandbox that was quarantined or released, the last line that says so; of each service */
};

static struct table *last_of(const struct compaction *c, enum revocation_kind kind)
{
    return c->last[revocation_beginning(kind) == REVOKE_CLOSE];
}

/* A line that takes others' place in force, and when the newest was written. */
static void note_last(void *arg, struct slice line, const struct ledger_entry *e)
{
    struct compaction *c = arg;
    int64_t at_ns;

    if (revocation_is_suspension(e->kind))
        table_put(last_of(c, e->kind), e->value, (void *)line.ptr);
    if (clock_parse(e->at, &at_ns) && at_ns / 1000000000 > c->newest_s)
        c->newest_s = at_ns / 1000000000;
}

/* What is over by the clock is dropped for good, and the clock at a start may be far ahead: the file's own time counts too. */
static bool is_over(const struct compaction *c, struct slice line, const struct ledger_entry *e)
{
    if (revocation_is_suspension(e->kind))
        return e->kind != revocation_beginning(e->kind) || table_get(last_of(c, e->kind), e->value) != line.ptr;
    return e->until_s && e->until_s <= c->now_s && e->until_s <= c->newest_s && e->kind != REVOKE_ISSUED_BEFORE;
}

static void keep(void *arg, struct slice line, const struct ledger_entry *e)
{
    struct compaction *c = arg;

    if (is_over(c, line, e))
        c->dropped = true;
    else
        buf_append(&c->kept, line);
}

bool ledger_compact(const char *path, int64_t now_s, struct fault *why)
{
    struct compaction c = {.now_s = now_s};
    struct fault absent = {0};
    struct buf text = {0};
    bool ok;
    int fd = open_locked(path, O_RDONLY, &absent);

    if (fd < 0 && absent.kind == FAULT_MISSING)
        return true;
    if (fd < 0)
        return fault_set(why, absent.kind, "%s", absent.text);
    for (size_t i = 0; i < 2; i++)
        c.last[i] = table_new();
    ok = file_read_fd(fd, path, LEDGER_MAX, &text, why) && each_line(buf_slice(&text), path, note_last, &c, why) &&
         each_line(buf_slice(&text), path, keep, &c, why);
    for (size_t i = 0; i < 2; i++)
        table_free(c.last[i]);
    if (ok && c.dropped)
        ok = file_replace(path, 0600, buf_slice(&c.kept), why);
    close(fd); /* and with it the lock: whoever waits finds that path is another file now */
    buf_free(&text);
    buf_free(&c.kept);
    return ok;
}
