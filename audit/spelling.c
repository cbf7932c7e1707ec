/* Owns the forms. Must not know where they are sent. */
#include "audit/spelling.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/text.h"

static void as_it_is(struct slice plain, struct buf *out)
{
    buf_append(out, plain);
}

static void base64_twice(struct slice plain, struct buf *out)
{
    struct buf once = {0};

    text_base64(&once, plain);
    text_base64(out, buf_slice(&once));
    buf_wipe(&once);
}

static void percent(struct slice plain, struct buf *out)
{
    for (size_t i = 0; i < plain.len; i++)
        buf_printf(out, "%%%02X", (unsigned char)plain.ptr[i]);
}

static void percent_twice(struct slice plain, struct buf *out)
{
    for (size_t i = 0; i < plain.len; i++)
        buf_printf(out, "%%25%02X", (unsigned char)plain.ptr[i]);
}

static void base64(struct slice plain, struct buf *out)
{
    text_base64(out, plain);
}

static void base64url(struct slice plain, struct buf *out)
{
    text_base64url(out, plain);
}

static void hex(struct slice plain, struct buf *out)
{
    text_hex(out, plain);
}

const struct spelling_of spellings[] = {
    {"as it is", as_it_is, false},         {"base64", base64, false}, {"base64url", base64url, false}, {"base64 twice", base64_twice, false},
    {"hexadecimal", hex, false},           {"percent", percent, true}, {"percent twice", percent_twice, true},
};
const size_t n_spellings = sizeof spellings / sizeof *spellings;

void spelling_escape(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];

        if (isalnum(c) || strchr("-._~", c))
            buf_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

void spelling_gzip(struct slice text, struct buf *out)
{
    enum { GZIP = 16 + MAX_WBITS };
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text.ptr, .avail_in = (uInt)text.len};
    size_t room;

    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    room = deflateBound(&z, (uLong)text.len);
    z.next_out = (Bytef *)buf_reserve(out, room);
    z.avail_out = (uInt)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    buf_commit(out, z.total_out);
    deflateEnd(&z);
}

/* POSIX ustar: a head of 512 bytes, the content filled up to as many, and two blocks of nothing. */
void spelling_tar(struct slice text, struct buf *out)
{
    enum { BLOCK = 512, SUM_AT = 148, SUM_LEN = 8 };
    char head[BLOCK] = "package/notes.txt";
    char nothing[2 * BLOCK] = "";
    unsigned sum = 0;

    snprintf(head + 100, 8, "%07o", 0644u);
    snprintf(head + 108, 8, "%07o", 0u);
    snprintf(head + 116, 8, "%07o", 0u);
    snprintf(head + 124, 12, "%011zo", text.len);
    snprintf(head + 136, 12, "%011o", 0u);
    memset(head + SUM_AT, ' ', SUM_LEN);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)head[i];
    snprintf(head + SUM_AT, SUM_LEN, "%06o", sum & 0777777u);
    buf_append(out, slice_make(head, BLOCK));
    buf_append(out, text);
    buf_append(out, slice_make(nothing, (BLOCK - text.len % BLOCK) % BLOCK));
    buf_append(out, slice_make(nothing, sizeof nothing));
}
