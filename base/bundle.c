/* Owns a copy of each blob. */
#include "base/bundle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pack.h"
#include "base/secret.h"
#include "base/text.h"

enum { BUNDLE_MAX = 256 << 20 };

struct blob {
    char *name;
    struct secret *bytes;
};

struct bundle {
    struct blob *blobs;
    size_t count;
};

struct bundle *bundle_new(void)
{
    struct bundle *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    return b;
}

void bundle_free(struct bundle *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->count; i++) {
        free(b->blobs[i].name);
        secret_free(b->blobs[i].bytes);
    }
    free(b->blobs);
    free(b);
}

bool bundle_get(const struct bundle *b, const char *name, struct slice *bytes)
{
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->blobs[i].name, name) == 0) {
            *bytes = secret_slice(b->blobs[i].bytes);
            return true;
        }
    return false;
}

void bundle_add(struct bundle *b, const char *name, struct slice bytes)
{
    struct slice there;
    struct blob *grown;

    assert(!bundle_get(b, name, &there));
    grown = realloc(b->blobs, (b->count + 1) * sizeof *grown);
    if (!grown)
        abort();
    b->blobs = grown;
    b->blobs[b->count++] = (struct blob){text_copy(slice_of(name)), secret_new(bytes)};
}

void bundle_drop(struct bundle *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++) {
        if (strcmp(b->blobs[i].name, name) != 0)
            continue;
        free(b->blobs[i].name);
        secret_free(b->blobs[i].bytes);
        b->blobs[i] = b->blobs[--b->count];
        return;
    }
}

bool bundle_write(const struct bundle *b, int fd, struct fault *why)
{
    struct buf out = {0};
    bool ok;

    pack_u32(&out, (uint32_t)b->count);
    for (size_t i = 0; i < b->count; i++) {
        pack_bytes(&out, slice_of(b->blobs[i].name));
        pack_bytes(&out, secret_slice(b->blobs[i].bytes));
    }
    ok = file_write_fd(fd, buf_slice(&out), why);
    if (ok && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        ok = fault_set(why, FAULT_IO, "sealing the bundle: %s", strerror(errno));
    buf_wipe(&out);
    return ok;
}

int bundle_memory(struct fault *why)
{
    int fd = memfd_create("exeat-bundle", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        fault_set(why, FAULT_IO, "memfd_create: %s", strerror(errno));
    return fd;
}

int bundle_seal(const struct bundle *b, struct fault *why)
{
    int fd = bundle_memory(why);

    if (fd >= 0 && !bundle_write(b, fd, why)) {
        close(fd);
        return -1;
    }
    return fd;
}

static struct bundle *parse(struct slice message, struct fault *why)
{
    struct unpack u = unpack_start(message);
    struct bundle *b = bundle_new();
    uint32_t n = unpack_u32(&u);

    for (uint32_t i = 0; i < n && !u.bad; i++) {
        char *name = text_copy(unpack_bytes(&u));
        struct slice bytes = unpack_bytes(&u), there;

        if (!u.bad && !bundle_get(b, name, &there))
            bundle_add(b, name, bytes);
        else
            u.bad = true;
        free(name);
    }
    if (!unpack_done(&u)) {
        bundle_free(b);
        fault_set(why, FAULT_SYNTAX, "the bundle is damaged");
        return NULL;
    }
    return b;
}

struct bundle *bundle_open(int fd, struct fault *why)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct bundle *b = NULL;
    off_t len = file_length(fd);
    void *map;

    if (seals < 0 || !(seals & F_SEAL_WRITE) || len > BUNDLE_MAX || len < 4) {
        fault_set(why, FAULT_REFUSED, "the bundle is not a sealed memory file");
        return NULL;
    }
    map = mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        fault_set(why, FAULT_IO, "mapping the bundle: %s", strerror(errno));
        return NULL;
    }
    b = parse(slice_make(map, (size_t)len), why);
    munmap(map, (size_t)len);
    return b;
}
