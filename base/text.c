#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char hex_digits[] = "0123456789abcdef";
static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* The two digits of each byte, made at the first question: every record has some sixty bytes in hex. */
static const char (*hex_pairs(void))[2]
{
    static char pairs[256][2];

    for (size_t i = 0; !pairs[0][0] && i < 256; i++) {
        pairs[255 - i][0] = hex_digits[(255 - i) >> 4];
        pairs[255 - i][1] = hex_digits[(255 - i) & 15];
    }
    return (const char (*)[2])pairs;
}

void text_hex(struct buf *out, struct slice bytes)
{
    const char (*pairs)[2] = hex_pairs();
    char *at = buf_reserve(out, bytes.len * 2);

    for (size_t i = 0; i < bytes.len; i++)
        memcpy(at + 2 * i, pairs[(unsigned char)bytes.ptr[i]], 2);
    buf_commit(out, bytes.len * 2);
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

static void escape(struct buf *out, unsigned char c)
{
    char code[6] = {'\\', 'u', '0', '0', hex_digits[c >> 4], hex_digits[c & 15]};

    switch (c) {
    case '\0':
        buf_text(out, "\\u2400");
        break;
    case '"':
        buf_text(out, "\\\"");
        break;
    case '\\':
        buf_text(out, "\\\\");
        break;
    case '\n':
        buf_text(out, "\\n");
        break;
    case '\r':
        buf_text(out, "\\r");
        break;
    case '\t':
        buf_text(out, "\\t");
        break;
    default:
        buf_append(out, slice_make(code, 6));
    }
}

/* Any byte of word that is zero gives a bit (and no other does when there is none). */
static uint64_t zero_bytes(uint64_t word)
{
    return (word - 0x0101010101010101U) & ~word & 0x8080808080808080U;
}

/* ASCII that JSON takes as it is; eight bytes at a time, since nearly every text is. */
static bool is_plain(struct slice s)
{
    const uint64_t ones = 0x0101010101010101U;

    for (; s.len >= 8; s.ptr += 8, s.len -= 8) {
        uint64_t word, odd;

        memcpy(&word, s.ptr, 8);
        odd = (word & ones * 0x80) | ((word - ones * 0x20) & ~word & ones * 0x80) | zero_bytes(word ^ ones * '"') |
              zero_bytes(word ^ ones * '\\') | zero_bytes(word ^ ones * 0x7f);
        if (odd)
            return false;
    }
    for (; s.len; s.ptr++, s.len--)
        if ((unsigned char)*s.ptr < 0x20 || (unsigned char)*s.ptr >= 0x7f || *s.ptr == '"' || *s.ptr == '\\')
            return false;
    return true;
}

static void quote_plain(struct buf *out, struct slice s)
{
    char *at = buf_reserve(out, s.len + 2);

    at[0] = '"';
    memcpy(at + 1, s.ptr, s.len);
    at[s.len + 1] = '"';
    buf_commit(out, s.len + 2);
}

void text_json(struct buf *out, struct slice bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    bool ascii = true;
    size_t plain = 0;

    if (is_plain(bytes)) {
        quote_plain(out, bytes);
        return;
    }
    for (size_t i = 0; i < bytes.len && ascii; i++)
        ascii = p[i] < 0x80;
    bool pass_high = ascii || slice_is_utf8(bytes);

    buf_char(out, '"');
    for (size_t i = 0; i < bytes.len; i++) {
        bool keep = p[i] >= 0x80 ? pass_high : p[i] >= 0x20 && p[i] != '"' && p[i] != '\\' && p[i] != 0x7f;

        if (keep)
            continue;
        buf_append(out, slice_cut(bytes, plain, i));
        escape(out, p[i]);
        plain = i + 1;
    }
    buf_append(out, slice_from(bytes, plain));
    buf_char(out, '"');
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
