/* Owns the mapping of this worker's pages and, read-only, of the others'. Knows no limits. */
#include "proxy/tally.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "proxy/pace.h"

enum { SLOTS = 4096, WINDOW = 16, LOOK_MS = 100, BUCKET = 8, HOLD_MOST = 1 << 30, ACTIVE_SET = 1 << 15 };
#define MAGIC UINT64_C(0x31796c6c61742b65)

_Static_assert((SLOTS & (SLOTS - 1)) == 0 && TALLY_SEEN_MAX % BUCKET == 0, "masks and buckets");

struct slot {
    _Atomic uint32_t held[N_HOLDS];
    struct pace paces[N_PACES];
};

struct pages {
    uint64_t magic;
    uint64_t secret[2];
    _Atomic uint64_t keys[SLOTS + WINDOW]; /* 0: free; a window never wraps */
    struct slot slots[SLOTS + WINDOW];
    _Atomic uint64_t at_work;              /* the key of whose work is done just now; 0: nobody's */
    char names[SLOTS + WINDOW][TALLY_NAME];
    _Atomic uint64_t seen[TALLY_SEEN_MAX]; /* 48 bits of the text's hash, 16 of the window's number */
};

struct tally_seat {
    struct tally *tally;
    uint64_t key;
    struct slot *slot; /* in our pages, or alone */
    int index;         /* of the slot; -1: alone */
    struct slot alone;
    int64_t looked_ms;
    const struct slot *others[]; /* by page of another worker; NULL: not there */
};

struct tally {
    struct pages *own;
    const struct pages *others[TALLY_WORKERS_MAX];
    size_t n_others;
    struct tally_seat *seats[SLOTS + WINDOW]; /* who sits where; a slot with a key and no seat still counts its time down */
    size_t active[N_TALLY_KINDS];
    uint64_t set[ACTIVE_SET]; /* keys that tally_refresh has met */
};

static const int64_t windows[N_PACES] = {
    [PACE_RECORDS] = 10 * 1000,          [PACE_DENIALS] = 60 * 1000,  [PACE_FAILED_HANDSHAKES] = 60 * 1000,
    [PACE_JUNK_TOKENS] = 60 * 1000,      [PACE_HANDSHAKES] = 1000,
    [PACE_BYTES] = 3600 * 1000,  [PACE_URLS] = 3600 * 1000,
    [PACE_NAMES] = 3600 * 1000,
};

int64_t tally_window_ms(enum tally_pace p)
{
    return windows[p];
}

/* ---- pages ---- */

bool tally_mend(int fd, const unsigned char secret[16])
{
    struct {
        uint64_t magic;
        unsigned char secret[16];
    } head = {.magic = MAGIC};

    memcpy(head.secret, secret, sizeof head.secret);
    return pwrite(fd, &head, sizeof head, 0) == (ssize_t)sizeof head;
}

