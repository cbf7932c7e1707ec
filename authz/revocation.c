/*
 * Owns the shared memory: a hash table of marks that one process writes and the others read without locks. A place is
 * filled before its first word is set, and used again only when what it held is over, so a reader may see a
 * mixture of two entries for a moment, but never misses one that holds.
 */
#include "authz/revocation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "authz/ledger.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

enum { PLACES_MIN = 32768, PLACES_MAX = 1 << 22, N_LISTS = 2 };
#define MAGIC 0x31766f6b6572u
#define FOR_GOOD INT64_MAX

struct place {
    _Atomic uint64_t first; /* 0: never used, ends a search */
    _Atomic uint64_t second;
    _Atomic int64_t until_s;
};

struct shared {
    uint64_t magic, n_places; /* a power of two */
    _Atomic uint64_t version, n_used, n_suspended[N_LISTS];
    _Atomic int64_t issued_before_s;
    struct place places[];
};

struct revocations {
    struct shared *shared;
    size_t size;
    int fd;
    char *path; /* NULL: cannot be added to */
    struct suspensions *lists[N_LISTS]; /* sandboxes in quarantine, services that are closed; NULL where only marks are known */
};

static struct revocations *map(int fd, size_t size, int protection, struct fault *why)
{
    void *at = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    struct revocations *r;

    if (at == MAP_FAILED) {
        fault_set(why, FAULT_IO, "mapping the revocations: %s", strerror(errno));
        return NULL;
    }
    if (!(r = calloc(1, sizeof *r)))
        abort();
    *r = (struct revocations){.shared = at, .size = size, .fd = fd};
    return r;
}

/* Seals: nobody may change its size, nor map it for writing from now on. */
static struct revocations *make(size_t places, struct fault *why)
{
    size_t size = sizeof(struct shared) + places * sizeof(struct place);
    int fd = memfd_create("exeat-revocations", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct revocations *r = NULL;

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
        fault_set(why, FAULT_IO, "shared memory for the revocations: %s", strerror(errno));
        goto out;
    }
    if (!(r = map(fd, size, PROT_READ | PROT_WRITE, why)))
        goto out;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0) {
        fault_set(why, FAULT_IO, "sealing the revocations: %s", strerror(errno));
        revocations_free(r);
        return NULL;
    }
    r->shared->n_places = places;
    r->shared->magic = MAGIC;
out:
    if (!r && fd >= 0)
        close(fd);
    return r;
}

static struct identity_mark mark_of(enum revocation_kind kind, struct slice value)
{
    return identity_mark_of(revocation_kind_name(kind), value);
}

static bool is_at(const struct place *at, struct identity_mark m)
{
    return atomic_load_explicit(&at->first, memory_order_acquire) == (m.words[0] | 1) &&
           atomic_load_explicit(&at->second, memory_order_relaxed) == m.words[1];
}

/* The place that holds m; else one where it can be put; NULL when there is no room. */
static struct place *place_for(struct shared *s, struct identity_mark m, int64_t now_s)
{
    struct place *free_place = NULL;

    for (uint64_t i = 0; i < s->n_places; i++) {
        struct place *at = &s->places[((m.words[0] >> 1) + i) & (s->n_places - 1)];

        if (is_at(at, m))
            return at;
        if (atomic_load(&at->first) == 0) {
            /* Rather a new one than one whose time is over: by a clock that is ahead, it may not be. */
            return atomic_load(&s->n_used) < s->n_places / 4 * 3 ? at : free_place;
        }
        if (!free_place && atomic_load(&at->until_s) <= now_s)
            free_place = at;
    }
    return free_place;
}

static void fill(struct shared *s, struct place *at, struct identity_mark m, int64_t until_s)
{
    if (is_at(at, m)) {
        if (until_s > atomic_load(&at->until_s))
            atomic_store(&at->until_s, until_s);
        return;
    }
    if (atomic_load(&at->first) == 0)
        atomic_fetch_add(&s->n_used, 1);
    atomic_store(&at->until_s, until_s);
    atomic_store(&at->second, m.words[1]);
    atomic_store_explicit(&at->first, m.words[0] | 1, memory_order_release);
}

static size_t list_of(enum revocation_kind kind)
{
    return revocation_beginning(kind) == REVOKE_CLOSE;
}

