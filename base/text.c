#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/put.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void text_hex(struct buf *out, struct slice bytes)
{
    char *at = buf_reserve(out, PUT_HEX_MAX(bytes.len));

    buf_commit(out, (size_t)(put_hex(at, bytes) - at));
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool text_unhex(struct slice hex, struct buf *out)
{
    if (hex.len % 2)
        return false;
    for (size_t i = 0; i < hex.len; i += 2) {
        int high = hex_value(hex.ptr[i]), low = hex_value(hex.ptr[i + 1]);

        if (high < 0 || low < 0)
            return false;
        buf_char(out, (char)(high << 4 | low));
    }
    return true;
}

static void encode(struct buf *out, struct slice in, const char *alphabet, bool pad)
{
    const unsigned char *p = (const unsigned char *)in.ptr;
    size_t left = in.len;

    for (; left >= 3; left -= 3, p += 3) {
        buf_char(out, alphabet[p[0] >> 2]);
        buf_char(out, alphabet[(p[0] & 3) << 4 | p[1] >> 4]);
        buf_char(out, alphabet[(p[1] & 15) << 2 | p[2] >> 6]);
        buf_char(out, alphabet[p[2] & 63]);
    }
    if (left == 0)
        return;
    buf_char(out, alphabet[p[0] >> 2]);
    if (left == 1) {
        buf_char(out, alphabet[(p[0] & 3) << 4]);
    } else {
        buf_char(out, alphabet[(p[0] & 3) << 4 | p[1] >> 4]);
        buf_char(out, alphabet[(p[1] & 15) << 2]);
    }
    for (size_t i = left; pad && i < 3; i++)
        buf_char(out, '=');
}

void text_base64(struct buf *out, struct slice bytes)
{
    encode(out, bytes, standard, true);
}

void text_base64url(struct buf *out, struct slice bytes)
{
    encode(out, bytes, url_safe, false);
}

static int value_of(char c, const char *alphabet)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == alphabet[62])
        return 62;
    return c == alphabet[63] ? 63 : -1;
}

static bool decode(struct slice in, struct buf *out, const char *alphabet)
{
    uint32_t bits = 0;
    int have = 0;

    if (in.len % 4 == 1)
        return false;
    for (size_t i = 0; i < in.len; i++) {
        int value = value_of(in.ptr[i], alphabet);

        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            buf_char(out, (char)(bits >> have & 0xff));
        }
    }
    return (bits & ((1U << have) - 1)) == 0;
}

bool text_unbase64(struct slice in, struct buf *out)
{
    if (in.len % 4)
        return false;
    for (int i = 0; i < 2 && in.len && in.ptr[in.len - 1] == '='; i++)
        in.len--;
    return decode(in, out, standard);
}

bool text_unbase64url(struct slice in, struct buf *out)
{
    return decode(in, out, url_safe);
}

void text_json(struct buf *out, struct slice bytes)
{
    char *at = buf_reserve(out, PUT_JSON_MAX(bytes.len));

    buf_commit(out, (size_t)(put_json(at, bytes) - at));
}

char *text_copy(struct slice s)
{
    char *copy = malloc(s.len + 1);

    if (!copy)
        abort();
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return copy;
}
