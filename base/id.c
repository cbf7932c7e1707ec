#include "base/id.h"

#include <string.h>

#include "base/put.h"
#include "base/secret.h"
#include "base/text.h"

/* Random bytes are drawn from the kernel in blocks: one system call for many ids. */
static void draw(unsigned char *out, size_t n)
{
    static unsigned char pool[1000];
    static size_t left;

    if (left < n) {
        secret_random(pool, sizeof pool);
        left = sizeof pool;
    }
    memcpy(out, pool + left - n, n);
    left -= n;
}

struct id id_new(int64_t wall_ms)
{
    struct id id;

    for (int i = 0; i < 6; i++)
        id.bytes[i] = (unsigned char)(wall_ms >> (40 - 8 * i));
    draw(id.bytes + 6, 10);
    id.bytes[6] = (unsigned char)(0x70 | (id.bytes[6] & 0x0f));
    id.bytes[8] = (unsigned char)(0x80 | (id.bytes[8] & 0x3f));
    return id;
}

bool id_equals(const struct id *a, const struct id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

char *id_put(char *at, const struct id *id)
{
    char digits[PUT_HEX_MAX(sizeof id->bytes)];

    put_hex(digits, slice_make(id->bytes, sizeof id->bytes));
    memcpy(at, digits, 8);
    memcpy(at + 9, digits + 8, 4);
    memcpy(at + 14, digits + 12, 4);
    memcpy(at + 19, digits + 16, 4);
    memcpy(at + 24, digits + 20, 12);
    at[8] = at[13] = at[18] = at[23] = '-';
    return at + ID_TEXT_LEN;
}

void id_text(struct buf *out, const struct id *id)
{
    id_put(buf_reserve(out, ID_TEXT_LEN), id);
    buf_commit(out, ID_TEXT_LEN);
}

void id_short(struct buf *out, const struct id *id)
{
    text_hex(out, slice_make(id->bytes + 13, 3));
}

bool id_parse(struct slice text, struct id *out)
{
    struct buf bytes = {0}, hex = {0};
    bool ok = false;

    if (text.len != ID_TEXT_LEN)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash != (text.ptr[i] == '-'))
            goto out;
        if (!dash)
            buf_char(&hex, text.ptr[i]);
    }
    ok = text_unhex(buf_slice(&hex), &bytes) && buf_len(&bytes) == sizeof out->bytes;
    if (ok)
        memcpy(out->bytes, bytes.ptr, sizeof out->bytes);
out:
    buf_free(&hex);
    buf_free(&bytes);
    return ok;
}
