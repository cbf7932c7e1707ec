/*
 * Owns a mapping of shared memory that several processes write without locks. A place is taken by exchanging its
 * token word for TAKEN, filled, and published by writing the token; then it stays as it is until its time is over.
 */
#include "authz/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/secret.h"

enum { WINDOW = 256 /* places that are searched */ };
#define PATIENCE_NS (200 * 1000 * 1000) /* whoever fills a place may have been put off the processor in the middle */
#define MAGIC 0x31736e6970786521u

enum { UNUSED = 0, TAKEN = 2 };

struct place {
    _Atomic uint64_t token; /* UNUSED, TAKEN, or odd */
    _Atomic uint64_t source;
    _Atomic int64_t forget_s;
};

struct shared {
    uint64_t magic, n_places; /* a power of two */
    unsigned char key[16];    /* so that nobody outside can choose places or sources that collide */
    struct place places[];
};

/* The head is in memory that every worker may write: what it says is taken once, and never believed about the size. */
struct pins {
    struct shared *shared;
    size_t size, n_places;
    unsigned char key[16];
    unsigned char *taken; /* a bit for each place that was TAKEN at the last pins_look; NULL: nobody looks */
    int fd;
};

static struct pins *map(int fd, size_t size, struct fault *why)
{
    struct pins *p;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED) {
        fault_set(why, FAULT_IO, "mapping the pins: %s", strerror(errno));
        return NULL;
    }
    if (!(p = calloc(1, sizeof *p)))
        abort();
    *p = (struct pins){.shared = at, .size = size, .n_places = (size - sizeof(struct shared)) / sizeof(struct place), .fd = fd};
    return p;
}

/* Was it TAKEN at the last look too? Notes that it is. */
static bool was_taken(struct pins *p, size_t i, bool is)
{
    unsigned char bit = (unsigned char)(1 << i % 8);
    bool was = p->taken[i / 8] & bit;

    p->taken[i / 8] = (unsigned char)(is ? p->taken[i / 8] | bit : p->taken[i / 8] & ~bit);
    return was;
}

static void look_from(struct pins *p, size_t first, size_t end)
{
    for (size_t i = first; i < end && i < p->n_places; i++) {
        struct place *at = &p->shared->places[i];
        bool is = atomic_load_explicit(&at->token, memory_order_relaxed) == TAKEN;

        if (!was_taken(p, i, is) || !is)
            continue;
        atomic_store(&at->source, 0);
        atomic_store(&at->forget_s, 0);
        atomic_store(&at->token, 1);
        was_taken(p, i, false);
    }
}

/* The place that has this byte of the memory, the first for its head. */
static size_t place_of_byte(off_t byte)
{
    const off_t head = offsetof(struct shared, places);

    return byte < head ? 0 : (size_t)(byte - head) / sizeof(struct place);
}

/* Only where anything was ever written: a look at a hole would fill it. */
void pins_look(struct pins *p)
{
    if (!p->taken && !(p->taken = calloc(1, p->n_places / 8)))
        abort();
    for (off_t from = 0, to; (from = lseek(p->fd, from, SEEK_DATA)) >= 0; from = to) {
        if ((to = lseek(p->fd, from, SEEK_HOLE)) < 0)
            break;
        look_from(p, place_of_byte(from), place_of_byte(to + (off_t)sizeof(struct place) - 1));
    }
}

void pins_mend(struct pins *p)
{
    p->shared->n_places = p->n_places;
    memcpy(p->shared->key, p->key, sizeof p->key);
    p->shared->magic = MAGIC;
}