/* In or out, by its mark and by its name. */
static bool put_suspension(struct revocations *r, const struct ledger_entry *e, int64_t now_s)
{
    enum revocation_kind beginning = revocation_beginning(e->kind);
    struct suspensions *list = r->lists[list_of(e->kind)];
    struct identity_mark m = mark_of(beginning, e->value);
    struct place *at = place_for(r->shared, m, now_s);
    bool was_in = suspensions_has(list, e->value), in = e->kind == beginning;

    if (!at)
        return false;
    if (in) {
        fill(r->shared, at, m, FOR_GOOD);
        suspensions_put(list, &(struct suspension){e->value, e->by, e->why, e->uid, e->at});
    } else if (is_at(at, m)) {
        atomic_store(&at->until_s, 0);
        suspensions_remove(list, e->value);
    }
    if (in != was_in)
        atomic_fetch_add(&r->shared->n_suspended[list_of(e->kind)], in ? 1 : UINT64_MAX);
    return true;
}

/* Put one into memory; the value has been checked. */
static bool put(struct revocations *r, const struct ledger_entry *e, int64_t now_s)
{
    struct shared *s = r->shared;
    struct identity_mark m;
    struct place *at;
    uint64_t before;

    if (revocation_is_suspension(e->kind))
        return put_suspension(r, e, now_s);
    if (e->kind == REVOKE_ISSUED_BEFORE) {
        if (slice_decimal(e->value, INT64_MAX, &before) && (int64_t)before > atomic_load(&s->issued_before_s))
            atomic_store(&s->issued_before_s, (int64_t)before);
        return true;
    }
    m = mark_of(e->kind, e->value);
    at = place_for(s, m, now_s);
    if (at)
        fill(s, at, m, e->until_s ? e->until_s : FOR_GOOD);
    return at != NULL;
}

static void count_one(void *arg, const struct ledger_entry *e)
{
    (void)e;
    ++*(size_t *)arg;
}

static void put_one(void *arg, const struct ledger_entry *e)
{
    put(arg, e, 0);
}

struct revocations *revocations_read(const char *path, struct fault *why)
{
    size_t count = 0, places = PLACES_MIN;
    struct revocations *r;

    if (!ledger_read(path, count_one, &count, why))
        return NULL;
    while (places < count * 4 && places < PLACES_MAX)
        places *= 2;
    if (count > places / 2) {
        fault_set(why, FAULT_LIMIT, "%s: %zu entries; at most %d are kept", path, count, PLACES_MAX / 2);
        return NULL;
    }
    if (!(r = make(places, why)))
        return NULL;
    for (size_t i = 0; i < N_LISTS; i++)
        r->lists[i] = suspensions_new();
    if (!ledger_read(path, put_one, r, why)) {
        revocations_free(r);
        return NULL;
    }
    return r;
}

struct revocations *revocations_create(const char *path, struct fault *why)
{
    struct revocations *r = NULL;

    if (ledger_compact(path, clock_wall_s(), why))
        r = revocations_read(path, why);
    if (r)
        r->path = text_copy(slice_of(path));
    return r;
}

struct revocations *revocations_map(int fd, struct fault *why)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), seals = fcntl(fd, F_GET_SEALS);
    struct revocations *r = NULL;
    off_t len = file_length(fd);

    if (own < 0 || seals < 0 || !(seals & F_SEAL_SHRINK) || len < (off_t)sizeof(struct shared))
        fault_set(why, FAULT_REFUSED, "the revocations are not shared memory of the supervisor");
    else
        r = map(own, (size_t)len, PROT_READ, why);
    if (r && (r->shared->magic != MAGIC || r->shared->n_places == 0 ||
              (r->shared->n_places & (r->shared->n_places - 1)) ||
              r->shared->n_places > (r->size - sizeof(struct shared)) / sizeof(struct place))) {
        fault_set(why, FAULT_REFUSED, "the shared memory holds no revocations");
        revocations_free(r);
        return NULL;
    }
    if (!r && own >= 0)
        close(own);
    return r;
}

void revocations_free(struct revocations *r)
{
    if (!r)
        return;
    munmap(r->shared, r->size);
    close(r->fd);
    for (size_t i = 0; i < N_LISTS; i++)
        suspensions_free(r->lists[i]);
    free(r->path);
    free(r);
}

int revocations_fd(const struct revocations *r)
{
    return r->fd;
}

