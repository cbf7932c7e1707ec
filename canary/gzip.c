/* Owns the use of zlib. Knows no messages. */
#include "canary/gzip.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

enum { GZIP_ONLY = 16, STEP = 16 << 10, RATIO_MOST = 100, FREE = 1 << 20 };

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

struct gunzip {
    z_stream z;
    uint64_t in, out;
    bool bad, over; /* over: take wants no more */
};

struct gunzip *gunzip_new(void)
{
    struct gunzip *g = calloc(1, sizeof *g);

    if (!g || inflateInit2(&g->z, MAX_WBITS + GZIP_ONLY) != Z_OK)
        abort();
    return g;
}

void gunzip_free(struct gunzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->z);
    free(g);
}

/* A little of it opened, a member's end passed. False: nothing more comes of what there is. */
static bool open_some(struct gunzip *g, bool (*take)(void *arg, struct slice piece), void *arg)
{
    char piece[STEP];
    int status;

    g->z.next_out = (unsigned char *)piece;
    g->z.avail_out = sizeof piece;
    status = inflate(&g->z, Z_NO_FLUSH);
    g->out += sizeof piece - g->z.avail_out;
    g->bad = (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) || g->out > FREE + RATIO_MOST * g->in;
    if (g->bad)
        return false;
    if (g->z.avail_out < sizeof piece)
        g->over = !take(arg, slice_make(piece, sizeof piece - g->z.avail_out));
    if (status == Z_STREAM_END && g->z.avail_in)
        g->bad = inflateReset(&g->z) != Z_OK;
    return !g->bad && !g->over && (g->z.avail_in || g->z.avail_out == 0);
}

bool gunzip_feed(struct gunzip *g, struct slice packed, bool (*take)(void *arg, struct slice piece), void *arg)
{
    if (g->bad || g->over || !packed.len)
        return !g->bad;
    g->in += packed.len;
    g->z.next_in = (unsigned char *)(uintptr_t)packed.ptr;
    g->z.avail_in = (unsigned)packed.len;
    while (open_some(g, take, arg))
        continue;
    return !g->bad;
}