struct pins *pins_create(size_t entries, struct fault *why)
{
    int fd = memfd_create("exeat-pins", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct pins *p = NULL;
    size_t places = WINDOW, size;

    while (places < entries * 2)
        places *= 2;
    size = sizeof(struct shared) + places * sizeof(struct place);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        fault_set(why, FAULT_IO, "shared memory for the pins: %s", strerror(errno));
    else
        p = map(fd, size, why);
    if (!p) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    secret_random(p->key, sizeof p->key);
    pins_mend(p);
    return p;
}

struct pins *pins_map(int fd, struct fault *why)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), seals = fcntl(fd, F_GET_SEALS);
    struct pins *p = NULL;
    off_t len = file_length(fd);

    if (own < 0 || seals < 0 || !(seals & F_SEAL_SHRINK) || len < (off_t)sizeof(struct shared))
        fault_set(why, FAULT_REFUSED, "the pins are not shared memory of the supervisor");
    else
        p = map(own, (size_t)len, why);
    if (p && (p->shared->magic != MAGIC || p->n_places < WINDOW || (p->n_places & (p->n_places - 1)))) {
        fault_set(why, FAULT_REFUSED, "the shared memory holds no pins");
        pins_free(p);
        return NULL;
    }
    if (p)
        memcpy(p->key, p->shared->key, sizeof p->key);
    if (!p && own >= 0)
        close(own);
    return p;
}

void pins_free(struct pins *p)
{
    if (!p)
        return;
    munmap(p->shared, p->size);
    close(p->fd);
    free(p->taken);
    free(p);
}

int pins_fd(const struct pins *p)
{
    return p->fd;
}

/* Two words that stand for the token (odd), and for this source of this token. */
static void hash(const struct pins *p, const unsigned char *fingerprint, struct slice source, uint64_t *token,
                 uint64_t *pinned)
{
    unsigned char digest[32];
    struct buf text = {0};

    memcpy(token, fingerprint, sizeof *token);
    *token |= 1;
    buf_append(&text, slice_make(p->key, sizeof p->key));
    buf_append(&text, slice_make(fingerprint, 32));
    buf_append(&text, source);
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    memcpy(pinned, digest, sizeof *pinned);
    buf_free(&text);
}

static struct place *place_at(const struct pins *p, uint64_t token, int i)
{
    return &p->shared->places[((token >> 1) + (uint64_t)i) & (p->n_places - 1)];
}

/*
 * What a place holds, after waiting for whoever fills it just now. Still TAKEN: it was killed there. What it would have held
 * nobody knows, so whoever meets such a place must give up: in a later one its token could be held a second time.
 */
static uint64_t held_by(struct place *at)
{
    uint64_t held = atomic_load(&at->token);
    int64_t since = held == TAKEN ? clock_mono_ns() : 0;

    while (held == TAKEN && clock_mono_ns() - since < PATIENCE_NS)
        held = atomic_load(&at->token);
    return held;
}

static struct place *find(const struct pins *p, uint64_t token)
{
    for (int i = 0; i < WINDOW; i++) {
        struct place *at = place_at(p, token, i);
        uint64_t held = held_by(at);

        if (held == token)
            return at;
        if (held == UNUSED || held == TAKEN)
            return NULL;
    }
    return NULL;
}

/* Take a place that was never used, or whose time is over; else, when another worker was faster, it may hold token. */
static bool take(struct place *at, uint64_t token, uint64_t source, int64_t forget_s, int64_t now_s)
{
    uint64_t held = held_by(at);

    if (held == TAKEN || (held != UNUSED && atomic_load(&at->forget_s) > now_s))
        return false;
    if (!atomic_compare_exchange_strong(&at->token, &held, TAKEN))
        return false;
    atomic_store(&at->source, source);
    atomic_store(&at->forget_s, forget_s);
    atomic_store(&at->token, token);
    return true;
}

bool pins_hold(struct pins *p, const unsigned char *fingerprint, struct slice source, int64_t forget_s, int64_t now_s)
{
    struct place *found;
    uint64_t token, pinned;

    hash(p, fingerprint, source, &token, &pinned);
    if ((found = find(p, token)))
        return atomic_load(&found->source) == pinned;
    for (int i = 0; i < WINDOW; i++) {
        struct place *at = place_at(p, token, i);
        uint64_t held;

        if (take(at, token, pinned, forget_s, now_s))
            return true;
        if ((held = held_by(at)) == token)
            return atomic_load(&at->source) == pinned;
        if (held == TAKEN)
            return false;
    }
    return false;
}