/* Disk before memory. */
static bool add(struct revocations *r, const struct ledger_entry *e, struct fault *why)
{
    enum revocation_kind kind = revocation_beginning(e->kind);
    int64_t now_s = clock_wall_s();

    if (!revocation_check(e->kind, e->value, why))
        return false;
    if (!r->path)
        return fault_set(why, FAULT_REFUSED, "only the supervisor adds revocations");
    if (kind != REVOKE_ISSUED_BEFORE && !place_for(r->shared, mark_of(kind, e->value), now_s))
        return fault_set(why, FAULT_LIMIT, "no room for another revocation; revoke by sandbox or issued-before, or "
                                           "restart the gateway, which makes room");
    if (!ledger_append(r->path, e, why))
        return false;
    put(r, e, now_s);
    atomic_fetch_add(&r->shared->version, 1);
    return true;
}

bool revocations_add(struct revocations *r, enum revocation_kind kind, struct slice value, int64_t until_s,
                     struct fault *why)
{
    return add(r, &(struct ledger_entry){.kind = kind, .value = value, .until_s = until_s}, why);
}

static struct ledger_entry entry_of(enum revocation_kind kind, const struct suspension *s, struct slice at)
{
    return (struct ledger_entry){.kind = kind, .value = s->name, .by = s->by, .why = s->why, .uid = s->uid, .at = at};
}

bool revocations_suspends(const struct revocations *r, enum revocation_kind kind, struct slice name)
{
    return suspensions_has(r->lists[list_of(kind)], name);
}

bool revocations_suspend(struct revocations *r, enum revocation_kind kind, const struct suspension *s, struct fault *why)
{
    struct buf now = {0};
    struct ledger_entry e;
    bool ok;

    if (kind != revocation_beginning(kind) && !revocations_suspends(r, kind, s->name))
        return fault_set(why, FAULT_MISSING, kind == REVOKE_OPEN ? "service %.*s was not closed by hand; see: exeat service list" : "sandbox %.*s is not in quarantine",
                         SLICE_ARG(s->name));
    clock_rfc3339(&now, clock_wall_ns());
    e = entry_of(kind, s, buf_slice(&now));
    ok = add(r, &e, why);
    buf_free(&now);
    return ok;
}

bool revocations_append_suspension(const char *path, enum revocation_kind kind, const struct suspension *s, struct fault *why)
{
    struct ledger_entry e = entry_of(kind, s, slice_of(""));

    return revocation_check(kind, s->name, why) && ledger_append(path, &e, why);
}

void revocations_each_suspension(const struct revocations *r, enum revocation_kind kind,
                                 void (*visit)(void *arg, const struct suspension *s), void *arg)
{
    suspensions_each(r->lists[list_of(kind)], visit, arg);
}

bool revocations_append(const char *path, enum revocation_kind kind, struct slice value, int64_t until_s,
                        struct fault *why)
{
    struct ledger_entry e = {.kind = kind, .value = value, .until_s = until_s};

    return revocation_check(kind, value, why) && ledger_append(path, &e, why);
}

static bool holds(const struct shared *s, struct identity_mark m, int64_t now_s)
{
    for (uint64_t i = 0; i < s->n_places; i++) {
        const struct place *at = &s->places[((m.words[0] >> 1) + i) & (s->n_places - 1)];

        if (atomic_load_explicit(&at->first, memory_order_acquire) == 0)
            return false;
        if (is_at(at, m))
            return atomic_load(&at->until_s) > now_s;
    }
    return false;
}

bool revocations_has(const struct revocations *r, const struct identity *i, int64_t now_s)
{
    const struct shared *s = r->shared;

    if (identity_issued_s(i) < atomic_load(&s->issued_before_s))
        return true;
    if (atomic_load(&s->n_used) == 0)
        return false;
    return holds(s, identity_jti_mark(i), now_s) || holds(s, identity_sandbox_mark(i), now_s);
}

bool revocations_quarantines(const struct revocations *r, const struct identity *i)
{
    const struct shared *s = r->shared;

    return atomic_load_explicit(&s->n_suspended[list_of(REVOKE_QUARANTINE)], memory_order_relaxed) &&
           holds(s, identity_quarantine_mark(i), FOR_GOOD - 1);
}

bool revocations_closes(const struct revocations *r, struct identity_mark service)
{
    const struct shared *s = r->shared;

    return atomic_load_explicit(&s->n_suspended[list_of(REVOKE_CLOSE)], memory_order_relaxed) && holds(s, service, FOR_GOOD - 1);
}

struct identity_mark revocation_service_mark(struct slice name)
{
    return mark_of(REVOKE_CLOSE, name);
}

uint64_t revocations_version(const struct revocations *r)
{
    return atomic_load(&r->shared->version);
}
