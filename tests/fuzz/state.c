/*
 * Files and memory that one process of the gateway hands to another, under libFuzzer. The first byte picks which: a bundle (read,
 * sealed again, the same), or the ledger of revocations (what is read survives compaction and an append).
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "authz/ledger.h"
#include "base/bundle.h"
#include "base/pack.h"
#include "tests/fuzz/lib/files.h"
#include "tests/fuzz/lib/fuzz.h"

enum { NOW_S = 1800000000 };

/* ---- bundles ---- */

static int seal(struct slice bytes)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || write(fd, bytes.ptr, bytes.len) != (ssize_t)bytes.len)
        abort();
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return fd;
}

static bool holds(int fd, struct slice bytes)
{
    char there[8192];
    ssize_t n = pread(fd, there, sizeof there, 0);

    return n >= 0 && slice_equals(slice_make(there, (size_t)n), bytes);
}

/* Names are texts: a NUL in one is where it ends, so that one does not come out as it went in. */
static bool has_plain_names(struct slice bytes)
{
    struct unpack u = unpack_start(bytes);
    uint32_t n = unpack_u32(&u);

    for (uint32_t i = 0; i < n; i++) {
        if (slice_find(unpack_bytes(&u), '\0') >= 0)
            return false;
        unpack_bytes(&u);
    }
    return true;
}

static void read_bundle(struct slice bytes)
{
    int fd = seal(bytes), again;
    struct bundle *b = bundle_open(fd, NULL);

    if (b && bytes.len < 8192 && has_plain_names(bytes)) {
        again = bundle_seal(b, NULL);
        assert(again >= 0 && holds(again, bytes));
        close(again);
    }
    bundle_free(b);
    close(fd);
}

/* ---- the ledger ---- */

struct found {
    size_t count, lasting;
};

static void on_entry(void *arg, const struct ledger_entry *e)
{
    struct found *f = arg;

    assert(revocation_check(e->kind, e->value, NULL) && e->until_s >= 0);
    f->count++;
    f->lasting += !revocation_is_suspension(e->kind) && (!e->until_s || e->until_s > NOW_S || e->kind == REVOKE_ISSUED_BEFORE);
}

static bool read_ledger(struct found *f)
{
    *f = (struct found){0};
    return ledger_read(files_path("revocations"), on_entry, f, NULL);
}

static void keep_ledger(struct slice bytes)
{
    const struct ledger_entry one = {.kind = REVOKE_JTI, .value = SLICE("j-1"), .until_s = NOW_S + 1};
    struct found first, second;

    files_put("revocations", bytes);
    if (!read_ledger(&first)) {
        assert(!ledger_compact(files_path("revocations"), NOW_S, NULL));
        return;
    }
    assert(ledger_compact(files_path("revocations"), NOW_S, NULL));
    assert(read_ledger(&second) && second.count >= first.lasting && second.count <= first.count);
    first = second;
    assert(ledger_append(files_path("revocations"), &one, NULL));
    assert(read_ledger(&second) && second.count == first.count + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);

    if (fuzz_byte(&input) & 1)
        keep_ledger(input);
    else
        read_bundle(input);
    return 0;
}
