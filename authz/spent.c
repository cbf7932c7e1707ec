/*
 * Owns a mapping of a file that several processes write without locks. A place is taken by exchanging its first word for TAKEN,
 * filled, and published by writing the first word; it is used again only when its time is over.
 */
#include "authz/spent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "base/file.h"

enum { PLACES = 1 << 16, WINDOW = 256 /* places that are searched */, PATIENCE = 10000 };
#define MAGIC UINT64_C(0x31746e6570736578)

enum { UNUSED = 0, TAKEN = 2 };

struct place {
    _Atomic uint64_t first; /* UNUSED, TAKEN, or odd */
    _Atomic uint64_t second;
    _Atomic int64_t forget_s;
};

struct shared {
    uint64_t magic, n_places;
    struct place places[PLACES];
};

struct spent {
    struct shared *shared;
    int fd; /* -1: mapped only */
};

struct mark {
    uint64_t first, second;
};

static struct spent *map(int fd, struct fault *why)
{
    struct spent *s;
    void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED) {
        fault_set(why, FAULT_IO, "mapping the spent tokens: %s", strerror(errno));
        return NULL;
    }
    if (!(s = calloc(1, sizeof *s)))
        abort();
    *s = (struct spent){.shared = at, .fd = -1};
    return s;
}

void spent_mend(struct spent *s)
{
    s->shared->n_places = PLACES;
    s->shared->magic = MAGIC;
    if (file_length(s->fd) > (off_t)sizeof(struct shared) && ftruncate(s->fd, sizeof(struct shared)) < 0)
        return; /* who maps it takes no more than its length anyway */
}

void spent_free(struct spent *s)
{
    if (!s)
        return;
    munmap(s->shared, sizeof *s->shared);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

int spent_fd(const struct spent *s)
{
    return s->fd;
}

/* A worker that died while it filled a place: nobody was told that its token is good. The place must not end a search. */
static void mend(struct shared *shared)
{
    for (size_t i = 0; i < PLACES; i++)
        if (atomic_load(&shared->places[i].first) == TAKEN) {
            atomic_store(&shared->places[i].forget_s, 0);
            atomic_store(&shared->places[i].second, 0);
            atomic_store(&shared->places[i].first, 1);
        }
}

/* All of its room: a full disk must not end a worker that writes to it later. */
static bool make_room(int fd, const char *path, struct fault *why)
{
    off_t len = file_length(fd);
    int error = 0;

    if (len != 0 && len < (off_t)sizeof(struct shared))
        return fault_set(why, FAULT_REFUSED, "%s is not a file of spent tokens; move it away, and tokens for one use that were used "
                                             "are good once more", path);
    if (len == 0)
        error = posix_fallocate(fd, 0, sizeof(struct shared));
    return error == 0 || fault_set(why, FAULT_IO, "%s: %s", path, strerror(error));
}

struct spent *spent_open(const char *path, struct fault *why)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct spent *s = NULL;

    if (fd < 0) {
        fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (make_room(fd, path, why))
        s = map(fd, why);
    if (!s) {
        close(fd);
        return NULL;
    }
    s->fd = fd;
    if (s->shared->magic == 0 && s->shared->n_places == 0) {
        s->shared->n_places = PLACES;
        s->shared->magic = MAGIC;
    }
    if (s->shared->magic != MAGIC || s->shared->n_places != PLACES) {
        fault_set(why, FAULT_REFUSED, "%s is not a file of spent tokens; move it away, and tokens for one use that were used are good "
                                      "once more", path);
        spent_free(s);
        return NULL;
    }
    mend(s->shared);
    spent_mend(s);
    return s;
}

struct spent *spent_map(int fd, struct fault *why)
{
    struct spent *s;

    if (file_length(fd) < (off_t)sizeof(struct shared)) {
        fault_set(why, FAULT_REFUSED, "the spent tokens are not the supervisor's file");
        return NULL;
    }
    s = map(fd, why);
    if (s && s->shared->magic != MAGIC) {
        fault_set(why, FAULT_REFUSED, "the file holds no spent tokens");
        spent_free(s);
        return NULL;
    }
    return s;
}

static struct mark mark_of(const struct identity *i)
{
    struct buf text = {0};
    struct identity_mark m;

    buf_text(&text, identity_issuer(i));
    buf_char(&text, '\n'); /* in neither of them */
    buf_text(&text, identity_jti(i));
    m = identity_mark_of("spent", buf_slice(&text));
    buf_free(&text);
    return (struct mark){m.words[0] | 1, m.words[1]};
}

static struct place *place_at(const struct spent *s, struct mark m, int i)
{
    return &s->shared->places[((m.first >> 1) + (uint64_t)i) & (PLACES - 1)];
}

/* What a place holds, after waiting for whoever fills it just now. */
static uint64_t held_by(struct place *at)
{
    uint64_t held = atomic_load(&at->first);

    for (int n = 0; held == TAKEN && n < PATIENCE; n++)
        held = atomic_load(&at->first);
    return held;
}

static bool holds(struct place *at, struct mark m)
{
    return held_by(at) == m.first && atomic_load(&at->second) == m.second;
}

/* Is it in any place but this one? */
static bool is_elsewhere(const struct spent *s, struct mark m, const struct place *but)
{
    for (int i = 0; i < WINDOW; i++) {
        struct place *at = place_at(s, m, i);

        if (atomic_load(&at->first) == UNUSED)
            return false;
        if (at != but && holds(at, m))
            return true;
    }
    return false;
}

/* Take a place that was never used, or whose time is over. */
static bool take(struct place *at, struct mark m, int64_t forget_s, int64_t now_s)
{
    uint64_t held = held_by(at);

    if (held == TAKEN || (held != UNUSED && atomic_load(&at->forget_s) > now_s))
        return false;
    if (!atomic_compare_exchange_strong(&at->first, &held, TAKEN))
        return false;
    atomic_store(&at->second, m.second);
    atomic_store(&at->forget_s, forget_s);
    atomic_store(&at->first, m.first);
    return true;
}

/* Two that took a place each at the same moment see each other afterwards, at least one of them; who sees another gives way. */
enum spent_use spent_use(struct spent *s, const struct identity *i, int64_t forget_s, int64_t now_s)
{
    struct mark m = mark_of(i);

    if (is_elsewhere(s, m, NULL))
        return SPENT_BEFORE;
    for (int n = 0; n < WINDOW; n++) {
        struct place *at = place_at(s, m, n);

        if (take(at, m, forget_s, now_s))
            return is_elsewhere(s, m, at) ? SPENT_BEFORE : SPENT_NOW;
        if (holds(at, m))
            return SPENT_BEFORE;
    }
    return SPENT_NO_ROOM;
}
