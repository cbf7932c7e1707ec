/* Owns the use of zlib. Knows no messages: whoever asks has the whole body. */
#include "canary/gzip.h"

#include <limits.h>
#include <zlib.h>

enum { GZIP_ONLY = 16, STEP = 16 << 10 };

/* One member; its end leaves the rest in z. */
static bool open_member(z_stream *z, size_t most, struct buf *out)
{
    int status = Z_OK;

    while (status == Z_OK && buf_len(out) <= most) {
        z->next_out = (unsigned char *)buf_reserve(out, STEP);
        z->avail_out = STEP;
        status = inflate(z, Z_NO_FLUSH);
        buf_commit(out, STEP - z->avail_out);
    }
    return status == Z_STREAM_END && buf_len(out) <= most;
}

bool gzip_open(struct slice packed, size_t most, struct buf *out)
{
    z_stream z = {0};
    bool ok = packed.len > 0 && packed.len <= UINT_MAX;

    if (!ok || inflateInit2(&z, MAX_WBITS + GZIP_ONLY) != Z_OK)
        return false;
    z.next_in = (unsigned char *)(uintptr_t)packed.ptr;
    z.avail_in = (unsigned)packed.len;
    while (ok && z.avail_in)
        ok = open_member(&z, most, out) && inflateReset(&z) == Z_OK;
    inflateEnd(&z);
    return ok;
}
