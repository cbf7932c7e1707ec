/* Owns scanners and scans: when a byte is safe, and the pool of scans that are done. */
#include "canary/scan.h"

#include <stdlib.h>

#include "canary/database.h"
#include "canary/needle.h"

#define POOL_MAX 256

struct scan {
    struct scanner *scanner; /* held, while the scan is not in the pool */
    struct scan *next; /* in the pool */
    struct database_stream *stream;
    struct needle *needle;
    struct needle_scan sought;
    struct hit hit;
    uint64_t total, safe, skipped;
};

/* Scans that ended, each with its stream reset: a new one allocates nothing. And how many hold the scanner. */
struct pool {
    struct scan *first;
    size_t count, holders;
};

struct scanner {
    struct registry *owned;    /* NULL: the registry is somebody else's */
    struct database *database; /* NULL without canaries */
    struct needle_cache *needles;
    struct pool *pool;
};

struct scanner *scanner_unpack(const struct registry *r, struct slice packed, struct fault *why)
{
    struct scanner *s = calloc(1, sizeof *s);

    if (!s || !(s->pool = calloc(1, sizeof *s->pool)))
        abort();
    s->pool->holders = 1;
    s->needles = needle_cache_new();
    if (!registry_count(r))
        return s;
    s->database = packed.len ? database_unpack(r, packed, why) : database_new(r, why);
    if (!s->database) {
        scanner_free(s);
        return NULL;
    }
    return s;
}

struct scanner *scanner_new(const struct registry *r, struct fault *why)
{
    return scanner_unpack(r, slice_make("", 0), why);
}

void scanner_pack(const struct scanner *s, struct buf *out)
{
    if (s->database)
        database_pack(s->database, out);
}

static void scan_destroy(struct scan *c)
{
    if (c->scanner->database)
        database_close(c->scanner->database, c->stream);
    free(c);
}

struct scanner *scanner_ref(struct scanner *s)
{
    s->pool->holders++;
    return s;
}

void scanner_own(struct scanner *s, struct registry *r)
{
    s->owned = r;
}

void scanner_free(struct scanner *s)
{
    if (!s || --s->pool->holders)
        return;
    while (s->pool->first) {
        struct scan *c = s->pool->first;

        s->pool->first = c->next;
        scan_destroy(c);
    }
    free(s->pool);
    needle_cache_free(s->needles);
    database_free(s->database);
    registry_free(s->owned);
    free(s);
}

static size_t hold_of(const struct scanner *s, bool sought)
{
    size_t hold = s->database ? database_hold(s->database) : 0;

    return sought && hold < NEEDLE_LATE - 1 ? NEEDLE_LATE - 1 : hold;
}

size_t scanner_hold(const struct scanner *s)
{
    return hold_of(s, true);
}

static struct hit hit_of_match(struct match m)
{
    return (struct hit){m.found, m.canary, m.view, m.from, m.to};
}

static struct hit hit_of_needle(struct needle_match m)
{
    return m.found ? (struct hit){true, "leave-token", m.encoding, m.from, m.to} : (struct hit){0};
}

/* The one that begins first. */
static struct hit earlier(struct hit a, struct hit b)
{
    return a.found && (!b.found || a.from <= b.from) ? a : b;
}

struct hit scanner_text(const struct scanner *s, struct slice text)
{
    struct hit hit = {0};

    if (!s->database)
        return hit;
    hit = hit_of_match(database_text(s->database, text));
    if (hit.to > text.len) /* an encoding that is cut at its end */
        hit.to = text.len;
    return hit;
}

struct hit scanner_text_with(const struct scanner *s, struct slice text, struct slice extra)
{
    struct hit hit = scanner_text(s, text);
    struct needle *t = extra.len ? needle_get(s->needles, extra) : NULL;

    if (t)
        hit = earlier(hit, hit_of_needle(needle_text(t, text)));
    needle_release(t);
    return hit;
}

static struct scan *pool_take(struct pool *p)
{
    struct scan *c = p->first;

    if (!c && !(c = calloc(1, sizeof *c)))
        abort();
    if (p->first) {
        p->first = c->next;
        p->count--;
    }
    return c;
}

struct scan *scan_start(struct scanner *s, struct slice extra)
{
    struct scan *c = pool_take(s->pool);

    *c = (struct scan){.scanner = scanner_ref(s), .stream = c->stream};
    c->needle = extra.len ? needle_get(s->needles, extra) : NULL;
    return c;
}

size_t scan_hold(const struct scan *c)
{
    return hold_of(c->scanner, c->needle != NULL);
}

static struct hit feed_database(struct scan *c, struct slice bytes)
{
    const struct database *d = c->scanner->database;

    if (!d)
        return (struct hit){0};
    if (!c->stream)
        c->stream = database_open(d);
    return hit_of_match(database_feed(d, c->stream, bytes));
}

void scan_skip(struct scan *c, uint64_t n)
{
    c->skipped = c->total = c->safe = n;
}

static struct hit placed(const struct scan *c, struct hit hit)
{
    hit.from += hit.found ? c->skipped : 0;
    hit.to += hit.found ? c->skipped : 0;
    return hit;
}

struct hit scan_feed(struct scan *c, struct slice bytes, uint64_t *safe)
{
    uint64_t hold = scan_hold(c);

    if (!c->hit.found && bytes.len) {
        c->hit = feed_database(c, bytes);
        if (c->needle)
            c->hit = earlier(c->hit, hit_of_needle(needle_feed(c->needle, &c->sought, bytes)));
        c->hit = placed(c, c->hit);
        c->total += bytes.len;
    }
    if (!c->hit.found && c->total > c->safe + hold)
        c->safe = c->total - hold;
    *safe = c->safe;
    return c->hit;
}

struct hit scan_feed_whole(struct scan *c, struct slice bytes, uint64_t *safe)
{
    c->hit = scanner_text(c->scanner, bytes);
    if (c->needle)
        c->hit = earlier(c->hit, hit_of_needle(needle_text(c->needle, bytes)));
    c->total = bytes.len;
    if (!c->hit.found)
        c->safe = c->total;
    *safe = c->safe;
    return c->hit;
}

struct hit scan_finish(struct scan *c, uint64_t *safe)
{
    if (!c->hit.found && c->needle)
        c->hit = placed(c, hit_of_needle(needle_finish(c->needle, &c->sought)));
    if (!c->hit.found)
        c->safe = c->total;
    *safe = c->safe;
    return c->hit;
}

struct hit scan_pause(struct scan *c, uint64_t *safe)
{
    struct needle_scan ahead = c->sought; /* the places it looks at early are looked at again when more has come */

    if (!c->hit.found && c->needle)
        c->hit = placed(c, hit_of_needle(needle_finish(c->needle, &ahead)));
    if (!c->hit.found)
        c->safe = c->total;
    *safe = c->safe;
    return c->hit;
}

bool scan_is_of(const struct scan *c, const struct scanner *s)
{
    return c->scanner == s;
}

void scan_free(struct scan *c)
{
    struct scanner *s;

    if (!c)
        return;
    s = c->scanner;
    needle_release(c->needle);
    c->needle = NULL;
    if (s->pool->count >= POOL_MAX) {
        scan_destroy(c);
    } else {
        if (c->stream)
            database_reset(s->database, c->stream);
        c->next = s->pool->first;
        s->pool->first = c;
        s->pool->count++;
    }
    scanner_free(s);
}