int tally_create(const unsigned char secret[16], struct fault *why)
{
    int fd = memfd_create("exeat-tally", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, sizeof(struct pages)) == 0 && tally_mend(fd, secret) &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    fault_set(why, FAULT_IO, "shared memory for the tally: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static struct pages *map(int fd, bool writable, struct fault *why)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct pages *p;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || lseek(fd, 0, SEEK_END) != (off_t)sizeof(struct pages)) {
        fault_set(why, FAULT_REFUSED, "the tally is not shared memory of this supervisor");
        return NULL;
    }
    p = mmap(NULL, sizeof *p, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    /* What another worker has there now is its own affair: the size is sealed, and nothing in it is believed but counts. */
    if (p == MAP_FAILED || (writable && p->magic != MAGIC)) {
        fault_set(why, FAULT_IO, "mapping the tally: %s", p == MAP_FAILED ? strerror(errno) : "it holds none");
        if (p != MAP_FAILED)
            munmap(p, sizeof *p);
        return NULL;
    }
    return p;
}

struct tally *tally_new(void)
{
    struct tally *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->active[TALLY_SANDBOX] = t->active[TALLY_SOURCE] = 1;
    return t;
}

void tally_free(struct tally *t)
{
    if (!t)
        return;
    if (t->own)
        munmap(t->own, sizeof *t->own);
    for (size_t i = 0; i < t->n_others; i++)
        munmap((void *)t->others[i], sizeof *t->others[i]);
    free(t);
}

bool tally_own(struct tally *t, int fd, struct fault *why)
{
    assert(!t->own);
    if (!(t->own = map(fd, true, why)))
        return false;
    atomic_store(&t->own->at_work, 0);
    for (size_t i = 0; i < SLOTS + WINDOW; i++)
        for (int h = 0; h < N_HOLDS; h++)
            if (atomic_load(&t->own->slots[i].held[h]))
                atomic_store(&t->own->slots[i].held[h], 0);
    return true;
}

bool tally_add(struct tally *t, int fd, struct fault *why)
{
    if (t->n_others == TALLY_WORKERS_MAX)
        return fault_set(why, FAULT_REFUSED, "more than %d workers", TALLY_WORKERS_MAX);
    if (!(t->others[t->n_others] = map(fd, false, why)))
        return false;
    t->n_others++;
    return true;
}

size_t tally_workers(const struct tally *t)
{
    return t->n_others + 1;
}

/* ---- seats ---- */

static uint64_t key_of(const struct tally *t, enum tally_kind kind, struct slice name)
{
    return (hash_bytes(t->own->secret, name) & ~(uint64_t)3) | 2 | (uint64_t)kind;
}

static size_t home(uint64_t key)
{
    return (size_t)(key >> 2) & (SLOTS - 1);
}

/* Where key stands in a page; -1: nowhere. */
static int find(const struct pages *p, uint64_t key)
{
    for (size_t i = home(key); i < home(key) + WINDOW; i++)
        if (atomic_load_explicit((_Atomic uint64_t *)&p->keys[i], memory_order_relaxed) == key)
            return (int)i;
    return -1;
}

/* A place for key in our pages: the one it had, or a free one. */
static int place(struct tally *t, uint64_t key)
{
    int at = find(t->own, key);

    for (size_t i = home(key); at < 0 && i < home(key) + WINDOW; i++)
        if (atomic_load(&t->own->keys[i]) == 0)
            at = (int)i;
    return at >= 0 && !t->seats[at] ? at : -1;
}

struct tally_seat *tally_sit(struct tally *t, enum tally_kind kind, struct slice name)
{
    struct tally_seat *s = calloc(1, sizeof *s + t->n_others * sizeof(struct slot *));

    if (!s)
        abort();
    s->tally = t;
    s->key = key_of(t, kind, name);
    s->index = place(t, s->key);
    s->slot = s->index >= 0 ? &t->own->slots[s->index] : &s->alone;
    s->looked_ms = INT64_MIN;
    if (s->index >= 0) {
        t->seats[s->index] = s;
        t->own->names[s->index][0] = '\0';
        atomic_store(&t->own->keys[s->index], s->key);
    }
    t->active[kind]++;
    return s;
}

void tally_name(struct tally_seat *s, struct slice name)
{
    struct slice cut = slice_cut(name, 0, name.len < TALLY_NAME - 1 ? name.len : TALLY_NAME - 1);
    char *to;

    if (s->index < 0)
        return;
    to = s->tally->own->names[s->index];
    memcpy(to, cut.ptr, cut.len);
    to[cut.len] = '\0';
}

uint64_t tally_tag(const struct tally_seat *s)
{
    return s->key;
}

_Atomic uint64_t *tally_at_work(struct tally *t)
{
    return &t->own->at_work;
}

static void free_slot(struct tally *t, size_t i)
{
    atomic_store(&t->own->keys[i], 0);
    memset(&t->own->slots[i], 0, sizeof t->own->slots[i]);
}

void tally_leave(struct tally_seat *s)
{
    if (!s)
        return;
    if (s->index >= 0) /* its paces go on counting until tally_refresh finds them over */
        s->tally->seats[s->index] = NULL;
    free(s);
}

/* Where the others have this principal, looked for now and then. */
static void look(struct tally_seat *s, int64_t now_ms)
{
    const struct tally *t = s->tally;

    if (s->looked_ms > now_ms - LOOK_MS)
        return;
    s->looked_ms = now_ms;
    for (size_t i = 0; i < t->n_others; i++) {
        int at = find(t->others[i], s->key);

        s->others[i] = at >= 0 ? &t->others[i]->slots[at] : NULL;
    }
}

/* ---- counting ---- */

static uint64_t load_held(const struct slot *at, enum tally_hold h)
{
    uint32_t n = atomic_load_explicit((_Atomic uint32_t *)&at->held[h], memory_order_relaxed);

    return n < HOLD_MOST ? n : HOLD_MOST;
}

void tally_hold(struct tally_seat *s, enum tally_hold h, int by)
{
    uint32_t n = atomic_load_explicit(&s->slot->held[h], memory_order_relaxed);

    assert(by >= 0 || n >= (uint32_t)-by);
    atomic_store_explicit(&s->slot->held[h], n + (uint32_t)by, memory_order_relaxed);
}

uint64_t tally_held_here(const struct tally_seat *s, enum tally_hold h)
{
    return load_held(s->slot, h);
}

uint64_t tally_held(struct tally_seat *s, enum tally_hold h, int64_t now_ms)
{
    uint64_t sum = load_held(s->slot, h);

    look(s, now_ms);
    for (size_t i = 0; i < s->tally->n_others; i++)
        if (s->others[i])
            sum += load_held(s->others[i], h);
    return sum;
}

void tally_add_pace(struct tally_seat *s, enum tally_pace p, int64_t now_ms, uint64_t n)
{
    pace_add(&s->slot->paces[p], windows[p], now_ms, n);
}

uint64_t tally_paced(struct tally_seat *s, enum tally_pace p, int64_t now_ms)
{
    uint64_t sum = pace_sum(&s->slot->paces[p], windows[p], now_ms);

    look(s, now_ms);
    for (size_t i = 0; i < s->tally->n_others; i++)
        if (s->others[i])
            sum += pace_sum(&s->others[i]->paces[p], windows[p], now_ms);
    return sum;
}

static bool holds_nothing(const struct slot *at)
{
    for (int h = 0; h < N_HOLDS; h++)
        if (load_held(at, (enum tally_hold)h))
            return false;
    return true;
}

static bool is_over(const struct slot *at, int64_t now_ms)
{
    for (int p = 0; p < N_PACES; p++)
        if (pace_sum(&at->paces[p], windows[p], now_ms))
            return false;
    return true;
}

bool tally_is_idle(const struct tally_seat *s, int64_t now_ms)
{
    return holds_nothing(s->slot) && is_over(s->slot, now_ms);
}

/* ---- after its end ---- */

bool tally_visit(int fd, void (*visit)(void *arg, struct slice name, bool at_work), void *arg, struct fault *why)
{
    struct pages *p = map(fd, false, why);
    uint64_t at_work;

    if (!p)
        return false;
    at_work = atomic_load(&p->at_work);
    for (size_t i = 0; i < SLOTS + WINDOW; i++) {
        uint64_t key = atomic_load(&p->keys[i]);
        struct slice name = slice_make(p->names[i], strnlen(p->names[i], TALLY_NAME));

        if (key && name.len && (key == at_work || load_held(&p->slots[i], HOLD_EXCHANGES)))
            visit(arg, name, key == at_work);
    }
    munmap(p, sizeof *p);
    return true;
}

/* ---- texts that were seen ---- */

struct trace {
    size_t from; /* its bucket */
    uint64_t tag, window;
};

static struct trace trace_of(const struct tally_seat *s, enum tally_pace p, struct slice host, struct slice target,
                             int64_t now_ms)
{
    const struct pages *own = s->tally->own;
    uint64_t seed[2] = {own->secret[0] ^ s->key, own->secret[1] + (uint64_t)p}, hash;

    seed[0] ^= hash_bytes(seed, host);
    hash = hash_bytes(seed, target);
    return (struct trace){.from = (size_t)hash % (TALLY_SEEN_MAX / BUCKET) * BUCKET,
                          .tag = hash >> 16 | 1,
                          .window = (uint64_t)(now_ms / windows[p]) & 0xffff};
}

static uint64_t load_seen(const struct pages *p, size_t at)
{
    return atomic_load_explicit((_Atomic uint64_t *)&p->seen[at], memory_order_relaxed);
}

/* Windows gone by since e was noted. */
static unsigned age(uint64_t e, const struct trace *t)
{
    return e ? (unsigned)((t->window - e) & 0xffff) : 0xffff;
}

/* Where t was noted, in this window or the one before; -1: not. */
static ptrdiff_t find_seen(const struct pages *p, const struct trace *t)
{
    for (size_t i = t->from; i < t->from + BUCKET; i++) {
        uint64_t e = load_seen(p, i);

        if (e >> 16 == t->tag && age(e, t) <= 1)
            return (ptrdiff_t)i;
    }
    return -1;
}

/* A place in the bucket: what was never used or noted longest ago. */
static size_t oldest(const struct pages *p, const struct trace *t)
{
    size_t at = t->from + (size_t)(t->tag >> 1) % BUCKET;

    for (size_t i = t->from; i < t->from + BUCKET; i++)
        if (age(load_seen(p, i), t) > age(load_seen(p, at), t))
            at = i;
    return at;
}

static void note(struct pages *own, const struct trace *t)
{
    ptrdiff_t at = find_seen(own, t);
    size_t to = at >= 0 ? (size_t)at : oldest(own, t);

    atomic_store_explicit(&own->seen[to], t->tag << 16 | t->window, memory_order_relaxed);
}

bool tally_has_seen(struct tally_seat *s, enum tally_pace p, struct slice host, struct slice target, int64_t now_ms)
{
    struct trace t = trace_of(s, p, host, target, now_ms);
    const struct tally *all = s->tally;
    ptrdiff_t at = find_seen(all->own, &t);
    bool seen = at >= 0;

    if (seen && age(load_seen(all->own, (size_t)at), &t) == 0)
        return true;
    for (size_t i = 0; !seen && i < all->n_others; i++)
        seen = find_seen(all->others[i], &t) >= 0;
    if (seen)
        note(all->own, &t); /* in use: not to be forgotten at the turn of the window */
    return seen;
}

void tally_note_seen(struct tally_seat *s, enum tally_pace p, struct slice host, struct slice target, int64_t now_ms)
{
    struct trace t = trace_of(s, p, host, target, now_ms);

    note(s->tally->own, &t);
}

/* ---- who is active ---- */

/* Into the set; false when it was there. */
static bool meet(struct tally *t, uint64_t key, size_t *room)
{
    size_t i = (size_t)(key >> 2) % ACTIVE_SET;

    while (t->set[i] && t->set[i] != key)
        i = (i + 1) % ACTIVE_SET;
    if (t->set[i] || *room == 0)
        return false;
    t->set[i] = key;
    --*room;
    return true;
}

static void count_active(struct tally *t, const struct pages *p, int64_t now_ms, size_t *room)
{
    for (size_t i = 0; i < SLOTS + WINDOW; i++) {
        uint64_t key = atomic_load_explicit((_Atomic uint64_t *)&p->keys[i], memory_order_relaxed);
        const struct slot *at = &p->slots[i];

        if (key && (!holds_nothing(at) || pace_sum(&at->paces[PACE_RECORDS], windows[PACE_RECORDS], now_ms)) &&
            meet(t, key, room))
            t->active[key & 1]++;
    }
}

void tally_refresh(struct tally *t, int64_t now_ms)
{
    size_t room = ACTIVE_SET / 2;

    for (size_t i = 0; i < SLOTS + WINDOW; i++)
        if (!t->seats[i] && atomic_load(&t->own->keys[i]) && is_over(&t->own->slots[i], now_ms))
            free_slot(t, i);
    memset(t->set, 0, sizeof t->set);
    t->active[TALLY_SANDBOX] = t->active[TALLY_SOURCE] = 0;
    count_active(t, t->own, now_ms, &room);
    for (size_t i = 0; i < t->n_others; i++)
        count_active(t, t->others[i], now_ms, &room);
}

size_t tally_active(const struct tally *t, enum tally_kind kind)
{
    return t->active[kind] ? t->active[kind] : 1;
}
